//! What held a cell's throughput where it was, decided from measured numbers; pure.
//!
//! The rules, in their order (the first that holds decides):
//!
//! 1. A generator thread had its core for [`GENERATOR_THREAD`] of the time or more: *generator*.
//! 2. A network link was used for [`LINK_FULL`] or more in one direction: *link*.
//! 3. The host's cores were busy for [`HOST_BUSY`] or more: whoever used most of the processor time, of site with
//!    database (*origin's CPU*), accelerator (*accelerator's CPU*) and generator (*generator*). If all of them
//!    together used less than half of it, somebody else did: *unclear*.
//! 4. The cores were busy for less than [`HOST_IDLE`] and there were no more users than cores: *few users*; each
//!    waits for its answer, and so leaves a core idle meanwhile.
//! 5. The cores were busy for less than [`HOST_IDLE`] and requests waited: *workers* (or locks) of the site.
//! 6. Else *unclear*; also whenever the host's figures are missing.

use report::results::Bound;

/// The share of a core from which a generator thread counts as saturated.
pub const GENERATOR_THREAD: f64 = 0.90;
/// The share of a link from which it counts as full.
pub const LINK_FULL: f64 = 0.90;
/// The share of all cores from which they count as busy.
pub const HOST_BUSY: f64 = 0.90;
/// The share of all cores below which cores were idle.
pub const HOST_IDLE: f64 = 0.75;

/// The numbers it is decided from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Users, each with one request at a time.
    pub concurrency: u64,
    /// Cores of the host.
    pub cores: u32,
    /// How long it was measured, in seconds.
    pub seconds: f64,
    /// The share of all cores' time that was used or stolen, 0 to 1.
    pub host_busy: Option<f64>,
    /// The used share of the fullest link, 0 to 1.
    pub link: Option<f64>,
    /// The share of one core that the generator's busiest thread used.
    pub generator_thread: f64,
    /// Processor seconds of the generator.
    pub generator_cpu_s: f64,
    /// Processor seconds of groups with role site or database.
    pub site_cpu_s: f64,
    /// Processor seconds of groups with role accelerator.
    pub accelerator_cpu_s: f64,
}

/// Decides by the rules above.
pub fn bound_by(figures: &Figures) -> Bound {
    if figures.generator_thread >= GENERATOR_THREAD {
        return Bound::Generator;
    }
    if figures.link.is_some_and(|share| share >= LINK_FULL) {
        return Bound::Link;
    }
    match figures.host_busy {
        Some(busy) if busy >= HOST_BUSY => largest(figures, busy),
        Some(busy) if busy >= HOST_IDLE => Bound::Unclear,
        Some(_) if figures.concurrency <= u64::from(figures.cores) => Bound::Users,
        Some(_) => Bound::Workers,
        None => Bound::Unclear,
    }
}

/// Who used most of the processor time.
fn largest(figures: &Figures, busy: f64) -> Bound {
    let users = [
        (figures.site_cpu_s, Bound::OriginCpu),
        (figures.accelerator_cpu_s, Bound::AcceleratorCpu),
        (figures.generator_cpu_s, Bound::Generator),
    ];
    let known: f64 = users.iter().map(|(seconds, _)| seconds).sum();
    if known < 0.5 * busy * f64::from(figures.cores) * figures.seconds {
        return Bound::Unclear;
    }
    users.into_iter().max_by(|(a, _), (b, _)| a.total_cmp(b)).map_or(Bound::Unclear, |(_, bound)| bound)
}

#[cfg(test)]
mod tests {
    use super::{Figures, bound_by};
    use report::results::Bound;

    /// Two cores for ten seconds, nobody near a limit.
    const CALM: Figures = Figures {
        concurrency: 25,
        cores: 2,
        seconds: 10.0,
        host_busy: Some(0.8),
        link: None,
        generator_thread: 0.1,
        generator_cpu_s: 1.0,
        site_cpu_s: 14.0,
        accelerator_cpu_s: 0.0,
    };

    #[test]
    fn each_rule_decides_its_case() {
        let busy = Figures { host_busy: Some(0.97), ..CALM };
        let idle = Figures { host_busy: Some(0.55), ..CALM };
        assert_eq!(bound_by(&CALM), Bound::Unclear);
        assert_eq!(bound_by(&busy), Bound::OriginCpu);
        assert_eq!(bound_by(&idle), Bound::Workers);
        assert_eq!(bound_by(&Figures { concurrency: 2, ..idle }), Bound::Users);
        assert_eq!(bound_by(&Figures { generator_thread: 0.95, ..busy }), Bound::Generator);
        assert_eq!(bound_by(&Figures { link: Some(0.95), ..idle }), Bound::Link);
        assert_eq!(
            bound_by(&Figures { accelerator_cpu_s: 15.0, site_cpu_s: 1.0, ..busy }),
            Bound::AcceleratorCpu
        );
        assert_eq!(bound_by(&Figures { generator_cpu_s: 15.0, ..busy }), Bound::Generator);
        assert_eq!(bound_by(&Figures { site_cpu_s: 1.0, ..busy }), Bound::Unclear);
        assert_eq!(bound_by(&Figures { host_busy: None, ..busy }), Bound::Unclear);
    }

    #[test]
    fn a_saturated_generator_hides_everything_else() {
        let figures = Figures { generator_thread: 0.90, link: Some(1.0), host_busy: Some(1.0), ..CALM };
        assert_eq!(bound_by(&figures), Bound::Generator);
        assert_ne!(bound_by(&Figures { generator_thread: 0.899, ..figures }), Bound::Generator);
    }
}
