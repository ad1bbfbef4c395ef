//! Surrogate tags for the post that a stored page shows, so that a write to one post leaves other
//! posts cached.
//!
//! Invariants: each stored response for which the profile has a rule has exactly one of these tags.
//! A response without a post number has the tag of [`Identity::Unknown`]. Unless its rule changes
//! only the fronts, a write that identifies a post invalidates this tag too. It thus misses no
//! page.

use crate::control::reach::name_of;
use crate::sites::Site;
use bytes::Bytes;
use message::Fields;
use purge::{TagsError, tags_of};
use semantics::{Identity, identity_of};
use store::Key;

impl Site {
    /// The tags of a response: the tags in its header fields, and the tag of the post that it
    /// shows.
    pub(crate) fn tags_of(&self, key: &Key, response: &Fields) -> Result<Vec<Bytes>, TagsError> {
        let mut tags = tags_of(response, key.is_https(), key.host())?;
        if let Some(identity) = identity_of(key.target(), response, self.policy()) {
            tags.push(self.identity_tag(key.host(), &identity));
            tags.sort_unstable();
        }
        Ok(tags)
    }

    /// The tag of a host's pages that show `identity`. Like group tags, it begins with a byte that
    /// no header field can contain.
    pub(crate) fn identity_tag(&self, host: &[u8], identity: &Identity) -> Bytes {
        // Aliases of a site show the same posts. If the site answers to names that its settings do
        // not list, each name is treated as a separate site.
        let host = if self.plan.has_open_names() { name_of(host) } else { Bytes::new() };
        let number = match identity {
            Identity::Post(number) => &number[..],
            Identity::Unknown => b"",
        };
        Bytes::from([b"\0post:", &host[..], b"/", number].concat())
    }
}
