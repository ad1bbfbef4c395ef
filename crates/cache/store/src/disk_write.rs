//! A publication on its way to the disk.

use crate::object::Object;
use crate::record::IndexRecord;
use crate::store::Publication;
use std::sync::Arc;

/// The data of a publication that are needed to write it to the disk.
pub(crate) struct DiskWrite {
    pub(crate) entry: IndexRecord,
    pub(crate) object: Arc<Object>,
}

impl DiskWrite {
    pub(crate) fn of(publication: &Publication<'_>) -> Self {
        let Publication { key, rule, variant, object, tags, begun } = publication;
        let rule = rule.clone();
        let variant = variant.clone();
        let entry = IndexRecord {
            key: (*key).clone(),
            rule,
            variant,
            tags: tags.to_vec(),
            checked: *begun,
            softened: false,
            no_vary_search: object.no_vary_search(),
            head: None,
        };
        Self { entry, object: Arc::clone(object) }
    }
}
