//! The classes of resources, by their purpose.
//!
//! Invariant: `ALL` has every class, in the order of the enum, so that a class is an index of it.

/// The purpose of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceClass {
    /// The page.
    Document,
    /// A document in a frame.
    Frame,
    /// A stylesheet.
    Stylesheet,
    /// A script.
    Script,
    /// An image of the document or of a stylesheet.
    Image,
    /// A font.
    Font,
    /// The page's icon (favicon).
    Icon,
    /// Audio or video; only its beginning is loaded.
    Media,
    /// A prefetched resource, a preload for `fetch()`, or the content of `embed` or `object`.
    Other,
}

impl ResourceClass {
    /// All classes in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Document,
        Self::Frame,
        Self::Stylesheet,
        Self::Script,
        Self::Image,
        Self::Font,
        Self::Icon,
        Self::Media,
        Self::Other,
    ];

    /// The class name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Frame => "frame",
            Self::Stylesheet => "stylesheet",
            Self::Script => "script",
            Self::Image => "image",
            Self::Font => "font",
            Self::Icon => "icon",
            Self::Media => "media",
            Self::Other => "other",
        }
    }
}
