//! The client's half of Petasos' own call: writing it, and reading the answer.

use super::Route;
use crate::malformed::Fault;
use crate::reply::Outcome;
use message::{Fields, Method};
use serde_json::{Value, json};

/// The path of Petasos' own resource.
pub const NATIVE_PATH: &str = "/purge";

/// What a call means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selectors {
    /// These URLs.
    Pages(Vec<String>),
    /// All URLs that begin with one of these.
    Prefixes(Vec<String>),
    /// All pages of these hosts.
    Hosts(Vec<String>),
    /// What has one of these tags, or all of them.
    Tags {
        /// The tags.
        tags: Vec<String>,
        /// Whether all are needed.
        all_needed: bool,
    },
    /// What meets one of these ban expressions.
    Bans(Vec<String>),
    /// Everything.
    Everything,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What it means.
    pub selectors: Selectors,
    /// Whether that is marked stale, and not removed.
    pub soft: bool,
    /// Whether the most requested pages of it shall be fetched again; else the edge's settings say so.
    pub refill: bool,
}

impl Call {
    /// The call's content.
    pub fn content(&self) -> String {
        let (kind, selectors) = match &self.selectors {
            Selectors::Pages(urls) => ("uri", urls.as_slice()),
            Selectors::Prefixes(urls) => ("uri-prefix", urls.as_slice()),
            Selectors::Hosts(hosts) => ("host", hosts.as_slice()),
            Selectors::Tags { tags, .. } => ("tag", tags.as_slice()),
            Selectors::Bans(bans) => ("ban", bans.as_slice()),
            Selectors::Everything => ("all", &[][..]),
        };
        let all_needed = matches!(&self.selectors, Selectors::Tags { all_needed: true, .. });
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

/// Whether the content of a call can be read, as the edge will read it.
///
/// # Errors
/// What is wrong with a selector.
pub fn check(content: &[u8]) -> Result<(), Fault> {
    let read = super::read(&Route::Native, &Method::Post, &Fields::new(), content);
    read.map(|_| ()).map_err(|refused| refused.malformed.fault)
}

impl Outcome {
    /// What the answer to a call says; `None` if it is none.
    pub fn of_answer(content: &[u8]) -> Option<Self> {
        let answer: Value = serde_json::from_slice(content).ok()?;
        let count = |name: &str| answer.get(name)?.as_u64();
        let uncounted = count("uncounted").unwrap_or(0);
        let undurable = answer.get("durable") == Some(&Value::Bool(false));
        Some(Self {
            purged: count("purged")?,
            softened: count("softpurged")?,
            uncounted,
            sequence: 0,
            undurable,
        })
    }
}

/// Why a call was refused, as the answer says it; `None` if the answer is none of the API's.
pub fn detail_of_refusal(content: &[u8]) -> Option<String> {
    let problem: Value = serde_json::from_slice(content).ok()?;
    problem.get("detail")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{Call, Selectors, check, detail_of_refusal};
    use crate::api::{Route, read};
    use crate::order::{Order, Style};
    use crate::reply::{Outcome, reply};
    use message::{Fields, Method};

    #[test]
    fn what_is_written_is_read() {
        let texts = |text: &str| vec![text.to_owned()];
        for (selectors, wants) in [
            (Selectors::Pages(texts("http://a.test/")), 1),
            (Selectors::Prefixes(texts("http://a.test/a%62")), 2),
            (Selectors::Hosts(texts("a.test")), 1),
            (Selectors::Tags { tags: texts("a"), all_needed: true }, 1),
            (Selectors::Bans(texts("req.url ~ a")), 1),
            (Selectors::Everything, 1),
        ] {
            for soft in [false, true] {
                let content = Call { selectors: selectors.clone(), soft, refill: soft }.content();
                let order = read(&Route::Native, &Method::Post, &Fields::new(), content.as_bytes()).unwrap();
                let is_soft = |one: &crate::Invalidation| one.mode == store::Mode::Soft;
                assert!(
                    order.invalidations.len() == wants && order.invalidations.iter().all(is_soft) == soft
                );
                assert_eq!(order.refill, soft.then_some(true));
                assert_eq!(check(content.as_bytes()), Ok(()));
            }
        }
        let wrong = Call { selectors: Selectors::Hosts(texts("a/b")), soft: false, refill: false }.content();
        assert_eq!(check(wrong.as_bytes()).unwrap_err().to_string(), "expected a host name, found `a/b`");
    }

    #[test]
    fn answers_are_understood() {
        let outcome = Outcome { purged: 3, softened: 1, uncounted: 2, sequence: 0, undurable: false };
        let order = Order { dialect: "api", invalidations: Vec::new(), refill: None, style: Style::Native };
        assert_eq!(Outcome::of_answer(&reply(&order, outcome).content), Some(outcome));
        let refused = read(&Route::Native, &Method::Post, &Fields::new(), b"{").unwrap_err();
        assert!(detail_of_refusal(&refused.reply().content).is_some_and(|text| text.contains("no JSON")));
        assert_eq!((Outcome::of_answer(b"{}"), detail_of_refusal(b"x")), (None, None));
    }
}
