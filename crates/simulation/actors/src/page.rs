//! A page of the site as it is planned: what the origin says about it besides its content.
//!
//! Invariant: a plan is constant during a run. What changes is in [`crate::Site`].

use crate::content::{ContentId, gzip_with_remainder, slice};
use crate::rules::Rules;
use crate::template::TemplatePart;
use std::fmt;
use std::time::Duration;
use world::Random;

/// The kind of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// The same page for every visitor.
    Shared,
    /// A static file, which cookies do not change.
    Static,
    /// A page of its own for each user. A visitor without a cookie gets the common one.
    Personal,
    /// A page that varies by `Accept-Language`.
    Language,
    /// A redirect to another page.
    Redirect,
    /// A page that does not exist: status 404.
    Missing,
    /// A file of up to a few megabytes.
    Large,
}

/// The validators of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validator {
    /// None: it cannot be validated, and has no ranges.
    None,
    /// A strong entity tag.
    Etag,
    /// Only the second of the last edit.
    LastModified,
    /// An entity tag and the second of the last edit.
    Both,
}

impl Validator {
    /// Whether the page has an entity tag.
    pub const fn has_etag(self) -> bool {
        matches!(self, Self::Etag | Self::Both)
    }

    /// Whether the page has a modification date.
    pub const fn has_date(self) -> bool {
        matches!(self, Self::LastModified | Self::Both)
    }
}

/// How the origin marks the end of a page's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// By `Content-Length`.
    Length,
    /// By the chunked coding.
    Chunked,
    /// By the end of the connection.
    Close,
}

/// The lifetime that a page states, in seconds. `None` is not stated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// `max-age`.
    pub max_age_secs: Option<u32>,
    /// `s-maxage`, which takes precedence for shared caches.
    pub s_maxage_secs: Option<u32>,
    /// `stale-while-revalidate`.
    pub while_revalidate_secs: Option<u32>,
    /// `stale-if-error`.
    pub if_error_secs: Option<u32>,
    /// A directive that forbids a use.
    pub ban: Option<&'static str>,
}

impl Lifetime {
    /// The directives of `Cache-Control`; empty if nothing is stated.
    pub fn directives(&self) -> String {
        let stated = [
            ("max-age", self.max_age_secs),
            ("s-maxage", self.s_maxage_secs),
            ("stale-while-revalidate", self.while_revalidate_secs),
            ("stale-if-error", self.if_error_secs),
        ];
        let stated = stated.iter().filter_map(|(name, secs)| secs.map(|secs| format!("{name}={secs}")));
        stated.chain(self.ban.map(str::to_owned)).collect::<Vec<_>>().join(", ")
    }
}

/// One page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagePlan {
    /// The number of the page.
    pub number: u64,
    /// Its path. No path is the beginning of another one.
    pub path: String,
    /// Its kind.
    pub kind: PageKind,
    /// The lifetime that it states.
    pub lifetime: Lifetime,
    /// Its validators.
    pub validator: Validator,
    /// How its body ends.
    pub framing: Framing,
    /// The field that carries its tags.
    pub tag_field: &'static str,
    /// Its tags at the beginning.
    pub tags: Vec<String>,
    /// Whether its content does not depend on the query, and its responses say so.
    pub ignores_query: bool,
    /// The least length of its body in bytes; versions differ by up to 100 bytes.
    pub bytes: usize,
    /// Whether the origin sends its content with the gzip coding to clients that accept it.
    pub is_coded: bool,
    /// Whether it greets visitors by a cookie without saying so, if the site does that at all.
    pub greets: bool,
    /// The parts that a template has behind its content. Empty: the page is no template.
    pub template: Vec<TemplatePart>,
}

/// Fields that carry tags in responses.
const TAG_FIELDS: [&str; 4] = ["Cache-Tag", "xkey", "Surrogate-Key", "Cache-Tags"];

impl PagePlan {
    /// A page by chance. Its decisions follow from `random` alone. Its size is `scale` times that
    /// of an ordinary page, unless it is large anyway.
    pub fn random(random: &mut Random, number: u64, scale: u64) -> Self {
        let kind = match random.below(100) {
            // A heavy site has more large pages.
            70.. if scale > 1 => PageKind::Large,
            0..32 => PageKind::Shared,
            32..44 => PageKind::Static,
            44..60 => PageKind::Personal,
            60..74 => PageKind::Language,
            74..80 => PageKind::Redirect,
            80..86 => PageKind::Missing,
            _ => PageKind::Large,
        };
        let section = number % 3;
        let path = match kind {
            PageKind::Static => format!("/s{section}/p{number}.css"),
            _ => format!("/s{section}/p{number}/"),
        };
        let bytes = match kind {
            PageKind::Large if random.percent(if scale > 1 { 50 } else { 20 }) => {
                random.between(300_000, 3_000_000)
            }
            PageKind::Large => random.between(60_000, 300_000),
            PageKind::Redirect | PageKind::Missing => random.between(0, 400),
            _ => random.between(0, 30_000) * scale,
        };
        let validator = match random.below(10) {
            0..2 => Validator::None,
            2..6 => Validator::Etag,
            6..8 => Validator::LastModified,
            _ => Validator::Both,
        };
        let framing = match random.below(10) {
            0..6 => Framing::Length,
            6..9 => Framing::Chunked,
            _ => Framing::Close,
        };
        let tags = vec![format!("page-{number}"), format!("section-{section}"), "all".to_owned()];
        let tag_field = random.choice(&TAG_FIELDS).copied().unwrap_or("xkey");
        let lifetime = random_lifetime(random);
        let (bytes, ignores_query) = (bytes as usize, random.percent(12));
        let may_be_coded = matches!(kind, PageKind::Shared | PageKind::Static | PageKind::Language);
        let is_coded = random.percent(30) && may_be_coded;
        let greets = random.percent(40) && kind == PageKind::Shared;
        Self {
            number,
            path,
            kind,
            lifetime,
            validator,
            framing,
            tag_field,
            tags,
            ignores_query,
            bytes,
            is_coded,
            greets,
            template: Vec::new(),
        }
    }

    /// The length of a version's body in bytes.
    pub const fn length_bytes(&self, version: u64) -> usize {
        self.bytes + remainder(version)
    }

    /// The body of a content of the page with the gzip coding. Its length differs between
    /// successive versions, as that of the plain form does. Compression alone often gives two
    /// versions the same length. A HEAD response without validators would then confirm the wrong
    /// version, because RFC 9111 section 4.3.5 lets a cache compare only the length.
    pub(crate) fn coded_form(&self, id: &ContentId) -> Vec<u8> {
        let plain = slice(id, 0, self.length_bytes(id.version));
        gzip_with_remainder(&plain, remainder(id.version), LENGTHS)
    }

    /// The status of the page.
    pub const fn status(&self) -> u16 {
        match self.kind {
            PageKind::Redirect => 302,
            PageKind::Missing => 404,
            _ => 200,
        }
    }

    /// Whether the origin sends parts of the page. A part of a coded form is of no use without the
    /// others.
    pub fn has_ranges(&self) -> bool {
        self.status() == 200 && self.validator != Validator::None && !self.is_coded
    }

    /// The entity tag of a content of the page. It is weak if the content has two forms.
    pub fn etag(&self, id: &ContentId) -> String {
        if self.is_coded { format!("W/{}", id.etag()) } else { id.etag() }
    }

    /// The identity of the page's content for a visitor with this cookie and language, in no realm.
    pub fn identify(&self, target: &str, version: u64, user: &str, language: &str) -> ContentId {
        let user = if self.kind == PageKind::Personal { user } else { crate::content::NONE };
        let language = if self.kind == PageKind::Language { language } else { crate::content::NONE };
        let (user, language, realm) = (user.into(), language.into(), crate::content::NONE.into());
        ContentId { target: target.into(), version, user, language, realm }
    }

    /// The time for which a shared cache may use the page without asking again.
    /// `rules` have the lifetimes of pages of a realm that state none.
    pub fn fresh_for(&self, rules: &Rules, realm: &str) -> Duration {
        let assumed_max = rules.assumed_in(realm);
        let stated = self.lifetime.s_maxage_secs.or(self.lifetime.max_age_secs);
        match (stated, self.kind) {
            (Some(secs), _) => Duration::from_secs(u64::from(secs)),
            (None, PageKind::Static) => rules.heuristic_max.max(assumed_max),
            (None, PageKind::Missing) => rules.missing_max,
            (None, _) => assumed_max,
        }
    }

    /// The time after its lifetime for which a shared cache may use the page for this reason, which
    /// is the detail of `Cache-Status`. `on_error_max` holds unless the page states a time.
    pub fn stale_for(&self, reason: &str, on_error_max: Duration) -> Duration {
        let secs = |secs: u32| Duration::from_secs(u64::from(secs));
        match reason {
            "stale-while-revalidate" => self.lifetime.while_revalidate_secs.map_or(Duration::ZERO, secs),
            "stale-on-error-override" => on_error_max,
            reason if reason.starts_with("stale-") => match self.lifetime {
                Lifetime { if_error_secs: Some(stated), .. } => secs(stated),
                Lifetime { s_maxage_secs: Some(_), .. } => Duration::ZERO,
                _ => on_error_max,
            },
            _ => Duration::ZERO,
        }
    }
}

/// The number of successive versions of a page whose lengths all differ. A prime number.
const LENGTHS: usize = 101;

/// The part of a version's length that tells it apart from other versions.
const fn remainder(version: u64) -> usize {
    (version.wrapping_mul(37) % LENGTHS as u64) as usize
}

/// Directives that forbid a use of a stored response.
const BANS: [&str; 4] = ["must-revalidate", "proxy-revalidate", "no-transform", "no-cache"];

fn random_lifetime(random: &mut Random) -> Lifetime {
    // Short lifetimes end within a run, long ones outlive it.
    let longest = if random.percent(60) { 12 } else { 150 };
    let mut secs = |percent: u64, least: u64, most: u64| {
        let drawn = random.between(least, most) as u32;
        random.percent(percent).then_some(drawn)
    };
    Lifetime {
        max_age_secs: secs(80, 0, longest),
        s_maxage_secs: secs(15, 1, longest * 2),
        while_revalidate_secs: secs(35, 1, longest),
        if_error_secs: secs(20, 1, 600),
        ban: random.choice(&BANS).copied().filter(|_| random.percent(20)),
    }
}

impl fmt::Display for PagePlan {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, kind, validator, framing, tag_field, bytes, .. } = self;
        let (tags, lifetime) = (self.tags.join(" "), self.lifetime.directives());
        write!(to, "page {path}: {kind:?}, {bytes} bytes, end by {framing:?}, validator {validator:?}, ")?;
        write!(to, "Cache-Control \"{lifetime}\", {tag_field}: {tags}")?;
        if self.is_coded { to.write_str(", with gzip") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lifetime, PageKind, PagePlan};
    use crate::content::slice;
    use crate::rules::Rules;
    use flate2::read::GzDecoder;
    use std::collections::BTreeSet;
    use std::io::Read as _;
    use std::time::Duration;
    use world::Random;

    #[test]
    fn successive_versions_differ_in_length() {
        let page = PagePlan::random(&mut Random::new(1), 1, 1);
        for version in 1..200 {
            assert_ne!(page.length_bytes(version), page.length_bytes(version + 1));
        }
    }

    #[test]
    fn coded_forms_of_a_hundred_versions_differ_in_length() {
        let page = PagePlan { bytes: 11_645, ..PagePlan::random(&mut Random::new(1), 1, 1) };
        let lengths = (1..=100).map(|version| {
            let id = page.identify("//other.test/s2/p2/", version, "-", "en");
            let coded = page.coded_form(&id);
            let mut plain = Vec::new();
            GzDecoder::new(&coded[..]).read_to_end(&mut plain).unwrap();
            assert_eq!(plain, slice(&id, 0, page.length_bytes(version)));
            coded.len()
        });
        assert_eq!(lengths.collect::<BTreeSet<_>>().len(), 100);
    }

    #[test]
    fn lifetimes_of_shared_caches_follow_the_directives() {
        let (secs, rules) = (Duration::from_secs, Rules::default());
        let mut page = PagePlan::random(&mut Random::new(1), 1, 1);
        page.kind = PageKind::Shared;
        page.lifetime = Lifetime { max_age_secs: Some(5), s_maxage_secs: Some(9), ..Lifetime::default() };
        assert_eq!(page.fresh_for(&rules, "-"), secs(9));
        assert_eq!(page.stale_for("stale-on-error", secs(100)), Duration::ZERO);
        page.lifetime.if_error_secs = Some(7);
        assert_eq!(page.stale_for("stale-on-error", secs(100)), secs(7));
        assert_eq!(page.stale_for("hit-fresh", secs(100)), Duration::ZERO);
        page.lifetime = Lifetime::default();
        assert_eq!(page.fresh_for(&rules, "-"), Duration::ZERO);
        assert_eq!(page.stale_for("stale-on-error", secs(100)), secs(100));
        assert_eq!(page.stale_for("stale-while-revalidate", secs(100)), Duration::ZERO);
        let assumed = Rules { assumed_max: secs(40), ..Rules::default() };
        assert_eq!(page.fresh_for(&assumed, "-"), secs(40));
        page.kind = PageKind::Static;
        assert_eq!(page.fresh_for(&rules, "-"), secs(300));
    }
}
