//! Why a measured run may not be compared with others; pure.
//!
//! A starred run keeps its figures, with the reason beside them. It carries no factor, because what it measured may
//! have been the generator or another process.

use load::{SelfCheck, Trust};
use probe::HostWatch;

/// The share of the machine that processes outside of the measurement may use.
pub const FOREIGN_SHARE_MAX: f64 = 0.10;

/// The share of the machine that the hypervisor may give to others.
pub const STEAL_SHARE_MAX: f64 = 0.05;

/// The reasons to star a run; none for one that counts. `is_watched` says whether the site's processes are known, so
/// that others can be told from them.
pub(crate) fn reasons(check: &SelfCheck, host: &HostWatch, is_watched: bool) -> Vec<String> {
    let mut reasons = Vec::new();
    // Time that the generator took counts here even where it is microseconds a request: steps are compared by
    // throughput.
    if check.trust == Trust::Invalid || check.trust == Trust::Tight && check.may_have_lost {
        reasons.extend(check.reasons.iter().cloned());
    }
    if let Some(share) = host.foreign.filter(|share| is_watched && *share > FOREIGN_SHARE_MAX) {
        reasons
            .push(format!("processes outside of the measurement used {:.0}% of the machine", share * 100.0));
    }
    if let Some(share) = host.steal.filter(|share| *share > STEAL_SHARE_MAX) {
        reasons.push(format!("the hypervisor gave {:.0}% of the machine to others", share * 100.0));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::reasons;
    use load::{SelfCheck, Trust};
    use probe::HostWatch;

    fn host(foreign: f64, steal: f64) -> HostWatch {
        HostWatch { foreign: Some(foreign), steal: Some(steal), ..HostWatch::default() }
    }

    #[test]
    fn a_quiet_machine_stars_nothing() {
        assert!(reasons(&SelfCheck::default(), &host(0.1, 0.05), true).is_empty());
        assert!(reasons(&SelfCheck::default(), &HostWatch::default(), true).is_empty());
        // Without groups the site itself would be foreign.
        assert!(reasons(&SelfCheck::default(), &host(0.9, 0.0), false).is_empty());
    }

    #[test]
    fn each_disturbance_stars_with_its_reason() {
        let reason = "the generator took 9.0% of the users' time".to_owned();
        let check =
            SelfCheck { trust: Trust::Invalid, reasons: vec![reason.clone()], ..SelfCheck::default() };
        let expected = [
            reason,
            "processes outside of the measurement used 51% of the machine".to_owned(),
            "the hypervisor gave 6% of the machine to others".to_owned(),
        ];
        assert_eq!(reasons(&check, &host(0.51, 0.06), true), expected);
        let tight = SelfCheck { trust: Trust::Tight, ..check };
        assert!(reasons(&tight, &host(0.0, 0.0), true).is_empty());
        let lost = SelfCheck { may_have_lost: true, ..tight };
        assert_eq!(reasons(&lost, &host(0.0, 0.0), true), expected[..1]);
    }
}
