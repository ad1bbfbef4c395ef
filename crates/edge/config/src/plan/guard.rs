//! Which clients Petasos refuses, and how much each may ask for.

use crate::ReadFile;
use crate::levels::SettingLevels;
use crate::setting::SettingValue;
use address::{Prefix, Prefixes};
use document::Diagnostic;
use std::time::Duration;

/// The settings of the table `guard`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardPlan {
    /// Clients whose connections are closed at once.
    pub deny: Prefixes,
    /// Clients for which the limits do not hold.
    pub allow: Prefixes,
    /// The limit of all requests of a client. `None`: there is none.
    pub requests: Option<RateLimit>,
    /// The limit of its requests that need the origin. `None`: there is none.
    pub origin_requests: Option<RateLimit>,
    /// The time for which a client is refused at once that goes on beyond its limits. `None`: it is
    /// not.
    pub ban: Option<Duration>,
    /// Whether stale pages are sent at once while requests wait for long in an origin's queue.
    pub stale_when_busy: bool,
}

/// A rate with a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Requests a second in the long run; at least 1.
    pub per_second: u32,
    /// Requests at once; at least 1.
    pub burst: u32,
}

/// The addresses of this machine.
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1/128"];

impl Default for GuardPlan {
    /// No client is refused.
    fn default() -> Self {
        let (deny, allow) = (Prefixes::default(), Prefixes::default());
        Self { deny, allow, requests: None, origin_requests: None, ban: None, stale_when_busy: true }
    }
}

impl GuardPlan {
    pub(super) fn resolve(
        top: &SettingLevels<'_>,
        read: &ReadFile<'_>,
        problems: &mut Vec<Diagnostic>,
    ) -> Self {
        let own = || LOOPBACK.iter().filter_map(|text| text.parse::<Prefix>().ok()).collect();
        Self {
            deny: top.peers("guard.deny", read, problems).unwrap_or_default(),
            allow: top.peers("guard.allow", read, problems).unwrap_or_else(own),
            requests: limit(top, "guard.requests_per_second", "guard.requests_burst"),
            origin_requests: limit(top, "guard.origin_requests_per_second", "guard.origin_burst"),
            ban: top.duration("guard.ban").filter(|ban| !ban.is_zero()),
            stale_when_busy: top.value("guard.stale_when_busy") != Some(SettingValue::Switch(false)),
        }
    }
}

fn limit(top: &SettingLevels<'_>, rate: &'static str, burst: &'static str) -> Option<RateLimit> {
    let count = |key| match top.value(key) {
        Some(SettingValue::Count(count)) => u32::try_from(count).unwrap_or(u32::MAX),
        _ => 0,
    };
    (count(rate) > 0).then(|| RateLimit { per_second: count(rate), burst: count(burst).max(1) })
}

#[cfg(test)]
mod tests {
    use super::RateLimit;
    use crate::EdgePlan;
    use std::time::Duration;

    fn load(text: &str) -> Result<EdgePlan, String> {
        let files = [("./deny.txt", "# spammers\n203.0.113.0/24\n")];
        super::super::loading::load(&format!("origin = 'http://a'\n{text}"), &files)
    }

    #[test]
    fn origin_work_is_limited_except_for_this_machine() {
        let guard = load("").unwrap().guard;
        assert_eq!(guard.origin_requests, Some(RateLimit { per_second: 100, burst: 1000 }));
        assert_eq!((guard.requests, guard.ban), (None, Some(Duration::from_secs(10))));
        assert!(guard.stale_when_busy && guard.deny.is_empty());
        assert!(guard.allow.contains("127.1.2.3".parse().unwrap()));
        assert!(guard.allow.contains("::1".parse().unwrap()));
        assert!(!guard.allow.contains("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn lists_and_rates_are_settings() {
        let text = "[guard]\ndeny = ['@./deny.txt', '2001:db8::/32']\nallow = []\nrequests_per_second = 7\n\
                    requests_burst = 9\norigin_requests_per_second = 0\nban = '0s'\nstale_when_busy = false";
        let guard = load(text).unwrap().guard;
        assert!(guard.deny.contains("203.0.113.9".parse().unwrap()) && guard.allow.is_empty());
        assert_eq!(guard.requests, Some(RateLimit { per_second: 7, burst: 9 }));
        assert_eq!((guard.origin_requests, guard.ban, guard.stale_when_busy), (None, None, false));
        assert!(load("[guard]\ndeny = ['@./none.txt']").unwrap_err().contains("cannot read the list"));
    }
}
