//! The static tree of a running edge: what is stored is offered to it, what is purged it loses before the purge is
//! answered.
//!
//! Invariant: serving never depends on it. A directory that cannot be used, or a disk that refuses, is one line on
//! standard error and a metric, and the edge goes on without. What a site's setting leaves out is never offered. How
//! pages become files is `static_tree`'s business.

use crate::operator;
use crate::shared::Shared;
use crate::sites::Site;
use bytes::Bytes;
use config::Plan;
use semantics::Moment;
use static_tree::{Candidate, Figures, Layout, Limits, Refusal, Tree};
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use store::{Key, Publication, Published, Selector, SiteId, Store};

/// The tree; or its absence.
#[derive(Debug, Default)]
pub(crate) struct StaticTree {
    tree: Option<Tree>,
    /// Whether the plan names a directory.
    is_wanted: bool,
}

impl StaticTree {
    /// The tree in the directory that the plan names. Standard error is told if that cannot be used.
    pub(crate) fn open(plan: &Plan) -> Self {
        let Some(wanted) = &plan.static_tree else { return Self::default() };
        let limits = Limits { pages_max: wanted.pages_max, bytes_max: wanted.bytes_max };
        let tree = Tree::open(&wanted.directory, limits)
            .inspect_err(|error| operator::say(format_args!("no static tree is written: {error}")));
        Self { tree: tree.ok(), is_wanted: true }
    }

    /// Whether there should be a tree, and is none.
    pub(crate) const fn is_off(&self) -> bool {
        self.is_wanted && self.tree.is_none()
    }

    /// The figures now; zeros where there is no tree.
    pub(crate) fn figures(&self) -> Figures {
        self.tree.as_ref().map(Tree::figures).unwrap_or_default()
    }

    /// Nothing is stored of a page any more. Waits for no file.
    pub(crate) fn withdraw(&self, site: &Site, key: &Key) {
        if let Some((tree, layout)) = self.of(site) {
            tree.withdraw(layout, key);
        }
    }

    /// Hears of an invalidation under its number, so that the next loss takes less time.
    pub(crate) fn hear(&self, number: u64, selector: &Selector) {
        if let Some(tree) = &self.tree {
            tree.hear(number, selector);
        }
    }

    /// Removes what the store's invalidations up to now mean. Blocks.
    pub(crate) fn lose(&self, store: &Store) -> bool {
        self.tree.as_ref().is_none_or(|tree| tree.lose(store))
    }

    /// The hosts of a site whose pages are in the tree or may get there.
    pub(crate) fn hosts(&self, site: SiteId, is_meant: impl Fn(&[u8]) -> bool) -> Vec<Bytes> {
        self.tree.as_ref().map(|tree| tree.hosts(site, is_meant)).unwrap_or_default()
    }

    /// Whether pages of the site may become files.
    pub(crate) fn has(&self, site: &Site) -> bool {
        self.of(site).is_some()
    }

    /// Lets the writer end when it has written what waits.
    pub(crate) fn end(&self) {
        if let Some(tree) = &self.tree {
            tree.end();
        }
    }

    fn of(&self, site: &Site) -> Option<(&Tree, Layout)> {
        let tree = self.tree.as_ref()?;
        Some((tree, Layout::by_name(site.plan.static_tree_layout.as_deref()?)?))
    }
}

impl Shared {
    /// Stores a response, and offers it to the tree. Waits for no file.
    pub(crate) fn publish(&self, site: &Site, publication: Publication<'_>) {
        let Some((tree, layout)) = self.static_tree.of(site) else {
            // An object too large for the store was streamed all the same.
            let _ = self.store.publish(publication);
            return;
        };
        let Publication { key, tags, begun, .. } = publication;
        let (rule, object) = (publication.rule.clone(), Arc::clone(&publication.object));
        match self.store.publish(publication) {
            // A web server gives its file to visitors with cookies too. What was there before goes when the leak guard
            // is sure.
            Published::Stored if !self.leak_guard.is_for_all(key) => {}
            // A visitor can make up any port, and each would have a copy of every page.
            Published::Stored if !self.is_own_port(site, key) => tree.refuse(Refusal::Path),
            Published::Stored => {
                let candidate = Candidate { key, rule: &rule, object: &object, tags, begun };
                tree.offer(layout, &candidate, Moment::read(&*self.clock));
            }
            Published::TooLarge | Published::Invalidated => tree.withdraw(layout, key),
        }
    }
}

/// Starts the thread that writes, if there is a tree.
///
/// # Errors
/// When there is no thread to be had.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Option<JoinHandle<()>>> {
    if shared.static_tree.tree.is_none() {
        return Ok(None);
    }
    let shared = Arc::clone(shared);
    let run = move || {
        if let Some(tree) = &shared.static_tree.tree {
            tree.run(&shared.store, &*shared.clock, &|line| operator::say(format_args!("{line}")));
        }
    };
    Builder::new().name("petasos-tree".to_owned()).spawn(run).map(Some)
}

#[cfg(test)]
mod tests {
    use config::SETTINGS;
    use static_tree::Layout;

    #[test]
    fn every_layout_that_can_be_set_is_known() {
        let row = SETTINGS.iter().find(|setting| setting.key == "static_tree.layout").unwrap();
        let names: Vec<_> = Layout::ALL.map(Layout::name).into_iter().chain(["none"]).collect();
        assert_eq!(row.kind, config::Kind::Choice(names.leak()));
    }
}
