//! Judges a page that the edge has assembled from a template and its fragments.
//!
//! Invariants: each part is judged by the rules of its own page: its content is whole, belongs to
//! the visitor, and is not older than an answered purge. A fragment is missing only if it cannot be
//! had or if something explains it, and leaves what the template says. A page that is not whole
//! does not look complete. No cache may store the page.

use crate::answer::accepts;
use crate::coded::decoded;
use crate::content::{ContentId, NONE, verify};
use crate::event::{Asked, Stamp};
use crate::exchange::{Ask, Reply};
use crate::judge::told;
use crate::ledger::Ledger;
use crate::page::{PageKind, PagePlan};
use crate::routing::ExpectedAnswer;
use crate::rules::Rule;
use crate::site::split_host;
use crate::template::{CONTROL_FIELD, DEPTH_MAX, EXCEPTION, Include, NOBODY, REFUSED, TemplatePart, weight};
use std::sync::Arc;
use std::time::Duration;

/// The text of the edge for a fragment that is missing without the template's permission.
const GAP: &str = "<!-- a fragment of this page is missing -->";

/// The value of `Cache-Control` in an assembled page.
const PRIVATE: &str = "private, no-store";

/// Fields that an assembled page does not have: they speak of the template's own bytes, or of its
/// time in a cache.
const ABSENT: [&str; 8] = [
    "ETag",
    "Last-Modified",
    "Content-Length",
    "Accept-Ranges",
    "Content-Range",
    "Age",
    "No-Vary-Search",
    CONTROL_FIELD,
];

/// Bytes of fragments and templates for which the edge needs no memory that others may have taken:
/// docs/esi.md says 16 KiB.
const HELD_BYTES_MAX: usize = 15_000;

/// A fragment may be missing if the page took so long, because the queue of an origin, or a time
/// limit of fragments, may have ended.
const QUEUED_MIN: Duration = Duration::from_secs(4);

/// The reasons of responses without and with an error of the origin that a fragment may have. The
/// page does not tell them.
const CALM_REASONS: [&str; 2] = ["hit-fresh", "stale-while-revalidate"];
const ERROR_REASONS: [&str; 2] = ["stale-on-error", "stale-on-error-override"];

/// The rest of an assembled page.
struct Rest<'a> {
    octets: &'a [u8],
    is_complete: bool,
}

/// Why the reading of a page ends early.
enum Stop {
    /// The response is incomplete, and does not say otherwise.
    Cut,
    /// The origin lied about the length of a template, so that any text may follow.
    Unknown,
    /// The page is wrong.
    Wrong(String),
}

/// The response to judge.
struct View<'a> {
    asked: &'a Asked,
    ended: Stamp,
    /// Whether something explains that fragments are missing.
    may_lack: bool,
}

/// The answers to which a URL of an include may lead.
struct Prospect {
    ask: Ask,
    is_possible: bool,
    is_sure: bool,
    /// The realms of the page that may answer.
    realms: Vec<String>,
    /// The answers of the configuration that may come instead.
    texts: Vec<String>,
}

impl<'a> Rest<'a> {
    /// Takes a text if it comes next.
    fn take(&mut self, text: &str) -> Result<bool, Stop> {
        if let Some(rest) = self.octets.strip_prefix(text.as_bytes()) {
            self.octets = rest;
            return Ok(true);
        }
        if !self.is_complete && text.as_bytes().starts_with(self.octets) {
            return Err(Stop::Cut);
        }
        Ok(false)
    }

    fn expect(&mut self, text: &str) -> Result<(), Stop> {
        if self.take(text)? {
            return Ok(());
        }
        let found = self.octets.get(..self.octets.len().min(80)).unwrap_or_default();
        let found = if found.is_empty() { "the end".to_owned() } else { found.escape_ascii().to_string() };
        Err(Stop::Wrong(format!("{text} should follow, but {found} does")))
    }

    /// The content of a page that comes next. It ends where markup begins.
    fn content(&self) -> &'a [u8] {
        let end = self.octets.iter().position(is_mark).unwrap_or(self.octets.len());
        self.octets.get(..end).unwrap_or_default()
    }

    fn skip(&mut self, octets: &[u8]) -> Result<(), Stop> {
        self.octets = self.octets.get(octets.len()..).unwrap_or_default();
        let is_cut = self.octets.is_empty() && !self.is_complete;
        if is_cut { Err(Stop::Cut) } else { Ok(()) }
    }
}

impl Ledger {
    /// Whether memory may be too short for the template of a page.
    pub(crate) fn may_lack_memory(&self, target: &str) -> bool {
        let page = self.site.page(target).filter(|page| !page.template.is_empty());
        page.is_some_and(|page| weight(page, &self.site).held_bytes > HELD_BYTES_MAX)
    }

    /// Judges the response with `id` of `page`, which is a template.
    pub(crate) fn judge_assembled(
        &mut self,
        asked: &Asked,
        ended: Stamp,
        reply: &Reply,
        page: &PagePlan,
        id: &ContentId,
    ) {
        // A template that the origin has cut may have no include left, and is then no private page.
        let is_cut = self.begun.get(id).is_some_and(|begun| !begun.whole_bytes.is_empty());
        let fault = wrong_head(reply, page).filter(|_| !is_cut).or_else(|| {
            let is_head = asked.ask.method == "HEAD";
            (is_head && !reply.body.is_empty()).then(|| "HEAD has a body".to_owned())
        });
        let (fault, body) = match plain_body(&asked.ask, reply) {
            Ok(body) => (fault, body),
            Err(wrong) => (Some(wrong), Vec::new()),
        };
        if let Some(fault) = fault {
            let text = format!("{}, assembled: {fault}", told(asked, reply));
            self.violate(Rule::Fields, ended.at, text);
        }
        if asked.ask.method == "HEAD" {
            return;
        }
        self.judge_names(asked, ended, reply, &body);
        let took = ended.at.since(asked.begun.at);
        let may_lack = asked.ask.misbehaves
            || self.rules.fragments_may_fail
            || took >= QUEUED_MIN
            || self.may_lack_memory(&asked.ask.target)
            || self.explains(asked.begun.at, ended.at);
        let view = View { asked, ended, may_lack };
        let mut rest = Rest { octets: &body, is_complete: reply.is_complete() };
        let fault = match self.read_page(&view, &asked.ask, (page, id), 0, &mut rest) {
            Ok(()) if rest.octets.is_empty() => None,
            Ok(()) => Some(format!("{} bytes follow its end", rest.octets.len())),
            Err(Stop::Cut | Stop::Unknown) => None,
            Err(Stop::Wrong(fault)) => Some(fault),
        };
        let is_whole = fault.is_none() && reply.is_complete();
        self.count_fragment(if is_whole { "a whole page" } else { "a part of a page" });
        if let Some(fault) = fault {
            let text = format!("{}, assembled: {fault}", told(asked, reply));
            self.violate(Rule::Integrity, ended.at, text);
        }
    }

    /// No content in the page is that of another visitor, whatever the order of the parts.
    fn judge_names(&mut self, asked: &Asked, ended: Stamp, reply: &Reply, body: &[u8]) {
        // A content may end within the identity of its last block, also because the origin has cut
        // it. The markup that follows is no part of the identity.
        let contents = body.split(is_mark);
        let mut names = contents.flat_map(|content| content.split(|octet| *octet == b';')).filter_map(named);
        if let Some(id) = names.find(|id| !is_own(&asked.ask, &id.user)) {
            let text = format!("{} received \"{id}\" within a page", told(asked, reply));
            self.violate(Rule::Privacy, ended.at, text);
        }
    }

    /// Reads the content of a page, and its parts if it is a template.
    fn read_page(
        &mut self,
        view: &View<'_>,
        ask: &Ask,
        (page, id): (&PagePlan, &ContentId),
        depth: usize,
        rest: &mut Rest<'_>,
    ) -> Result<(), Stop> {
        let content = rest.content();
        verify(id, 0, content).map_err(|fault| Stop::Wrong(format!("not \"{id}\": {fault}")))?;
        rest.skip(content)?;
        let bytes = page.length_bytes(id.version);
        let lies = self.begun.get(id).map(|begun| begun.whole_bytes.clone()).unwrap_or_default();
        if !page.template.is_empty() && !lies.is_empty() {
            return Err(Stop::Unknown);
        }
        if content.len() != bytes && !lies.contains(&content.len()) {
            return Err(Stop::Wrong(format!("{} bytes of \"{id}\", which has {bytes}", content.len())));
        }
        for part in &page.template {
            rest.expect("{")?;
            self.read_part(view, ask, part, depth, rest)?;
            rest.expect("}")?;
        }
        Ok(())
    }

    fn read_part(
        &mut self,
        view: &View<'_>,
        ask: &Ask,
        part: &TemplatePart,
        depth: usize,
        rest: &mut Rest<'_>,
    ) -> Result<(), Stop> {
        match part {
            TemplatePart::Include(include) => self.read_fragment(view, ask, include, depth, rest),
            TemplatePart::Attempt(one, other) if rest.take(EXCEPTION)? => {
                let may_fail =
                    |include: &&Include| !include.continues && self.may_be_missing(view, ask, include, depth);
                let is_right = [one, other].iter().any(may_fail);
                self.count_fragment("an exception");
                let fault =
                    || Stop::Wrong(format!("an exception, although {one:?} and {other:?} can be had"));
                if is_right { Ok(()) } else { Err(fault()) }
            }
            TemplatePart::Attempt(one, other) => {
                for include in [one, other] {
                    rest.expect("(")?;
                    if rest.octets.starts_with(GAP.as_bytes()) {
                        return Err(Stop::Wrong(format!("a gap within an attempt with {include:?}")));
                    }
                    self.read_fragment(view, ask, include, depth, rest)?;
                    rest.expect(")")?;
                }
                Ok(())
            }
            TemplatePart::Choice(one, other) => {
                let is_first = ask.has_noise && self.rules.shows_cookies;
                rest.expect(if is_first { "+" } else { "-" })?;
                self.read_fragment(view, ask, if is_first { one } else { other }, depth, rest)
            }
            TemplatePart::Values => {
                let user = ask.user.as_deref().filter(|_| self.rules.shows_cookies).unwrap_or(NOBODY);
                rest.expect(&format!(" {user} {}", parameter(&ask.target)))
            }
            TemplatePart::Refused => rest.expect(REFUSED),
        }
    }

    fn read_fragment(
        &mut self,
        view: &View<'_>,
        ask: &Ask,
        include: &Include,
        depth: usize,
        rest: &mut Rest<'_>,
    ) -> Result<(), Stop> {
        let prospects = self.prospects(view, ask, include, depth);
        let is_missing = if include.continues { rest.content().is_empty() } else { rest.take(GAP)? };
        if is_missing && self.may_be_missing(view, ask, include, depth) {
            self.count_fragment(if include.continues { "nothing" } else { "a gap" });
            return Ok(());
        }
        let content = rest.content();
        let possible = || prospects.iter().filter(|prospect| prospect.is_possible);
        let Some(id) = named(content.split(|octet| *octet == b';').next().unwrap_or_default()) else {
            let is_text = |text: &String| text.as_bytes() == content;
            let is_told = possible().any(|prospect| prospect.texts.iter().any(is_text));
            if is_told || possible().any(|prospect| self.was_cut_by_origin(prospect, content)) {
                return rest.skip(content);
            }
            if !rest.is_complete && rest.octets.len() == content.len() {
                return Err(Stop::Cut);
            }
            let found = content.get(..content.len().min(80)).unwrap_or_default().escape_ascii();
            return Err(Stop::Wrong(format!("\"{found}\" in the place of {include:?}")));
        };
        let site = Arc::clone(&self.site);
        let is_of = |prospect: &&Prospect| site.content_target(&prospect.ask.target) == id.target;
        let found = prospects.iter().position(|prospect| prospect.is_possible && is_of(&prospect));
        // The second URL is requested only if the first one fails.
        let is_early = |place: &usize| prospects.iter().take(*place).any(|before| before.is_sure);
        let found = found.filter(|place| !is_early(place)).and_then(|place| prospects.get(place));
        let (Some(prospect), Some(page)) = (found, site.page(&id.target)) else {
            return Err(Stop::Wrong(format!("\"{id}\" in the place of {include:?}")));
        };
        let is_template = !page.template.is_empty();
        self.count_fragment(if is_template { "a template in a page" } else { "a fragment" });
        self.judge_fragment(view, prospect, page, &id);
        self.read_page(view, &prospect.ask, (page, &id), depth + 1, rest)
    }

    /// Judges a fragment by the rules of its own page.
    fn judge_fragment(&mut self, view: &View<'_>, prospect: &Prospect, page: &PagePlan, id: &ContentId) {
        let View { asked, ended, may_lack } = view;
        let own = Asked { ask: prospect.ask.clone(), ..(*asked).clone() };
        let realm =
            prospect.realms.iter().find(|realm| **realm == id.realm).or_else(|| prospect.realms.first());
        let (calm, realm) = (reply_with(CALM_REASONS[0]), realm.cloned().unwrap_or_default());
        if !self.judge_identity(&own, *ended, &calm, (page, &realm), id) {
            return;
        }
        let errors = ERROR_REASONS.iter().filter(|_| *may_lack);
        let replies: Vec<_> = CALM_REASONS.iter().chain(errors).map(|reason| reply_with(reason)).collect();
        let is_permitted = |reply: &&Reply| self.stale_by(&own, reply, id).is_none();
        let reply = replies.iter().find(is_permitted).unwrap_or(&calm);
        self.judge_staleness(&own, *ended, reply, id);
        let longest = |reply: &&Reply| page.stale_for(reply.reason(), self.rules.stale_on_error_max);
        let reply = replies.iter().max_by_key(longest).unwrap_or(&calm);
        self.judge_age(&own, *ended, reply, page, id);
    }

    /// Whether the page may be without the fragment.
    fn may_be_missing(&self, view: &View<'_>, ask: &Ask, include: &Include, depth: usize) -> bool {
        !self.prospects(view, ask, include, depth).iter().any(|prospect| prospect.is_sure)
    }

    /// Whether the origin lied about the length of a content of which this is the beginning, so
    /// that it need not name its page.
    fn was_cut_by_origin(&self, prospect: &Prospect, content: &[u8]) -> bool {
        let target = self.site.content_target(&prospect.ask.target);
        self.begun.iter().any(|(id, begun)| {
            id.target == target
                && is_own(&prospect.ask, &id.user)
                && begun.whole_bytes.contains(&content.len())
                && verify(id, 0, content).is_ok()
        })
    }

    /// The answers to the URLs of an include, in their order.
    fn prospects(&self, view: &View<'_>, ask: &Ask, include: &Include, depth: usize) -> Vec<Prospect> {
        let may_lack = view.may_lack || include.maxwait_ms.is_some();
        let urls = std::iter::once(&include.src).chain(&include.alt);
        urls.map(|url| self.prospect(view, ask, url, depth, may_lack)).collect()
    }

    fn prospect(&self, view: &View<'_>, page: &Ask, url: &str, depth: usize, may_lack: bool) -> Prospect {
        let (host, _) = split_host(&page.target);
        let ask = Ask {
            method: "GET".to_owned(),
            target: format!("{host}{url}"),
            ranges: Vec::new(),
            held: None,
            if_range: None,
            ..page.clone()
        };
        let mut prospect =
            Prospect { ask, is_possible: false, is_sure: false, realms: Vec::new(), texts: Vec::new() };
        if !url.starts_with('/') || depth >= DEPTH_MAX {
            return prospect;
        }
        let asked = view.asked;
        let connected = asked.ask.connected.unwrap_or(asked.begun.at);
        let routings = self.rules.routings.iter().chain(self.routings_of_old_processes(connected));
        let is_there = self.site.page(&prospect.ask.target).is_some_and(|page| page.status() == 200);
        let mut is_sure = !may_lack;
        for routing in routings {
            match routing.expected(&prospect.ask).answer {
                ExpectedAnswer::Page(realm) if is_there => prospect.realms.push(realm),
                ExpectedAnswer::Fixed(200, text) => prospect.texts.push(text),
                _ => is_sure = false,
            }
        }
        prospect.is_possible = !prospect.realms.is_empty() || !prospect.texts.is_empty();
        prospect.is_sure = is_sure && prospect.is_possible;
        prospect
    }
}

/// Whether this byte belongs to the markup of a template. No content has one.
fn is_mark(octet: &u8) -> bool {
    b"{}()<>!+".contains(octet)
}

/// Whether a content for this user may be sent to a visitor.
fn is_own(ask: &Ask, user: &str) -> bool {
    user == NONE || [&ask.user, &ask.nick].into_iter().flatten().any(|own| own == user)
}

/// The body without its coding, which can only be gzip and only for a client that accepts it.
fn plain_body(ask: &Ask, reply: &Reply) -> Result<Vec<u8>, String> {
    let Some(coding) = reply.field("Content-Encoding") else { return Ok(reply.body.to_vec()) };
    let is_accepted = ask.codings.as_deref().is_some_and(|value| accepts(value, coding));
    if coding != "gzip" || !is_accepted {
        return Err(format!("the coding {coding}, accepts {:?}", ask.codings));
    }
    if ask.method == "HEAD" {
        return Ok(Vec::new());
    }
    match decoded(coding, &reply.body) {
        Some((_, false)) if reply.is_complete() => {
            Err("the gzip stream is complete without its end".to_owned())
        }
        Some((content, _)) => Ok(content),
        None => Err(format!("the unknown coding {coding}")),
    }
}

/// The first wrong field of an assembled page.
fn wrong_head(reply: &Reply, page: &PagePlan) -> Option<String> {
    let storing: Vec<_> = reply.fields.all("Cache-Control").collect();
    if !matches!(&storing[..], [value] if &value[..] == PRIVATE.as_bytes()) {
        return Some(format!("Cache-Control is {storing:?}"));
    }
    if reply.status != Some(page.status()) {
        return Some(format!("status {:?}", reply.status));
    }
    let present = ABSENT.iter().find(|name| reply.fields.has(name));
    let cookie = (page.kind != PageKind::Personal).then_some("Set-Cookie");
    let present = present.copied().or_else(|| cookie.filter(|name| reply.fields.has(name)));
    present.map(|name| format!("it has {name}: {:?}", reply.field(name)))
}

/// The identity at the end of a text that leads to the first delimiter of a block.
fn named(text: &[u8]) -> Option<ContentId> {
    let text = text.get(text.len().saturating_sub(160)..).unwrap_or_default();
    let text = std::str::from_utf8(text).ok()?;
    let words: Vec<_> = text.rsplitn(6, ' ').collect();
    let number = words.get(5).filter(|_| words.len() == 6)?;
    let digits = number.get(number.len().checked_sub(6)?..)?;
    let id: Vec<_> = words.iter().take(5).rev().copied().collect();
    ContentId::parse(&id.join(" ")).filter(|_| digits.bytes().all(|octet| octet.is_ascii_digit()))
}

/// The parameter of the query that a template shows.
fn parameter(target: &str) -> &str {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    query.split('&').find_map(|pair| pair.strip_prefix("page=")).unwrap_or(NONE)
}

/// A response of which only the reason is known.
fn reply_with(reason: &str) -> Reply {
    let mut reply = Reply::default();
    reply.fields.push("Cache-Status", format!("Petasos; detail={reason}"));
    reply
}
