//! Whether two pages are the same page: content without what may differ, its hash, title and length; and the
//! first place where two contents differ. Pure.
//!
//! Invariant: equal hashes are taken for equal content (64 bits; nobody here wants to fool us), and a
//! difference is always named with its line and column in the normalised content.

use crate::ladder::{Pattern, Same};
use crate::reference::Reference;
use report::results::PageRecord;
use report::run::{is_white_space_alone, visible_space, what_changed};

/// Characters shown on each side of a difference.
const CONTEXT_CHARS: usize = 40;

/// A page as it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Title, length and hash.
    pub(crate) record: PageRecord,
    /// The content without what the patterns took out.
    pub(crate) content: Vec<u8>,
}

impl Page {
    /// The page that a body is, without what `patterns` match.
    pub(crate) fn new(body: &[u8], patterns: &[Pattern]) -> Self {
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

    /// Where this page differs from the reference, in a sentence; `None` if it is the same page.
    pub(crate) fn difference(&self, reference: &Reference, same: Same) -> Option<String> {
        let (step, reference) = (&reference.number, &reference.page);
        if self.record.hash == reference.record.hash {
            return None;
        }
        if same == Same::Length {
            let (here, there) = (self.content.len(), reference.content.len());
            return (here != there).then(|| {
                format!("the page has {here} bytes without what is normalised, and step {step}'s has {there}")
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

/// The hash FNV-1a with 64 bits (Fowler, Noll and Vo): the same on every machine and in every version.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The content of the title element.
fn title(content: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(content);
    let lower = text.to_ascii_lowercase();
    let start = lower.find("<title")?;
    let start = start + lower.get(start..)?.find('>')? + 1;
    let end = start + lower.get(start..)?.find("</title")?;
    Some(text.get(start..end)?.trim().to_owned())
}

/// The text around an octet, on one line and in quotes; with signs for white space where that is the difference.
fn context(content: &[u8], at: usize, is_space: bool) -> String {
    if at >= content.len() {
        return "the end of the page".to_owned();
    }
    // Context stays on the line of the difference; a multi-byte character cut at either side is replaced.
    let line_start = content.get(..at).and_then(|before| before.iter().rposition(|byte| *byte == b'\n'));
    let start = line_start.map_or(0, |end| end + 1).max(at.saturating_sub(CONTEXT_CHARS));
    let rest = content.get(start..).unwrap_or_default();
    if is_space {
        return format!("\u{201c}{}\u{201d}", visible_space(rest, 2 * CONTEXT_CHARS));
    }
    let text = String::from_utf8_lossy(rest.get(..2 * CONTEXT_CHARS).unwrap_or(rest)).into_owned();
    let text: Vec<&str> = text.split_whitespace().collect();
    format!("\u{201c}{}\u{201d}", text.join(" "))
}

#[cfg(test)]
mod tests {
    use super::{Page, fnv1a};
    use crate::ladder::{Pattern, Same};
    use crate::reference::Reference;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    const BODY: &str =
        "<html>\n<head><TITLE lang=en> Bikes &amp; more </title></head>\n<p>one\n<!-- parsed in 3 ms -->\n";

    fn page(body: &str) -> Page {
        Page::new(body.as_bytes(), &[Pattern::parse("<!-- parsed .*? -->").unwrap()])
    }

    fn difference(one: &Page, other: &Page, same: Same) -> Option<String> {
        one.difference(&Reference { number: "1".to_owned(), page: other.clone() }, same)
    }

    #[test]
    fn white_space_is_shown_where_it_is_the_difference() {
        let one = page("<p>one\n\t two</p>");
        let other = page("<p>one  two</p>");
        let said = difference(&one, &other, Same::Content).unwrap();
        assert!(said.contains("“<p>one⏎⇥␠two</p>” instead of “<p>one␠␠two</p>”"), "{said}");
        assert!(said.ends_with("what changed: white space alone"), "{said}");
    }

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn what_is_normalised_does_not_count() {
        let other = BODY.replace("3 ms", "12 ms\nor so");
        assert_eq!(difference(&page(BODY), &page(&other), Same::Content), None);
        assert_eq!(page(BODY).record.title.as_deref(), Some("Bikes &amp; more"));
        assert_eq!(page(BODY).record.length_bytes, BODY.len() as u64);
    }

    #[test]
    fn a_difference_is_named_with_its_place() {
        let difference = difference(&page(&BODY.replace("one", "two")), &page(BODY), Same::Content).unwrap();
        assert_eq!(
            difference,
            "the page differs from step 1's at line 3, column 4: “<p>two” instead of “<p>one” (93 bytes instead of 93); \
             what changed: content"
                .replace("93", &BODY.len().to_string())
        );
    }

    #[test]
    fn a_page_that_ends_early_differs_at_its_end() {
        let difference = difference(&page("<html>"), &page(BODY), Same::Content).unwrap();
        assert!(difference.contains("line 1, column 7: the end of the page instead of"), "{difference}");
        assert_eq!(page("").record.title, None);
    }

    proptest! {
        #[test]
        fn only_equal_content_is_the_same_page(a in "[ab\n<>/title]{0,30}", b in "[ab\n<>/title]{0,30}") {
            let (one, other) = (page(&a), page(&b));
            prop_assert_eq!(difference(&one, &other, Same::Content).is_none(), a == b);
            prop_assert_eq!(difference(&one, &other, Same::Length).is_none(), a.len() == b.len());
            prop_assert!(difference(&one, &one, Same::Content).is_none());
        }
    }
}
