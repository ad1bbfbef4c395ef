//! Answers to requests that invalidate, each in the shape that its client expects.
//!
//! Invariant: what was understood is answered 200 whether anything was found or not, since many clients take anything
//! else for a failure and some ask again and again; nothing redirects; every answer has the count in `X-Purged-Count`.

use crate::malformed::Malformed;
use crate::order::{Order, Style};
use bytes::Bytes;
use message::{ResponseHead, Status, names};
use serde_json::{Value, json};

/// The header with the number of responses that were removed or marked stale.
pub const PURGED_COUNT: &str = "X-Purged-Count";

/// What came of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Stored responses that were removed.
    pub purged: u64,
    /// Stored responses that were marked stale.
    pub softened: u64,
    /// Invalidations that are in force, but of which it is not known yet how many stored responses they meet.
    pub uncounted: u64,
    /// The number of the last invalidation.
    pub sequence: u64,
    /// All of it is in force, but a restart of the edge would not know it.
    pub undurable: bool,
}

/// An answer; framing, `Date` and what belongs to the connection are the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Status, reason phrase and fields.
    pub head: ResponseHead,
    /// The content.
    pub content: Bytes,
}

impl Reply {
    /// An answer with this content, not to be cached by anyone.
    pub(crate) fn new(status: Status, media_type: &'static str, content: String) -> Self {
        let mut head = ResponseHead::new(status);
        head.fields.push(names::CONTENT_TYPE, media_type);
        head.fields.push(names::CACHE_CONTROL, "no-store");
        Self { head, content: Bytes::from(content) }
    }

    pub(crate) fn json(status: Status, content: &Value) -> Self {
        Self::new(status, "application/json", format!("{content}\n"))
    }
}

/// The answer to an order that was carried out.
pub fn reply(order: &Order, outcome: Outcome) -> Reply {
    let Outcome { purged, softened, uncounted, sequence, undurable } = outcome;
    let counted = purged.saturating_add(softened);
    let found = counted > 0 || uncounted > 0;
    let id = sequence.to_string();
    let (reason, mut content) = match &order.style {
        Style::Purged if found => ("Purged".to_owned(), counts(outcome)),
        Style::Purged => ("Not found".to_owned(), counts(outcome)),
        Style::Banned => ("Banned".to_owned(), counts(outcome)),
        Style::Keys => (format!("Purged {purged} objects, expired {softened} objects"), counts(outcome)),
        Style::Refreshing => ("Refreshing".to_owned(), counts(outcome)),
        Style::Native => ("OK".to_owned(), counts(outcome)),
        Style::Fastly => ("OK".to_owned(), json!({ "status": "ok", "id": id })),
        Style::FastlyKeys(keys) => {
            let ids = keys.iter().map(|key| (key.clone(), Value::from(id.as_str()))).collect();
            ("OK".to_owned(), Value::Object(ids))
        }
        Style::Cloudflare(zone) => {
            let result = json!({ "id": zone });
            ("OK".to_owned(), json!({ "success": true, "errors": [], "messages": [], "result": result }))
        }
    };
    if let (true, Some(members)) = (undurable, content.as_object_mut()) {
        members.insert("in_force".to_owned(), Value::Bool(true));
        members.insert("durable".to_owned(), Value::Bool(false));
    }
    let mut reply = Reply::json(if undurable { Status::SERVICE_UNAVAILABLE } else { Status::OK }, &content);
    if !undurable {
        reply.head.reason = Bytes::from(reason);
    }
    reply.head.fields.push(PURGED_COUNT, counted.to_string());
    reply
}

/// How many were removed and how many marked stale; and how many invalidations are not counted, if there are any.
fn counts(outcome: Outcome) -> Value {
    let mut counts = json!({ "purged": outcome.purged, "softpurged": outcome.softened });
    if let (Value::Object(members), 1..) = (&mut counts, outcome.uncounted) {
        members.insert("uncounted".to_owned(), Value::from(outcome.uncounted));
    }
    counts
}

impl Malformed {
    /// The answer to a request with a purge method that cannot be read: 400, with the reason in words.
    pub fn reply(&self) -> Reply {
        let text = format!("The purge request cannot be read: {self}.\n");
        Reply::new(Status::BAD_REQUEST, "text/plain; charset=utf-8", text)
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, reply};
    use crate::malformed::{Fault, Malformed};
    use crate::order::{Invalidation, Order, Reach, Style, Want};
    use bytes::Bytes;
    use store::Mode;

    fn answered(style: Style, purged: u64, softened: u64, uncounted: u64) -> String {
        let want = Want::Everything { reach: Reach::Everywhere };
        let invalidations = vec![Invalidation { want, mode: Mode::Hard }];
        let order = Order { dialect: "url", invalidations, refill: None, style };
        let reply = reply(&order, Outcome { purged, softened, uncounted, sequence: 7, undurable: false });
        assert_eq!(reply.head.status.code(), 200);
        assert_eq!(reply.head.fields.first("Cache-Control").unwrap(), "no-store");
        assert_eq!(reply.head.fields.first("X-Purged-Count").unwrap(), &(purged + softened).to_string());
        let text = |octets: &Bytes| String::from_utf8(octets.to_vec()).unwrap();
        format!("{}: {}", text(&reply.head.reason), text(&reply.content).trim_end())
    }

    #[test]
    fn each_client_is_answered_in_its_own_shape() {
        let keys = || Style::FastlyKeys(vec!["a".into(), "b".into()]);
        let cloudflare = r#"OK: {"errors":[],"messages":[],"result":{"id":"z1"},"success":true}"#;
        for (style, purged, softened, uncounted, expected) in [
            (Style::Purged, 2, 0, 0, r#"Purged: {"purged":2,"softpurged":0}"#),
            (Style::Purged, 0, 0, 0, r#"Not found: {"purged":0,"softpurged":0}"#),
            (Style::Purged, 0, 0, 1, r#"Purged: {"purged":0,"softpurged":0,"uncounted":1}"#),
            (Style::Banned, 3, 0, 0, r#"Banned: {"purged":3,"softpurged":0}"#),
            (Style::Keys, 1, 4, 0, r#"Purged 1 objects, expired 4 objects: {"purged":1,"softpurged":4}"#),
            (Style::Refreshing, 0, 1, 0, r#"Refreshing: {"purged":0,"softpurged":1}"#),
            (Style::Native, 0, 5, 2, r#"OK: {"purged":0,"softpurged":5,"uncounted":2}"#),
            (Style::Fastly, 1, 0, 0, r#"OK: {"id":"7","status":"ok"}"#),
            (keys(), 1, 0, 0, r#"OK: {"a":"7","b":"7"}"#),
            (Style::Cloudflare("z1".into()), 1, 0, 0, cloudflare),
        ] {
            assert_eq!(answered(style, purged, softened, uncounted), expected);
        }
    }

    #[test]
    fn what_cannot_be_read_is_400_with_the_reason() {
        let reply = Malformed::header("X-Url", Fault::Missing("a pattern")).reply();
        assert_eq!(reply.head.status.code(), 400);
        assert_eq!(
            reply.content,
            "The purge request cannot be read: the header X-Url: missing; expected a pattern.\n"
        );
    }
}
