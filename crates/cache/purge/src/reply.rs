//! Replies to purge requests, each in the shape that its client expects.
//!
//! Invariant: a purge that was understood and is in force and durable is answered 200, whether or
//! not anything was stored. Many clients treat any other status as a failure, and some repeat the
//! request. A purge that is not durable, or not in force in the static tree, is answered with the
//! partial status, and the content says so. No reply redirects. Every reply to an order has the
//! count in `X-Purged-Count`.

use crate::malformed::Malformed;
use crate::order::{PurgeOrder, Style};
use bytes::Bytes;
use message::{ResponseHead, Status, names};
use serde_json::{Map, Value, json};

/// The response field with the number of responses that were removed or marked stale.
pub const PURGED_COUNT: &str = "X-Purged-Count";

/// The result of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgeOutcome {
    /// Stored responses that were removed.
    pub purged: u64,
    /// Stored responses that were marked stale.
    pub softened: u64,
    /// Invalidations that are in force, but for which the number of stored responses is not known
    /// yet.
    pub uncounted: u64,
    /// The sequence number of the last invalidation.
    pub sequence: u64,
    /// All invalidations are in force, but a restart of the edge would lose one.
    pub undurable: bool,
    /// Files of the static tree could not be removed, so a web server may still send them.
    pub in_tree: bool,
}

impl PurgeOutcome {
    /// Whether the purge is in force everywhere, and durable.
    pub const fn is_complete(&self) -> bool {
        !self.undurable && !self.in_tree
    }
}

/// A reply. The caller adds framing, `Date` and the fields that belong to the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeReply {
    /// Status, reason phrase and fields.
    pub head: ResponseHead,
    /// The content.
    pub content: Bytes,
}

impl PurgeReply {
    /// A reply with this content that no cache may store.
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

/// The reply to an order that was carried out. `partial` is the status if `outcome` is not
/// complete.
pub fn reply(order: &PurgeOrder, outcome: PurgeOutcome, partial: Status) -> PurgeReply {
    let PurgeOutcome { purged, softened, uncounted, sequence, .. } = outcome;
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
    if let (false, Some(members)) = (outcome.is_complete(), content.as_object_mut()) {
        say_partial(members, outcome);
    }
    let mut reply = PurgeReply::json(if outcome.is_complete() { Status::OK } else { partial }, &content);
    if outcome.is_complete() {
        reply.head.reason = Bytes::from(reason);
    }
    reply.head.fields.push(PURGED_COUNT, counted.to_string());
    reply
}

/// Detail of a partial reply: the purge is not durable.
const UNDURABLE: &str = "in force, but a restart would forget it: no place for it can be written";

/// Detail of a partial reply: the purge is in force in the cache only.
const IN_TREE: &str = "in force in the cache only: a file of the static tree cannot be removed";

/// Adds what is in force and durable to a reply, in the members that its shape has for errors and
/// in Petasos' own.
fn say_partial(members: &mut Map<String, Value>, outcome: PurgeOutcome) {
    members.insert("in_force".to_owned(), Value::Bool(!outcome.in_tree));
    members.insert("durable".to_owned(), Value::Bool(!outcome.undurable));
    let detail = if outcome.in_tree { IN_TREE } else { UNDURABLE };
    if let Some(status) = members.get_mut("status") {
        *status = Value::from("error");
    }
    if let Some(success) = members.get_mut("success") {
        *success = Value::Bool(false);
        members.insert("errors".to_owned(), json!([{ "code": 503, "message": detail }]));
    } else {
        members.insert("detail".to_owned(), Value::from(detail));
    }
}

/// The numbers of removed and of stale responses, and of uncounted invalidations if there are any.
fn counts(outcome: PurgeOutcome) -> Value {
    let mut counts = json!({ "purged": outcome.purged, "softpurged": outcome.softened });
    if let (Value::Object(members), 1..) = (&mut counts, outcome.uncounted) {
        members.insert("uncounted".to_owned(), Value::from(outcome.uncounted));
    }
    counts
}

impl Malformed {
    /// The reply to a purge method that cannot be read: 400, with the reason in words.
    pub fn reply(&self) -> PurgeReply {
        let text = format!("The purge request cannot be read: {self}.\n");
        PurgeReply::new(Status::BAD_REQUEST, "text/plain; charset=utf-8", text)
    }
}

#[cfg(test)]
mod tests {
    use super::{PurgeOutcome, reply};
    use crate::malformed::{Malformed, MalformedFault};
    use crate::order::{OrderItem, PurgeOrder, PurgeScope, Reach, Style};
    use bytes::Bytes;
    use invalidation::Mode;
    use message::Status;
    use serde_json::Value;

    fn answered(style: Style, purged: u64, softened: u64, uncounted: u64) -> String {
        let scope = PurgeScope::Everything { reach: Reach::Everywhere };
        let invalidations = vec![OrderItem { scope, mode: Mode::Hard }];
        let order = PurgeOrder { dialect: "url", invalidations, refill: None, style };
        let outcome = PurgeOutcome { purged, softened, uncounted, sequence: 7, ..PurgeOutcome::default() };
        let reply = reply(&order, outcome, Status::SERVICE_UNAVAILABLE);
        assert_eq!(reply.head.status.code(), 200);
        assert_eq!(reply.head.fields.first("Cache-Control").unwrap(), "no-store");
        assert_eq!(reply.head.fields.first("X-Purged-Count").unwrap(), &(purged + softened).to_string());
        let text = |octets: &Bytes| String::from_utf8(octets.to_vec()).unwrap();
        format!("{}: {}", text(&reply.head.reason), text(&reply.content).trim_end())
    }

    #[test]
    fn each_client_receives_its_own_shape_of_reply() {
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
    fn undurable_purge_has_partial_status_in_every_shape() {
        let styles = [
            Style::Purged,
            Style::Banned,
            Style::Keys,
            Style::Refreshing,
            Style::Native,
            Style::Fastly,
            Style::FastlyKeys(vec!["a".into()]),
            Style::Cloudflare("z1".into()),
        ];
        for style in styles {
            let order = PurgeOrder { dialect: "url", invalidations: Vec::new(), refill: None, style };
            for code in [503, 202] {
                let outcome = PurgeOutcome { purged: 1, undurable: true, ..PurgeOutcome::default() };
                let reply = reply(&order, outcome, Status::from_code(code).unwrap());
                assert_eq!(reply.head.status.code(), code);
                let content: Value = serde_json::from_slice(&reply.content).unwrap();
                let said = (&content["in_force"], &content["durable"]);
                assert_eq!(said, (&Value::Bool(true), &Value::Bool(false)), "{order:?}: {content}");
                assert_ne!(content["status"], "ok");
                assert_ne!(content["success"], true);
            }
        }
    }

    #[test]
    fn unreadable_request_is_answered_400_with_the_reason() {
        let reply = Malformed::header("X-Url", MalformedFault::Missing("a pattern")).reply();
        assert_eq!(reply.head.status.code(), 400);
        assert_eq!(
            reply.content,
            "The purge request cannot be read: the header X-Url: missing; expected a pattern.\n"
        );
    }
}
