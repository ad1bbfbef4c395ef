//! The entity tag of a file.
//!
//! Invariant: it is strong and differs between two states of a file, between two files, and between
//! the codings of one file. It follows from the file system's numbers alone, so it is the same
//! after a restart, and reveals none of them: they pass through SHA-256, and the time of the last
//! change in nanoseconds makes guessing them futile.

use crate::identity::FileIdentity;
use bytes::Bytes;
use clock::Timestamp;
use semantics::Coding;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Bytes of the digest that the tag has.
const DIGEST_BYTES: usize = 12;

/// The entity tag of a file that was looked at at the wall time `now`.
///
/// A file that has just changed may change again without a trace. Its tag holds the time of the
/// look too, so another look gives another tag.
pub(crate) fn entity_tag(identity: &FileIdentity, coding: Option<Coding>, now: Timestamp) -> Bytes {
    let mut digest = Sha256::new();
    digest.update(identity.device.0.to_le_bytes());
    digest.update(identity.device.1.to_le_bytes());
    digest.update(identity.inode.to_le_bytes());
    digest.update(identity.bytes.to_le_bytes());
    for time in [identity.modified, identity.changed] {
        digest.update(time.secs.to_le_bytes());
        digest.update(time.nanos.to_le_bytes());
    }
    if !identity.is_settled(now) {
        digest.update(now.as_micros().to_le_bytes());
    }
    let mut tag = String::with_capacity(2 * DIGEST_BYTES + 8);
    tag.push('"');
    for byte in digest.finalize().iter().take(DIGEST_BYTES) {
        // Writing into a String cannot fail.
        let _ = write!(tag, "{byte:02x}");
    }
    if let Some(coding) = coding {
        tag.push('-');
        tag.push_str(coding.name());
    }
    tag.push('"');
    Bytes::from(tag)
}

#[cfg(test)]
mod tests {
    use super::entity_tag;
    use crate::identity::{FileIdentity, FileTime};
    use clock::Timestamp;
    use semantics::Coding;

    const NOW: Timestamp = Timestamp::from_secs(2_000);

    fn identity() -> FileIdentity {
        let time = FileTime { secs: 1_000, nanos: 5 };
        FileIdentity { device: (8, 1), inode: 77, bytes: 10, modified: time, changed: time }
    }

    #[test]
    fn every_number_and_the_coding_change_the_tag() {
        let plain = identity();
        let other_time = FileTime { secs: 1_000, nanos: 6 };
        let tags = [
            entity_tag(&plain, None, NOW),
            entity_tag(&plain, Some(Coding::Gzip), NOW),
            entity_tag(&plain, Some(Coding::Brotli), NOW),
            entity_tag(&FileIdentity { device: (8, 2), ..plain }, None, NOW),
            entity_tag(&FileIdentity { inode: 78, ..plain }, None, NOW),
            entity_tag(&FileIdentity { bytes: 11, ..plain }, None, NOW),
            entity_tag(&FileIdentity { modified: other_time, ..plain }, None, NOW),
            entity_tag(&FileIdentity { changed: other_time, ..plain }, None, NOW),
        ];
        for (place, tag) in tags.iter().enumerate() {
            assert!(!tags[..place].contains(tag), "{tag:?}");
            assert!(tag.len() >= 26 && tag.starts_with(b"\"") && tag.ends_with(b"\""), "{tag:?}");
        }
        assert_eq!(tags[0], entity_tag(&identity(), None, Timestamp::from_secs(9_000)));
    }

    #[test]
    fn a_file_that_just_changed_has_another_tag_at_each_look() {
        let at = |secs| entity_tag(&identity(), None, Timestamp::from_secs(secs));
        assert_ne!(at(1_000), at(1_001));
        // A file from the future is as unsettled as one from the past.
        assert_ne!(at(998), at(999));
        assert_eq!(at(1_003), at(1_004));
        assert_eq!(at(100), at(101));
    }
}
