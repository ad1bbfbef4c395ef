//! The store: one index that leads from a cache key to its variants, and from a variant to its
//! object. The store also holds the bodies that are still being received from an origin. A complete
//! body is in memory or on the disk.
//!
//! Invariant: stored heads, bodies and keys, together with the index, never exceed the memory
//! limit. Objects that the store hands out are shared and immutable, except that coded forms are
//! added to them once.
//!
//! The crate opens no socket, starts no task and reads no clock. A task that has to wait for a part
//! of a body is woken by its [`std::task::Waker`]. A read from the disk blocks the calling thread.
//! The `semantics` crate decides whether a response may be stored or reused.

mod body;
mod budget;
mod coded_forms;
mod compact_freshness;
mod disk_write;
mod examination;
mod filling;
mod growth;
mod hash;
mod invalidation_record;
mod key;
mod ledger;
mod lingering;
mod list;
mod list_entry;
mod log;
mod mark;
mod object;
mod octets;
mod pieces;
mod record;
mod s3fifo;
mod scopes;
mod selector;
mod shard;
mod shards;
mod shelf;
mod sieve;
mod slot;
mod slot_locations;
mod store;
mod stored_head;
mod subject;
mod sweep;
mod sync;
mod tags;
mod weight;

pub use body::{Body, CHUNK_BYTES, OnDisk};
pub use coded_forms::CodedForm;
pub use examination::{Examination, ExaminationStep};
pub use filling::{Abandoned, Aborted, Filling, FillingReader, FillingWriter};
pub use invalidation_record::{Bans, RestoredInvalidation};
pub use key::{Key, SiteId};
pub use object::{ContentPart, Object, StoredTemplate, Template};
pub use record::SiteNames;
pub use selector::{Invalidation, InvalidationResult, Selector};
pub use shelf::{PENDING_INVALIDATIONS_MAX, ShelvedObject, Spill};
pub use store::{AdoptedEquivalent, Lookup, Publication, PublishResult, Store, StoreLimits, StoreStats};
pub use sweep::Swept;
