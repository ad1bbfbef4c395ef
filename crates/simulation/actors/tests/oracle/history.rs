//! Made-up histories for the oracle: a site with a few pages, and short words for events.

use bytes::Bytes;
use message::Fields;
use petasos_actors::{
    Ask, ContentId, Ending, Framing, Include, Ledger, Lifetime, Moment, NONE, PageKind, PagePlan,
    PurgeAnswer, Reply, Rule, Rules, Scope, SitePlan, TemplatePart, Validator, slice,
};
use std::sync::Arc;
use std::time::Duration;
use world::Random;

/// Bytes of the pages, at least.
pub(crate) const BYTES: usize = 1000;

/// A page with an entity tag and a lifetime of 60 s, of which 10 s more while it is revalidated.
pub(crate) fn page(path: &str, kind: PageKind) -> PagePlan {
    PagePlan {
        number: 1,
        path: path.to_owned(),
        kind,
        lifetime: Lifetime { max_age_secs: Some(60), while_revalidate_secs: Some(10), ..Lifetime::default() },
        validator: Validator::Both,
        framing: Framing::Length,
        tag_field: "xkey",
        tags: vec!["page".to_owned(), "all".to_owned()],
        ignores_query: false,
        bytes: BYTES,
        is_coded: false,
        greets: false,
        template: Vec::new(),
    }
}

/// The parts of the page `/page`.
fn template() -> Vec<TemplatePart> {
    let include = |src: &str| Include { src: src.to_owned(), alt: None, continues: false, maxwait_ms: None };
    vec![
        TemplatePart::Include(include("/a")),
        TemplatePart::Include(include("/mine")),
        TemplatePart::Attempt(include("/gone"), include("/b")),
        TemplatePart::Values,
    ]
}

/// The content of a version of a page.
pub(crate) fn content(path: &str, version: u64) -> ContentId {
    let none = || NONE.to_owned();
    ContentId { target: path.to_owned(), version, user: none(), language: none(), realm: none() }
}

/// A request.
pub(crate) fn ask(path: &str) -> Ask {
    Ask { who: "visitor 1".to_owned(), method: "GET".to_owned(), target: path.to_owned(), ..Ask::default() }
}

/// Builds histories. Each event happens a millisecond after the one before it.
pub(crate) struct History {
    pub(crate) ledger: Ledger,
    now: Moment,
}

impl History {
    pub(crate) fn new() -> Self {
        let pages = vec![
            page("/a", PageKind::Shared),
            page("/b", PageKind::Shared),
            page("/mine", PageKind::Personal),
            page("/words", PageKind::Language),
            page("/gone", PageKind::Missing),
            PagePlan { lifetime: Lifetime::default(), ..page("/unstated", PageKind::Shared) },
            PagePlan { template: template(), ..page("/page", PageKind::Shared) },
        ];
        let site = SitePlan { pages, ..SitePlan::random(&mut Random::new(1), "a.test") };
        let rules = Rules { age_slack: Duration::from_secs(1), trace: true, ..Rules::default() };
        Self { ledger: Ledger::new(Arc::new(site), rules), now: Moment::default() }
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, secs: u64) {
        self.now = self.now.plus(Duration::from_secs(secs));
    }

    pub(crate) fn now(&mut self) -> Moment {
        self.now = self.now.plus(Duration::from_millis(1));
        self.now
    }

    /// The origin sends a whole response with `id`.
    pub(crate) fn origin(&mut self, id: &ContentId) {
        self.origin_with(id, &["page", "all"]);
    }

    pub(crate) fn origin_with(&mut self, id: &ContentId, tags: &[&str]) {
        let tags: Vec<_> = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let at = self.now();
        let received = self.ledger.stamp(at);
        self.ledger.origin_begins(received, id, &tags, 1000 + id.version, false);
        let at = self.now();
        self.ledger.origin_ends(at, id);
    }

    /// A purge is sent and answered.
    pub(crate) fn purge(&mut self, scope: Scope, is_soft: bool) {
        self.purge_answered(scope, is_soft, PurgeAnswer::Done);
    }

    pub(crate) fn purge_answered(&mut self, scope: Scope, is_soft: bool, answer: PurgeAnswer) {
        let at = self.now();
        let id = self.ledger.purge_sent(at, "PURGE", scope, is_soft);
        let at = self.now();
        self.ledger.purge_answered(at, id, answer, false);
    }

    /// A request is answered.
    pub(crate) fn visit(&mut self, ask: Ask, reply: &Reply) {
        let at = self.now();
        let id = self.ledger.request_begins(at, ask);
        let at = self.now();
        self.ledger.request_ends(at, id, reply);
    }

    /// A request for `/a` is answered with this version, fresh from the store.
    pub(crate) fn hit(&mut self, version: u64) {
        self.visit(ask("/a"), &reply(&content("/a", version), "hit-fresh"));
    }

    /// The rules that were violated, in order.
    pub(crate) fn violated(&self) -> Vec<Rule> {
        self.ledger.violations().iter().map(|violation| violation.rule).collect()
    }

    #[track_caller]
    pub(crate) fn is_right(&self) {
        assert!(self.ledger.violations().is_empty(), "{:#?}", self.ledger.violations());
    }

    #[track_caller]
    pub(crate) fn violates(&self, rule: Rule) {
        assert_eq!(self.violated(), [rule], "{:#?}", self.ledger.violations());
    }
}

/// A whole response with this content and reason.
pub(crate) fn reply(id: &ContentId, reason: &str) -> Reply {
    let bytes = BYTES + (id.version * 37 % 101) as usize;
    part(id, reason, 200, 0, bytes)
}

/// A response with a part of the content, in full.
pub(crate) fn part(id: &ContentId, reason: &str, status: u16, start: usize, end: usize) -> Reply {
    let mut fields = Fields::new();
    fields.push("X-Sim", id.to_string());
    fields.push("ETag", id.etag());
    fields.push("X-Sim-Hidden", "1");
    fields.push("Content-Length", (end - start).to_string());
    fields.push("Cache-Status", format!("Petasos; hit; detail={reason}"));
    Reply {
        ending: Ending::Complete,
        status: Some(status),
        fields,
        body: Bytes::from(slice(id, start, end)),
        ..Reply::default()
    }
}

/// A response without content of the site.
pub(crate) fn bare(status: u16, reason: &str) -> Reply {
    let mut fields = Fields::new();
    fields.push("Cache-Status", format!("Petasos; detail={reason}"));
    Reply { ending: Ending::Complete, status: Some(status), fields, ..Reply::default() }
}
