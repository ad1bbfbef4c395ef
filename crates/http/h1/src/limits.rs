//! Limits on the size of a message, and the two modes of strictness. Plain data: the parsers and
//! the decoder enforce it.

/// How far a message may deviate from the grammar. The table in the crate's documentation lists
/// every difference between the two modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strictness {
    /// Refuses everything that two implementations could read differently. For the reverse proxy,
    /// on both sides.
    Strict,
    /// Accepts the deviations of real servers, where RFC 9112 says how to read them. For clients
    /// that measure or examine servers and do not correct them, such as the load tester.
    Tolerant,
}

/// Upper limits on the parts of a message other than its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest head in bytes: start line, field lines, line ends and empty lines before it. Default
    /// 32 KiB; above [`Limits::HEAD_BYTES_CEILING`] the ceiling applies.
    pub head_bytes_max: usize,
    /// Largest number of field lines in a head, and in a trailer section. Default 100; above
    /// [`Limits::FIELDS_CEILING`] the ceiling applies.
    pub fields_max: usize,
    /// Longest request target in bytes. Default 8 KiB (RFC 9112 section 3 asks for at least 8000).
    pub target_bytes_max: usize,
    /// Largest size in bytes of the chunk extensions of one body, all together. Default 16 KiB. The
    /// sum is limited because a peer with an extension on every one-byte chunk causes work without
    /// sending content.
    pub chunk_extension_bytes_max: usize,
    /// Largest trailer section in bytes, including the empty line that ends it. Default 16 KiB.
    pub trailer_bytes_max: usize,
}

impl Limits {
    /// Default for [`Limits::head_bytes_max`].
    pub const HEAD_BYTES_MAX: usize = 32 * 1024;
    /// Highest effective value of [`Limits::head_bytes_max`]. Positions in a head then fit 32 bits.
    pub const HEAD_BYTES_CEILING: usize = 16 * 1024 * 1024;
    /// Default for [`Limits::fields_max`].
    pub const FIELDS_MAX: usize = 100;
    /// Highest effective value of [`Limits::fields_max`]: the rows of the tokenizer's table of
    /// field lines, which is on the stack (8 KiB).
    pub const FIELDS_CEILING: usize = 256;
    /// Default for [`Limits::target_bytes_max`].
    pub const TARGET_BYTES_MAX: usize = 8 * 1024;
    /// Default for [`Limits::chunk_extension_bytes_max`].
    pub const CHUNK_EXTENSION_BYTES_MAX: usize = 16 * 1024;
    /// Default for [`Limits::trailer_bytes_max`].
    pub const TRAILER_BYTES_MAX: usize = 16 * 1024;

    /// The named defaults, the same as [`Limits::default`].
    pub const DEFAULT: Self = Self {
        head_bytes_max: Self::HEAD_BYTES_MAX,
        fields_max: Self::FIELDS_MAX,
        target_bytes_max: Self::TARGET_BYTES_MAX,
        chunk_extension_bytes_max: Self::CHUNK_EXTENSION_BYTES_MAX,
        trailer_bytes_max: Self::TRAILER_BYTES_MAX,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
