//! Reasons for which a response is not written to the tree.

/// A reason. Each has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeRefusal {
    /// It is not a whole page: status other than 200, partial content, type other than HTML in
    /// UTF-8, or too large.
    NoPage,
    /// It is not the same for all visitors: it varies on more than the coding, or sets a cookie.
    NotForAll,
    /// It stays fresh for too short a time, or must be validated before each use.
    ShortLived,
    /// Its host or path has no safe name in the layout, or its place belongs to another page. Also
    /// if the tree already has pages of too many hosts.
    Path,
    /// The tree has reached its limit of pages or bytes.
    Full,
    /// The write queue is full or has ended.
    Busy,
}

impl TreeRefusal {
    /// All reasons.
    pub const ALL: [Self; 6] =
        [Self::NoPage, Self::NotForAll, Self::ShortLived, Self::Path, Self::Full, Self::Busy];
}
