//! The forms of purges that the clients send.
//!
//! Invariant: each form is a dialect, or a call of the admin address, that docs/purging.md lists.

/// The form of a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialect {
    /// `PURGE <path>`.
    Purge,
    /// `PURGE` with an absolute URL, as MediaWiki sends it.
    AbsolutePurge,
    /// `BAN <path>`.
    Ban,
    /// `URIBAN <path>`.
    UriBan,
    /// `REFRESH <path>`: soft, and fetched again.
    Refresh,
    /// GET with `X-Refresh: 1`: soft, and answered with the new page.
    RefreshGet,
    /// `PURGE /` with `Surrogate-Key`.
    SurrogateKey,
    /// `PURGE /` with `Cache-Tags`.
    CacheTags,
    /// `BAN /` with `X-Cache-Tags`, a regular expression that a client made from tags.
    TagPattern,
    /// `PURGEKEYS /` with `xkey-purge`.
    XkeyPurge,
    /// `PURGEKEYS /` with `xkey-softpurge`: soft.
    XkeySoftPurge,
    /// `BAN /` with `X-Url`.
    UrlCondition,
    /// `PURGE <prefix>.*` with `X-Purge-Method: regex`.
    Pattern,
    /// `PURGE <prefix>*`.
    Wildcard,
    /// `PURGE /` with `Clear-Cache: true`.
    ClearCache,
    /// JSON of type `uri`.
    JsonUri,
    /// JSON of type `uri-prefix`.
    JsonPrefix,
    /// JSON of type `tag`, any of them.
    JsonTag,
    /// JSON of type `tag`, all of them.
    JsonAllTags,
    /// JSON of type `ban`.
    JsonBan,
    /// JSON of type `host`.
    JsonHost,
    /// JSON of type `all`.
    JsonAll,
    /// One key, as Fastly's clients send it.
    FastlyKey,
    /// Keys in JSON, as Fastly's clients send them.
    FastlyKeys,
    /// One page, as Fastly's clients send it.
    FastlyPage,
    /// A whole service of Fastly's clients: always hard.
    FastlyAll,
    /// Files of a zone, as Cloudflare's clients send them: always hard.
    CloudflareFiles,
    /// Tags of a zone: always hard.
    CloudflareTags,
    /// Prefixes of a zone: always hard.
    CloudflarePrefixes,
    /// A whole zone: always hard.
    CloudflareAll,
}

impl Dialect {
    /// All forms.
    pub const ALL: [Self; 30] = [
        Self::Purge,
        Self::AbsolutePurge,
        Self::Ban,
        Self::UriBan,
        Self::Refresh,
        Self::RefreshGet,
        Self::SurrogateKey,
        Self::CacheTags,
        Self::TagPattern,
        Self::XkeyPurge,
        Self::XkeySoftPurge,
        Self::UrlCondition,
        Self::Pattern,
        Self::Wildcard,
        Self::ClearCache,
        Self::JsonUri,
        Self::JsonPrefix,
        Self::JsonTag,
        Self::JsonAllTags,
        Self::JsonBan,
        Self::JsonHost,
        Self::JsonAll,
        Self::FastlyKey,
        Self::FastlyKeys,
        Self::FastlyPage,
        Self::FastlyAll,
        Self::CloudflareFiles,
        Self::CloudflareTags,
        Self::CloudflarePrefixes,
        Self::CloudflareAll,
    ];

    /// Whether it is sent to the admin address.
    pub fn is_admin(self) -> bool {
        self >= Self::JsonUri
    }

    /// Whether it can be made soft, or hard.
    pub(crate) const fn softness(self) -> Softness {
        match self {
            Self::Refresh | Self::RefreshGet | Self::XkeySoftPurge => Softness::Always,
            Self::FastlyAll
            | Self::CloudflareFiles
            | Self::CloudflareTags
            | Self::CloudflarePrefixes
            | Self::CloudflareAll => Softness::Never,
            _ => Softness::AsAsked,
        }
    }
}

/// Whether a form of purge is soft.
pub(crate) enum Softness {
    Always,
    Never,
    AsAsked,
}
