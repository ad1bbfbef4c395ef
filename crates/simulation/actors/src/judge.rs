//! Judges one response: which rules apply to it, in which order.
//!
//! Invariant: each violation names the request, the content and the times. A response that violates
//! several rules is reported once for each.

use crate::content::{ContentId, NONE};
use crate::event::{Asked, Stamp};
use crate::exchange::{Ending, Reply};
use crate::integrity;
use crate::ledger::{Ledger, VARIANTS_MAX};
use crate::page::PagePlan;
use crate::rules::Rule;
use crate::site::{USER_COOKIE, chosen_language};
use crate::template::TEMPLATE_FIELD;
use std::sync::Arc;
use std::time::Duration;

/// Statuses that only the visitor's own conduct explains.
pub(crate) const VISITORS_FAULTS: [u16; 6] = [400, 408, 411, 413, 414, 431];

impl Ledger {
    /// Judges the response to a request.
    pub(crate) fn judge(&mut self, asked: &Asked, ended: Stamp, reply: &Reply) {
        self.judge_promptness(asked, ended, reply);
        self.judge_ending(asked, ended, reply);
        let Some(status) = reply.status else { return };
        self.judge_fields(asked, ended, reply);
        self.judge_cookies(asked, ended, reply);
        let Some(realm) = self.judge_route(asked, ended, reply) else { return };
        match status {
            504 if asked.ask.only_if_cached && reply.reason() == "only-if-cached" => {}
            503 if reply.reason() == "esi-refused" && self.may_lack_memory(&asked.ask.target) => {}
            500.. => {
                if !asked.ask.misbehaves && !self.explains(asked.begun.at, ended.at) {
                    let text = format!("{} was answered with {status} without a fault", told(asked, reply));
                    self.violate(Rule::Errors, ended.at, text);
                }
            }
            204 | 303 if asked.ask.is_write => self.judge_content(asked, ended, reply, &realm),
            200 | 206 | 301 | 302 | 404 => self.judge_content(asked, ended, reply, &realm),
            304 => self.judge_not_modified(asked, ended, reply, &realm),
            416 => self.judge_unsatisfiable(asked, ended, reply),
            429 if reply.reason() == "parameter-flood" => {}
            _ if asked.ask.misbehaves && VISITORS_FAULTS.contains(&status) => {}
            _ => {
                let text = format!("{} has the unexpected status {status}", told(asked, reply));
                self.violate(Rule::Errors, ended.at, text);
            }
        }
    }

    fn judge_promptness(&mut self, asked: &Asked, ended: Stamp, reply: &Reply) {
        let begun = asked.begun.at.plus(reply.own_delay);
        let first_byte = reply.first_byte.unwrap_or(ended.at).since(begun);
        let end = ended.at.since(begun);
        let first_byte_max = if self.was_stored(asked, reply) {
            self.rules.stale_first_byte_max
        } else {
            self.rules.first_byte_max
        };
        let is_late = first_byte > first_byte_max || end > self.rules.end_max;
        if (is_late || reply.ending == Ending::TimedOut) && !asked.ask.misbehaves {
            let text = format!(
                "{} took {} ms until the first byte and {} ms in all, ending {}",
                told(asked, reply),
                first_byte.as_millis(),
                end.as_millis(),
                reply.ending
            );
            self.violate(Rule::Promptness, ended.at, text);
        }
    }

    /// Whether the edge had this stale content when the request began. Otherwise the fetch of
    /// another request has stored it since, and the request could not be answered with it at once.
    fn was_stored(&self, asked: &Asked, reply: &Reply) -> bool {
        let Some(id) = reply.field("X-Sim").and_then(ContentId::parse) else { return false };
        let Some(begun) = self.begun.get(&id).filter(|begun| begun.open == 0) else { return false };
        let bytes = self.site.page(&id.target).map_or(0, |page| page.length_bytes(id.version));
        let is_large = bytes > self.rules.stored_at_once_max;
        let storing = if is_large { self.rules.storing_max } else { Duration::ZERO };
        let stored = begun.ended.plus(storing);
        let is_late = is_large && self.is_disk_ill(begun.ended, stored);
        // The copy may be on the disk only, which the edge does not use while it fails.
        let is_hidden = self.is_disk_failing(asked.begun.at);
        reply.reason().starts_with("stale-") && stored < asked.begun.at && !is_late && !is_hidden
    }

    fn judge_ending(&mut self, asked: &Asked, ended: Stamp, reply: &Reply) {
        match &reply.ending {
            Ending::Complete | Ending::GivenUp | Ending::TimedOut => {}
            Ending::Malformed(fault) => {
                let text = format!("{} is malformed: {fault}", told(asked, reply));
                self.violate(Rule::Integrity, ended.at, text);
            }
            Ending::NoConnection | Ending::Closed | Ending::Cut => {
                if asked.ask.misbehaves || self.explains_beside_medium(asked.begun.at, ended.at) {
                    return;
                }
                if let Some(id) = self.breaks_off(reply) {
                    return self.judge_damage(asked, ended, reply, id);
                }
                if self.explains(asked.begun.at, ended.at) {
                    return;
                }
                let text = format!("{} ended without a fault: {}", told(asked, reply), reply.ending);
                self.violate(Rule::Errors, ended.at, text);
            }
        }
    }

    /// The content whose delivery from the store has broken off, if bytes on the disk may be
    /// missing or have changed.
    fn breaks_off(&self, reply: &Reply) -> Option<ContentId> {
        let is_stored = reply.reason().starts_with("hit-") || reply.reason().starts_with("stale-");
        let id = reply.field("X-Sim").and_then(ContentId::parse);
        id.filter(|_| is_stored && self.may_lack_bytes && reply.ending == Ending::Cut)
    }

    /// A damaged body breaks off once. Then it is forgotten, and the origin sends it again.
    /// Requests that had begun by then may still have it. The edge may have the content in several
    /// variants of the page, each with a body of its own.
    fn judge_damage(&mut self, asked: &Asked, ended: Stamp, reply: &Reply, id: ContentId) {
        let sent = self.begun.get(&id).map(|begun| begun.last).unwrap_or_default();
        let (earlier, times) = self.broken.get(&id).copied().unwrap_or_default();
        let is_again = earlier.number > sent.number && earlier.number < asked.begun.number;
        let times = if is_again { times + 1 } else { 1 };
        self.broken.insert(id, (ended, times));
        if times > VARIANTS_MAX {
            let text = format!(
                "{} broke off for the {times}th time, last at {} (event {}), and the origin has not sent it since",
                told(asked, reply),
                earlier.at,
                earlier.number
            );
            self.violate(Rule::Integrity, ended.at, text);
        }
    }

    /// Checks `Cache-Status` and the form of `Age`.
    fn judge_fields(&mut self, asked: &Asked, ended: Stamp, reply: &Reply) {
        if self.rules.through_edge && reply.reason().is_empty() {
            let text = format!("{} has no reason in Cache-Status", told(asked, reply));
            self.violate(Rule::Fields, ended.at, text);
        }
        if reply.field("Age").is_some_and(|age| age.parse::<u64>().is_err()) {
            let text = format!("{} has a malformed Age", told(asked, reply));
            self.violate(Rule::Fields, ended.at, text);
        }
    }

    /// A visitor receives only the cookie of its own session.
    fn judge_cookies(&mut self, asked: &Asked, ended: Stamp, reply: &Reply) {
        let own = asked.ask.user.as_ref().map(|user| format!("{USER_COOKIE}={user}"));
        for line in reply.fields.all("Set-Cookie") {
            let line = String::from_utf8_lossy(line);
            let pair = line.split(';').next().unwrap_or_default();
            if own.as_deref() != Some(pair) {
                let text = format!("{} sets the cookie of another visitor: {pair}", told(asked, reply));
                self.violate(Rule::Privacy, ended.at, text);
            }
        }
    }

    /// Judges a response with content of the site, or the head of one.
    fn judge_content(&mut self, asked: &Asked, ended: Stamp, reply: &Reply, realm: &str) {
        let status = reply.status.unwrap_or_default();
        let site = Arc::clone(&self.site);
        let id = reply.field("X-Sim").and_then(ContentId::parse);
        let (Some(id), Some(page)) = (id, site.page(&asked.ask.target)) else {
            // A faulty origin may answer a write before it has read it.
            if asked.ask.is_write && self.explains(asked.begun.at, ended.at) {
                return;
            }
            let text = format!("{} has no content of the site", told(asked, reply));
            return self.violate(Rule::Integrity, ended.at, text);
        };
        if asked.ask.is_write {
            if id.target != site.content_target(&asked.ask.target) || id.realm != realm {
                let text = format!("{} received \"{id}\"", told(asked, reply));
                self.violate(Rule::Integrity, ended.at, text);
            }
            return;
        }
        if !self.judge_identity(asked, ended, reply, (page, realm), &id) {
            return;
        }
        if reply.field(TEMPLATE_FIELD).is_some() {
            self.judge_assembled(asked, ended, reply, page, &id);
            self.judge_staleness(asked, ended, reply, &id);
            return self.judge_age(asked, ended, reply, page, &id);
        }
        if status != page.status() && status != 206 || status == 206 && page.status() != 200 {
            let text = format!("{} has status {status}, its page {}", told(asked, reply), page.status());
            self.violate(Rule::Integrity, ended.at, text);
        }
        let lies = self.begun.get(&id).cloned().unwrap_or_default();
        if let Err(fault) = integrity::check(&asked.ask, reply, page, &id, &lies) {
            let text = format!("{}: {fault}", told(asked, reply));
            self.violate(Rule::Integrity, ended.at, text);
        }
        self.judge_staleness(asked, ended, reply, &id);
        self.judge_age(asked, ended, reply, page, &id);
    }

    /// Checks that the content belongs to the page, user, language and realm of the request.
    /// Returns whether it does.
    pub(crate) fn judge_identity(
        &mut self,
        asked: &Asked,
        ended: Stamp,
        reply: &Reply,
        (page, realm): (&PagePlan, &str),
        id: &ContentId,
    ) -> bool {
        let user = asked.ask.user.as_deref().unwrap_or(NONE);
        let greeted = asked.ask.nick.as_deref().filter(|_| self.site.is_greeting(page));
        if id.user != NONE && id.user != user && Some(id.user.as_str()) != greeted {
            let text = format!("{} received the page of {}", told(asked, reply), id.user);
            self.violate(Rule::Privacy, ended.at, text);
            return false;
        }
        let language = chosen_language(asked.ask.language.as_deref());
        let mut expected =
            page.identify(&self.site.content_target(&asked.ask.target), id.version, user, language);
        realm.clone_into(&mut expected.realm);
        if greeted == Some(id.user.as_str()) {
            // The profile may ignore the cookie, so that the visitor gets the common page too.
            id.user.clone_into(&mut expected.user);
        }
        if expected != *id {
            let text = format!("{} received \"{id}\" instead of \"{expected}\"", told(asked, reply));
            self.violate(Rule::Integrity, ended.at, text);
        }
        expected == *id
    }

    /// A 304 may confirm only a copy that the visitor holds and that it could receive now.
    fn judge_not_modified(&mut self, asked: &Asked, ended: Stamp, reply: &Reply, realm: &str) {
        let Some(held) = &asked.ask.held else {
            let text = format!("{} got 304, but it has no condition", told(asked, reply));
            return self.violate(Rule::Integrity, ended.at, text);
        };
        if !reply.body.is_empty() {
            let text = format!("{} got 304 with a body", told(asked, reply));
            self.violate(Rule::Integrity, ended.at, text);
        }
        // A date names every version that was edited up to its second. The 304 is right if one of
        // them could be served.
        if let Some(date_secs) = held.date_secs {
            let same = |id: &ContentId| {
                let (own, its) = (&held.id, id);
                (&its.target, &its.user, &its.language) == (&own.target, &own.user, &own.language)
                    && its.realm == realm
            };
            let dated = self.begun.iter().filter(|(id, begun)| same(id) && begun.modified_secs <= date_secs);
            if dated.into_iter().any(|(id, _)| self.stale_by(asked, reply, id).is_none()) {
                return;
            }
        }
        let id = held.id.clone();
        if id.realm != realm {
            let text = format!("{} got 304 for \"{id}\" in the realm {realm}", told(asked, reply));
            return self.violate(Rule::Integrity, ended.at, text);
        }
        self.judge_staleness(asked, ended, reply, &id);
        if let Some(page) = Arc::clone(&self.site).page(&asked.ask.target) {
            self.judge_age(asked, ended, reply, page, &id);
        }
    }

    /// A 416 names the length of a version of the page.
    fn judge_unsatisfiable(&mut self, asked: &Asked, ended: Stamp, reply: &Reply) {
        let stated = reply.field("Content-Range").and_then(|range| range.strip_prefix("bytes */"));
        let bytes = stated.and_then(|bytes| bytes.parse::<usize>().ok());
        let target = self.site.content_target(&asked.ask.target);
        let of_page = |(id, begun): (&ContentId, &crate::event::Begun)| {
            let page = self.site.page(&id.target)?;
            let plain = page.length_bytes(id.version);
            let has_coded = page.is_coded && asked.ask.accepts_gzip;
            let is_coded = |bytes| has_coded && page.coded_form(id).len() == bytes;
            let knows = |bytes| plain == bytes || begun.whole_bytes.contains(&bytes) || is_coded(bytes);
            let is_beyond = |bytes| asked.ask.ranges.iter().all(|range| range.resolve(bytes).is_none());
            Some(id.target == target && bytes.is_none_or(|bytes| knows(bytes) && is_beyond(bytes)))
        };
        let is_right = self.begun.iter().filter_map(of_page).any(|is_right| is_right);
        if !is_right || asked.ask.ranges.is_empty() {
            let range = reply.field("Content-Range").unwrap_or("none");
            let text = format!("{} got 416 with Content-Range {range}", told(asked, reply));
            self.violate(Rule::Integrity, ended.at, text);
        }
    }

    /// No response from a version that the origin has not confirmed within its lifetime and
    /// permitted staleness. While the origin still sends the version, its age is zero.
    pub(crate) fn judge_age(
        &mut self,
        asked: &Asked,
        ended: Stamp,
        reply: &Reply,
        page: &PagePlan,
        id: &ContentId,
    ) {
        let Some(begun) = self.begun.get(id).filter(|begun| begun.last.number > 0) else {
            let text = format!("{} has \"{id}\", which the origin never sent", told(asked, reply));
            return self.violate(Rule::Integrity, ended.at, text);
        };
        if begun.open > 0 {
            return;
        }
        let rules = &self.rules;
        let fresh = page.fresh_for(rules, &id.realm);
        let stale = page.stale_for(reply.reason(), rules.stale_on_error_max);
        let age = asked.begun.at.since(begun.ended);
        let stated = reply.field("Age").and_then(|age| age.parse::<u64>().ok());
        let slack = rules.age_slack;
        if age > fresh.saturating_add(stale).saturating_add(slack) {
            let text = format!(
                "{} has \"{id}\", which the origin sent last at {}, {} s before; fresh for {} s, stale for {} s",
                told(asked, reply),
                begun.ended,
                age.as_secs(),
                fresh.as_secs(),
                stale.as_secs()
            );
            return self.violate(Rule::Age, ended.at, text);
        }
        if let Some(stated) = stated.filter(|stated| Duration::from_secs(*stated) + slack < age) {
            let text = format!("{} says Age {stated}, but it is {} s old", told(asked, reply), age.as_secs());
            self.violate(Rule::Fields, ended.at, text);
        }
    }
}

/// The request and the reason of its response, for messages.
pub(crate) fn told(asked: &Asked, reply: &Reply) -> String {
    let reason = reply.reason();
    let reason = if reason.is_empty() { "no reason" } else { reason };
    format!("{}, begun at {} (event {}; {reason})", asked.ask, asked.begun.at, asked.begun.number)
}
