//! Why a response is not written to the tree.

/// A reason; each is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is no whole page: another status than 200, a part, another type than HTML in UTF-8, too large.
    NoPage,
    /// Not everybody gets the same: it varies on more than its coding, or sets a cookie.
    NotForAll,
    /// It is fresh for too short a time, or is to be validated each time.
    ShortLived,
    /// Its host or path has no safe name in the layout, or another page has it.
    Path,
    /// The tree has as many pages, or octets, as it may.
    Full,
    /// Too many pages wait to be written.
    Busy,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::NoPage, Self::NotForAll, Self::ShortLived, Self::Path, Self::Full, Self::Busy];
}
