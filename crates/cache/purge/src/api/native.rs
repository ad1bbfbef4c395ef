//! Petasos' own API, in the event format of draft-nottingham-http-invalidation:
//!
//! ```json
//! {"type": "uri", "selectors": ["https://www.example.org/news"], "purge": true}
//! ```
//!
//! The draft has the types `uri`, `uri-prefix`, `origin` and `group`. Petasos adds the types
//! `host`, `tag`, `ban` and `all`. It also adds the members `match` (`any` or `all` of the tags)
//! and `site` (to which tags, bans or `all` are limited). `purge` is true by default and removes
//! responses, which the draft leaves to the cache; `false` marks them stale. Unknown members are
//! ignored, as the draft demands.

use super::json::JsonObject;
use super::page::{self, UrlPages};
use super::{BANS_MAX, SELECTORS_MAX};
use crate::ban::ConditionBan;
use crate::malformed::{Malformed, MalformedFault};
use crate::order::{OrderItem, PurgeOrder, PurgeScope, Reach, Style};
use crate::tags::{checked, group_tag};
use bytes::Bytes;
use invalidation::Mode;
use std::sync::Arc;

/// The types of selectors, what they list and what they invalidate, for the documentation.
pub(crate) const TYPES: &[(&str, &str, &str)] = &[
    ("uri", "URLs", "these pages, on http and https"),
    ("uri-prefix", "URLs", "all pages whose URL begins with a selector"),
    ("origin", "URLs without a path", "all pages of the host"),
    ("host", "host names", "all pages of the host"),
    ("group", "URLs without a path; the names in `groups`", "the groups (RFC 9875) of these origins"),
    ("tag", "tags", "pages with one of the tags, or with all of them for `\"match\": \"all\"`"),
    ("ban", "ban expressions", "pages that match one of the expressions"),
    ("all", "none", "everything"),
];

const SELECTORS: &str = "selectors";

pub(super) fn read(content: &[u8]) -> Result<PurgeOrder, Malformed> {
    let object = JsonObject::parse(content)?;
    let mode = if object.flag("purge")? == Some(false) { Mode::Soft } else { Mode::Hard };
    let expected = "uri, uri-prefix, origin, host, group, tag, ban or all";
    let kind =
        object.text("type")?.ok_or_else(|| Malformed::json("type", MalformedFault::Missing(expected)))?;
    let scopes = match kind {
        "uri" => each_page(&object, |pages| {
            let UrlPages { host, targets, .. } = pages;
            targets.into_iter().map(|target| PurgeScope::Target { host: host.clone(), target }).collect()
        })?,
        "uri-prefix" => each_page(&object, |pages| {
            let UrlPages { host, targets, .. } = pages;
            targets.into_iter().map(|prefix| PurgeScope::Prefix { host: host.clone(), prefix }).collect()
        })?,
        "origin" => {
            origins(&object)?.into_iter().map(|pages| PurgeScope::Host { host: pages.host }).collect()
        }
        "host" => each(&object, SELECTORS_MAX, |text| Ok(PurgeScope::Host { host: page::host(text)? }))?,
        "group" => groups(&object)?,
        "tag" => vec![tags(&object)?],
        "ban" => {
            let reach = reach(&object)?;
            each(&object, BANS_MAX, |text| {
                Ok(PurgeScope::Ban { reach: reach.clone(), ban: Arc::new(ConditionBan::parse(text)?) })
            })?
        }
        "all" => vec![PurgeScope::Everything { reach: reach(&object)? }],
        other => {
            let fault = MalformedFault::Unsupported(format!("`{}`", other.escape_debug()));
            return Err(Malformed::json("type", fault));
        }
    };
    let invalidations = scopes.into_iter().map(|scope| OrderItem { scope, mode }).collect();
    Ok(PurgeOrder { dialect: "api", invalidations, refill: object.flag("refill")?, style: Style::Native })
}

/// Reads each selector with `scope`.
fn each(
    object: &JsonObject,
    count_max: usize,
    scope: impl Fn(&str) -> Result<PurgeScope, MalformedFault>,
) -> Result<Vec<PurgeScope>, Malformed> {
    let selectors = object.texts(SELECTORS, count_max)?.into_iter();
    selectors.map(|(path, text)| scope(text).map_err(|fault| Malformed::json(path, fault))).collect()
}

fn each_page(
    object: &JsonObject,
    scopes: impl Fn(UrlPages) -> Vec<PurgeScope>,
) -> Result<Vec<PurgeScope>, Malformed> {
    let mut all = Vec::new();
    for (path, text) in object.texts(SELECTORS, SELECTORS_MAX)? {
        all.append(&mut scopes(UrlPages::of(text).map_err(|fault| Malformed::json(path, fault))?));
    }
    Ok(all)
}

/// The selectors, which must be URLs without a path.
fn origins(object: &JsonObject) -> Result<Vec<UrlPages>, Malformed> {
    let selectors = object.texts(SELECTORS, SELECTORS_MAX)?.into_iter();
    selectors
        .map(|(path, text)| {
            let pages = UrlPages::of(text).map_err(|fault| Malformed::json(path.as_str(), fault))?;
            if pages.targets != ["/"] {
                let fault = MalformedFault::expected("scheme, host and port only", text.as_bytes());
                return Err(Malformed::json(path, fault));
            }
            Ok(pages)
        })
        .collect()
}

fn groups(object: &JsonObject) -> Result<Vec<PurgeScope>, Malformed> {
    let groups = object.texts("groups", semantics::GROUPS_MAX)?;
    let scopes = origins(object)?.into_iter().map(|pages| {
        let tag = |(_, group): &(String, &str)| group_tag(pages.https, &pages.host, group.as_bytes());
        let any_of = groups.iter().map(tag).collect();
        PurgeScope::Tags { reach: Reach::Site(pages.host.clone()), any_of, all_of: Vec::new() }
    });
    Ok(scopes.collect())
}

fn tags(object: &JsonObject) -> Result<PurgeScope, Malformed> {
    let texts = object.texts(SELECTORS, SELECTORS_MAX)?;
    let tags = texts.iter().map(|(_, text)| Bytes::copy_from_slice(text.as_bytes())).collect();
    let tags = checked(tags).map_err(|fault| Malformed::json(SELECTORS, fault))?;
    let reach = reach(object)?;
    match object.text("match")? {
        None | Some("any") => Ok(PurgeScope::Tags { reach, any_of: tags, all_of: Vec::new() }),
        Some("all") => Ok(PurgeScope::Tags { reach, any_of: Vec::new(), all_of: tags }),
        Some(other) => {
            Err(Malformed::json("match", MalformedFault::expected("any or all", other.as_bytes())))
        }
    }
}

/// The site that the call names; without one, all sites.
fn reach(object: &JsonObject) -> Result<Reach, Malformed> {
    let site = object.text("site")?.map(page::host).transpose();
    let site = site.map_err(|fault| Malformed::json("site", fault))?;
    Ok(site.map_or(Reach::Everywhere, Reach::Site))
}
