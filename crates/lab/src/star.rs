//! Why a measured run may not be compared with others; pure.
//!
//! A starred run keeps its figures, with the reason beside them. It carries no factor, because what it measured may
//! have been the generator or another process.

use load::{LOST_SHARE_INVALID, SelfCheck, Trust};
use probe::{GroupWatch, HostWatch};

/// The share of the machine that processes outside of the measurement may use.
pub const FOREIGN_SHARE_MAX: f64 = 0.10;

/// The share of the machine that the hypervisor may give to others.
pub const STEAL_SHARE_MAX: f64 = 0.05;

/// The reasons to star a run; none for one that counts.
pub(crate) fn reasons(check: &SelfCheck, host: &HostWatch, groups: &[GroupWatch]) -> Vec<String> {
    let mut reasons = Vec::new();
    // Time that the generator took counts here even where it is microseconds a request: steps are compared by
    // throughput. An open loop has its throughput all the same, and is clean.
    let has_lost = check.account.lost_share().is_some_and(|share| share > LOST_SHARE_INVALID);
    let is_slowed = check.trust == Trust::Tight && has_lost;
    if check.trust == Trust::Invalid || check.may_have_lost || is_slowed {
        reasons.extend(check.reasons.iter().cloned());
    }
    // Processes of a group that was not found, as of a server that was started again, would be taken for foreign ones.
    let missing: Vec<String> =
        groups.iter().filter(|group| group.processes == 0).map(|group| format!("`{}`", group.name)).collect();
    if let [name] = &missing[..] {
        reasons.push(format!("group {name} has no process, so the load of other processes is not known"));
    } else if !missing.is_empty() {
        let names = missing.join(" and ");
        reasons.push(format!("groups {names} have no process, so the load of other processes is not known"));
    } else if let Some(share) = host.foreign.filter(|share| !groups.is_empty() && *share > FOREIGN_SHARE_MAX)
    {
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
    use load::{Account, SelfCheck, Trust};
    use probe::{GroupWatch, HostWatch};
    use std::time::Duration;

    /// Groups with so many processes each.
    fn groups(processes: &[u32]) -> Vec<GroupWatch> {
        let group = |(place, &processes): (usize, &u32)| GroupWatch {
            name: format!("site {}", place + 1),
            load_samples: Vec::new(),
            cpu_seconds: 1.0,
            pss_bytes: None,
            processes,
            tasks: processes,
        };
        processes.iter().enumerate().map(group).collect()
    }

    fn host(foreign: f64, steal: f64) -> HostWatch {
        HostWatch { foreign: Some(foreign), steal: Some(steal), ..HostWatch::default() }
    }

    #[test]
    fn a_quiet_machine_stars_nothing() {
        assert!(reasons(&SelfCheck::default(), &host(0.1, 0.05), &groups(&[3])).is_empty());
        assert!(reasons(&SelfCheck::default(), &HostWatch::default(), &groups(&[3])).is_empty());
    }

    #[test]
    fn group_without_process_stars_because_foreign_load_is_unknown() {
        let reasons = |processes: &[u32]| reasons(&SelfCheck::default(), &host(0.9, 0.0), &groups(processes));
        let unknown = "group `site 2` has no process, so the load of other processes is not known";
        assert_eq!(reasons(&[3, 0]), [unknown]);
        let both =
            "groups `site 1` and `site 2` have no process, so the load of other processes is not known";
        assert_eq!(reasons(&[0, 0]), [both]);
        assert_eq!(reasons(&[3, 1]), ["processes outside of the measurement used 90% of the machine"]);
        assert!(reasons(&[]).is_empty(), "a ladder without groups looks for no other processes");
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
        assert_eq!(reasons(&check, &host(0.51, 0.06), &groups(&[3])), expected);
        let tight = SelfCheck { trust: Trust::Tight, ..check };
        assert!(reasons(&tight, &host(0.0, 0.0), &groups(&[3])).is_empty());
        let account =
            Account { server: Duration::from_secs(94), unread: Duration::from_secs(6), ..Account::default() };
        let microseconds = SelfCheck { account, ..tight.clone() };
        assert_eq!(reasons(&microseconds, &host(0.0, 0.0), &groups(&[3])), expected[..1]);
        let lost = SelfCheck { may_have_lost: true, ..tight };
        assert_eq!(reasons(&lost, &host(0.0, 0.0), &groups(&[3])), expected[..1]);
    }
}
