//! How much a peer may send before its message is refused, and how much sloppiness is forgiven. Plain data:
//! the parsers and the decoder enforce it, nothing here looks at octets.

/// How far a message may stray from the grammar. The table in the crate's documentation lists every
/// difference between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strictness {
    /// Refuse whatever two implementations could read differently. For the accelerator, on both sides.
    Strict,
    /// Accept what servers in the field really send, where RFC 9112 says how to read it. For the load
    /// tester, which has to measure a server and not to correct it.
    Tolerant,
}

/// Upper bounds on the parts of a message that are read before its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Octets of a head: start line, field lines, line ends and any empty lines before it. Default 32 KiB;
    /// at most [`Limits::HEAD_BYTES_CEILING`], above which it has no effect.
    pub head_bytes_max: usize,
    /// Field lines in a head, and in a trailer section. Default 100; at most [`Limits::FIELDS_CEILING`],
    /// above which it has no effect.
    pub fields_max: usize,
    /// Octets of a request target. Default 8 KiB (RFC 9112 section 3 asks for at least 8000).
    pub target_bytes_max: usize,
    /// Octets of chunk extensions, over all chunks of one body. Default 16 KiB. The sum is what counts: a
    /// peer that hangs an extension on every one-octet chunk costs work without sending content.
    pub chunk_extension_bytes_max: usize,
    /// Octets of a trailer section, its closing empty line included. Default 16 KiB.
    pub trailer_bytes_max: usize,
}

impl Limits {
    /// Default for [`Limits::head_bytes_max`].
    pub const HEAD_BYTES_MAX: usize = 32 * 1024;
    /// No head is worth more, and places in it fit 32 bits.
    pub const HEAD_BYTES_CEILING: usize = 16 * 1024 * 1024;
    /// Default for [`Limits::fields_max`].
    pub const FIELDS_MAX: usize = 100;
    /// The tokenizer's table of field lines lives on the stack and has this many rows (8 KiB).
    pub const FIELDS_CEILING: usize = 256;
    /// Default for [`Limits::target_bytes_max`].
    pub const TARGET_BYTES_MAX: usize = 8 * 1024;
    /// Default for [`Limits::chunk_extension_bytes_max`].
    pub const CHUNK_EXTENSION_BYTES_MAX: usize = 16 * 1024;
    /// Default for [`Limits::trailer_bytes_max`].
    pub const TRAILER_BYTES_MAX: usize = 16 * 1024;

    /// The named defaults; also what [`Limits::default`] gives.
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
