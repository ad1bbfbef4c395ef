//! Calls of Fastly's purge API. The service's identifier is used as a site's name.

use super::json::JsonObject;
use super::page::UrlPages;
use crate::malformed::{Malformed, MalformedFault, MalformedPlace};
use crate::order::{OrderItem, PurgeOrder, PurgeScope, Reach, Style};
use crate::order_fields::flag;
use crate::tag_headers::Syntax;
use crate::tags::{checked, listed};
use bytes::Bytes;
use invalidation::Mode;
use message::{Fields, names};

/// Largest number of keys in the JSON content of a call.
const KEYS_MAX: usize = 256;

/// The member of the JSON content that names keys.
const MEMBER: &str = "surrogate_keys";

pub(super) fn keys(service: &Bytes, fields: &Fields, content: &[u8]) -> Result<PurgeOrder, Malformed> {
    let keys = keys_of(fields, content)?;
    let names = keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
    let scope = PurgeScope::Tags { reach: Reach::Site(service.clone()), any_of: keys, all_of: Vec::new() };
    order(vec![scope], fields, Style::FastlyKeys(names))
}

/// The keys of all lines of `Surrogate-Key` and of the content. At least one of the two must name
/// keys.
fn keys_of(fields: &Fields, content: &[u8]) -> Result<Vec<Bytes>, Malformed> {
    let lines: Vec<_> = fields.all(names::SURROGATE_KEY).map(|line| &**line).collect();
    if lines.is_empty() {
        return keys_in(&JsonObject::parse(content)?);
    }
    let at_field = |fault| Malformed::header(names::SURROGATE_KEY, fault);
    let mut keys = listed(&lines.join(&b","[..]), Syntax::Words, "").map_err(at_field)?;
    if !content.trim_ascii().is_empty() {
        let object = JsonObject::parse(content)?;
        if object.has(MEMBER) {
            keys.extend(keys_in(&object)?);
        }
    }
    checked(keys).map_err(at_field)
}

fn keys_in(object: &JsonObject) -> Result<Vec<Bytes>, Malformed> {
    let texts = object.texts(MEMBER, KEYS_MAX)?;
    let keys = texts.iter().map(|(_, key)| Bytes::copy_from_slice(key.as_bytes())).collect();
    checked(keys).map_err(|fault| Malformed::json(MEMBER, fault))
}

pub(super) fn key(service: &Bytes, key: &Bytes, fields: &Fields) -> Result<PurgeOrder, Malformed> {
    let any_of =
        checked(vec![key.clone()]).map_err(|fault| Malformed { place: MalformedPlace::Target, fault })?;
    let scope = PurgeScope::Tags { reach: Reach::Site(service.clone()), any_of, all_of: Vec::new() };
    order(vec![scope], fields, Style::Fastly)
}

/// A hard purge of everything: Fastly's API has no soft form of this call.
pub(super) fn all(service: &Bytes) -> PurgeOrder {
    let scope = PurgeScope::Everything { reach: Reach::Site(service.clone()) };
    let invalidations = vec![OrderItem { scope, mode: Mode::Hard }];
    PurgeOrder { dialect: DIALECT, invalidations, refill: None, style: Style::Fastly }
}

pub(super) fn url(url: &Bytes, fields: &Fields) -> Result<PurgeOrder, Malformed> {
    let at_target = |fault| Malformed { place: MalformedPlace::Target, fault };
    let text = std::str::from_utf8(url)
        .map_err(|_| at_target(MalformedFault::expected("a URL without its scheme", url)))?;
    let UrlPages { host, targets, .. } = UrlPages::of(&format!("http://{text}")).map_err(at_target)?;
    let scopes = targets.into_iter().map(|target| PurgeScope::Target { host: host.clone(), target });
    order(scopes.collect(), fields, Style::Fastly)
}

const DIALECT: &str = "fastly";

fn order(scopes: Vec<PurgeScope>, fields: &Fields, style: Style) -> Result<PurgeOrder, Malformed> {
    let is_soft = flag(fields, "Fastly-Soft-Purge")?.unwrap_or(false);
    let mode = if is_soft { Mode::Soft } else { Mode::Hard };
    let invalidations = scopes.into_iter().map(|scope| OrderItem { scope, mode }).collect();
    Ok(PurgeOrder { dialect: DIALECT, invalidations, refill: None, style })
}
