//! Vectors that grow by an eighth instead of doubling, because their unused capacity would waste
//! memory.

/// Appends an item.
pub(crate) fn push_by_eighths<T>(items: &mut Vec<T>, item: T) {
    reserve(items, items.len() + 1);
    items.push(item);
}

/// Extends the vector to `len` items with copies of `item`.
pub(crate) fn resize_by_eighths<T: Clone>(items: &mut Vec<T>, len: usize, item: T) {
    reserve(items, len);
    items.resize(len, item);
}

fn reserve<T>(items: &mut Vec<T>, len: usize) {
    if len > items.capacity() {
        items.reserve_exact(len - items.len() + items.len() / 8);
    }
}
