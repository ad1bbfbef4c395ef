//! The parts of an HTML document's head from which a system may be detected.

/// The parts of a parsed `head` element that are written by the templates of a system.
///
/// Titles, descriptions, canonical links and the body are left out, because the site's users write
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentHead {
    /// The contents of `<meta name="generator">`, in order.
    pub generators: Vec<String>,
    /// Path and query of the scripts and stylesheets that the head loads from the page's own host,
    /// in order.
    pub assets: Vec<String>,
}
