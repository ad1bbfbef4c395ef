//! The coded forms of a stored response: the same content in other content codings.
//!
//! Invariants: forms are added once and never change. Each is an object of its own, with its own
//! head and entity tag, and belongs to one object: whatever removes or replaces that object removes
//! them too.

use crate::Object;
use crate::weight::allocated;
use semantics::Coding;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

/// A response in one coding.
#[derive(Clone, Debug)]
pub struct CodedForm {
    /// The coding.
    pub coding: Coding,
    /// The response. Its freshness is not used: that of the object that has the form counts.
    pub object: Arc<Object>,
}

/// The forms of an object, and the uses before it got them.
#[derive(Debug, Default)]
pub(crate) struct CodedForms {
    forms: OnceLock<Box<[CodedForm]>>,
    /// At most [`ORDERED`].
    uses: AtomicU8,
}

/// The number of uses after which forms are ordered.
const ORDERED: u8 = 2;

impl CodedForms {
    /// These forms; if there are none, they can be added later.
    pub(crate) fn of(forms: Box<[CodedForm]>) -> Self {
        if forms.is_empty() { Self::default() } else { Self { forms: forms.into(), uses: ORDERED.into() } }
    }

    /// Counts a use. Returns true for the use that orders the forms.
    pub(crate) fn count(&self) -> bool {
        // Relaxed: the number orders no other memory. After the order nothing is written, so the
        // cache line of a popular object stays unmodified.
        let uses = self.uses.load(Ordering::Relaxed);
        if uses >= ORDERED {
            return false;
        }
        let counted = self.uses.compare_exchange(uses, uses + 1, Ordering::Relaxed, Ordering::Relaxed);
        counted.is_ok() && uses + 1 == ORDERED
    }

    /// Lets the next use order the forms.
    pub(crate) fn reopen(&self) {
        if self.forms.get().is_none() {
            self.uses.store(ORDERED - 1, Ordering::Relaxed);
        }
    }

    /// The forms that were made.
    #[inline]
    pub(crate) fn made(&self) -> &[CodedForm] {
        self.forms.get().map(|forms| &**forms).unwrap_or_default()
    }

    /// Adds the forms. Returns false if there are some already.
    pub(crate) fn add(&self, forms: Box<[CodedForm]>) -> bool {
        self.forms.set(forms).is_ok()
    }

    /// The bytes of memory that the forms occupy.
    pub(crate) fn bytes(&self) -> usize {
        bytes_of(self.made())
    }
}

/// The bytes of memory that these forms occupy.
pub(crate) fn bytes_of(forms: &[CodedForm]) -> usize {
    let list = allocated(size_of_val(forms));
    list + forms.iter().map(|form| form.object.bytes()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::CodedForms;

    #[test]
    fn second_use_orders_the_forms_once() {
        let forms = CodedForms::default();
        let counted: Vec<bool> = (0..5).map(|_| forms.count()).collect();
        assert_eq!(counted, [false, true, false, false, false]);
        forms.reopen();
        assert!(forms.count() && !forms.count());
        assert!(forms.add(Box::default()) && !forms.add(Box::default()));
        forms.reopen();
        assert!(!forms.count(), "the forms are there");
    }
}
