//! Decides from measured numbers which resource limited the throughput of a cell. Pure functions.
//!
//! The first rule that holds decides:
//!
//! 1. A generator thread used [`GENERATOR_THREAD`] of its core or more: *generator*.
//! 2. A network link was used for [`LINK_FULL`] or more in one direction: *link*.
//! 3. The host's cores were busy for [`HOST_BUSY`] or more: the largest consumer of processor time.
//!    This is the site with its database (*origin's CPU*), the accelerator (*accelerator's CPU*) or
//!    the generator (*generator*). If the three together used less than half of the busy time,
//!    another process was the consumer: *unclear*.
//! 4. The cores were busy for less than [`HOST_IDLE`], and there were no more users than cores:
//!    *few users*. A user who waits for a response keeps no core busy.
//! 5. The cores were busy for less than [`HOST_BUSY`], there were more users than cores, and the
//!    generator used at least half of the busy time, [`GENERATOR_SHARE`] of all cores' time, and as
//!    much as site and accelerator together, if their time is known: *generator*. Its real-time
//!    threads preempt the server on one core while another core is idle.
//! 6. The cores were busy for less than [`HOST_IDLE`], and there were more users than cores: the
//!    site's *workers* (or locks).
//! 7. In every other case *unclear*, also whenever the host's busy share is missing.

use report::results::LimitingResource;

/// Share of one core (0 to 1) from which a generator thread counts as saturated.
pub const GENERATOR_THREAD: f64 = 0.90;
/// Share of all cores' time (0 to 1) from which a generator can limit a server on idle cores.
const GENERATOR_SHARE: f64 = 0.25;
/// Share of a link's capacity (0 to 1) from which the link counts as full.
pub const LINK_FULL: f64 = 0.90;
/// Share of all cores' time (0 to 1) from which the host counts as busy.
pub const HOST_BUSY: f64 = 0.90;
/// Share of all cores' time (0 to 1) below which the host counts as idle.
pub const HOST_IDLE: f64 = 0.75;

/// Measured numbers of one cell: the input of [`bound_by`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellFigures {
    /// Users, each with one request at a time.
    pub concurrency: u64,
    /// Cores of the host.
    pub cores: u32,
    /// Length of the measurement in seconds.
    pub seconds: f64,
    /// Share of all cores' time that was used or stolen by the hypervisor, 0 to 1; `None` if
    /// unknown.
    pub host_busy: Option<f64>,
    /// Used share of the fullest link, 0 to 1; `None` if unknown.
    pub link: Option<f64>,
    /// Share of one core that the generator's busiest thread used, 0 to 1.
    pub generator_thread: f64,
    /// Processor time of the generator in seconds.
    pub generator_cpu_s: f64,
    /// Processor time of the groups with role site or database, in seconds.
    pub site_cpu_s: f64,
    /// Processor time of the groups with role accelerator, in seconds.
    pub accelerator_cpu_s: f64,
}

/// Applies the rules of this module.
pub fn bound_by(figures: &CellFigures) -> LimitingResource {
    if figures.generator_thread >= GENERATOR_THREAD {
        return LimitingResource::Generator;
    }
    if figures.link.is_some_and(|share| share >= LINK_FULL) {
        return LimitingResource::Link;
    }
    match figures.host_busy {
        Some(busy) if busy >= HOST_BUSY => largest(figures, busy),
        Some(busy) if figures.concurrency <= u64::from(figures.cores) => {
            if busy < HOST_IDLE {
                LimitingResource::Users
            } else {
                LimitingResource::Unclear
            }
        }
        Some(busy) if is_preempted(figures, busy) => LimitingResource::Generator,
        Some(busy) if busy < HOST_IDLE => LimitingResource::Workers,
        Some(_) => LimitingResource::Unclear,
        None => LimitingResource::Unclear,
    }
}

/// Whether the generator's threads take the cores from the server (rule 5).
fn is_preempted(figures: &CellFigures, busy: f64) -> bool {
    let served_s = figures.site_cpu_s + figures.accelerator_cpu_s;
    let all_s = f64::from(figures.cores) * figures.seconds;
    let least_s = [served_s, 0.5 * busy * all_s, GENERATOR_SHARE * all_s];
    served_s > 0.0 && least_s.into_iter().all(|seconds| figures.generator_cpu_s >= seconds)
}

/// Names the largest consumer of processor time (rule 3).
fn largest(figures: &CellFigures, busy: f64) -> LimitingResource {
    let users = [
        (figures.site_cpu_s, LimitingResource::OriginCpu),
        (figures.accelerator_cpu_s, LimitingResource::AcceleratorCpu),
        (figures.generator_cpu_s, LimitingResource::Generator),
    ];
    let known: f64 = users.iter().map(|(seconds, _)| seconds).sum();
    if known < 0.5 * busy * f64::from(figures.cores) * figures.seconds {
        return LimitingResource::Unclear;
    }
    users
        .into_iter()
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map_or(LimitingResource::Unclear, |(_, bound)| bound)
}

#[cfg(test)]
mod tests {
    use super::{CellFigures, bound_by};
    use report::results::LimitingResource;

    /// Two cores for ten seconds, with every figure far from its limit.
    const CALM: CellFigures = CellFigures {
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
        let busy = CellFigures { host_busy: Some(0.97), ..CALM };
        let idle = CellFigures { host_busy: Some(0.55), ..CALM };
        assert_eq!(bound_by(&CALM), LimitingResource::Unclear);
        assert_eq!(bound_by(&busy), LimitingResource::OriginCpu);
        assert_eq!(bound_by(&idle), LimitingResource::Workers);
        assert_eq!(bound_by(&CellFigures { concurrency: 2, ..idle }), LimitingResource::Users);
        assert_eq!(bound_by(&CellFigures { generator_thread: 0.95, ..busy }), LimitingResource::Generator);
        assert_eq!(bound_by(&CellFigures { link: Some(0.95), ..idle }), LimitingResource::Link);
        assert_eq!(
            bound_by(&CellFigures { accelerator_cpu_s: 15.0, site_cpu_s: 1.0, ..busy }),
            LimitingResource::AcceleratorCpu
        );
        assert_eq!(bound_by(&CellFigures { generator_cpu_s: 15.0, ..busy }), LimitingResource::Generator);
        let light = CellFigures { generator_cpu_s: 8.0, site_cpu_s: 3.0, accelerator_cpu_s: 5.0, ..idle };
        assert_eq!(bound_by(&light), LimitingResource::Generator);
        assert_eq!(bound_by(&CellFigures { host_busy: Some(0.8), ..light }), LimitingResource::Generator);
        assert_eq!(bound_by(&CellFigures { generator_cpu_s: 7.9, ..light }), LimitingResource::Workers);
        assert_eq!(bound_by(&CellFigures { concurrency: 2, ..light }), LimitingResource::Users);
        let unwatched = CellFigures { site_cpu_s: 0.0, accelerator_cpu_s: 0.0, ..light };
        assert_eq!(bound_by(&unwatched), LimitingResource::Workers);
        let waits = CellFigures { host_busy: Some(0.05), generator_cpu_s: 0.6, site_cpu_s: 0.3, ..idle };
        assert_eq!(bound_by(&waits), LimitingResource::Workers);
        assert_eq!(bound_by(&CellFigures { site_cpu_s: 1.0, ..busy }), LimitingResource::Unclear);
        assert_eq!(bound_by(&CellFigures { host_busy: None, ..busy }), LimitingResource::Unclear);
    }

    #[test]
    fn a_saturated_generator_hides_everything_else() {
        let figures = CellFigures { generator_thread: 0.90, link: Some(1.0), host_busy: Some(1.0), ..CALM };
        assert_eq!(bound_by(&figures), LimitingResource::Generator);
        assert_ne!(
            bound_by(&CellFigures { generator_thread: 0.899, ..figures }),
            LimitingResource::Generator
        );
    }
}
