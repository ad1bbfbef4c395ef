//! Lists that grow by an eighth instead of doubling: what they hold ready for more is memory that nothing uses.

/// Makes room for one more.
pub(crate) fn push_slowly<T>(items: &mut Vec<T>, item: T) {
    reserve(items, items.len() + 1);
    items.push(item);
}

/// Makes the list `len` long with copies of `item`.
pub(crate) fn resize_slowly<T: Clone>(items: &mut Vec<T>, len: usize, item: T) {
    reserve(items, len);
    items.resize(len, item);
}

fn reserve<T>(items: &mut Vec<T>, len: usize) {
    if len > items.capacity() {
        items.reserve_exact(len - items.len() + items.len() / 8);
    }
}
