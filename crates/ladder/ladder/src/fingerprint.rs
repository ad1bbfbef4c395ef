//! Decides whether two pages are the same. A page is its normalised content with hash, title and
//! length. For two different pages, this module finds the first difference. Pure functions.
//!
//! Invariants:
//!
//! * Equal hashes count as equal content. 64 bits are enough, because no input here is crafted to
//!   collide.
//! * A difference in content is always reported with its line and column in the normalised content.

use crate::ladder::{BytesPattern, Same};
use crate::reference::Reference;
use difference::text_of;
use report::results::PageRecord;
use report::run::{is_white_space_alone, visible_space, what_changed};

/// Largest number of bytes shown before a difference. The whole quotation has twice as many.
const CONTEXT_CHARS: usize = 40;

/// A page, prepared for comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NormalisedPage {
    /// Title, length and hash.
    pub(crate) record: PageRecord,
    /// Content without the parts that the `normalise` patterns match.
    pub(crate) content: Vec<u8>,
}

impl NormalisedPage {
    /// Builds a page from a response body. The matches of `patterns` are removed before hashing.
    /// The recorded length is that of the whole body in bytes.
    pub(crate) fn new(body: &[u8], patterns: &[BytesPattern]) -> Self {
        let mut content = body.to_vec();
        for pattern in patterns {
            content = pattern.0.replace_all(&content, &b""[..]).into_owned();
        }
        let record = PageRecord {
            title: title(&content),
            length_bytes: body.len() as u64,
            hash: format!("{:016x}", fnv1a(&content)),
        };
        Self { record, content }
    }

    /// Describes in a sentence how this page differs from the reference; `None` if it counts as the
    /// same page.
    pub(crate) fn difference(&self, reference: &Reference, same: Same) -> Option<String> {
        let (step, reference) = (&reference.number, &reference.page);
        if self.record.hash == reference.record.hash {
            return None;
        }
        if same == Same::Length {
            let (here, there) = (self.content.len(), reference.content.len());
            return (here != there).then(|| {
                format!("the normalised page has {here} bytes, but that of step {step} has {there}")
            });
        }
        let same = self.content.iter().zip(&reference.content).take_while(|(a, b)| a == b).count();
        let before = self.content.get(..same).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = same - before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1) + 1;
        let is_space = is_white_space_alone(&self.content, &reference.content);
        Some(format!(
            "the page differs from step {step}'s at line {line}, column {column}: {} instead of {} ({} bytes instead of {}); what changed: {}",
            context(&self.content, same, is_space),
            context(&reference.content, same, is_space),
            self.record.length_bytes,
            reference.record.length_bytes,
            what_changed(&reference.content, &self.content),
        ))
    }
}

/// The 64-bit hash FNV-1a (Fowler, Noll and Vo). Its value is the same on every machine and in
/// every version.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The text of the first title element.
fn title(content: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(content);
    let lower = text.to_ascii_lowercase();
    let start = lower.find("<title")?;
    let start = start + lower.get(start..)?.find('>')? + 1;
    let end = start + lower.get(start..)?.find("</title")?;
    Some(text.get(start..end)?.trim().to_owned())
}

/// Quotes the text around the byte at `at`, on one line. If `is_space` is set, white space is shown
/// as visible signs.
fn context(content: &[u8], at: usize, is_space: bool) -> String {
    if at >= content.len() {
        return "the end of the page".to_owned();
    }
    // Context starts on the line of the difference. A multi-byte character cut at either end is
    // replaced.
    let line_start = content.get(..at).and_then(|before| before.iter().rposition(|byte| *byte == b'\n'));
    let start = line_start.map_or(0, |end| end + 1).max(at.saturating_sub(CONTEXT_CHARS));
    let rest = content.get(start..).unwrap_or_default();
    if is_space {
        return format!("\u{201c}{}\u{201d}", visible_space(rest, 2 * CONTEXT_CHARS));
    }
    let text = text_of(rest.get(..2 * CONTEXT_CHARS).unwrap_or(rest));
    let text: Vec<&str> = text.split_whitespace().collect();
    format!("\u{201c}{}\u{201d}", text.join(" "))
}

#[cfg(test)]
mod tests {
    use super::{NormalisedPage, fnv1a};
    use crate::ladder::{BytesPattern, Same};
    use crate::reference::Reference;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    const BODY: &str =
        "<html>\n<head><TITLE lang=en> Bikes &amp; more </title></head>\n<p>one\n<!-- parsed in 3 ms -->\n";

    fn page(body: &str) -> NormalisedPage {
        NormalisedPage::new(body.as_bytes(), &[BytesPattern::parse("<!-- parsed .*? -->").unwrap()])
    }

    fn difference(one: &NormalisedPage, other: &NormalisedPage, same: Same) -> Option<String> {
        one.difference(&Reference { number: "1".to_owned(), page: other.clone() }, same)
    }

    #[test]
    fn difference_in_white_space_alone_is_made_visible() {
        let one = page("<p>one\n\t two</p>");
        let other = page("<p>one  two</p>");
        let said = difference(&one, &other, Same::Content).unwrap();
        assert!(said.contains("“<p>one⏎⇥␠two</p>” instead of “<p>one␠␠two</p>”"), "{said}");
        assert!(said.ends_with("what changed: white space alone"), "{said}");
    }

    #[test]
    fn quoted_pages_have_no_commands_for_a_terminal() {
        for (one, other) in [("a \u{1b}[2J", "a  \u{1b}[2J"), ("a \u{1b}[2J\u{202e}", "b \u{9b}1m")] {
            let said = difference(&page(one), &page(other), Same::Content).unwrap();
            assert!(!said.chars().any(difference::is_hidden), "{said:?}");
        }
    }

    #[test]
    fn hash_equals_published_fnv1a_values() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn normalised_parts_make_no_difference() {
        let other = BODY.replace("3 ms", "12 ms\nor so");
        assert_eq!(difference(&page(BODY), &page(&other), Same::Content), None);
        assert_eq!(page(BODY).record.title.as_deref(), Some("Bikes &amp; more"));
        assert_eq!(page(BODY).record.length_bytes, BODY.len() as u64);
    }

    #[test]
    fn difference_is_reported_with_line_and_column() {
        let difference = difference(&page(&BODY.replace("one", "two")), &page(BODY), Same::Content).unwrap();
        assert_eq!(
            difference,
            "the page differs from step 1's at line 3, column 4: “<p>two” instead of “<p>one” (93 bytes instead of 93); \
             what changed: content"
                .replace("93", &BODY.len().to_string())
        );
    }

    #[test]
    fn truncated_page_differs_at_its_end() {
        let difference = difference(&page("<html>"), &page(BODY), Same::Content).unwrap();
        assert!(difference.contains("line 1, column 7: the end of the page instead of"), "{difference}");
        assert_eq!(page("").record.title, None);
    }

    proptest! {
        #[test]
        fn pages_are_the_same_only_with_equal_content(a in "[ab\n<>/title]{0,30}", b in "[ab\n<>/title]{0,30}") {
            let (one, other) = (page(&a), page(&b));
            prop_assert_eq!(difference(&one, &other, Same::Content).is_none(), a == b);
            prop_assert_eq!(difference(&one, &other, Same::Length).is_none(), a.len() == b.len());
            prop_assert!(difference(&one, &one, Same::Content).is_none());
        }
    }
}
