//! Stores a response that was judged, and everything that follows from storing it.
//!
//! Invariants: a page that is no longer stored has no file in the static tree. A page is stored
//! together with the rule of its equivalent targets, or not at all.

use crate::memory::foreign_ports::is_own_port;
use crate::shared::Shared;
use crate::sites::Site;
use message::ResponseHead;
use semantics::{Moment, NoVarySearch};
use static_tree::{Candidate, TreeRefusal};
use std::sync::Arc;
use store::{Key, Publication, PublishResult};

/// Stores a response and offers it to the tree. Does not wait for the file system.
pub(crate) fn publish(shared: &Shared, site: &Site, publication: Publication<'_>) {
    let Some((tree, layout)) = shared.static_tree.of(site) else {
        // Ignored: an object too large for the store was streamed to its clients
        // anyway.
        let _ = shared.store.publish(publication);
        return;
    };
    let Publication { key, tags, begun, .. } = publication;
    let (rule, object) = (publication.rule.clone(), Arc::clone(&publication.object));
    match shared.store.publish(publication) {
        // A web server also serves the file to clients with cookies. An existing file is
        // removed when the leak guard has confirmed the leak.
        PublishResult::Stored if !shared.leak_guard.is_for_all(key) => {}
        // A client can send any port, and each would get a copy of every page.
        PublishResult::Stored if !is_own_port(&shared.plan, &site.plan, key) => {
            tree.refuse(TreeRefusal::Path)
        }
        PublishResult::Stored => {
            let candidate = Candidate { key, rule: &rule, object: &object, tags, begun };
            tree.offer(layout, &candidate, Moment::read(&*shared.clock));
            // The leak guard may have found the leak, and withdrawn the page, before the offer.
            if !shared.leak_guard.is_for_all(key) {
                tree.withdraw(layout, key);
            }
        }
        PublishResult::TooLarge | PublishResult::Invalidated | PublishResult::Displaced => {
            tree.withdraw(layout, key);
        }
    }
}

/// Learns from a response that `publish` stores; see `learn` of the equivalents. An origin error
/// without a rule does not change the rule of its page. The page's variants stay stored, and
/// invalidations find the error as well.
pub(crate) fn learn_equivalents(
    shared: &Shared,
    key: &Key,
    response: &ResponseHead,
    begun: u64,
    publish: impl FnOnce(),
) {
    if response.status.is_server_error() && NoVarySearch::of(&response.fields).is_none() {
        return publish();
    }
    let remove = |forgotten: &Key| {
        shared.store.remove(forgotten);
        // No invalidation of an equivalent target would find its file in the static tree
        // either.
        if let Some(site) = shared.sites.iter().find(|site| site.id == forgotten.site()) {
            shared.static_tree.withdraw(site, forgotten);
        }
    };
    shared.equivalents.learn(key, &response.fields, begun, remove, publish);
}
