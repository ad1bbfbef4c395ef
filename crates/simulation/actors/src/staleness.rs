//! The rule about purges: a response to a request that began after an answered purge is not older
//! than the purge.
//!
//! Invariant: a content counts as new if the origin began to answer with it, or confirmed it, after
//! the purge was sent. The edge may have fetched it between the sending and the answer.

use crate::answer::TAGS_FIELD;
use crate::content::ContentId;
use crate::event::{Asked, Begun, Purge, Scope, Stamp};
use crate::exchange::Reply;
use crate::judge::told;
use crate::ledger::Ledger;
use crate::rules::Rule;
use crate::site::split_host;
use std::collections::BTreeSet;

impl Ledger {
    pub(crate) fn judge_staleness(&mut self, asked: &Asked, ended: Stamp, reply: &Reply, id: &ContentId) {
        let Some(purge) = self.stale_by(asked, reply, id) else { return };
        let begun = self.begun.get(id).map(|begun| begun.last).unwrap_or_default();
        let kind = match purge {
            Purge { is_write: true, .. } => "write",
            Purge { is_soft: true, .. } => "soft purge",
            Purge { .. } => "hard purge",
        };
        let answered = purge.answered.unwrap_or_default();
        let text = format!(
            "{} has \"{id}\", which the origin sent or confirmed last at {} (event {}), before the {kind} \
             \"{}\" sent at {} (event {}) and answered at {} (event {})",
            told(asked, reply),
            begun.at,
            begun.number,
            purge.order,
            purge.sent.at,
            purge.sent.number,
            answered.at,
            answered.number
        );
        self.violate(Rule::Staleness, ended.at, text);
    }

    /// The first purge that forbids `id` as a response to this request; `None` if it is permitted.
    pub(crate) fn stale_by(&self, asked: &Asked, reply: &Reply, id: &ContentId) -> Option<&Purge> {
        let unknown = Begun::default();
        let begun = self.begun.get(id).unwrap_or(&unknown);
        let stated = stated_tags(reply, id);
        let tags = stated.as_ref().unwrap_or(&begun.tags);
        self.purges.iter().find(|purge| {
            let Some(answered) = purge.answered else { return false };
            let is_after = answered.number < asked.begun.number;
            let is_old = begun.last.number < purge.sent.number;
            is_after && is_old && covers(&purge.scope, id, tags) && !self.permits(purge, asked, reply, id)
        })
    }

    /// Whether a soft purge permits this stale response: its reason says that it is stale, and the
    /// page's time for this reason has not passed since the purge.
    fn permits(&self, purge: &Purge, asked: &Asked, reply: &Reply, id: &ContentId) -> bool {
        let reason = reply.reason();
        if !purge.is_soft || !reason.starts_with("stale-") {
            return false;
        }
        let stale =
            self.site.page(&id.target).map(|page| page.stale_for(reason, self.rules.stale_on_error_max));
        let answered = purge.answered.unwrap_or_default();
        asked.begun.at.since(answered.at) <= stale.unwrap_or_default().saturating_add(self.rules.age_slack)
    }
}

/// The tags that a response states with its content. They are those of the newest confirmation that
/// it went through.
fn stated_tags(reply: &Reply, id: &ContentId) -> Option<BTreeSet<String>> {
    let own = reply.field("X-Sim").and_then(ContentId::parse);
    let tags = reply.field(TAGS_FIELD).filter(|_| own.as_ref() == Some(id))?;
    Some(tags.split(' ').map(str::to_owned).collect())
}

/// Whether a purge means this content with these tags. If the response does not state them, only
/// those count that all responses of the origin with this content had.
fn covers(scope: &Scope, id: &ContentId, known: &BTreeSet<String>) -> bool {
    match scope {
        Scope::Target(target) => *target == id.target,
        Scope::TargetBeyond(target, realms) => *target == id.target && !realms.contains(&id.realm),
        Scope::Prefix(prefix) => id.target.starts_with(prefix.as_str()),
        Scope::AnyTag(tags) => tags.iter().any(|tag| known.contains(tag)),
        Scope::AllTags(tags) => tags.iter().all(|tag| known.contains(tag)),
        Scope::Everything => true,
        Scope::Realms(realms) => realms.contains(&id.realm),
        Scope::AtHost(host, scope) => split_host(&id.target).0 == host && covers(scope, id, known),
    }
}
