//! Reference pages: the pages that the steps' pages are compared with.
//!
//! The first step's page is a reference. A step may declare a new reference: the page that it
//! served before the rounds. That step and the steps after it are compared with the new reference.

use crate::fingerprint::NormalisedPage;
use report::results::PageRecord;
use std::collections::BTreeMap;

/// A reference page.
pub(crate) struct Reference {
    /// Number of the step that served the page.
    pub(crate) number: String,
    /// The page.
    pub(crate) page: NormalisedPage,
}

/// All reference pages by position of their step. An error is the reason why a reference is
/// missing.
#[derive(Default)]
pub(crate) struct References(pub(crate) BTreeMap<usize, Result<Reference, String>>);

impl References {
    /// Returns the page that a step is compared with, or the reason why it is missing.
    pub(crate) fn of(&self, step: usize) -> Result<&Reference, String> {
        match self.0.range(..=step).next_back() {
            Some((_, Ok(reference))) => Ok(reference),
            Some((_, Err(reason))) => Err(format!("there is no reference page: {reason}")),
            None => Err("there is no reference page".to_owned()),
        }
    }

    /// Returns the record of the page that a step declares as a new reference.
    pub(crate) fn declared_at(&self, step: usize) -> Option<PageRecord> {
        let reference = self.0.get(&step)?.as_ref().ok()?;
        Some(reference.page.record.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::{Reference, References};
    use crate::fingerprint::NormalisedPage;

    #[test]
    fn step_is_compared_with_the_last_reference() {
        let reference = |number: &str| {
            Ok(Reference { number: number.to_owned(), page: NormalisedPage::new(number.as_bytes(), &[]) })
        };
        let references =
            References([(0, reference("1")), (2, reference("3")), (4, Err("gone".to_owned()))].into());
        let number = |step| references.of(step).map(|reference| reference.number.clone());
        assert_eq!([0, 1, 2, 3].map(number), ["1", "1", "3", "3"].map(|number| Ok(number.to_owned())));
        assert_eq!(number(5), Err("there is no reference page: gone".to_owned()));
        assert!(references.declared_at(1).is_none() && references.declared_at(2).is_some());
    }
}
