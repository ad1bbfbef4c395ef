//! Templates: pages that name other pages as their fragments, in the markup of ESI.
//!
//! Invariant: the text of a template follows from its page and its content. Each part stands
//! between braces, which no content of a page has, so that an assembled page can be read back.

use crate::content::{ContentId, NONE, slice};
use crate::page::{PageKind, PagePlan};
use crate::site::{SitePlan, USER_COOKIE};
use message::Fields;
use std::fmt::Write as _;
use world::Random;

/// The field by which a template, and what is assembled from it, tells the ledger what it is. No
/// cache knows it.
pub(crate) const TEMPLATE_FIELD: &str = "X-Sim-Template";

/// The fields by which the edge says that it assembles pages, and the origin that one is a
/// template.
const CAPABILITY_FIELD: &str = "Surrogate-Capability";
pub(crate) const CONTROL_FIELD: &str = "Surrogate-Control";
const ESI: &str = "ESI/1.0";

/// The cookies that templates show or compare, if the edge gives them their values.
pub const TEMPLATE_COOKIES: [&str; 2] = [NOISE_COOKIE, USER_COOKIE];

/// The cookie that changes nothing in pages. Templates choose by it.
const NOISE_COOKIE: &str = "_ga";

/// The text of a template for a missing cookie and a missing parameter.
pub(crate) const NOBODY: &str = "nobody";

/// The text of an attempt with a missing fragment.
pub(crate) const EXCEPTION: &str = "!";

/// Markup that the edge must deliver as it is.
pub(crate) const REFUSED: &str = "<esi:inline name=\"/x\" fetchable=\"yes\">raw</esi:inline>";

/// The fragments of a page may be this many levels deep.
pub(crate) const DEPTH_MAX: usize = 5;

/// The largest numbers of parts of a template, and how often a page is one, in percent.
const PARTS_MAX: u64 = 4;
const TEMPLATES_PERCENT: u64 = 55;

/// Sizes of the pages that may be templates or fragments, in bytes. A content that is so long names
/// its page.
const BYTES_MIN: usize = 200;
const TEMPLATE_BYTES_MAX: usize = 100_000;
const FRAGMENT_BYTES_MAX: usize = 40_000;

/// Bounds of a page with all of its fragments.
const PAGE_BYTES_MAX: usize = 200 << 10;
const PAGE_REQUESTS_MAX: usize = 24;

/// The memory of a response beside its content, and of a parsed template, in bytes.
const HEAD_BYTES: usize = 1500;
const PROGRAM_BYTES: usize = 3000;

/// The longest wait that an include states, in milliseconds.
const MAXWAIT_MS_MAX: u64 = 3000;

/// An include of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Include {
    /// The URL of the fragment: a path of the site, or a URL of another host.
    pub src: String,
    /// The URL of the fragment that replaces it.
    pub alt: Option<String>,
    /// Whether the page may be without it.
    pub continues: bool,
    /// The longest wait for it in milliseconds.
    pub maxwait_ms: Option<u64>,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    /// A fragment.
    Include(Include),
    /// Two fragments, or a text in place of both.
    Attempt(Include, Include),
    /// One of two fragments: the first one for visitors with the cookie that changes nothing.
    Choice(Include, Include),
    /// The user in the cookie, and a parameter of the query, beside removed markup.
    Values,
    /// Markup that the edge does not carry out.
    Refused,
}

/// The largest needs of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    /// The bytes of the page with all fragments.
    bytes: usize,
    /// The bytes that the edge counts towards the page.
    pub(crate) held_bytes: usize,
    /// The requests for its fragments.
    requests: usize,
}

impl Include {
    fn random(random: &mut Random, page: &PagePlan, site: &SitePlan) -> Self {
        let src = random_url(random, page, site);
        let alt = random.percent(35).then(|| random_url(random, page, site));
        let maxwait_ms = random.between(0, MAXWAIT_MS_MAX);
        let (continues, waits) = (random.percent(25), random.percent(12));
        Self { src, alt, continues, maxwait_ms: waits.then_some(maxwait_ms) }
    }

    fn push(&self, text: &mut String) {
        // Writing to a String cannot fail.
        let _ = write!(text, "<esi:include src=\"{}\"", self.src);
        if let Some(alt) = &self.alt {
            let _ = write!(text, " alt=\"{alt}\"");
        }
        if self.continues {
            text.push_str(" onerror=\"continue\"");
        }
        if let Some(maxwait_ms) = self.maxwait_ms {
            let _ = write!(text, " maxwait=\"{maxwait_ms}\"");
        }
        text.push_str("/>");
    }
}

impl TemplatePart {
    fn random(random: &mut Random, page: &PagePlan, site: &SitePlan) -> Self {
        let kind = random.below(100);
        let include = Include::random(random, page, site);
        let other = Include::random(random, page, site);
        match kind {
            0..55 => Self::Include(include),
            55..70 => Self::Attempt(include, other),
            70..85 => Self::Choice(include, other),
            85..95 => Self::Values,
            _ => Self::Refused,
        }
    }

    fn push(&self, text: &mut String) {
        text.push('{');
        match self {
            Self::Include(include) => include.push(text),
            Self::Attempt(one, other) => {
                text.push_str("<esi:try><esi:attempt>(");
                one.push(text);
                text.push_str(")(");
                other.push(text);
                // Writing to a String cannot fail.
                let _ = write!(text, ")</esi:attempt><esi:except>{EXCEPTION}</esi:except></esi:try>");
            }
            Self::Choice(one, other) => {
                let test = format!("$(HTTP_COOKIE{{{NOISE_COOKIE}}}) == '1'");
                let _ = write!(text, "<esi:choose><esi:when test=\"{test}\">+");
                one.push(text);
                text.push_str("</esi:when><esi:otherwise>-");
                other.push(text);
                text.push_str("</esi:otherwise></esi:choose>");
            }
            Self::Values => {
                let values =
                    format!("$(HTTP_COOKIE{{{USER_COOKIE}}}|{NOBODY}) $(QUERY_STRING{{page}}|{NONE})");
                let _ = write!(
                    text,
                    "<esi:remove>gone</esi:remove><esi:comment text=\"gone\"/><!--esi <esi:vars>{values}</esi:vars>-->"
                );
            }
            Self::Refused => text.push_str(REFUSED),
        }
        text.push('}');
    }

    /// The includes that one page may need, with those that replace others.
    fn includes(&self) -> Vec<&Include> {
        match self {
            Self::Include(include) => vec![include],
            Self::Attempt(one, other) | Self::Choice(one, other) => vec![one, other],
            Self::Values | Self::Refused => Vec::new(),
        }
    }
}

/// A URL of a page by chance; seldom one that no fragment can have.
fn random_url(random: &mut Random, page: &PagePlan, site: &SitePlan) -> String {
    let may_be_fragment =
        |other: &&PagePlan| other.status() != 200 || (BYTES_MIN..=FRAGMENT_BYTES_MAX).contains(&other.bytes);
    let all: Vec<_> = site.pages.iter().filter(may_be_fragment).map(|page| &page.path).collect();
    let path = random.choice(&all).map_or("/none/", |path| path.as_str());
    match random.below(100) {
        0..6 => "/none/".to_owned(),
        6..10 => "http://elsewhere.test/".to_owned(),
        10..16 => page.path.clone(),
        _ => path.to_owned(),
    }
}

/// Makes pages of the site templates.
pub(crate) fn make_templates(random: &mut Random, site: &mut SitePlan) {
    let seed = random.number();
    let plain = site.clone();
    for page in &mut site.pages {
        // An edge that assembles pages asks for plain ones, and makes coded forms itself, which
        // look like those of the origin.
        page.is_coded = false;
        let mut own = Random::fork(seed, "template", page.number);
        let may_be_one = !matches!(page.kind, PageKind::Redirect | PageKind::Missing | PageKind::Static)
            && (BYTES_MIN..=TEMPLATE_BYTES_MAX).contains(&page.bytes);
        let count = own.between(1, PARTS_MAX);
        if !own.percent(TEMPLATES_PERCENT) || !may_be_one {
            continue;
        }
        let part = |number| {
            TemplatePart::random(&mut Random::fork(own.clone().number(), "part", number), page, &plain)
        };
        let mut parts: Vec<_> = (0..count).map(part).collect();
        // A template without a fragment would be no private page.
        if parts.iter().all(|part| part.includes().is_empty()) {
            parts.push(TemplatePart::Include(Include::random(&mut own, page, &plain)));
        }
        page.template = parts;
    }
    for number in 0..site.pages.len() {
        while let Some(page) = site.pages.get(number).filter(|page| !page.template.is_empty()) {
            let weight = weight(page, site);
            if weight.bytes <= PAGE_BYTES_MAX && weight.requests <= PAGE_REQUESTS_MAX {
                break;
            }
            if let Some(page) = site.pages.get_mut(number) {
                page.template.remove(0);
            }
        }
    }
    // The rest of a template may have no include.
    for page in &mut site.pages {
        if page.template.iter().all(|part| part.includes().is_empty()) {
            page.template.clear();
        }
    }
}

/// The largest needs of a page with all of its fragments.
pub(crate) fn weight(page: &PagePlan, site: &SitePlan) -> Weight {
    weight_within(page, site, 0)
}

fn weight_within(page: &PagePlan, site: &SitePlan, depth: usize) -> Weight {
    let markup: usize = page.template.iter().map(|part| markup_of(part).len()).sum();
    let own = page.bytes + 100 + markup;
    let mut weight = Weight { bytes: own, held_bytes: 0, requests: 0 };
    if page.template.is_empty() || depth >= DEPTH_MAX {
        return weight;
    }
    weight.held_bytes += own + PROGRAM_BYTES;
    let includes = page.template.iter().flat_map(TemplatePart::includes);
    for url in includes.flat_map(|include| std::iter::once(&include.src).chain(&include.alt)) {
        weight.requests += 1;
        weight.held_bytes += url.len() + HEAD_BYTES;
        let Some(fragment) = site.page(url).filter(|_| url.starts_with('/')) else { continue };
        let its = weight_within(fragment, site, depth + 1);
        weight.bytes += its.bytes;
        weight.held_bytes += its.bytes + its.held_bytes;
        weight.requests += its.requests;
    }
    weight
}

fn markup_of(part: &TemplatePart) -> String {
    let mut text = String::new();
    part.push(&mut text);
    text
}

/// Whether a request comes from an edge that assembles pages.
pub(crate) fn assembles(fields: &Fields) -> bool {
    let stated = fields.first(CAPABILITY_FIELD).and_then(|value| std::str::from_utf8(value).ok());
    stated.is_some_and(|value| value.contains(ESI))
}

/// Declares that a response is a template.
pub(crate) fn declare(fields: &mut Fields) {
    fields.push(CONTROL_FIELD, format!("content=\"{ESI}\""));
    fields.push(TEMPLATE_FIELD, "1");
}

/// The body of a template whose page has this content.
pub(crate) fn body(page: &PagePlan, id: &ContentId) -> Vec<u8> {
    let mut body = slice(id, 0, page.length_bytes(id.version));
    page.template.iter().for_each(|part| body.extend_from_slice(markup_of(part).as_bytes()));
    body
}

/// The entity tag of the template with a content whose plain form has this tag.
pub(crate) fn etag(plain: &str) -> String {
    format!("{}-esi\"", plain.trim_end_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::{PAGE_BYTES_MAX, PAGE_REQUESTS_MAX, TemplatePart, make_templates, weight};
    use crate::site::SitePlan;
    use std::collections::BTreeSet;
    use world::Random;

    #[test]
    fn templates_by_chance_have_all_parts_and_stay_small() {
        let (mut met, mut nested) = (BTreeSet::new(), 0);
        for seed in 0..200 {
            let mut site = SitePlan::random(&mut Random::new(seed), "a.test");
            make_templates(&mut Random::new(seed), &mut site);
            for page in site.pages.iter().filter(|page| !page.template.is_empty()) {
                let weight = weight(page, &site);
                assert!(weight.bytes <= PAGE_BYTES_MAX && weight.requests <= PAGE_REQUESTS_MAX);
                let includes: Vec<_> = page.template.iter().flat_map(TemplatePart::includes).collect();
                assert!(!includes.is_empty());
                let of_template = |path: &str| site.page(path).is_some_and(|page| !page.template.is_empty());
                nested += includes.iter().filter(|include| of_template(&include.src)).count();
                for part in &page.template {
                    met.insert(format!("{part:?}").split('(').next().unwrap_or_default().to_owned());
                }
            }
        }
        assert_eq!(met.len(), 5, "{met:?}");
        assert!(nested > 20, "{nested}");
    }
}
