//! Reports the origins' circuit breakers to operators. The breaker itself is in `origin`.
//!
//! Invariant: each change of a breaker is one line on standard error, in the order of the changes.

use crate::shared::Shared;
use crate::sites::Site;
use address::OriginUrl;
use origin::{BreakerChange, BreakerState};
use std::hash::{DefaultHasher, Hash, Hasher};
use store::Key;

/// Identifies a page for the breaker of its origin. Two pages whose digests collide count as one.
pub(crate) fn digest(key: &Key) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// The state as a gauge value.
pub(crate) const fn state_number(state: BreakerState) -> u64 {
    match state {
        BreakerState::Closed => 0,
        BreakerState::Silent => 1,
        BreakerState::Unreachable => 2,
    }
}

/// The state as shown in `/status`.
pub(crate) const fn state_name(state: BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "closed",
        BreakerState::Silent => "open: silent",
        BreakerState::Unreachable => "open: unreachable",
    }
}

/// Writes a line for each change since the last call. Must be called about once a second.
pub(crate) fn log_changes(shared: &Shared) {
    for site in shared.sites.of_each_origin() {
        for origin in site.origin.origins() {
            for change in origin.take_breaker_changes() {
                let line = line(site, origin.url(), &change);
                match change.to {
                    BreakerState::Closed => tracing::info!("{line}"),
                    BreakerState::Silent | BreakerState::Unreachable => tracing::warn!("{line}"),
                }
            }
        }
    }
}

fn line(site: &Site, origin: &OriginUrl, change: &BreakerChange) -> String {
    let has_others = site.origin.is_plural() && !site.origin.is_open();
    let site = site.label();
    let what = match change.to {
        BreakerState::Closed => {
            return format!(
                "origin {origin} (site {site}) answers again after {:.1} s",
                change.lasted.as_secs_f64()
            );
        }
        BreakerState::Silent => {
            format!("has sent no first byte for three pages within {:.1} s", change.silence.as_secs_f64())
        }
        BreakerState::Unreachable => "accepts no connection".to_owned(),
    };
    let until = if has_others {
        "the site's other origins get its requests"
    } else {
        "stale copies are served at once until it answers"
    };
    format!("origin {origin} (site {site}) {what}; {until}")
}

#[cfg(test)]
mod tests {
    use super::{digest, line};
    use crate::sites::Sites;
    use bytes::Bytes;
    use config::EdgePlan;
    use origin::{BreakerChange, BreakerState};
    use std::time::Duration;
    use store::{Key, SiteId};

    #[test]
    fn each_breaker_change_is_a_sentence_that_names_the_origin() {
        let plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        let sites = Sites::new(&plan, &crate::system::System::of_machine(), &[]);
        let site = sites.iter().next().unwrap();
        let told = |from, to| {
            let (lasted, silence) = (Duration::from_millis(2340), Duration::from_secs(1));
            line(site, &site.plan.origin, &BreakerChange { from, to, lasted, silence })
        };
        let (closed, silent, unreachable) =
            (BreakerState::Closed, BreakerState::Silent, BreakerState::Unreachable);
        assert_eq!(told(silent, closed), "origin http://127.0.0.1:9 (site any) answers again after 2.3 s");
        assert_eq!(
            told(closed, silent),
            "origin http://127.0.0.1:9 (site any) has sent no first byte for three pages within 1.0 s; stale copies are \
             served at once until it answers"
        );
        assert!(told(closed, unreachable).contains("accepts no connection; stale copies"));
    }

    #[test]
    fn different_pages_have_different_digests() {
        let key = |target: &'static str| {
            Key::new(SiteId(0), false, b"a.test", Bytes::from_static(target.as_bytes()))
        };
        assert_eq!(digest(&key("/a")), digest(&key("/a")));
        assert_ne!(digest(&key("/a")), digest(&key("/b")));
    }
}
