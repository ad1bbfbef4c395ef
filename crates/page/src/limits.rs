//! How much a page may ask of the visitor who loads it. Pages lie: a million images, stylesheets that import each
//! other, a few octets that unpack to gigabytes.
//!
//! Invariant: every bound is named here, and whatever is left out because of one is counted under its [`Limit`].

/// The bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Resources of one page, its documents not counted. Default 1000.
    pub assets_max: usize,
    /// Redirects from one address to the next for one resource. Default 20, as browsers have it.
    pub redirects_max: u32,
    /// Octets of one response's content as it comes. Default 64 MiB.
    pub content_bytes_max: usize,
    /// Octets of a document or stylesheet once its coding is taken off. Default 8 MiB.
    pub decoded_bytes_max: usize,
    /// Elements of one document. Default 200,000.
    pub elements_max: usize,
    /// How deep elements may be in each other. Default 512, as in Chromium.
    pub depth_max: u32,
    /// How deep stylesheets may import each other. Default 8.
    pub imports_max: u32,
    /// How deep documents may be in each other's frames. Default 3.
    pub frames_max: u32,
    /// Style rules of one document. Default 100,000.
    pub rules_max: usize,
    /// Comparisons of a rule with an element, for one document. Default 20 million, about a second of work.
    pub matches_max: u64,
}

impl Limits {
    /// The defaults.
    pub const DEFAULT: Self = Self {
        assets_max: 1_000,
        redirects_max: 20,
        content_bytes_max: 64 * 1024 * 1024,
        decoded_bytes_max: 8 * 1024 * 1024,
        elements_max: 200_000,
        depth_max: 512,
        imports_max: 8,
        frames_max: 3,
        rules_max: 100_000,
        matches_max: 20_000_000,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Which bound was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// [`Limits::assets_max`]
    Assets,
    /// [`Limits::redirects_max`]
    Redirects,
    /// [`Limits::content_bytes_max`]
    Content,
    /// [`Limits::decoded_bytes_max`]
    Decoded,
    /// [`Limits::elements_max`]
    Elements,
    /// [`Limits::depth_max`]
    Depth,
    /// [`Limits::imports_max`]
    Imports,
    /// [`Limits::frames_max`]
    Frames,
    /// [`Limits::rules_max`]
    Rules,
    /// [`Limits::matches_max`]
    Matches,
}

impl Limit {
    /// All of them, in the order in which they are reported.
    pub const ALL: [Self; 10] = [
        Self::Assets,
        Self::Redirects,
        Self::Content,
        Self::Decoded,
        Self::Elements,
        Self::Depth,
        Self::Imports,
        Self::Frames,
        Self::Rules,
        Self::Matches,
    ];

    /// The name in reports: that of the bound.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Assets => "assets_max",
            Self::Redirects => "redirects_max",
            Self::Content => "content_bytes_max",
            Self::Decoded => "decoded_bytes_max",
            Self::Elements => "elements_max",
            Self::Depth => "depth_max",
            Self::Imports => "imports_max",
            Self::Frames => "frames_max",
            Self::Rules => "rules_max",
            Self::Matches => "matches_max",
        }
    }
}

/// How often each bound was reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitCounts([u64; Limit::ALL.len()]);

impl LimitCounts {
    /// Counts one.
    pub fn add(&mut self, limit: Limit) {
        if let Some(count) = self.0.get_mut(limit as usize) {
            *count += 1;
        }
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }

    /// How often this bound was reached.
    pub fn of(&self, limit: Limit) -> u64 {
        self.0.get(limit as usize).copied().unwrap_or_default()
    }

    /// How often any was.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The bounds that were reached, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (Limit, u64)> {
        Limit::ALL.into_iter().map(|limit| (limit, self.of(limit))).filter(|&(_, count)| count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Limit, LimitCounts};

    #[test]
    fn every_bound_has_its_own_place_and_name() {
        let mut counts = LimitCounts::default();
        for (index, limit) in Limit::ALL.into_iter().enumerate() {
            assert_eq!(limit as usize, index);
            counts.add(limit);
        }
        assert_eq!((counts.iter().count(), counts.total()), (10, 10));
        let mut names: Vec<_> = Limit::ALL.map(Limit::name).to_vec();
        names.dedup();
        assert_eq!(names.len(), 10);
    }
}
