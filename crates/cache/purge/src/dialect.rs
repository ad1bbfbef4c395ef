//! The purge methods and the dialects that clients speak with them. The first row of the table
//! whose sign is in a request determines how the request is read.
//!
//! Invariant: a request that is understood purges what its client meant, or more, but never less.
//! Any fault in it is reported with the header's name.

use crate::ban::{BanCondition, BanSubject, BanTest, ConditionBan};
use crate::expression::TagExpression;
use crate::malformed::{Malformed, MalformedFault, MalformedPlace};
use crate::order::{OrderItem, PurgeOrder, PurgeScope, Reach, Style};
use crate::order_fields::{REFILL, TOKEN_HEADERS, flag};
use crate::pattern::{BanPattern, LetterCase, PatternError};
use crate::tag_headers::{Syntax, TAG_HEADERS, TYPO3_SITE, TagHeader};
use crate::tags;
use crate::target;
use bytes::Bytes;
use h1::{EffectiveAuthority, Target};
use invalidation::Mode;
use message::{Fields, Method, RequestHead, names};
use std::sync::Arc;

/// The methods that invalidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Purge,
    Ban,
    UriBan,
    PurgeKeys,
    PurgeTags,
    Refresh,
}

/// Whether a request with this method is a purge request. The edge answers it and never forwards
/// it.
pub fn is_purge_method(method: &Method) -> bool {
    Verb::of(method).is_some()
}

/// The invalidations that a request asks for.
type Meaning = Result<Vec<OrderItem>, Malformed>;

/// One dialect.
pub(crate) struct Dialect {
    /// A short name, for metrics and logs.
    pub(crate) name: &'static str,
    /// The clients that speak it.
    pub(crate) who: &'static str,
    /// The part of a request that identifies the dialect.
    pub(crate) sign: &'static str,
    /// The meaning of a request with that sign.
    pub(crate) meaning: &'static str,
    /// Reads a request; `None` if the request does not have the sign.
    read: fn(&PurgeHead<'_>) -> Option<Meaning>,
}

/// All dialects, in the order in which they are tried.
pub(crate) const DIALECTS: &[Dialect] = &[
    Dialect {
        name: "refresh",
        who: "Drupal",
        sign: "`REFRESH <url>`",
        meaning: "the page becomes stale and is fetched again at once; the response has the count of purged pages",
        read: refresh,
    },
    Dialect {
        name: "site",
        who: "Symfony HttpCache and FOSHttpCache (`Clear-Cache: true`); TYPO3 (`X-Varnish-Purge-All: 1`, \
              `Varnish-Ban-All: 1`)",
        sign: "any purge method but `REFRESH`, with at least one of these headers true; the target does not matter",
        meaning: "the whole site; with `X-TYPO3-Sitename` or `Varnish-Ban-TYPO3-Sitename`, the pages of that installation",
        read: whole_site,
    },
    Dialect {
        name: "acquia-site",
        who: "Drupal (acquia_purge)",
        sign: "`BAN /site` with `X-Acquia-Purge`",
        meaning: "the whole site",
        read: acquia_site,
    },
    Dialect {
        name: "conditions",
        who: "FOSHttpCache",
        sign: "`BAN /` with `X-Host`, `X-Url` or `X-Content-Type`, each a regular expression, and perhaps a header with tags",
        meaning: "a ban with all conditions that are not `.*`; a request with tags alone purges by tags",
        read: conditions,
    },
    Dialect {
        name: "tags",
        who: "Drupal, FOSHttpCache, Symfony, Magento, TYPO3, Proxy Cache Purge, Varnish's xkey, clients of CDNs",
        sign: "`PURGE`, `BAN`, `PURGEKEYS` or `PURGETAGS` with a header that carries tags",
        meaning: "all pages with one of the tags; with a TYPO3 site name, only those of that installation",
        read: tagged,
    },
    Dialect {
        name: "pattern",
        who: "Proxy Cache Purge, WP Rocket, VCaching",
        sign: "`X-Purge-Method: regex` or `X-VC-Purge-Method: regex`",
        meaning: "the pages of the host whose target begins with this target; `.*` and `*` match any text, and a target with one of `( ) [ ] { } ^ $ | \\` is a regular expression",
        read: declared_pattern,
    },
    Dialect {
        name: "wildcard",
        who: "W3 Total Cache, Drupal (zero-configuration purger)",
        sign: "a target with `*`, unless `X-Purge-Method` says otherwise",
        meaning: "the pages of the host that match; `.*` and `*` match any text",
        read: wildcard,
    },
    Dialect {
        name: "url",
        who: "MediaWiki, WordPress plug-ins, Drupal, Wagtail, Plone, FOSHttpCache, Symfony, curl",
        sign: "`PURGE <url>`, `BAN <url>` or `URIBAN <url>`",
        meaning: "the page with exactly this path and query: all variants, GET and HEAD, http and https; a path below `/purge/` also means the page without that prefix, as FOSHttpCache's nginx client writes it",
        read: url,
    },
];

/// Reads a request for whose method [`is_purge_method`] holds.
///
/// # Errors
/// [`Malformed`] if the request cannot be read. [`Malformed::reply`] is the response to send.
pub fn read(request: &RequestHead) -> Result<PurgeOrder, Malformed> {
    let asked = PurgeHead::of(request)?;
    let soft = asked.softness()?;
    for dialect in DIALECTS {
        let Some(invalidations) = (dialect.read)(&asked) else { continue };
        let mut invalidations = invalidations?;
        if soft {
            invalidations.iter_mut().for_each(|one| one.mode = Mode::Soft);
        }
        let refill = flag(&request.fields, REFILL)?;
        return Ok(PurgeOrder { dialect: dialect.name, invalidations, refill, style: asked.verb.style() });
    }
    // Not reached with today's table, because its last row reads every request.
    Err(Malformed { place: MalformedPlace::Target, fault: MalformedFault::Missing("the URL of a page") })
}

/// The header field by which a GET orders a refresh of its page, as FOSHttpCache's nginx client
/// sends it.
const REFRESH: &str = "X-Refresh";

/// Reads the order of a GET with `X-Refresh: 1`: its page is marked stale, so that the response to
/// this GET is fetched again. `None` for other requests.
pub fn refresh_by_get(request: &RequestHead) -> Option<PurgeOrder> {
    if request.method != Method::Get || flag(&request.fields, REFRESH) != Ok(Some(true)) {
        return None;
    }
    let target = Target::split(&request.method, &request.target).ok()?.path_and_query;
    let root: &[u8] = if target.starts_with(b"?") { b"/" } else { b"" };
    let host = EffectiveAuthority::of(request).map(|effective| effective.authority).unwrap_or_default();
    let scope = PurgeScope::Target {
        host: Bytes::copy_from_slice(host),
        target: Bytes::from([root, target].concat()),
    };
    let invalidations = vec![OrderItem { scope, mode: Mode::Soft }];
    Some(PurgeOrder { dialect: "refresh", invalidations, refill: Some(false), style: Style::Refreshing })
}

/// Removes from a request whose order was carried out the fields that only the edge needs:
/// `X-Refresh`, `Petasos-Refill` and, if `shows_token`, every field in which clients send a token.
pub fn strip_order(fields: &mut Fields, shows_token: bool) {
    fields.remove(REFRESH);
    fields.remove(REFILL);
    if shows_token {
        fields.remove(names::AUTHORIZATION);
        for name in TOKEN_HEADERS {
            fields.remove(name);
        }
    }
}

/// The parts of a purge request that dialects look at.
struct PurgeHead<'a> {
    verb: Verb,
    /// The host as the client spelled it; empty if the request has none.
    host: Bytes,
    /// In origin-form, with Zope's virtual hosting undone.
    target: Bytes,
    fields: &'a Fields,
}

impl Verb {
    fn of(method: &Method) -> Option<Self> {
        match method.as_bytes() {
            b"PURGE" => Some(Self::Purge),
            b"BAN" => Some(Self::Ban),
            b"URIBAN" => Some(Self::UriBan),
            b"PURGEKEYS" => Some(Self::PurgeKeys),
            b"PURGETAGS" => Some(Self::PurgeTags),
            b"REFRESH" => Some(Self::Refresh),
            _ => None,
        }
    }

    const fn style(self) -> Style {
        match self {
            Self::Purge | Self::PurgeTags => Style::Purged,
            Self::Ban | Self::UriBan => Style::Banned,
            Self::PurgeKeys => Style::Keys,
            Self::Refresh => Style::Refreshing,
        }
    }
}

impl<'a> PurgeHead<'a> {
    fn of(request: &'a RequestHead) -> Result<Self, Malformed> {
        let expected = "PURGE, BAN, URIBAN, PURGEKEYS, PURGETAGS or REFRESH";
        let verb = Verb::of(&request.method).ok_or_else(|| Malformed {
            place: MalformedPlace::Method,
            fault: MalformedFault::expected(expected, request.method.as_bytes()),
        })?;
        let split = Target::split(&request.method, &request.target).map_err(|error| Malformed {
            place: MalformedPlace::Target,
            fault: MalformedFault::Url(error.to_string()),
        })?;
        let spelled = split.path_and_query;
        let (host, target) = target::without_virtual_host(spelled).unwrap_or_else(|| {
            let authority = EffectiveAuthority::of(request).map(|effective| effective.authority);
            let root: &[u8] = if spelled.starts_with(b"?") { b"/" } else { b"" };
            (Bytes::copy_from_slice(authority.unwrap_or_default()), Bytes::from([root, spelled].concat()))
        });
        Ok(Self { verb, host, target, fields: &request.fields })
    }

    fn is(&self, verbs: &[Verb]) -> bool {
        verbs.contains(&self.verb)
    }

    fn site(&self) -> Reach {
        Reach::Site(self.host.clone())
    }

    /// Whether the client asks for a soft purge: `Fastly-Soft-Purge: 1`, or `X-Purge: invalidate`
    /// or `revalidate` as in caches on OpenResty. `X-Purge: delete` changes nothing.
    fn softness(&self) -> Result<bool, Malformed> {
        const FASTLY: &str = "Fastly-Soft-Purge";
        const OPENRESTY: &str = "X-Purge";
        let is_soft = flag(self.fields, FASTLY)?.unwrap_or(false);
        match self.fields.first(OPENRESTY).map(|value| value.to_ascii_lowercase()).as_deref() {
            None | Some(b"delete") => Ok(is_soft),
            Some(b"invalidate" | b"revalidate") => Ok(true),
            Some(other) => Err(Malformed::header(
                OPENRESTY,
                MalformedFault::expected("invalidate, delete or revalidate", other),
            )),
        }
    }

    /// The TYPO3 installation that the request names, as a tag.
    fn installation(&self) -> Result<Option<Bytes>, Malformed> {
        for name in ["X-TYPO3-Sitename", "Varnish-Ban-TYPO3-Sitename"] {
            let Some(value) = self.fields.first(name) else { continue };
            let mut listed = tags::listed(value, Syntax::Words, TYPO3_SITE)
                .map_err(|fault| Malformed::header(name, fault))?;
            if listed.len() != 1 || std::str::from_utf8(value).is_err() {
                return Err(Malformed::header(name, MalformedFault::expected("one name", value)));
            }
            return Ok(listed.pop());
        }
        Ok(None)
    }

    /// The reading of the target that the client declares.
    fn target_syntax(&self) -> Result<TargetSyntax, Malformed> {
        for name in ["X-Purge-Method", "X-VC-Purge-Method"] {
            let Some(value) = self.fields.first(name) else { continue };
            return match value.to_ascii_lowercase().as_slice() {
                b"regex" => Ok(TargetSyntax::Pattern),
                b"default" | b"exact" => Ok(TargetSyntax::Exact),
                b"tags" => Err(Malformed::header(
                    name,
                    MalformedFault::Missing("X-Cache-Tags-Pattern beside `tags`"),
                )),
                other => Err(Malformed::header(
                    name,
                    MalformedFault::expected("default, exact, regex or tags", other),
                )),
            };
        }
        Ok(TargetSyntax::Wildcard)
    }
}

/// How a target is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TargetSyntax {
    /// The exact page.
    Exact,
    /// A pattern anchored at its beginning.
    Pattern,
    /// The page, or with `*` in the target a pattern for the whole target.
    Wildcard,
}

const fn hard(scope: PurgeScope) -> OrderItem {
    OrderItem { scope, mode: Mode::Hard }
}

fn refresh(asked: &PurgeHead<'_>) -> Option<Meaning> {
    asked.is(&[Verb::Refresh]).then(|| {
        let scope = PurgeScope::Target { host: asked.host.clone(), target: asked.target.clone() };
        Ok(vec![OrderItem { scope, mode: Mode::Soft }])
    })
}

fn whole_site(asked: &PurgeHead<'_>) -> Option<Meaning> {
    let flags: Result<Vec<_>, _> = ["Clear-Cache", "X-Varnish-Purge-All", "Varnish-Ban-All"]
        .into_iter()
        .map(|name| flag(asked.fields, name))
        .collect();
    if flags.as_ref().is_ok_and(|flags| !flags.contains(&Some(true))) {
        return None;
    }
    let scope = flags.and_then(|_| asked.installation()).map(|installation| match installation {
        None => PurgeScope::Everything { reach: asked.site() },
        Some(tag) => PurgeScope::Tags { reach: asked.site(), any_of: Vec::new(), all_of: vec![tag] },
    });
    Some(scope.map(|scope| vec![hard(scope)]))
}

fn acquia_site(asked: &PurgeHead<'_>) -> Option<Meaning> {
    let meant = asked.verb == Verb::Ban && *asked.target == *b"/site" && asked.fields.has("X-Acquia-Purge");
    meant.then(|| Ok(vec![hard(PurgeScope::Everything { reach: asked.site() })]))
}

fn conditions(asked: &PurgeHead<'_>) -> Option<Meaning> {
    const HOST: &str = "X-Host";
    const URL: &str = "X-Url";
    const TYPE: &str = "X-Content-Type";
    if asked.verb != Verb::Ban || ![HOST, URL, TYPE].into_iter().any(|name| asked.fields.has(name)) {
        return None;
    }
    let read = || {
        let mut conditions = Vec::new();
        for (name, subject, case) in [
            (HOST, BanSubject::Host, LetterCase::Ignored),
            (URL, BanSubject::Target, LetterCase::Counts),
            (TYPE, BanSubject::Field(Bytes::from_static(b"content-type")), LetterCase::Counts),
        ] {
            let Some(value) = asked.fields.first(name).filter(|value| ***value != *b".*") else { continue };
            let pattern = BanPattern::compile_with(value, case)
                .map_err(|error| Malformed::header(name, MalformedFault::Pattern(error)))?;
            conditions.push(BanCondition { subject, test: BanTest::Matches(pattern) });
        }
        // With a condition on the host, the ban applies to all sites. Without one it applies to the
        // site that the request was sent to.
        let names_hosts = conditions.first().is_some_and(|first| first.subject == BanSubject::Host);
        let reach = if names_hosts { Reach::Everywhere } else { asked.site() };
        for header in asked_headers(asked) {
            if conditions.is_empty() {
                break;
            }
            if let Some(pattern) = tags_condition(header, asked.fields)? {
                conditions.push(BanCondition { subject: BanSubject::Tags, test: BanTest::Matches(pattern) });
            }
        }
        if !conditions.is_empty() {
            return Ok(vec![hard(PurgeScope::Ban { reach, ban: Arc::new(ConditionBan::new(conditions)) })]);
        }
        tagged(asked).unwrap_or_else(|| Ok(vec![hard(PurgeScope::Everything { reach })]))
    };
    Some(read())
}

/// The tags of a header as an expression to search for in a response's tags; `None` if any tags
/// match.
fn tags_condition(header: &'static TagHeader, fields: &Fields) -> Result<Option<BanPattern>, Malformed> {
    let fault = |fault| Malformed::header(header.name, fault);
    match expression(header, fields)? {
        TagExpression::Everything => Ok(None),
        TagExpression::Pattern(pattern) => Ok(Some(pattern)),
        TagExpression::AnyOf(tags) => {
            let text = |tag| std::str::from_utf8(tag).map(regex::escape);
            let escaped: Result<Vec<_>, _> = tags.iter().map(|tag| text(tag)).collect();
            let escaped = escaped.map_err(|_| fault(MalformedFault::Pattern(PatternError::NotText)))?;
            let any = format!("^(?:{})$", escaped.join("|"));
            BanPattern::compile(any.as_bytes())
                .map(Some)
                .map_err(|error| fault(MalformedFault::Pattern(error)))
        }
    }
}

/// The fields of a request that carry tags.
fn asked_headers(asked: &PurgeHead<'_>) -> impl Iterator<Item = &'static TagHeader> {
    TAG_HEADERS.iter().filter(|header| header.is_asked() && asked.fields.has(header.name))
}

/// The tags that a field states, with all its lines joined.
fn expression(header: &'static TagHeader, fields: &Fields) -> Result<TagExpression, Malformed> {
    let lines: Vec<_> = fields.all(header.name).map(|line| &**line).collect();
    let joined = lines.join(&b","[..]);
    let expression = match header.syntax {
        Syntax::Words => tags::listed(&joined, Syntax::Words, header.prefix).map(TagExpression::AnyOf),
        Syntax::Expression => TagExpression::parse(&joined),
    };
    expression.map_err(|fault| Malformed::header(header.name, fault))
}

fn tagged(asked: &PurgeHead<'_>) -> Option<Meaning> {
    let verbs = [Verb::Purge, Verb::Ban, Verb::PurgeKeys, Verb::PurgeTags];
    let headers: Vec<_> = if asked.is(&verbs) { asked_headers(asked).collect() } else { Vec::new() };
    if headers.is_empty() {
        let missing = match asked.verb {
            Verb::PurgeKeys => "xkey-purge or xkey-softpurge",
            Verb::PurgeTags => "X-Cache-Tags",
            _ => return None,
        };
        let fault = MalformedFault::Missing("the tags to purge");
        return Some(Err(Malformed { place: MalformedPlace::Header(missing), fault }));
    }
    let read = || {
        let installation: Vec<_> = asked.installation()?.into_iter().collect();
        let invalidations = headers.into_iter().map(|header| {
            let mode = if header.soft { Mode::Soft } else { Mode::Hard };
            let scope = match expression(header, asked.fields)? {
                TagExpression::Everything if installation.is_empty() => {
                    PurgeScope::Everything { reach: asked.site() }
                }
                TagExpression::Everything => tags_want(asked, Vec::new(), &installation),
                TagExpression::AnyOf(tags) => tags_want(asked, tags, &installation),
                TagExpression::Pattern(pattern) => {
                    let is = |tag: &Bytes| BanCondition {
                        subject: BanSubject::Tags,
                        test: BanTest::Equals(tag.clone()),
                    };
                    let meets = BanCondition { subject: BanSubject::Tags, test: BanTest::Matches(pattern) };
                    let conditions = std::iter::once(meets).chain(installation.iter().map(is)).collect();
                    PurgeScope::Ban { reach: asked.site(), ban: Arc::new(ConditionBan::new(conditions)) }
                }
            };
            Ok(OrderItem { scope, mode })
        });
        invalidations.collect()
    };
    Some(read())
}

fn tags_want(asked: &PurgeHead<'_>, any_of: Vec<Bytes>, installation: &[Bytes]) -> PurgeScope {
    PurgeScope::Tags { reach: asked.site(), any_of, all_of: installation.to_vec() }
}

fn declared_pattern(asked: &PurgeHead<'_>) -> Option<Meaning> {
    match asked.target_syntax() {
        Ok(TargetSyntax::Pattern) => {
            Some(target::pattern(&asked.host, &asked.target).map(|scope| vec![hard(scope)]))
        }
        Ok(TargetSyntax::Exact | TargetSyntax::Wildcard) => None,
        Err(fault) => Some(Err(fault)),
    }
}

fn wildcard(asked: &PurgeHead<'_>) -> Option<Meaning> {
    if asked.target_syntax() == Ok(TargetSyntax::Exact) {
        return None;
    }
    let scope = target::wildcard(&asked.host, &asked.target)?;
    Some(scope.map(|scope| vec![hard(scope)]))
}

fn url(asked: &PurgeHead<'_>) -> Option<Meaning> {
    // Sites behind nginx customarily have their purge location at `/purge/`. Whether this target
    // uses one cannot be known, so both pages are purged.
    let below = asked.target.strip_prefix(b"/purge").filter(|below| below.starts_with(b"/"));
    let targets = std::iter::once(asked.target.clone()).chain(below.map(Bytes::copy_from_slice));
    Some(Ok(targets.map(|target| hard(PurgeScope::Target { host: asked.host.clone(), target })).collect()))
}
