//! The pages of the crash test and their contents.
//!
//! Invariant: the content depends only on page, language and version, and all contents differ. The
//! entity tag names page, language and version. So the test recognises a torn body, a body of
//! another page, and a head with the wrong body.

use stats::Random;

/// Number of pages.
pub(super) const PAGES: usize = 96;

/// Index in [`LANGUAGES`] for pages without languages and for requests without a language.
pub(crate) const NO_LANGUAGE: usize = 2;

/// Languages. The last entry means none.
pub(crate) const LANGUAGES: [&str; 3] = ["de", "en", "none"];

pub(super) const HOSTS: [&str; 2] = ["a.test", "b.test"];

pub(super) const SECTIONS: usize = 4;

/// One page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CrashPage(pub(super) usize);

impl CrashPage {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..PAGES).map(Self)
    }

    pub(crate) fn any(random: &mut Random) -> Self {
        Self(random.below(PAGES))
    }

    /// The page with this number, which must be below [`PAGES`].
    pub(crate) fn of_number(number: usize) -> Self {
        Self(number)
    }

    pub(crate) fn number(self) -> usize {
        self.0
    }

    pub(crate) fn find(host: &str, target: &str) -> Option<Self> {
        Self::all().find(|page| page.host() == host && page.target() == target)
    }

    pub(crate) fn host(self) -> &'static str {
        HOSTS[self.0 % HOSTS.len()]
    }

    pub(super) fn section(self) -> usize {
        self.0 / HOSTS.len() % SECTIONS
    }

    /// The final slash ensures that no target is a prefix of another.
    pub(crate) fn target(self) -> String {
        format!("/s{}/p{}/", self.section(), self.0)
    }

    pub(super) fn has_languages(self) -> bool {
        self.0 % 5 == 1
    }

    pub(crate) fn languages(self) -> &'static [usize] {
        if self.has_languages() { &[0, 1] } else { &[NO_LANGUAGE] }
    }

    pub(super) fn tags(self) -> String {
        format!("all section-{} page-{}", self.section(), self.0)
    }

    /// Whether the page is so large that the origin may truncate its responses.
    pub(crate) fn is_large(self) -> bool {
        self.0.is_multiple_of(12)
    }

    /// Size of the content, in bytes. Most pages are small. Each large page exceeds the
    /// `object_bytes_max` of the test, so it is kept only on disk. It is not read back into memory
    /// either.
    fn bytes(self, random: &mut Random) -> usize {
        let (least, most) = match self.0 % 24 {
            0 => (1_100_000, 1_500_000),
            12 => (80_000, 400_000),
            _ => (200, 20_000),
        };
        least + random.below(most - least)
    }
}

/// One version of a page's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageVersion {
    pub(super) page: CrashPage,
    pub(super) language: usize,
    pub(super) version: u64,
}

impl PageVersion {
    /// Parses an entity tag. `None` if it does not name a known page and language.
    pub(super) fn of_etag(etag: &str) -> Option<Self> {
        let mut parts = etag.trim_matches('"').split('-').map(str::parse);
        let page = parts.next()?.ok()?;
        let language = parts.next()?.ok()?;
        let version = parts.next()?.ok()?;
        let is_known = page < PAGES as u64 && language < LANGUAGES.len() as u64;
        let page = CrashPage(page as usize);
        let language = language as usize;
        (is_known && parts.next().is_none()).then_some(Self { page, language, version })
    }

    pub(super) fn etag(&self) -> String {
        format!("\"{}-{}-{}\"", self.page.0, self.language, self.version)
    }

    /// The header lines of a whole response, without framing.
    pub(super) fn fields(&self, max_age_s: u32) -> Vec<String> {
        let mut fields = vec![
            format!("Cache-Control: max-age={max_age_s}"),
            format!("ETag: {}", self.etag()),
            format!("Surrogate-Key: {}", self.page.tags()),
        ];
        if self.page.has_languages() {
            fields.push("Vary: Accept-Language".to_owned());
        }
        fields
    }

    pub(super) fn octets(&self) -> Vec<u8> {
        let Self { page, language, version } = self;
        let seed = version << 16 | (page.0 << 2 | language) as u64;
        let mut random = Random::from_seed(seed);
        let bytes = page.bytes(&mut random);
        let host = page.host();
        let target = page.target();
        let language = LANGUAGES[*language];
        let mut octets =
            format!("{host}{target} in {language}, version {version}, {bytes} octets, {}\n", page.tags())
                .into_bytes();
        while octets.len() < bytes {
            octets.extend_from_slice(&random.next_u64().to_le_bytes());
        }
        octets.truncate(bytes);
        octets
    }
}
