//! The client's side of Petasos' own API: writes calls and reads replies.

use super::ApiRoute;
use crate::malformed::MalformedFault;
use crate::reply::PurgeOutcome;
use message::{Fields, Method};
use serde_json::{Value, json};

/// The path of Petasos' own resource.
pub const NATIVE_PATH: &str = "/purge";

/// The responses that a call invalidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallSelectors {
    /// These URLs.
    Pages(Vec<String>),
    /// All pages whose URL begins with one of these.
    Prefixes(Vec<String>),
    /// All pages of these hosts.
    Hosts(Vec<String>),
    /// All responses with one of these tags, or with all of them.
    Tags {
        /// The tags.
        tags: Vec<String>,
        /// Whether a response needs all of the tags.
        all_needed: bool,
    },
    /// All responses that meet one of these ban expressions.
    Bans(Vec<String>),
    /// All responses.
    Everything,
}

/// A call of Petasos' own API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiCall {
    /// The responses to invalidate.
    pub selectors: CallSelectors,
    /// Whether they are marked stale instead of removed.
    pub soft: bool,
    /// Whether the most requested of these pages are fetched again. `false` leaves the choice to
    /// the edge's settings.
    pub refill: bool,
}

impl ApiCall {
    /// The call's JSON content.
    pub fn content(&self) -> String {
        let (kind, selectors) = match &self.selectors {
            CallSelectors::Pages(urls) => ("uri", urls.as_slice()),
            CallSelectors::Prefixes(urls) => ("uri-prefix", urls.as_slice()),
            CallSelectors::Hosts(hosts) => ("host", hosts.as_slice()),
            CallSelectors::Tags { tags, .. } => ("tag", tags.as_slice()),
            CallSelectors::Bans(bans) => ("ban", bans.as_slice()),
            CallSelectors::Everything => ("all", &[][..]),
        };
        let all_needed = matches!(&self.selectors, CallSelectors::Tags { all_needed: true, .. });
        let content = json!({
            "type": kind,
            "selectors": selectors,
            "match": if all_needed { "all" } else { "any" },
            "purge": !self.soft,
            "refill": self.refill.then_some(true),
        });
        content.to_string()
    }
}

/// Checks the content of a call as the edge will read it.
///
/// # Errors
/// The first [`MalformedFault`] in the content.
pub fn check(content: &[u8]) -> Result<(), MalformedFault> {
    let read = super::read(&ApiRoute::Native, &Method::Post, &Fields::new(), content);
    read.map(|_| ()).map_err(|refused| refused.malformed.fault)
}

impl PurgeOutcome {
    /// Reads the reply to a call; `None` if it is not one. The sequence number is not in the reply
    /// and is 0 here.
    pub fn of_answer(content: &[u8]) -> Option<Self> {
        let answer: Value = serde_json::from_slice(content).ok()?;
        let count = |name: &str| answer.get(name)?.as_u64();
        let uncounted = count("uncounted").unwrap_or(0);
        let is_false = |name| answer.get(name) == Some(&Value::Bool(false));
        let undurable = is_false("durable");
        let in_tree = is_false("in_force");
        Some(Self {
            purged: count("purged")?,
            softened: count("softpurged")?,
            uncounted,
            sequence: 0,
            undurable,
            in_tree,
        })
    }
}

/// The reason in the reply to a refused call; `None` if the content is not a refusal of the API.
pub fn detail_of_refusal(content: &[u8]) -> Option<String> {
    let problem: Value = serde_json::from_slice(content).ok()?;
    problem.get("detail")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{ApiCall, CallSelectors, check, detail_of_refusal};
    use crate::api::{ApiRoute, read};
    use crate::order::{PurgeOrder, Style};
    use crate::reply::{PurgeOutcome, reply};
    use message::{Fields, Method, Status};

    #[test]
    fn written_calls_can_be_read() {
        let texts = |text: &str| vec![text.to_owned()];
        for (selectors, wants) in [
            (CallSelectors::Pages(texts("http://a.test/")), 1),
            (CallSelectors::Prefixes(texts("http://a.test/a%62")), 2),
            (CallSelectors::Hosts(texts("a.test")), 1),
            (CallSelectors::Tags { tags: texts("a"), all_needed: true }, 1),
            (CallSelectors::Bans(texts("req.url ~ a")), 1),
            (CallSelectors::Everything, 1),
        ] {
            for soft in [false, true] {
                let content = ApiCall { selectors: selectors.clone(), soft, refill: soft }.content();
                let order =
                    read(&ApiRoute::Native, &Method::Post, &Fields::new(), content.as_bytes()).unwrap();
                let is_soft = |one: &crate::OrderItem| one.mode == invalidation::Mode::Soft;
                assert!(
                    order.invalidations.len() == wants && order.invalidations.iter().all(is_soft) == soft
                );
                assert_eq!(order.refill, soft.then_some(true));
                assert_eq!(check(content.as_bytes()), Ok(()));
            }
        }
        let wrong =
            ApiCall { selectors: CallSelectors::Hosts(texts("a/b")), soft: false, refill: false }.content();
        assert_eq!(check(wrong.as_bytes()).unwrap_err().to_string(), "expected a host name, found `a/b`");
    }

    #[test]
    fn replies_are_read_back() {
        let order =
            PurgeOrder { dialect: "api", invalidations: Vec::new(), refill: None, style: Style::Native };
        for (undurable, in_tree) in [(false, false), (true, false), (false, true), (true, true)] {
            let outcome =
                PurgeOutcome { purged: 3, softened: 1, uncounted: 2, sequence: 0, undurable, in_tree };
            let answer = reply(&order, outcome, Status::SERVICE_UNAVAILABLE);
            assert_eq!(PurgeOutcome::of_answer(&answer.content), Some(outcome));
        }
        let refused = read(&ApiRoute::Native, &Method::Post, &Fields::new(), b"{").unwrap_err();
        assert!(detail_of_refusal(&refused.reply().content).is_some_and(|text| text.contains("no JSON")));
        assert_eq!((PurgeOutcome::of_answer(b"{}"), detail_of_refusal(b"x")), (None, None));
    }
}
