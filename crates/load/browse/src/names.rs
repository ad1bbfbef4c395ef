//! The addresses of host names, as one thread has looked them up.
//!
//! Invariant: a name is looked up once at a time, however many page loads wait for it, because each
//! lookup takes a thread of the system. Addresses are kept for the whole run; after a failure, the
//! next page load looks again.

use record::FetchFailure;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::sync::OnceCell;

/// The addresses of a name, or why there are none.
pub(crate) type ResolvedAddresses = Result<Vec<SocketAddr>, FetchFailure>;

/// A lookup that several page loads may wait for.
type NameLookup = Rc<OnceCell<ResolvedAddresses>>;

/// The names that one thread has looked up, each with its port.
#[derive(Debug, Default)]
pub(crate) struct NameCache(RefCell<HashMap<(String, u16), NameLookup>>);

impl NameCache {
    /// The addresses of a name: known ones, those of a lookup under way, or those that `look_up`
    /// finds.
    pub(crate) async fn find<F: Future<Output = ResolvedAddresses>>(
        &self,
        name: &str,
        port: u16,
        look_up: impl FnOnce() -> F,
    ) -> ResolvedAddresses {
        let key = (name.to_owned(), port);
        let lookup = Rc::clone(self.0.borrow_mut().entry(key.clone()).or_default());
        let found = lookup.get_or_init(look_up).await.clone();
        if found.is_err() {
            let mut names = self.0.borrow_mut();
            // Another page load may have begun the next lookup already.
            if names.get(&key).is_some_and(|current| Rc::ptr_eq(current, &lookup)) {
                names.remove(&key);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::{FetchFailure, NameCache, ResolvedAddresses};
    use std::cell::Cell;

    #[test]
    fn waiting_page_loads_share_one_lookup() {
        let address = "127.0.0.1:80".parse().unwrap();
        let cases: [(ResolvedAddresses, u32); 2] = [(Ok(vec![address]), 1), (Err(FetchFailure::Name), 2)];
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for (found, lookups) in cases {
                let (names, count) = (NameCache::default(), Cell::new(0));
                let find = || {
                    names.find("h", 80, || async {
                        count.set(count.get() + 1);
                        tokio::task::yield_now().await;
                        found.clone()
                    })
                };
                let (first, second) = tokio::join!(find(), find());
                assert_eq!((&first, &second, count.get()), (&found, &found, 1));
                // Only a failure is looked up again.
                assert_eq!((find().await, count.get()), (found.clone(), lookups));
            }
        });
    }
}
