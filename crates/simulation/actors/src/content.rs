//! The content of pages: bytes that name their own origin.
//!
//! Invariant: a body depends only on its identity and its length. It consists of blocks, and each
//! block begins with its number and the identity. A mixture of two versions, users or pages is
//! therefore found in any slice, and the foreign part can be named.

use flate2::{Compression, GzBuilder};
use std::fmt;
use std::io::Write as _;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 512;

/// The user or language of content that has none.
pub const NONE: &str = "-";

/// Whose content it is: one page in one version, for one user and in one language.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContentId {
    /// The target of the page: its path, and the query if the origin reads it. At another host than
    /// the first one, `//` and the host stand before it.
    pub target: String,
    /// The version of the page; the first is 1.
    pub version: u64,
    /// The user for whom it was made, or [`NONE`].
    pub user: String,
    /// The language in which it was written, or [`NONE`].
    pub language: String,
    /// The realm of the application that has made it: [`NONE`], or one that a route has chosen.
    pub realm: String,
}

impl ContentId {
    /// The identity in the form of the field `X-Sim`: five words. `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (target, version) = (words.next()?, words.next()?);
        let (user, language, realm) = (words.next()?, words.next()?, words.next()?);
        if !target.starts_with('/') || words.next().is_some() {
            return None;
        }
        let version = version.parse().ok()?;
        let (user, language, realm) = (user.into(), language.into(), realm.into());
        Some(Self { target: target.into(), version, user, language, realm })
    }

    /// The strong entity tag of this content. Different contents have different tags.
    pub fn etag(&self) -> String {
        format!("\"v{}-{:016x}\"", self.version, hash(&self.to_string()))
    }
}

impl fmt::Display for ContentId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, version, user, language, realm } = self;
        write!(to, "{target} {version} {user} {language} {realm}")
    }
}

/// Where a body differs from what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The offset in the whole content of the first wrong byte.
    pub at: usize,
    /// The wrong block as text, up to its identity; escaped.
    pub found: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "from byte {} on it is another content: {}", self.at, self.found)
    }
}

/// The bytes from `start` to `end` of the content of `id`.
pub fn slice(id: &ContentId, start: usize, end: usize) -> Vec<u8> {
    let mut blocks = Blocks::new(id);
    let mut octets = Vec::with_capacity(end.saturating_sub(start));
    let mut at = start;
    while at < end {
        let block = blocks.block(at / BLOCK_BYTES);
        let skip = at % BLOCK_BYTES;
        let take = (BLOCK_BYTES - skip).min(end - at);
        octets.extend_from_slice(block.get(skip..skip + take).unwrap_or_default());
        at += take;
    }
    octets
}

/// The same octets with the gzip coding. The same octets always have the same coded form.
pub(crate) fn gzip(octets: &[u8]) -> Vec<u8> {
    gzip_with(GzBuilder::new(), octets)
}

/// The same octets with the gzip coding, in a form whose length leaves `remainder` when divided by
/// `divisor`. The extra field of the gzip header, which decoders skip, has the bytes that this
/// needs.
pub(crate) fn gzip_with_remainder(octets: &[u8], remainder: usize, divisor: usize) -> Vec<u8> {
    let with_extra = |bytes: usize| gzip_with(GzBuilder::new().extra(vec![0; bytes]), octets);
    let excess = with_extra(0).len() % divisor;
    with_extra((remainder + divisor - excess) % divisor)
}

fn gzip_with(header: GzBuilder, octets: &[u8]) -> Vec<u8> {
    let mut encoder = header.write(Vec::new(), Compression::fast());
    // Writing to a Vec cannot fail.
    let _ = encoder.write_all(octets);
    encoder.finish().unwrap_or_default()
}

/// Checks that `octets` are the content of `id` from the offset `start` on.
///
/// # Errors
///
/// The first place where they differ.
pub fn verify(id: &ContentId, start: usize, octets: &[u8]) -> Result<(), Mismatch> {
    let mut blocks = Blocks::new(id);
    let mut at = start;
    let end = start + octets.len();
    while at < end {
        let skip = at % BLOCK_BYTES;
        let take = (BLOCK_BYTES - skip).min(end - at);
        let found = octets.get(at - start..at - start + take).unwrap_or_default();
        let expected = blocks.block(at / BLOCK_BYTES).get(skip..skip + take).unwrap_or_default();
        if found != expected {
            let same = found.iter().zip(expected).take_while(|(one, other)| one == other).count();
            // A whole block names its page. The next block does so if this one is cut in front.
            let named = if skip == 0 { at - start } else { at - start + take };
            let line = octets.get(named..(named + BLOCK_BYTES).min(octets.len())).unwrap_or_default();
            let line = if line.is_empty() { found } else { line };
            return Err(Mismatch { at: at + same, found: named_part(line) });
        }
        at += take;
    }
    Ok(())
}

/// The part of a block that names it, escaped.
fn named_part(block: &[u8]) -> String {
    let end = block.iter().position(|octet| *octet == b';').unwrap_or(block.len()).min(80);
    block.get(..end).unwrap_or_default().escape_ascii().to_string()
}

/// Makes blocks. They are cut from a text that depends on the identity, at a place that depends on
/// their number.
struct Blocks {
    name: String,
    text: Vec<u8>,
    block: Vec<u8>,
}

/// Bytes of the text of an identity. A prime number, so that the places of blocks are spread.
const TEXT_BYTES: usize = 2039;

impl Blocks {
    fn new(id: &ContentId) -> Self {
        let name = id.to_string();
        let mut state = hash(&name);
        let mut text = Vec::with_capacity(TEXT_BYTES + BLOCK_BYTES);
        while text.len() < TEXT_BYTES + BLOCK_BYTES {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            text.extend(state.to_le_bytes().map(|octet| b'a' + octet % 26));
        }
        Self { name, text, block: Vec::with_capacity(BLOCK_BYTES * 2) }
    }

    fn block(&mut self, number: usize) -> &[u8] {
        self.block.clear();
        // Writing to a Vec cannot fail.
        let _ = write!(self.block, "{number:06} {};", self.name);
        let place = number.wrapping_mul(613) % TEXT_BYTES;
        self.block.extend_from_slice(self.text.get(place..place + BLOCK_BYTES).unwrap_or_default());
        self.block.truncate(BLOCK_BYTES - 1);
        self.block.push(b'\n');
        &self.block
    }
}

/// FNV-1a, 64 bits, never zero.
pub(crate) fn hash(text: &str) -> u64 {
    let step = |state: u64, octet: u8| (state ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step) | 1
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, ContentId, slice, verify};

    fn id(target: &str, version: u64) -> ContentId {
        ContentId {
            target: target.into(),
            version,
            user: "-".into(),
            language: "de".into(),
            realm: "-".into(),
        }
    }

    #[test]
    fn identity_is_read_as_it_is_written() {
        let page = id("/a?b=1", 7);
        assert_eq!(page.to_string(), "/a?b=1 7 - de -");
        assert_eq!(ContentId::parse("/a?b=1 7 - de -"), Some(page));
        for wrong in ["", "/a 7 - de", "/a x - de -", "/a 7 - de - more", "a 7 - de -"] {
            assert_eq!(ContentId::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_slice_is_verified() {
        let page = id("/a", 1);
        let whole = slice(&page, 0, 1000);
        assert_eq!(whole.len(), 1000);
        for (start, end) in [(0, 1000), (0, 0), (1, 2), (511, 513), (512, 768), (300, 999)] {
            assert_eq!(slice(&page, start, end), whole[start..end]);
            assert_eq!(verify(&page, start, &whole[start..end]), Ok(()));
        }
    }

    #[test]
    fn mixture_of_two_versions_is_found_and_named() {
        let (old, new) = (id("/a", 1), id("/a", 2));
        let mut mixed = slice(&old, 0, 3 * BLOCK_BYTES);
        mixed.extend(slice(&new, 3 * BLOCK_BYTES, 5 * BLOCK_BYTES));
        let mismatch = verify(&old, 0, &mixed).unwrap_err();
        assert_eq!(mismatch.at, 3 * BLOCK_BYTES + "000003 /a ".len());
        assert_eq!(mismatch.found, "000003 /a 2 - de -");
        // Within a slice that begins in the middle of a block.
        let mismatch = verify(&new, 100, &slice(&old, 100, 2 * BLOCK_BYTES)).unwrap_err();
        assert_eq!(mismatch.found, "000001 /a 1 - de -");
    }

    #[test]
    fn shifted_content_is_found() {
        let page = id("/a", 1);
        assert!(verify(&page, 0, &slice(&page, BLOCK_BYTES, 2 * BLOCK_BYTES)).is_err());
    }

    #[test]
    fn different_contents_have_different_entity_tags() {
        assert_ne!(id("/a", 1).etag(), id("/a", 2).etag());
        assert_ne!(id("/a", 1).etag(), id("/b", 1).etag());
    }
}
