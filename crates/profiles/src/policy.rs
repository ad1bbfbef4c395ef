//! The policy of a site: plain data that a profile fills and the configuration may widen.
//!
//! Invariant: an unknown cookie or request field is never taken for harmless; only what a list here names is.
//! The decisions that read this data are `semantics`'.

use crate::shipped::{DEFAULT, LETTER};
use crate::{FieldPattern, IdentityRule, JsonFact, LocationPattern, NumberPattern, Pattern, Profile};
use message::names;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// What a cookie means that no pattern of the policy names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownCookie {
    /// It may change the answer: the request passes.
    Pass,
    /// It is noise: removed from a fetch whose answer may be shared.
    Ignore,
}

/// A field that speaks to caches of our kind and replaces `Cache-Control` for them (RFC 9213).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetedField {
    /// `CDN-Cache-Control`, a structured dictionary.
    CdnCacheControl,
    /// `Surrogate-Control` of the Edge Architecture Specification.
    SurrogateControl,
}

impl TargetedField {
    /// The targeted field with this name, in any case; `None` if there is none.
    pub fn by_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case(names::CDN_CACHE_CONTROL) {
            return Some(Self::CdnCacheControl);
        }
        name.eq_ignore_ascii_case(names::SURROGATE_CONTROL).then_some(Self::SurrogateControl)
    }
}

/// What of a request goes along on a fetch whose answer may be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// Only what is in the key, or constant.
    Keyed,
    /// Every end-to-end field that the visitor sent. The answer is trusted to name in `Vary` whatever it depends on.
    Everything,
}

/// The client address that the origin is told on a fetch whose answer may be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAddress {
    /// This one, which is nobody's: an answer to it says nothing about any client.
    Constant(IpAddr),
    /// That of the client whose request leads the fetch. The origin is trusted to say `private` where an answer
    /// depends on it.
    Leader,
}

/// The address that is nobody's: the first of the documentation range TEST-NET-1 (RFC 5737).
pub const NOBODYS_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// When the answer to a request with `Authorization` may be stored and shared (RFC 9111 section 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Never from the store, and only an answer that says `public` is taken for one that could be shared.
    WithPublic,
    /// As the RFC says: `public`, `s-maxage` and `must-revalidate` each permit it.
    AsStated,
}

/// What a response's ban on staleness means while the origin fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleOnError {
    /// It holds.
    Obey,
    /// `must-revalidate`, `proxy-revalidate` and the ban that goes with `s-maxage` are lifted; `no-cache` holds.
    Override,
}

/// What visitors' browsers, and caches behind the edge, are told of a page. No purge reaches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Downstream {
    /// What the application says.
    AsStated,
    /// `Cache-Control: no-cache`, to ask before each use; what the application says more strictly stays.
    NoCache,
}

/// A kind of request that changes pages. An empty list asks for nothing.
///
/// Everybody can send a request of this kind. What proves the write is in the answer: the redirect, the fields and the
/// content that the application sends only after it has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRule {
    /// The method, after overrides, is one of these.
    pub methods: Vec<String>,
    /// Its path matches one of these, after one percent-decoding.
    pub paths: Vec<Pattern>,
    /// And none of these.
    pub unless_paths: Vec<Pattern>,
    /// Its query, or the form in its content, has one of these parameters with this value.
    pub parameters: Vec<(String, String)>,
    /// Neither its query nor its form has one of these parameters. A form that cannot be read may have one.
    pub unless_parameters: Vec<String>,
    /// It carries a cookie with one of these names.
    pub cookies: Vec<Pattern>,
    /// The answer's status is one of these.
    pub statuses: Vec<u16>,
    /// Where the answer redirects to matches one of these.
    pub locations: Vec<LocationPattern>,
    /// And none of these.
    pub unless_locations: Vec<Pattern>,
    /// The answer has each of these fields.
    pub fields: Vec<FieldPattern>,
    /// The answer has none of these fields.
    pub unless_fields: Vec<String>,
    /// The answer's JSON has all values of one of these lists.
    pub json: Vec<Vec<JsonFact>>,
    /// The answer's JSON has all values of none of these lists.
    pub unless_json: Vec<Vec<JsonFact>>,
    /// The beginning of the answer's content matches one of these.
    pub contents: Vec<Pattern>,
    /// Values of the answer's JSON that are URLs of pages which the write changed.
    pub changed_links: Vec<Vec<String>>,
    /// Values of the answer's JSON that are identities of posts which the write changed; see [`IdentityRule`].
    pub changed_ids: Vec<Vec<String>>,
    /// Parameters of the request with the same meaning. The answer proves the write, so its sender gains nothing by
    /// another number.
    pub changed_parameters: Vec<String>,
    /// Parameters in the query of `Location` with the same meaning; commas separate several identities.
    pub changed_locations: Vec<String>,
    /// Numbers in the answer's content with the same meaning. Without one of them the rule is not met.
    pub changed_contents: Vec<NumberPattern>,
    /// What is appended to the changed pages to name further ones, such as their feeds.
    pub changed_below: Vec<String>,
    /// What it changes.
    pub changes: Changes,
}

impl WriteRule {
    /// Whether the rule needs the content of the answer.
    pub fn reads_content(&self) -> bool {
        let asks_nothing = self.json.is_empty() && self.unless_json.is_empty() && self.contents.is_empty();
        let names_nothing = self.changed_links.is_empty() && self.changed_ids.is_empty();
        !(asks_nothing && names_nothing && self.changed_contents.is_empty())
    }
}

/// A query parameter that names a route: a request for `/blog/index.php?PARAMETER=/posts` is one for
/// `/blog` + prefix + `/posts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRule {
    /// The parameter's name.
    pub parameter: String,
    /// The last segments of the paths where the parameter counts; empty for a path that ends with a slash.
    pub scripts: Vec<String>,
    /// Stands before the parameter's value, and begins with a slash.
    pub prefix: String,
}

/// What a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Any page of the host: menus, lists, what stands beside.
    Everything,
    /// The front page, the feeds, and the pages that the write and its answer name. Others may show a part of it.
    Fronts,
    /// That, and all pages that no [`IdentityRule`] calls those of one post.
    Lists,
    /// That, and the pages of the posts whose identities the write and its answer name. Without an identity it is
    /// everything.
    Page,
}

/// Which devices get pages of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceClass {
    /// None: every device gets the same page, unless `Vary` says otherwise.
    None,
    /// Mobile devices, as their `User-Agent` says.
    Mobile,
}

/// An answer that is shared for a moment although it forbids that, because the application says so of every answer of
/// this kind and means no visitor by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BriefRule {
    /// The answer's status is one of these.
    pub statuses: Vec<u16>,
    /// For how long it is fresh; after that it is never used.
    pub lifetime: Duration,
    /// The request's path matches one of these, after one percent-decoding; empty: any path.
    pub paths: Vec<Pattern>,
    /// The answer has each of these fields, which shows that the application made it.
    pub fields: Vec<FieldPattern>,
}

/// An answer by which the application says that its site is closed for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenanceRule {
    /// The answer's status is one of these.
    pub statuses: Vec<u16>,
    /// The answer has each of these fields.
    pub fields: Vec<FieldPattern>,
}

/// How much a flood of addresses with unknown parameters may cost the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownParameters {
    /// Different addresses with unknown parameters that are fetched of one path in a minute.
    pub per_minute: usize,
    /// What requests beyond that get.
    pub beyond: BeyondLimit,
}

/// What a request with unknown parameters gets beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeyondLimit {
    /// 429 with `Retry-After`.
    Refuse,
    /// The page without its unknown parameters: the site vouches that they change nothing.
    Page,
}

/// What a site's operator decides about sharing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The profile's name, as configured and as printed.
    pub name: String,
    /// Freshness of 200 and 301 answers to GET that state none, and of 404 where `not_found_ttl` gives none. `None`:
    /// they are shared only if the origin confirms them each time, which takes a validator.
    pub default_ttl: Option<Duration>,
    /// How long after a lifetime that the policy gave an answer may be shown while it is renewed, if it does not forbid
    /// that; never longer than the lifetime.
    pub grace: Duration,
    /// What is told of pages to those behind the edge, who are not purged.
    pub downstream: Downstream,
    /// Cookies that mark a session: the request passes.
    pub session_cookies: Vec<Pattern>,
    /// Cookies that never change a page; they win over `session_cookies`.
    pub noise_cookies: Vec<Pattern>,
    /// Cookies by which pages differ: in the key and forwarded, with no other cookie beside them. They win over the
    /// other lists; their names are compared whole.
    pub keyed_cookies: Vec<String>,
    /// Cookies that are taken out of responses to fetches whose answer may be shared. In requests they mean what the
    /// other lists say.
    pub stripped_cookies: Vec<Pattern>,
    /// Whether static files answer requests with any cookies.
    pub static_files: bool,
    /// Extensions of static files, without the dot.
    pub static_extensions: Vec<String>,
    /// Paths where cookies change no response of a static type, whatever it says, compared after one percent-decoding.
    pub static_paths: Vec<Pattern>,
    /// The longest lifetime that is guessed for a static file that states none, from the date of its last change;
    /// `None`: none is guessed.
    pub static_guess_max: Option<Duration>,
    /// How long a file at `static_paths` is used before the origin is asked again, although it says `no-cache`.
    pub static_recheck: Option<Duration>,
    /// What every other cookie means.
    pub unknown_cookie: UnknownCookie,
    /// Request fields that never change a page, beside those every profile knows.
    pub noise_fields: Vec<Pattern>,
    /// Request fields that are forwarded as the visitor sent them although they are in no key. The application is
    /// trusted to name in `Vary` what changes a page; trace identifiers need no Vary.
    pub forwarded_fields: Vec<Pattern>,
    /// Paths that are never shared, compared after one percent-decoding.
    pub bypass_paths: Vec<Pattern>,
    /// Query parameters whose presence makes a request pass.
    pub bypass_parameters: Vec<Pattern>,
    /// Paths that are shared only where the answer says `public` and for how long, compared as `bypass_paths`.
    pub public_paths: Vec<Pattern>,
    /// Query parameters whose presence means the same.
    pub public_parameters: Vec<Pattern>,
    /// Query parameters that only measure where a visitor came from: in no key, and not forwarded on a fetch whose
    /// answer may be shared.
    pub tracking_parameters: Vec<Pattern>,
    /// Query parameters that the application reads: what they name are pages of their own.
    pub known_parameters: Vec<Pattern>,
    /// What a flood of other parameters may cost the origin; `None`: as much as it likes.
    pub unknown_parameters: Option<UnknownParameters>,
    /// Answers that are shared for a moment whatever they say of that.
    pub briefs: Vec<BriefRule>,
    /// Answers by which the application says that the site is closed: they are shown in place of stale pages.
    pub maintenance: Vec<MaintenanceRule>,
    /// The parameters that name a route in place of the path; `writes` are compared with the route.
    pub routes: Vec<RouteRule>,
    /// Where a page says which one post it shows.
    pub identities: Vec<IdentityRule>,
    /// The requests by which an application's own pages change it, and what each changes.
    pub writes: Vec<WriteRule>,
    /// The front page and the feeds: targets below where the application is.
    pub fronts: Vec<String>,
    /// Which devices get pages of their own.
    pub device_class: DeviceClass,
    /// Targeted fields in order: the first valid one that is present counts.
    pub targeted_fields: Vec<TargetedField>,
    /// A request's `no-cache`, `max-age` or `min-fresh` cannot demand a response younger than this. Request
    /// directives are advice (RFC 9111 section 5.2.1); with this floor a crowd that presses reload costs the
    /// origin one fetch a page in this time.
    pub reload_age_min: Duration,
    /// What goes along on a fetch whose answer may be shared.
    pub forwarding: Forwarding,
    /// The client address that the origin is told on a fetch whose answer may be shared.
    pub client_address: ClientAddress,
    /// Whether the application treats all percent-encodings of a URL alike that RFC 3986 section 6.2.2 calls
    /// equivalent. Then they have one key.
    pub equal_spellings: bool,
    /// Whether every change of a page changes its entity tag, also the second change within a second.
    pub exact_etags: bool,
    /// Whether an answer that sets a cookie is stored when it states a lifetime.
    pub stores_cookies: bool,
    /// When the answer to a request with credentials may be shared.
    pub credentials: Credentials,
    /// Whether a lifetime is guessed from `Last-Modified` where none is stated (RFC 9111 section 4.2.2).
    pub heuristics: bool,
    /// Freshness of 404 and 410 answers: given to those that state none, and the most for those that state one.
    /// `None`: as stated.
    pub not_found_ttl: Option<Duration>,
    /// The longest freshness of an error that states one, and of a status whose meaning for reuse is not known; one
    /// that states none is not stored. `None`: as stated.
    pub error_ttl: Option<Duration>,
    /// What a response's ban on staleness means while the origin fails.
    pub stale_on_error: StaleOnError,
    /// How long after its lifetime a response that says nothing of `stale-if-error` may answer while the origin
    /// fails; zero: not at all.
    pub stale_on_error_max: Duration,
}

impl Policy {
    /// The profile for a site of which nothing is known.
    pub fn default_profile() -> Self {
        shipped(DEFAULT)
    }

    /// The letter of RFC 9111: everything is forwarded, answers are shared as they and their `Vary` state, and
    /// lifetimes are guessed where the RFC allows it. For applications that are known to state the truth.
    pub fn rfc() -> Self {
        shipped(LETTER)
    }

    /// The profile for WordPress.
    pub fn wordpress() -> Self {
        shipped("wordpress")
    }

    /// What a profile that extends no other begins with: it knows no name, assumes no lifetime and shares only what
    /// it must not doubt.
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
            static_extensions: Vec::new(),
            static_paths: Vec::new(),
            static_guess_max: None,
            static_recheck: None,
            unknown_cookie: UnknownCookie::Pass,
            noise_fields: Vec::new(),
            forwarded_fields: Vec::new(),
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

/// The policy of a profile that the program itself names.
fn shipped(name: &str) -> Policy {
    #[expect(clippy::expect_used, reason = "the names stand in code, and a test reads every shipped profile")]
    Profile::shipped(name).expect("the profile is shipped").policy.clone()
}
