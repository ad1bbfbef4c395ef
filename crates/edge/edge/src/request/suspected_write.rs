//! A request that may be a write, depending on the content of its response.

use crate::sites::Site;
use bytes::Bytes;
use std::sync::Arc;
use store::Key;

/// A request that may be a write, depending on the content of its response.
pub(crate) struct SuspectedWrite {
    pub(crate) site: Arc<Site>,
    pub(crate) host: Bytes,
    pub(crate) target: Bytes,
    pub(crate) key: Key,
}
