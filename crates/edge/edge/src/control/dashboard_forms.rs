//! The forms of the dashboard: their content, and the purge that one asks for.

use crate::control::changes;
use crate::control::counters::Metric;
use crate::control::purge_orders::carry_out;
use crate::request::client::ClientConnection;
use crate::shared::Shared;
use ::dashboard::{PurgeKind, fields};
use h1::Request;
use message::{Fields, Frame, Method, names};
use origin::Upload as _;
use purge::api::{ApiCall, ApiRoute, CallSelectors};
use std::future::poll_fn;
use std::sync::Arc;

/// Maximum size of a form's content in bytes.
const FORM_BYTES_MAX: usize = 16 * 1024;

/// The media type of forms.
const MEDIA_TYPE: &[u8] = b"application/x-www-form-urlencoded";

/// The fields of a form, name and value.
pub(crate) struct Form(Vec<(String, String)>);

/// Why a form cannot be read.
pub(crate) struct FormFault {
    pub(crate) code: u16,
    pub(crate) why: &'static str,
}

impl Form {
    /// Reads the content of a request.
    pub(crate) async fn read(client: &mut ClientConnection, request: &Request) -> Result<Self, FormFault> {
        let media_type = request.head.fields.only(names::CONTENT_TYPE);
        let is_form = media_type.is_some_and(|found| {
            let found = found.split(|&byte| byte == b';').next().unwrap_or_default();
            found.trim_ascii().eq_ignore_ascii_case(MEDIA_TYPE)
        });
        if !is_form {
            return Err(FormFault { code: 415, why: "The content is no form." });
        }
        let mut content = Vec::new();
        loop {
            match poll_fn(|context| client.poll_frame(context)).await {
                Ok(Frame::Data(octets)) => content.extend_from_slice(&octets),
                Ok(Frame::End(_)) => break,
                Err(_) => return Err(FormFault { code: 400, why: "The form is not complete." }),
            }
            if content.len() > FORM_BYTES_MAX {
                return Err(FormFault { code: 413, why: "The form is too long." });
            }
        }
        Ok(Self(url::form_urlencoded::parse(&content).into_owned().collect()))
    }

    /// The value of the first field with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// The purge in the fields of a form or the parameters of a link: its kind, its value, and whether
/// it is soft.
pub(crate) fn purge_of<'a>(get: impl Fn(&str) -> Option<&'a str>) -> (PurgeKind, String, bool) {
    let kind = get(fields::KIND).and_then(PurgeKind::by_name).unwrap_or(PurgeKind::Url);
    let value = get(fields::VALUE).unwrap_or_default().trim().to_owned();
    (kind, value, get(fields::SOFT).is_some())
}

/// The call that a purge is.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub(crate) fn call_of(kind: PurgeKind, value: &str, is_soft: bool) -> Result<ApiCall, String> {
    let one = vec![value.to_owned()];
    let selectors = match kind {
        PurgeKind::Everything => CallSelectors::Everything,
        _ if value.is_empty() => return Err("Say what is to be purged: the field was empty.".to_owned()),
        PurgeKind::Url => CallSelectors::Pages(one),
        PurgeKind::Prefix => CallSelectors::Prefixes(one),
        PurgeKind::Tag => CallSelectors::Tags { tags: one, all_needed: false },
        PurgeKind::Host => CallSelectors::Hosts(one),
    };
    let call = ApiCall { selectors, soft: is_soft, refill: false };
    let checked = purge::api::check(call.content().as_bytes());
    checked.map(|()| call).map_err(|fault| format!("The edge cannot purge this: {fault}."))
}

/// Carries out a purge, and returns the number of the change.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub(crate) async fn purge(
    shared: &Arc<Shared>,
    who: &str,
    (kind, value, is_soft): (PurgeKind, &str, bool),
) -> Result<u64, String> {
    let content = call_of(kind, value, is_soft)?.content();
    let order = purge::api::read(&ApiRoute::Native, &Method::Post, &Fields::new(), content.as_bytes());
    let order =
        order.map_err(|refused| format!("The edge cannot purge this: {}.", refused.malformed.fault))?;
    shared.cells(0).count(Metric::Purges);
    let outcome = carry_out(shared, &order).await;
    let soft = if is_soft { " (soft)" } else { "" };
    let what = format!("purge of {}{soft}", kind.describe(value));
    let who = format!("{who} (dashboard)");
    Ok(changes::record(shared, &who, &what, &changes::outcome_text(outcome), outcome.is_complete()))
}

#[cfg(test)]
mod tests {
    use super::{call_of, purge_of};
    use dashboard::PurgeKind;

    #[test]
    fn purge_is_read_from_fields_and_checked() {
        let get = |name: &str| match name {
            "kind" => Some("tag"),
            "value" => Some(" a "),
            _ => None,
        };
        assert_eq!(purge_of(get), (PurgeKind::Tag, "a".to_owned(), false));
        assert_eq!(purge_of(|_| Some("x")), (PurgeKind::Url, "x".to_owned(), true));
        for (kind, good, bad) in [
            (PurgeKind::Url, "http://a.test/x", "a test"),
            (PurgeKind::Prefix, "https://a.test/", "/a"),
            (PurgeKind::Tag, "post-1", ""),
            (PurgeKind::Host, "a.test", "a/b"),
        ] {
            assert!(call_of(kind, good, false).is_ok(), "{good}");
            assert!(call_of(kind, bad, false).is_err(), "{bad}");
        }
        assert!(call_of(PurgeKind::Everything, "", true).unwrap().soft);
    }
}
