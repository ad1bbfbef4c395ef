//! The queue of the encoder thread: stored responses whose coded forms are ordered.
//!
//! Invariants: the number of orders is bounded. An order keeps no response in memory: one that
//! leaves the store before its turn is skipped.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, Weak};
use store::{Key, Object};
use threads::{Condvar, Mutex, MutexGuard};

/// Maximum number of orders that wait. A use beyond it orders nothing, and the next use tries
/// again. A crawler that visits all pages of a site twice needs one for each.
pub(crate) const ORDERS_MAX: usize = 16 * 1024;

/// Maximum total length of the hosts and targets of orders that wait, in bytes.
const TEXT_BYTES_MAX: usize = 2 << 20;

/// An order of the coded forms of a stored response.
#[derive(Debug)]
pub(crate) struct EncodingOrder {
    pub(crate) key: Key,
    pub(crate) object: Weak<Object>,
}

/// The queue of the encoder thread.
#[derive(Debug, Default)]
pub(crate) struct Encodings {
    queue: Mutex<OrderQueue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct OrderQueue {
    orders: VecDeque<EncodingOrder>,
    /// The total length of their hosts and targets.
    text_bytes: usize,
    is_ended: bool,
}

impl Encodings {
    /// Orders the forms of a stored response. Returns false if the queue is full.
    pub(crate) fn order(&self, key: &Key, object: &Arc<Object>) -> bool {
        let mut queue = self.queue();
        let text_bytes = queue.text_bytes + text_bytes(key);
        if queue.is_ended || queue.orders.len() >= ORDERS_MAX || text_bytes > TEXT_BYTES_MAX {
            return false;
        }
        queue.text_bytes = text_bytes;
        queue.orders.push_back(EncodingOrder { key: key.detached(), object: Arc::downgrade(object) });
        self.changed.notify_one();
        true
    }

    /// Waits for the next order. `None` at the end.
    pub(crate) fn next(&self) -> Option<EncodingOrder> {
        let waits = |queue: &mut OrderQueue| queue.orders.is_empty() && !queue.is_ended;
        let mut queue = self.changed.wait_while(self.queue(), waits).unwrap_or_else(PoisonError::into_inner);
        let order = if queue.is_ended { None } else { queue.orders.pop_front() }?;
        queue.text_bytes -= text_bytes(&order.key);
        if queue.orders.is_empty() {
            // Gives back the memory of a long queue.
            queue.orders = VecDeque::new();
        }
        Some(order)
    }

    /// Ends the thread: it takes no further order, and gives up the one that it works on.
    pub(crate) fn end(&self) {
        let mut queue = self.queue();
        queue.is_ended = true;
        queue.orders.clear();
        queue.text_bytes = 0;
        self.changed.notify_all();
    }

    /// Whether the thread must end.
    pub(crate) fn is_ended(&self) -> bool {
        self.queue().is_ended
    }

    /// The number of orders that wait.
    pub(crate) fn len(&self) -> usize {
        self.queue().orders.len()
    }

    fn queue(&self) -> MutexGuard<'_, OrderQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text_bytes(key: &Key) -> usize {
    key.host().len() + key.target().len()
}

#[cfg(test)]
mod tests {
    use super::{Encodings, ORDERS_MAX};
    use bytes::Bytes;
    use message::{ResponseHead, Status};
    use semantics::{Freshness, Moment};
    use std::sync::Arc;
    use std::time::Duration;
    use store::{Body, Key, Object, SiteId};

    #[test]
    fn queue_is_bounded_holds_no_object_and_ends() {
        let freshness = Freshness::lasting(Duration::ZERO, Moment::default());
        let object = Arc::new(Object::new(&ResponseHead::new(Status::OK), b"", Body::default(), freshness));
        let key = Key::new(SiteId(0), false, b"a.test", Bytes::from_static(b"/"));
        let encodings = Encodings::default();
        assert!((0..ORDERS_MAX).all(|_| encodings.order(&key, &object)));
        assert!(!encodings.order(&key, &object));
        assert_eq!((encodings.len(), Arc::strong_count(&object)), (ORDERS_MAX, 1));
        assert!(encodings.next().unwrap().object.upgrade().is_some());
        assert!(encodings.order(&key, &object));
        drop(object);
        assert!(encodings.next().unwrap().object.upgrade().is_none());
        let long = Key::new(SiteId(0), false, b"a.test", Bytes::from(vec![b'/'; 1 << 20]));
        let object = Arc::new(Object::new(&ResponseHead::new(Status::OK), b"", Body::default(), freshness));
        while encodings.len() > 0 {
            encodings.next();
        }
        assert!(encodings.order(&long, &object) && !encodings.order(&long, &object));
        assert!(encodings.next().is_some() && encodings.order(&long, &object));
        encodings.end();
        assert!(encodings.next().is_none() && encodings.is_ended() && encodings.len() == 0);
    }
}
