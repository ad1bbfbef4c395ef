//! Finds the reasons why a measured run may not be compared with others. Pure functions.
//!
//! A starred run keeps its figures and shows the reasons beside them. It takes no part in factors
//! between steps, because the generator or another process may have limited it.

use load::{LOST_SHARE_INVALID, SelfCheck, Trust};
use probe::{GroupFigures, HostFigures};

/// Highest share of the machine (0 to 1) that processes outside the measurement may use.
pub const FOREIGN_SHARE_MAX: f64 = 0.10;

/// Highest share of the machine (0 to 1) that the hypervisor may give to other machines.
pub const STEAL_SHARE_MAX: f64 = 0.05;

/// Returns the reasons to star a run; empty for a run that counts.
pub(crate) fn reasons(check: &SelfCheck, host: &HostFigures, groups: &[GroupFigures]) -> Vec<String> {
    let mut reasons = Vec::new();
    // Lost time stars a run even if it is only microseconds per request, because steps are compared
    // by throughput. An open loop keeps its throughput in this case, and its check is clean.
    let has_lost = check.account.lost_share().is_some_and(|share| share > LOST_SHARE_INVALID);
    let is_slowed = check.trust == Trust::Tight && has_lost;
    if check.trust == Trust::Invalid || check.may_have_lost || is_slowed {
        reasons.extend(check.reasons.iter().cloned());
    }
    // A group may not be found, for example when its server was restarted. Its processes would then
    // be counted as foreign.
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
    use probe::{GroupFigures, HostFigures};
    use std::time::Duration;

    /// Groups with these numbers of processes.
    fn groups(processes: &[u32]) -> Vec<GroupFigures> {
        let group = |(place, &processes): (usize, &u32)| GroupFigures {
            name: format!("site {}", place + 1),
            load_samples: Vec::new(),
            cpu_seconds: 1.0,
            pss_bytes: None,
            processes,
            tasks: processes,
        };
        processes.iter().enumerate().map(group).collect()
    }

    fn host(foreign: f64, steal: f64) -> HostFigures {
        HostFigures { foreign: Some(foreign), steal: Some(steal), ..HostFigures::default() }
    }

    #[test]
    fn quiet_machine_stars_nothing() {
        assert!(reasons(&SelfCheck::default(), &host(0.1, 0.05), &groups(&[3])).is_empty());
        assert!(reasons(&SelfCheck::default(), &HostFigures::default(), &groups(&[3])).is_empty());
    }

    #[test]
    fn group_without_a_process_stars_the_run() {
        let reasons = |processes: &[u32]| reasons(&SelfCheck::default(), &host(0.9, 0.0), &groups(processes));
        let unknown = "group `site 2` has no process, so the load of other processes is not known";
        assert_eq!(reasons(&[3, 0]), [unknown]);
        let both =
            "groups `site 1` and `site 2` have no process, so the load of other processes is not known";
        assert_eq!(reasons(&[0, 0]), [both]);
        assert_eq!(reasons(&[3, 1]), ["processes outside of the measurement used 90% of the machine"]);
        assert!(reasons(&[]).is_empty(), "without groups, foreign load is not judged");
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
