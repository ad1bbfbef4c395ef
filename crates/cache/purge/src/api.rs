//! The JSON API of the admin address. Petasos' own resource follows
//! draft-nottingham-http-invalidation; thin adapters serve clients of Fastly and Cloudflare.
//!
//! Invariant: a call is read completely or refused. A fault is reported with its path in the JSON.
//! The caller decides which clients may call; [`crate::presented_tokens`] finds the tokens in a
//! request.

mod call;
mod cloudflare;
mod fastly;
mod json;
mod native;
mod page;

pub use call::{ApiCall, CallSelectors, NATIVE_PATH, check, detail_of_refusal};
pub(crate) use native::TYPES;

use crate::malformed::{Malformed, MalformedFault, MalformedPlace};
use crate::order::PurgeOrder;
use crate::order_fields::{REFILL, flag};
use crate::reply::PurgeReply;
use bytes::Bytes;
use message::{Fields, Method, Status};
use serde_json::json;

/// Largest content of a call, in bytes. Longer content is answered 413.
pub const CONTENT_BYTES_MAX: usize = 1024 * 1024;

/// Largest number of selectors in a call.
pub const SELECTORS_MAX: usize = 4096;

/// Largest number of bans in a call. Each ban is tested against every hit until it has been carried
/// out.
pub const BANS_MAX: usize = 16;

/// A resource of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiRoute {
    /// Petasos' own resource: `/purge`.
    Native,
    /// Fastly's `/service/ID/purge`: the keys are in the content, in `Surrogate-Key`, or in both.
    FastlyKeys {
        /// The service, here a site's name.
        service: Bytes,
    },
    /// Fastly's `/service/ID/purge/KEY`.
    FastlyKey {
        /// The service, here a site's name.
        service: Bytes,
        /// The key, percent-decoded.
        key: Bytes,
    },
    /// Fastly's `/service/ID/purge_all`.
    FastlyAll {
        /// The service, here a site's name.
        service: Bytes,
    },
    /// Fastly's `/purge/URL`.
    FastlyUrl {
        /// The URL without its scheme.
        url: Bytes,
    },
    /// Cloudflare's `/zones/ID/purge_cache`, with or without `/client/v4` before it.
    Cloudflare {
        /// The zone, here a site's name.
        zone: Bytes,
    },
}

/// The resources, their clients and what each invalidates, for the documentation.
pub(crate) const ROUTES: &[(&str, &str, &str)] = &[
    ("/purge", "Petasos", "the selectors of the JSON content, see below"),
    (
        "/service/ID/purge",
        "Fastly's clients",
        "the keys of `{\"surrogate_keys\": [...]}` and of `Surrogate-Key`",
    ),
    ("/service/ID/purge/KEY", "Fastly's clients", "one key"),
    ("/service/ID/purge_all", "Fastly's clients", "the whole site"),
    ("/purge/HOST/PATH", "Fastly's clients", "one page"),
    (
        "/zones/ID/purge_cache, /client/v4/zones/ID/purge_cache",
        "Cloudflare's clients",
        "`files`, `tags`, `hosts`, `prefixes` or `purge_everything`",
    ),
];

/// A refused call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRefusal {
    /// The status of the reply.
    pub status: Status,
    /// The fault.
    pub malformed: Malformed,
    shape: Shape,
}

/// The API whose error format a reply has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Native,
    Fastly,
    Cloudflare,
}

impl ApiRoute {
    /// The resource with this target, which is in origin-form; `None` if the API has no such
    /// resource.
    pub fn of(target: &[u8]) -> Option<Self> {
        let path = target.split(|&octet| octet == b'?').next().unwrap_or_default();
        let segments: Vec<_> = path.strip_prefix(b"/")?.split(|&octet| octet == b'/').collect();
        let owned = |segment: &[u8]| page::decoded(segment);
        match segments.as_slice() {
            [b"purge"] => Some(Self::Native),
            [b"purge", host, ..] if !host.is_empty() => {
                let url = target.strip_prefix(b"/purge/")?;
                Some(Self::FastlyUrl { url: Bytes::copy_from_slice(url) })
            }
            [b"service", id, b"purge"] => Some(Self::FastlyKeys { service: owned(id) }),
            [b"service", id, b"purge", key] if !key.is_empty() => {
                Some(Self::FastlyKey { service: owned(id), key: owned(key) })
            }
            [b"service", id, b"purge_all"] => Some(Self::FastlyAll { service: owned(id) }),
            [b"zones", id, b"purge_cache"] | [b"client", b"v4", b"zones", id, b"purge_cache"] => {
                Some(Self::Cloudflare { zone: owned(id) })
            }
            _ => None,
        }
    }

    const fn shape(&self) -> Shape {
        match self {
            Self::Native => Shape::Native,
            Self::Cloudflare { .. } => Shape::Cloudflare,
            Self::FastlyKeys { .. }
            | Self::FastlyKey { .. }
            | Self::FastlyAll { .. }
            | Self::FastlyUrl { .. } => Shape::Fastly,
        }
    }
}

/// Reads a call to `route`.
///
/// `content` is the whole content of the request.
///
/// # Errors
/// [`CallRefusal`] with 405 for any method but POST, 413 for more than [`CONTENT_BYTES_MAX`] bytes,
/// 501 for an unsupported type of selectors, and 400 otherwise. [`CallRefusal::reply`] is the
/// response to send.
pub fn read(
    route: &ApiRoute,
    method: &Method,
    fields: &Fields,
    content: &[u8],
) -> Result<PurgeOrder, CallRefusal> {
    let refused = |code: u16, malformed| CallRefusal {
        status: Status::from_code(code).unwrap_or(Status::BAD_REQUEST),
        malformed,
        shape: route.shape(),
    };
    if *method != Method::Post {
        let fault = MalformedFault::expected("POST", method.as_bytes());
        return Err(refused(405, Malformed { place: MalformedPlace::Method, fault }));
    }
    if content.len() > CONTENT_BYTES_MAX {
        let fault = MalformedFault::Missing("at most 1 MiB; send several requests");
        return Err(refused(413, Malformed { place: MalformedPlace::Content, fault }));
    }
    let order = match route {
        ApiRoute::Native => native::read(content),
        ApiRoute::FastlyKeys { service } => fastly::keys(service, fields, content),
        ApiRoute::FastlyKey { service, key } => fastly::key(service, key, fields),
        ApiRoute::FastlyAll { service } => Ok(fastly::all(service)),
        ApiRoute::FastlyUrl { url } => fastly::url(url, fields),
        ApiRoute::Cloudflare { zone } => cloudflare::read(zone, content),
    };
    let refill = flag(fields, REFILL).map_err(|malformed| refused(400, malformed))?;
    let order = order.map(|order| PurgeOrder { refill: order.refill.or(refill), ..order });
    order.map_err(|malformed| {
        let code = if matches!(malformed.fault, MalformedFault::Unsupported(_)) { 501 } else { 400 };
        refused(code, malformed)
    })
}

impl CallRefusal {
    /// The reply, in the error format of the client's own API.
    pub fn reply(&self) -> PurgeReply {
        let Self { status, malformed, shape } = self;
        let detail = malformed.to_string();
        let mut reply = match shape {
            Shape::Native => {
                let problem = json!({
                    "title": status.reason(),
                    "status": status.code(),
                    "detail": detail,
                });
                PurgeReply::new(*status, "application/problem+json", format!("{problem}\n"))
            }
            Shape::Fastly => PurgeReply::json(*status, &json!({ "msg": status.reason(), "detail": detail })),
            Shape::Cloudflare => {
                let error = json!({ "code": status.code(), "message": detail });
                let content = json!({ "success": false, "errors": [error], "messages": [], "result": null });
                PurgeReply::json(*status, &content)
            }
        };
        if status.code() == 405 {
            reply.head.fields.push("Allow", "POST");
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::{ApiRoute, CONTENT_BYTES_MAX, ROUTES, read};
    use message::{Fields, Method};

    #[test]
    fn documented_routes_are_found_and_other_paths_are_not() {
        for path in ROUTES.iter().flat_map(|(paths, _, _)| paths.split(", ")) {
            assert!(ApiRoute::of(path.as_bytes()).is_some(), "{path}");
        }
        assert_eq!(ApiRoute::of(b"/purge?x"), Some(ApiRoute::Native));
        let key = ApiRoute::FastlyKey { service: "a.test".into(), key: "a/b".into() };
        assert_eq!(ApiRoute::of(b"/service/a.test/purge/a%2fb"), Some(key));
        assert_eq!(ApiRoute::of(b"/purge/h/p?q"), Some(ApiRoute::FastlyUrl { url: "h/p?q".into() }));
        for path in [
            "/",
            "",
            "/purge/",
            "/purges",
            "/service//purge/",
            "/service/a/purge/k/l",
            "/zones/a",
            "/metrics",
        ] {
            assert_eq!(ApiRoute::of(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn other_methods_and_long_contents_are_refused() {
        let refused = |path: &str, method: Method, content: &[u8]| {
            let route = ApiRoute::of(path.as_bytes()).unwrap();
            let reply = read(&route, &method, &Fields::new(), content).unwrap_err().reply();
            (reply.head.status.code(), String::from_utf8(reply.content.to_vec()).unwrap())
        };
        let (code, text) = refused("/purge", Method::Get, b"");
        assert_eq!(code, 405);
        assert_eq!(
            text,
            "{\"detail\":\"the method: expected POST, found `GET`\",\"status\":405,\"title\":\"Method Not Allowed\"}\n"
        );
        assert_eq!(refused("/service/a/purge", Method::Post, &vec![b' '; CONTENT_BYTES_MAX + 1]).0, 413);
        let (code, text) = refused("/zones/a/purge_cache", Method::Post, b"{");
        assert_eq!(code, 400);
        assert!(text.starts_with(r#"{"errors":[{"code":400,"message":"the content: no JSON: "#), "{text}");
        let (_, text) = refused("/service/a/purge", Method::Post, b"[]");
        assert_eq!(
            text,
            "{\"detail\":\"the content: expected an object, found an array\",\"msg\":\"Bad Request\"}\n"
        );
    }
}
