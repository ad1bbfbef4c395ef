//! Calls of Cloudflare's purge API. The zone's identifier is used as a site's name.

use super::SELECTORS_MAX;
use super::json::{JsonObject, text, unexpected};
use super::page::{self, UrlPages};
use crate::malformed::{Malformed, MalformedFault, MalformedPlace};
use crate::order::{OrderItem, PurgeOrder, PurgeScope, Reach, Style};
use crate::tags::checked;
use bytes::Bytes;
use invalidation::Mode;
use serde_json::Value;

pub(super) fn read(zone: &Bytes, content: &[u8]) -> Result<PurgeOrder, Malformed> {
    let object = JsonObject::parse(content)?;
    let reach = Reach::Site(zone.clone());
    let mut scopes = Vec::new();
    if object.has("files") {
        for (path, value) in object.elements("files", SELECTORS_MAX)? {
            let UrlPages { host, targets, .. } = file(&path, value)?;
            scopes
                .extend(targets.into_iter().map(|target| PurgeScope::Target { host: host.clone(), target }));
        }
    }
    if object.has("tags") {
        let texts = object.texts("tags", SELECTORS_MAX)?;
        let tags = texts.iter().map(|(_, tag)| Bytes::copy_from_slice(tag.as_bytes())).collect();
        let any_of = checked(tags).map_err(|fault| Malformed::json("tags", fault))?;
        scopes.push(PurgeScope::Tags { reach: reach.clone(), any_of, all_of: Vec::new() });
    }
    if object.has("hosts") {
        for (path, text) in object.texts("hosts", SELECTORS_MAX)? {
            let host = page::host(text).map_err(|fault| Malformed::json(path, fault))?;
            scopes.push(PurgeScope::Host { host });
        }
    }
    if object.has("prefixes") {
        for (path, text) in object.texts("prefixes", SELECTORS_MAX)? {
            let pages = UrlPages::of(&format!("http://{text}"));
            let UrlPages { host, targets, .. } = pages.map_err(|fault| Malformed::json(path, fault))?;
            scopes
                .extend(targets.into_iter().map(|prefix| PurgeScope::Prefix { host: host.clone(), prefix }));
        }
    }
    if object.flag("purge_everything")? == Some(true) {
        scopes.push(PurgeScope::Everything { reach });
    }
    if scopes.is_empty() {
        let fault = MalformedFault::Missing("files, tags, hosts, prefixes or \"purge_everything\": true");
        return Err(Malformed { place: MalformedPlace::Content, fault });
    }
    let invalidations = scopes.into_iter().map(|scope| OrderItem { scope, mode: Mode::Hard }).collect();
    let style = Style::Cloudflare(String::from_utf8_lossy(zone).into_owned());
    Ok(PurgeOrder { dialect: "cloudflare", invalidations, refill: None, style })
}

/// Reads a file: a URL, or an object with a URL and the headers of one variant. All variants are
/// purged.
fn file(path: &str, value: &Value) -> Result<UrlPages, Malformed> {
    let (path, url) = match value {
        Value::Object(members) => {
            let path = format!("{path}.url");
            let url = members
                .get("url")
                .ok_or_else(|| Malformed::json(path.as_str(), MalformedFault::Missing("a URL")))?;
            let url = text(url, &path)?;
            (path, url)
        }
        Value::String(url) => (path.to_owned(), url.as_str()),
        other => return Err(unexpected(path, "a URL, or an object with one", other)),
    };
    UrlPages::of(url).map_err(|fault| Malformed::json(path, fault))
}
