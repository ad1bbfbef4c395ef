//! What a miss or pass tells about the page, the cookies and the parameters that cost the origin
//! time.
//!
//! Invariant: names and paths come from clients. They are bounded and printable, and values of
//! cookies and parameters never leave this file. A cookie or parameter without `=` may be a value,
//! so it has no name.

use crate::memory::origin_work::{CostKey, OneRequest};
use crate::request::visit::Visit;
use crate::sites::Site;
use api::dashboard::CostKind;
use h1::BodyFraming;
use message::{RequestHead, names};
use request_log::FetchPhases;
use semantics::{CulpritKind, Reason, Verdict, explain_request, keyed_target};

/// Longest name in bytes. Longer ones are likely to be random.
const NAME_BYTES_MAX: usize = 48;

/// Longest URL in bytes, and the longest part of it that is a host.
const URL_BYTES_MAX: usize = 240;
const HOST_BYTES_MAX: usize = 100;

/// Maximum number of parameters of one request that are noted.
const PARAMETERS_MAX: usize = 8;

/// Stands for a name that is missing or too long.
const NO_NAME: &str = "(no name)";

impl Visit<'_> {
    /// Notes what a miss or pass has cost.
    pub(crate) fn note_origin_request(&self, reason: Reason, fetch: FetchPhases) {
        let Some(site) = self.site else { return };
        let head = &self.request.head;
        let costs = match reason.verdict() {
            Verdict::Miss => parameters(site, head),
            Verdict::Pass => {
                culprit(site, head, self.request.framing != BodyFraming::Empty).into_iter().collect()
            }
            _ => return,
        };
        let is_https = self.client.arrival().is_secured || site.plan.public_https;
        let url = url_of(is_https, head);
        let time = fetch.connect + fetch.first_byte;
        self.shared.origin_work.note(OneRequest { url, reason, time, costs }, self.shared.clock.monotonic());
    }
}

/// The URL of a request without its query.
fn url_of(is_https: bool, head: &RequestHead) -> String {
    let path = head.target.split(|byte| *byte == b'?').next().unwrap_or_default();
    if !path.starts_with(b"/") {
        // The absolute form has scheme and host.
        return printable(path, URL_BYTES_MAX);
    }
    let host = head.fields.first(names::HOST).map(|host| printable(host, HOST_BYTES_MAX));
    let scheme = if is_https { "https" } else { "http" };
    let path = printable(path, URL_BYTES_MAX - HOST_BYTES_MAX - 8);
    format!("{scheme}://{}{path}", host.unwrap_or_default())
}

/// A text from a client, cut off and without anything that is not printable.
fn printable(text: &[u8], bytes_max: usize) -> String {
    let shown = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '?' };
    let cut = if text.len() > bytes_max { "..." } else { "" };
    text.iter().take(bytes_max).map(shown).chain(cut.chars()).collect()
}

fn cost(kind: CostKind, name: Option<&[u8]>, site: &Site) -> CostKey {
    let name = name.filter(|name| !name.is_empty() && name.len() <= NAME_BYTES_MAX);
    let name = name.map_or_else(|| NO_NAME.to_owned(), |name| printable(name, NAME_BYTES_MAX));
    CostKey { kind, name: name.into(), site: site.label().into() }
}

/// The parameters in the cache key of a miss, because of which it is a page of its own.
fn parameters(site: &Site, head: &RequestHead) -> Vec<CostKey> {
    let target = keyed_target(&head.target, site.policy());
    let Some(mark) = target.iter().position(|byte| *byte == b'?') else { return Vec::new() };
    let parameters = target.get(mark + 1..).unwrap_or_default().split(|byte| *byte == b'&');
    let named = parameters.filter(|parameter| !parameter.is_empty()).map(|parameter| {
        let end = parameter.iter().position(|byte| *byte == b'=');
        cost(CostKind::Parameter, end.and_then(|end| parameter.get(..end)), site)
    });
    let mut costs = Vec::new();
    for key in named.take(PARAMETERS_MAX) {
        if !costs.contains(&key) {
            costs.push(key);
        }
    }
    costs
}

/// The cookie or parameter that made a request pass.
fn culprit(site: &Site, head: &RequestHead, has_content: bool) -> Option<CostKey> {
    let (_, culprit) = explain_request(head, has_content, site.policy())?;
    let culprit = culprit?;
    let line = |name| head.fields.all(name).map(|value| &value[..]);
    let query = head.target.split(|byte| *byte == b'?').nth(1);
    let (kind, mut pairs): (_, Box<dyn Iterator<Item = &[u8]>>) = match culprit.kind {
        CulpritKind::Cookie => (
            CostKind::Cookie,
            Box::new(line(names::COOKIE).flat_map(|line| line.split(|byte| *byte == b';'))),
        ),
        CulpritKind::Parameter => (
            CostKind::Parameter,
            Box::new(query.into_iter().flat_map(|query| query.split(|byte| *byte == b'&'))),
        ),
        _ => return None,
    };
    let has_value = |pair: &[u8]| {
        let rest = pair.trim_ascii().strip_prefix(&culprit.name[..]).map(<[u8]>::trim_ascii_start);
        rest.is_some_and(|rest| rest.starts_with(b"="))
    };
    let is_name = pairs.any(has_value);
    Some(cost(kind, is_name.then_some(&culprit.name[..]), site))
}

#[cfg(test)]
mod tests {
    use super::{URL_BYTES_MAX, printable, url_of};
    use message::{Fields, Method, RequestHead, Version};

    #[test]
    fn url_has_no_query_and_is_bounded() {
        let url = |target: &str, host: &str| {
            let target = target.to_owned().into();
            let mut head =
                RequestHead { method: Method::Get, target, version: Version::Http11, fields: Fields::new() };
            head.fields.push("Host", host.to_owned());
            url_of(true, &head)
        };
        assert_eq!(url("/a/b?token=secret", "a.test"), "https://a.test/a/b");
        assert_eq!(url("http://a.test/x?token=secret", "a.test"), "http://a.test/x");
        assert_eq!(url("/\u{1b}[2J<", "a.test"), "https://a.test/?[2J<");
        let long = url(&format!("/{}", "p".repeat(9000)), &"h".repeat(9000));
        assert!(long.len() <= URL_BYTES_MAX + 6, "{long}");
        assert_eq!(printable("ü".as_bytes(), 9), "??");
    }
}
