//! Bounds on the work that one page may cause. Pages may be hostile: a million images, stylesheets
//! that import each other, a few bytes that decompress to gigabytes.
//!
//! Invariant: every bound is named here, and every omission because of a bound is counted under its
//! [`PageLimit`].

/// Bounds on the resources and the work of one page load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimits {
    /// Resources of one page, without the page itself. Default 1000.
    pub assets_max: usize,
    /// Redirects followed for one resource. Default 20, as in browsers.
    pub redirects_max: u32,
    /// Bytes of one response's content as received. Default 64 MiB.
    pub content_bytes_max: usize,
    /// Bytes of a document or stylesheet after its content coding is removed, and of the attributes
    /// in a document's tree, where the parser repeats some. Default 8 MiB.
    pub decoded_bytes_max: usize,
    /// Elements of one document. Default 200,000.
    pub elements_max: usize,
    /// Nesting depth of elements. Default 512, as in Chromium.
    pub depth_max: u32,
    /// Nesting depth of stylesheet imports. Default 8.
    pub imports_max: u32,
    /// Nesting depth of frames. Default 3.
    pub frames_max: u32,
    /// Selectors in the style rules of one stylesheet. A rule with an overlong selector counts
    /// under this limit, too. Default 100,000.
    pub rules_max: usize,
    /// Steps of applying styles to one document: elements that selectors look at, words of their
    /// attributes, declarations, `var()` substitutions, and ranges of fonts. Default 20 million,
    /// about a second of work.
    pub matches_max: u64,
}

impl PageLimits {
    /// The default bounds, as given with each field.
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

impl Default for PageLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The bound that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PageLimit {
    /// [`PageLimits::assets_max`]
    Assets,
    /// [`PageLimits::redirects_max`]
    Redirects,
    /// [`PageLimits::content_bytes_max`]
    Content,
    /// [`PageLimits::decoded_bytes_max`]
    Decoded,
    /// [`PageLimits::elements_max`]
    Elements,
    /// [`PageLimits::depth_max`]
    Depth,
    /// [`PageLimits::imports_max`]
    Imports,
    /// [`PageLimits::frames_max`]
    Frames,
    /// [`PageLimits::rules_max`]
    Rules,
    /// [`PageLimits::matches_max`]
    Matches,
}

impl PageLimit {
    /// All bounds in the order of reports.
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

    /// The name in reports: the field of [`PageLimits`].
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

/// Number of times each bound was reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitCounts([u64; PageLimit::ALL.len()]);

impl LimitCounts {
    /// Adds one to the count of `limit`.
    pub fn add(&mut self, limit: PageLimit) {
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

    /// Number of times `limit` was reached.
    pub fn of(&self, limit: PageLimit) -> u64 {
        self.0.get(limit as usize).copied().unwrap_or_default()
    }

    /// Sum of all counts.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The bounds that were reached, each with its count (at least 1), in the order of
    /// [`PageLimit::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (PageLimit, u64)> {
        PageLimit::ALL.into_iter().map(|limit| (limit, self.of(limit))).filter(|&(_, count)| count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::{LimitCounts, PageLimit};

    #[test]
    fn each_limit_has_its_own_counter_and_name() {
        let mut counts = LimitCounts::default();
        for (index, limit) in PageLimit::ALL.into_iter().enumerate() {
            assert_eq!(limit as usize, index);
            counts.add(limit);
        }
        assert_eq!((counts.iter().count(), counts.total()), (10, 10));
        let mut names: Vec<_> = PageLimit::ALL.map(PageLimit::name).to_vec();
        names.dedup();
        assert_eq!(names.len(), 10);
    }
}
