//! What the head of an HTML document says that a system may be recognised by.

/// The parts of a parsed `head` element that the templates of a system write.
///
/// Titles, descriptions, canonical links and the body are left out, because their authors are the site's users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentHead {
    /// The contents of `<meta name="generator">`, in order.
    pub generators: Vec<String>,
    /// Path and query of the scripts and stylesheets that the head loads from the page's own host, in order.
    pub assets: Vec<String>,
}
