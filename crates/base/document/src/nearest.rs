//! Finds the name that a misspelt one was probably meant to be.
//!
//! Invariant: a name is only suggested if it is near enough to be a typing error.

/// The name in `known` with the least edit distance from `key`. `None` if the distance is more than
/// a third of the name's length, rounded up: then it is hardly a typing error.
pub fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|known| (edit_distance(key, known), known))
        .min()
        .filter(|(distance, known)| *distance <= known.len().div_ceil(3))
        .map(|(_, known)| known)
}

/// The least number of insertions, deletions and replacements that turn one text into the other
/// (Levenshtein 1966). Counts bytes, and keeps one row of the table.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, byte) in a.bytes().enumerate() {
        let mut above_left = i;
        let mut left = i + 1;
        for (cell, other) in row.iter_mut().skip(1).zip(b.bytes()) {
            let replaced = above_left + usize::from(byte != other);
            above_left = *cell;
            left = replaced.min(*cell + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{edit_distance, nearest};

    #[test]
    fn edit_distance_of_known_pairs() {
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("same", "same"), 0);
    }

    #[test]
    fn only_a_typing_error_has_a_nearest_name() {
        let known = ["cookie", "path", "purge"];
        let found = ["cokie", "paths", "prge", "lifetime", ""].map(|key| nearest(key, known.into_iter()));
        assert_eq!(found, [Some("cookie"), Some("path"), Some("purge"), None, None]);
        assert_eq!(nearest("any", [].into_iter()), None);
    }
}
