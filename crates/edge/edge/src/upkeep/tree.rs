//! The static tree of a running edge: stored pages are offered to it, and purged pages are removed
//! from it before the purge is answered.
//!
//! Invariants: serving never depends on the tree. An unusable directory or disk causes one line on
//! standard error and a metric, and the edge continues without the tree. Pages that a site's
//! settings exclude are never offered. The crate `static_tree` turns pages into files.

use crate::sites::Site;
use bytes::Bytes;
use config::EdgePlan;
use static_tree::{Layout, Tree, TreeFigures, TreeLimits};
use store::{Key, Selector, SiteId, Store};

/// The tree, or its absence.
#[derive(Debug, Default)]
pub(crate) struct StaticTree {
    tree: Option<Tree>,
    /// Whether the plan names a directory.
    is_wanted: bool,
}

impl StaticTree {
    /// Opens the tree in the plan's directory. Reports on standard error if that fails.
    pub(crate) fn open(plan: &EdgePlan) -> Self {
        let Some(wanted) = &plan.static_tree else { return Self::default() };
        let limits = TreeLimits { pages_max: wanted.pages_max, bytes_max: wanted.bytes_max };
        let tree = Tree::open(&wanted.directory, limits)
            .inspect_err(|error| tracing::error!("the static tree is off: {error}"));
        Self { tree: tree.ok(), is_wanted: true }
    }

    /// Whether a tree is configured but cannot be used.
    pub(crate) const fn is_off(&self) -> bool {
        self.is_wanted && self.tree.is_none()
    }

    /// The current figures; zeros without a tree.
    pub(crate) fn figures(&self) -> TreeFigures {
        self.tree.as_ref().map(Tree::figures).unwrap_or_default()
    }

    /// Removes a page that is no longer stored. Does not wait for the file system.
    pub(crate) fn withdraw(&self, site: &Site, key: &Key) {
        if let Some((tree, layout)) = self.of(site) {
            tree.withdraw(layout, key);
        }
    }

    /// Records a numbered invalidation, so that the next [`StaticTree::lose`] takes less time.
    pub(crate) fn hear(&self, number: u64, selector: &Selector) {
        if let Some(tree) = &self.tree {
            tree.hear(number, selector);
        }
    }

    /// Removes the files of all pages that the store has invalidated so far. Blocks.
    pub(crate) fn lose(&self, store: &Store) -> bool {
        self.tree.as_ref().is_none_or(|tree| tree.lose(store))
    }

    /// The hosts of a site whose pages are in the tree or may be added.
    pub(crate) fn hosts(&self, site: SiteId, is_meant: impl Fn(&[u8]) -> bool) -> Vec<Bytes> {
        self.tree.as_ref().map(|tree| tree.hosts(site, is_meant)).unwrap_or_default()
    }

    /// Whether pages of the site may become files.
    pub(crate) fn has(&self, site: &Site) -> bool {
        self.of(site).is_some()
    }

    /// The tree, if there is one.
    pub(crate) const fn tree(&self) -> Option<&Tree> {
        self.tree.as_ref()
    }

    /// Ends the writer after it has written its queue.
    pub(crate) fn end(&self) {
        if let Some(tree) = &self.tree {
            tree.end();
        }
    }

    /// Removes all pages and closes the directory, so that another process can open it. Blocks.
    pub(crate) fn give_up(&self) {
        if let Some(tree) = &self.tree
            && !tree.give_up()
        {
            tracing::warn!("the static tree could not be emptied for the process that takes over");
        }
    }

    /// The tree and the layout of the site's files, if its pages may become files.
    pub(crate) fn of(&self, site: &Site) -> Option<(&Tree, Layout)> {
        let tree = self.tree.as_ref()?;
        Some((tree, Layout::by_name(site.plan.static_tree_layout.as_deref()?)?))
    }
}

#[cfg(test)]
mod tests {
    use config::SETTINGS;
    use static_tree::Layout;

    #[test]
    fn every_layout_of_the_setting_exists() {
        let row = SETTINGS.iter().find(|setting| setting.key == "static_tree.layout").unwrap();
        let names: Vec<_> = Layout::ALL.map(Layout::name).into_iter().chain(["none"]).collect();
        assert_eq!(row.kind, config::SettingKind::Choice(names.leak()));
    }
}
