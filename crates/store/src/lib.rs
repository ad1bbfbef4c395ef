//! The store: one index from key to variants to objects, with bodies in memory or on the disk, and bodies on their way
//! in.
//!
//! Invariant: the memory in use, weighed with head, body, key and index, never exceeds the limit; what is
//! handed out is shared and immutable. No socket, no task, no clock: waiting is done through
//! [`std::task::Waker`]s. Whether something may be stored or reused is decided in `semantics`.

mod body;
mod budget;
mod examination;
mod filling;
mod hash;
mod invalidation;
mod invalidation_record;
mod judged;
mod key;
mod ledger;
mod lingering;
mod list;
mod listed;
mod log;
mod mark;
mod object;
mod octets;
mod pieces;
mod places;
mod record;
mod s3fifo;
mod scopes;
mod shard;
mod shelf;
mod sieve;
mod slot;
mod slowly;
mod store;
mod stored_head;
mod sweep;
mod sync;
mod tags;
mod weight;

pub use body::{Body, CHUNK_BYTES, OnDisk};
pub use examination::{Examination, Examined};
pub use filling::{Abandoned, Aborted, Filling, FillingReader, FillingWriter};
pub use invalidation::{Ban, Haystack, Invalidated, Invalidation, Mode, Need, Selector, Stored};
pub use invalidation_record::Bans;
pub use key::{Key, SiteId};
pub use object::{Object, Part};
pub use record::SiteNames;
pub use shelf::{Shelved, Spill};
pub use store::{Lookup, Publication, Published, Returning, Store, StoreLimits, StoreStats};
pub use sweep::Swept;
