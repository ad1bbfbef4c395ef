//! The policy of a site: plain data that a profile fills and the configuration may extend.
//!
//! Invariant: an unknown cookie or request field is never treated as harmless, only those that a
//! list here names. The decisions that use this data are made in `semantics`.

use crate::shipped::{DEFAULT, LETTER};
use crate::{FieldPattern, IdentityRule, JsonFact, LocationPattern, NumberPattern, Pattern, Profile};
use message::names;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// The treatment of a cookie that no pattern of the policy names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownCookie {
    /// It may change the response: the request passes.
    Pass,
    /// It changes nothing: it is removed from a fetch whose response may be shared.
    Ignore,
}

/// A targeted field, which replaces `Cache-Control` for caches like this one (RFC 9213).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetedField {
    /// `CDN-Cache-Control`, a structured dictionary.
    CdnCacheControl,
    /// `Surrogate-Control` of the Edge Architecture Specification.
    SurrogateControl,
}

impl TargetedField {
    /// The targeted field with this name, in any letter case; `None` if there is none.
    pub fn by_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case(names::CDN_CACHE_CONTROL) {
            return Some(Self::CdnCacheControl);
        }
        name.eq_ignore_ascii_case(names::SURROGATE_CONTROL).then_some(Self::SurrogateControl)
    }
}

/// The request fields that are forwarded on a fetch whose response may be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// Only fields that are part of the cache key, or constant.
    Keyed,
    /// Every end-to-end field that the visitor sent. The origin is trusted to name in `Vary`
    /// whatever its response depends on.
    Everything,
}

/// The client address that the origin receives on a fetch whose response may be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAddress {
    /// This address, which belongs to no client: a response to it cannot depend on any client.
    Constant(IpAddr),
    /// The address of the client whose request leads the fetch. The origin is trusted to send
    /// `private` when a response depends on it.
    Leader,
}

/// An address that belongs to no client: the first of the documentation range TEST-NET-1 (RFC
/// 5737).
pub const NOBODYS_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// When the response to a request with `Authorization` may be stored and shared (RFC 9111 section
/// 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// The request is never answered from the store, and its response is shared only if it says
    /// `public`.
    WithPublic,
    /// According to the RFC: `public`, `s-maxage` and `must-revalidate` each permit it.
    AsStated,
}

/// The effect of a response's ban on staleness while the origin fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleOnError {
    /// The ban holds.
    Obey,
    /// `must-revalidate`, `proxy-revalidate` and the ban implied by `s-maxage` are lifted;
    /// `no-cache` holds.
    Override,
}

/// The `Cache-Control` of pages for browsers, and for caches between them and the edge. No purge
/// reaches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Downstream {
    /// The origin's own.
    AsStated,
    /// `Cache-Control: no-cache`: to be validated before each use. A stricter statement of the
    /// origin stays.
    NoCache,
}

/// A kind of request that changes pages. An empty list is no condition.
///
/// Every client can send a request of this kind. The response proves the write: by a redirect,
/// fields or content that the origin sends only after it has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRule {
    /// The method, after overrides, must be one of these.
    pub methods: Vec<String>,
    /// The path, after one percent-decoding, must match one of these.
    pub paths: Vec<Pattern>,
    /// The path must match none of these.
    pub unless_paths: Vec<Pattern>,
    /// The query, or the form in the content, must have one of these parameters with this value.
    pub parameters: Vec<(String, String)>,
    /// Neither the query nor the form may have one of these parameters. A form that cannot be read
    /// may have one.
    pub unless_parameters: Vec<String>,
    /// The request must have a cookie with one of these names.
    pub cookies: Vec<Pattern>,
    /// The status of the response must be one of these.
    pub statuses: Vec<u16>,
    /// The redirect of the response must match one of these.
    pub locations: Vec<LocationPattern>,
    /// The redirect must match none of these.
    pub unless_locations: Vec<Pattern>,
    /// The response must have each of these fields.
    pub fields: Vec<FieldPattern>,
    /// The response must have none of these fields.
    pub unless_fields: Vec<String>,
    /// The JSON of the response must have all values of one of these lists.
    pub json: Vec<Vec<JsonFact>>,
    /// The JSON of the response must not have all values of any of these lists.
    pub unless_json: Vec<Vec<JsonFact>>,
    /// The beginning of the response's content must match one of these.
    pub contents: Vec<Pattern>,
    /// Paths of JSON values in the response that are URLs of changed pages.
    pub changed_links: Vec<Vec<String>>,
    /// Paths of JSON values in the response that are identities of changed posts; see
    /// [`IdentityRule`].
    pub changed_ids: Vec<Vec<String>>,
    /// Parameters of the request that are identities of changed posts. The response proves the
    /// write, so its sender gains nothing by a false number.
    pub changed_parameters: Vec<String>,
    /// Parameters in the query of `Location` that are identities of changed posts; commas separate
    /// several.
    pub changed_locations: Vec<String>,
    /// Numbers in the response's content that are identities of changed posts. The rule requires
    /// one of them if the list is not empty.
    pub changed_contents: Vec<NumberPattern>,
    /// Texts that are appended to the changed pages to name more pages, such as their feeds.
    pub changed_below: Vec<String>,
    /// The pages that the write changes.
    pub changes: Changes,
}

impl WriteRule {
    /// Whether the rule needs the content of the response.
    pub fn reads_content(&self) -> bool {
        let asks_nothing = self.json.is_empty() && self.unless_json.is_empty() && self.contents.is_empty();
        let names_nothing = self.changed_links.is_empty() && self.changed_ids.is_empty();
        !(asks_nothing && names_nothing && self.changed_contents.is_empty())
    }
}

/// A query parameter that names a route. A request for `/blog/index.php?PARAMETER=/posts` then
/// counts as one for `/blog` + prefix + `/posts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRule {
    /// The parameter's name.
    pub parameter: String,
    /// Last path segments for which the parameter counts. An empty text means a path that ends with
    /// a slash.
    pub scripts: Vec<String>,
    /// The text before the parameter's value. It begins with a slash.
    pub prefix: String,
}

/// The pages that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Every page of the host: menus, lists and sidebars may have changed.
    Everything,
    /// The front page, the feeds, and the pages that the write and its response name. Other pages
    /// may show a part of the change.
    Fronts,
    /// The pages of [`Changes::Fronts`], and all pages that no [`IdentityRule`] assigns to one
    /// post. If the policy has no such rule, it means every page of the host.
    Lists,
    /// The pages of [`Changes::Lists`], and those of the posts that the write and its response
    /// identify. Without an identity, or without an [`IdentityRule`], it means every page of the
    /// host.
    Page,
}

/// The devices that get separate variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceClass {
    /// None: every device gets the same page, unless `Vary` says otherwise.
    None,
    /// Mobile devices, according to their `User-Agent`.
    Mobile,
}

/// A rule for a response that is shared for a short time although it forbids sharing. The origin
/// sends the ban with every response of this kind, and the response is the same for every visitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BriefRule {
    /// The status of the response must be one of these.
    pub statuses: Vec<u16>,
    /// The time for which the response is fresh. After that it is never used.
    pub lifetime: Duration,
    /// The path of the request, after one percent-decoding, must match one of these. Empty means
    /// any path.
    pub paths: Vec<Pattern>,
    /// The response must have each of these fields, which shows that the origin made it.
    pub fields: Vec<FieldPattern>,
}

/// A response that says that the site is closed for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenanceRule {
    /// The status of the response must be one of these.
    pub statuses: Vec<u16>,
    /// The response must have each of these fields.
    pub fields: Vec<FieldPattern>,
}

/// The limit on fetches that a flood of URLs with unknown parameters may cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownParameters {
    /// Largest number of different URLs with unknown parameters that are fetched per path and
    /// minute.
    pub per_minute: usize,
    /// The response to requests above the limit.
    pub beyond: BeyondLimit,
}

/// The response to a request with unknown parameters above the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeyondLimit {
    /// 429 with `Retry-After`.
    Refuse,
    /// The page without its unknown parameters. The site guarantees that they change nothing.
    Page,
}

/// The rules of a site about sharing responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The profile's name, as configured and printed.
    pub name: String,
    /// The lifetime of 200 and 301 responses to GET that state none, and of 404 where
    /// `not_found_ttl` gives none. With `None` they are shared only if they have a validator and
    /// the origin confirms them each time.
    pub default_ttl: Option<Duration>,
    /// The time after a lifetime that the policy gave in which a response may be served while it is
    /// refreshed, unless it forbids that. It is never longer than the lifetime.
    pub grace: Duration,
    /// The `Cache-Control` of pages for browsers and caches behind the edge, which no purge
    /// reaches.
    pub downstream: Downstream,
    /// Cookies that mark a session: the request passes.
    pub session_cookies: Vec<Pattern>,
    /// Cookies that never change a page. They take precedence over `session_cookies`.
    pub noise_cookies: Vec<Pattern>,
    /// Cookies that change pages. They are part of the cache key and forwarded, without any other
    /// cookie. They take precedence over the other lists; their names are compared whole.
    pub keyed_cookies: Vec<String>,
    /// Cookies that are removed from responses to fetches whose response may be shared. In requests
    /// they are treated by the other lists.
    pub stripped_cookies: Vec<Pattern>,
    /// Whether requests with any cookies may be answered with stored static files.
    pub static_files: bool,
    /// Whether browsers get a lifetime for static files if the application states none.
    pub browser_caching: bool,
    /// File name extensions of static files, without the dot.
    pub static_extensions: Vec<String>,
    /// Paths where cookies change no response of a static type, whatever the response says.
    /// Compared after one percent-decoding.
    pub static_paths: Vec<Pattern>,
    /// The longest lifetime derived from the modification date of a static file without a stated
    /// one. `None` disables this.
    pub static_guess_max: Option<Duration>,
    /// The time for which a file at `static_paths` is used without validation although it says
    /// `no-cache`.
    pub static_recheck: Option<Duration>,
    /// The treatment of all other cookies.
    pub unknown_cookie: UnknownCookie,
    /// Request fields that never change a page, in addition to those that every profile knows.
    pub noise_fields: Vec<Pattern>,
    /// Request fields that are forwarded as the visitor sent them although they are not in the
    /// cache key. The origin is trusted to name in `Vary` those that change a page. Trace
    /// identifiers need no `Vary`.
    pub forwarded_fields: Vec<Pattern>,
    /// Whether any response is stored and shared. `false` makes every request pass.
    pub caches: bool,
    /// Paths whose responses are never shared. Compared after one percent-decoding.
    pub bypass_paths: Vec<Pattern>,
    /// Query parameters whose presence makes a request pass.
    pub bypass_parameters: Vec<Pattern>,
    /// Paths whose responses are shared only if they say `public` and state a lifetime. Compared
    /// after one percent-decoding.
    pub public_paths: Vec<Pattern>,
    /// Query parameters whose presence has the effect of `public_paths`.
    pub public_parameters: Vec<Pattern>,
    /// Query parameters that only measure where a visitor came from. They are neither in the cache
    /// key nor forwarded on a fetch whose response may be shared.
    pub tracking_parameters: Vec<Pattern>,
    /// Query parameters that the origin reads, so that their values name different pages.
    pub known_parameters: Vec<Pattern>,
    /// The limit for other parameters; `None` means no limit.
    pub unknown_parameters: Option<UnknownParameters>,
    /// Responses that are shared for a short time although they forbid it.
    pub briefs: Vec<BriefRule>,
    /// Responses that say that the site is closed. They are served instead of stale pages.
    pub maintenance: Vec<MaintenanceRule>,
    /// Parameters that name a route in place of the path. `writes` are compared with the route.
    pub routes: Vec<RouteRule>,
    /// Rules for the identity of the one post that a page shows.
    pub identities: Vec<IdentityRule>,
    /// The requests from an application's own pages that change its content, and the pages that
    /// each changes.
    pub writes: Vec<WriteRule>,
    /// The front page and the feeds, as targets relative to the application's base path.
    pub fronts: Vec<String>,
    /// The devices that get separate variants.
    pub device_class: DeviceClass,
    /// Targeted fields in order of precedence: the first one present and valid counts.
    pub targeted_fields: Vec<TargetedField>,
    /// The smallest age that a request's `no-cache`, `max-age` or `min-fresh` can demand.
    ///
    /// Request directives are advice (RFC 9111 section 5.2.1). With this floor, many visitors who
    /// press reload cost the origin one fetch per page in this time.
    pub reload_age_min: Duration,
    /// The request fields that are forwarded on a fetch whose response may be shared.
    pub forwarding: Forwarding,
    /// The client address that the origin receives on a fetch whose response may be shared.
    pub client_address: ClientAddress,
    /// Whether the origin treats percent-encodings of a URL alike that are equivalent by RFC 3986
    /// section 6.2.2. They then have one cache key.
    pub equal_spellings: bool,
    /// Whether every change of a page changes its entity tag, even a second change within a second.
    pub exact_etags: bool,
    /// Whether a response that sets a cookie is stored if it states a lifetime.
    pub stores_cookies: bool,
    /// When the response to a request with credentials may be shared.
    pub credentials: Credentials,
    /// Whether a lifetime is derived from `Last-Modified` if none is stated (RFC 9111 section
    /// 4.2.2).
    pub heuristics: bool,
    /// The lifetime of 404 and 410 responses that state none, and the longest lifetime of those
    /// that state one. `None`: as stated.
    pub not_found_ttl: Option<Duration>,
    /// The longest lifetime of an error that states one, and of a status whose rules of reuse are
    /// unknown. An error that states none is not stored. `None`: as stated.
    pub error_ttl: Option<Duration>,
    /// The effect of a response's ban on staleness while the origin fails.
    pub stale_on_error: StaleOnError,
    /// The time after its lifetime in which a response without `stale-if-error` may be served while
    /// the origin fails. Zero disables this.
    pub stale_on_error_max: Duration,
}

impl Policy {
    /// The profile for an unknown site.
    pub fn default_profile() -> Self {
        shipped(DEFAULT)
    }

    /// The rules of RFC 9111 to the letter, for origins whose statements are reliable. Everything
    /// is forwarded, responses are shared as they and their `Vary` state, and lifetimes are derived
    /// where the RFC allows it.
    pub fn rfc() -> Self {
        shipped(LETTER)
    }

    /// The profile for WordPress.
    pub fn wordpress() -> Self {
        shipped("wordpress")
    }

    /// The base of a profile that extends no other. It has no lists, assumes no lifetime, and
    /// shares only certainly shareable responses.
    pub(crate) const fn bare(name: String) -> Self {
        Self {
            name,
            default_ttl: None,
            grace: Duration::ZERO,
            downstream: Downstream::AsStated,
            session_cookies: Vec::new(),
            noise_cookies: Vec::new(),
            keyed_cookies: Vec::new(),
            stripped_cookies: Vec::new(),
            static_files: false,
            browser_caching: false,
            static_extensions: Vec::new(),
            static_paths: Vec::new(),
            static_guess_max: None,
            static_recheck: None,
            unknown_cookie: UnknownCookie::Pass,
            noise_fields: Vec::new(),
            forwarded_fields: Vec::new(),
            caches: true,
            bypass_paths: Vec::new(),
            bypass_parameters: Vec::new(),
            public_paths: Vec::new(),
            public_parameters: Vec::new(),
            tracking_parameters: Vec::new(),
            known_parameters: Vec::new(),
            unknown_parameters: None,
            briefs: Vec::new(),
            maintenance: Vec::new(),
            identities: Vec::new(),
            writes: Vec::new(),
            fronts: Vec::new(),
            routes: Vec::new(),
            device_class: DeviceClass::None,
            targeted_fields: Vec::new(),
            reload_age_min: Duration::ZERO,
            forwarding: Forwarding::Keyed,
            client_address: ClientAddress::Constant(NOBODYS_ADDRESS),
            equal_spellings: false,
            exact_etags: false,
            stores_cookies: false,
            credentials: Credentials::WithPublic,
            heuristics: false,
            not_found_ttl: None,
            error_ttl: None,
            stale_on_error: StaleOnError::Obey,
            stale_on_error_max: Duration::ZERO,
        }
    }
}

/// The policy of a shipped profile that this crate refers to by name.
fn shipped(name: &str) -> Policy {
    #[expect(clippy::expect_used, reason = "the names stand in code, and a test reads every shipped profile")]
    Profile::shipped(name).expect("the profile is shipped").policy.clone()
}
