//! Guesses the nature of a differing part of a page.
//!
//! Invariant: the guess is based on the part and a few words around it. It explains a difference to
//! people and proves nothing. The first rule that matches decides; rules are ordered from the
//! narrowest to the widest. In languages other than English, only digits are recognised.

/// The nature of a part of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Nature {
    /// A nonce or a token against request forgery.
    Token,
    /// A date or a time.
    Time,
    /// A person's name.
    Name,
    /// A number, such as a counter.
    Number,
    /// A long run of letters and digits.
    Identifier,
    /// Anything else.
    Text,
}

/// Parts of the names of fields and parameters that hold tokens in widely used software.
const TOKEN_WORDS: [&str; 6] = ["nonce", "csrf", "token", "form_build_id", "form_key", "requestverification"];

/// Texts after which a page shows the visitor's own name.
const GREETINGS: [&str; 7] = ["hello", "hi", "howdy", "welcome", "dear", "logged in as", "signed in as"];

/// Parts of the names of elements and fields that hold a person's name.
const NAME_WORDS: [&str; 8] = [
    "username",
    "user-name",
    "user_name",
    "user name",
    "displayname",
    "display-name",
    "display_name",
    "nickname",
];

/// Months and days of the week. Their first three letters are recognised too.
const CALENDAR: [&str; 19] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

/// Words that follow a number in an age such as `3 minutes ago`. A plural matches too, because it
/// begins with the word.
const AGES: [&str; 6] = ["second", "minute", "hour", "day", "week", "month"];

/// Shortest identifier, in characters.
const IDENTIFIER_CHARS_MIN: usize = 8;

/// Guesses the nature of two texts that occupy the same place in two versions of a page. `before`
/// and `after` are the text around that place.
pub fn nature(before: &str, texts: [&str; 2], after: &str) -> Nature {
    let context = before.to_ascii_lowercase();
    let all = |test: fn(char) -> bool| texts.iter().all(|text| !text.is_empty() && text.chars().all(test));
    if TOKEN_WORDS.iter().any(|word| context.contains(word)) {
        Nature::Token
    } else if is_time(&context, texts, &after.to_ascii_lowercase()) {
        Nature::Time
    } else if is_name(&context, texts) {
        Nature::Name
    } else if all(|c| c.is_ascii_digit() || matches!(c, '.' | ',')) {
        Nature::Number
    } else if all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        && texts
            .iter()
            .any(|text| text.len() >= IDENTIFIER_CHARS_MIN && text.contains(|c: char| c.is_ascii_digit()))
    {
        Nature::Identifier
    } else {
        Nature::Text
    }
}

fn is_time(before: &str, texts: [&str; 2], after: &str) -> bool {
    let both = |test: &dyn Fn(&str) -> bool| texts.iter().all(|text| test(text));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
    if both(&is_digits) {
        return ends_a_clock(before)
            || begins_a_clock(after)
            || both(&|text| [10, 13].contains(&text.len()))
            || ends_in_calendar(before)
            || in_calendar(after.trim_start().split(' ').next().unwrap_or_default())
            || is_age(after);
    }
    both(&is_stamp) || both(&in_calendar)
}

/// Whether the text before a number ends like the start of a time or date, such as `10:15:` or
/// `2026-01-`.
fn ends_a_clock(before: &str) -> bool {
    let mut last = before.chars().rev();
    matches!((last.next(), last.next()), (Some(':' | '-' | '/'), Some(digit)) if digit.is_ascii_digit())
}

/// Whether the text after a number starts like the rest of a time, such as `:15`.
fn begins_a_clock(after: &str) -> bool {
    let mut next = after.chars();
    matches!((next.next(), next.next()), (Some(':'), Some(digit)) if digit.is_ascii_digit())
}

/// Whether a text consists of digits and the punctuation of a date or time, such as `2026-01-02T03`
/// or `10:15`.
fn is_stamp(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | ':' | '/' | '.' | 'T' | 'Z' | '+' | ' ');
    let parts = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    text.chars().all(is_part) && text.contains(['-', ':', '/']) && (2..=7).contains(&parts.count())
}

/// Whether a word is the full or abbreviated name of a month or a day of the week.
fn in_calendar(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphabetic()).to_ascii_lowercase();
    CALENDAR.iter().any(|name| *name == word || name.get(..3) == Some(word.as_str()))
}

fn ends_in_calendar(before: &str) -> bool {
    in_calendar(before.trim_end().rsplit(' ').next().unwrap_or_default())
}

fn is_age(after: &str) -> bool {
    let mut words = after.split_whitespace();
    let is_unit = words.next().is_some_and(|word| AGES.iter().any(|unit| word.starts_with(unit)));
    is_unit && words.next().is_some_and(|word| word.starts_with("ago"))
}

fn is_name(before: &str, texts: [&str; 2]) -> bool {
    let is_short = |text: &str| {
        let words = text.split_whitespace().count();
        let is_letter = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '.' | '-' | '_' | '\'');
        (1..=4).contains(&words) && text.chars().all(is_letter)
    };
    let said = before.rsplit('>').find(|piece| !piece.trim().is_empty()).unwrap_or_default();
    let said = said.trim_end_matches(|c: char| !c.is_alphanumeric());
    let is_greeted = GREETINGS.iter().any(|greeting| {
        said.strip_suffix(greeting).is_some_and(|rest| !rest.ends_with(char::is_alphanumeric))
    });
    texts.iter().all(|text| is_short(text))
        && texts.iter().any(|text| text.contains(char::is_alphabetic))
        && (is_greeted || NAME_WORDS.iter().any(|word| before.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::{Nature, nature};

    #[test]
    fn nature_is_guessed_from_the_surroundings() {
        for (before, first, second, after, expected) in [
            ("<input name=\"_wpnonce\" value=\"", "a1b2", "c3d4", "\">", Nature::Token),
            ("It is 10:", "15", "16", "", Nature::Time),
            ("It is ", "10", "11", ":15 now", Nature::Time),
            ("data-now=\"", "1700000000", "1700000007", "\"", Nature::Time),
            ("<time>", "2026-01-02T03", "2026-01-02T04", ":00</time>", Nature::Time),
            ("on ", "21", "22", " Nov 2026", Nature::Time),
            ("on November ", "21", "22", ", 2026", Nature::Time),
            ("on ", "Monday", "Tuesday", "", Nature::Time),
            ("posted ", "3", "4", " minutes ago", Nature::Time),
            ("lasts ", "3", "4", " minutes", Nature::Number),
            ("visitors: ", "17", "18", "", Nature::Number),
            ("took ", "0.123", "0.2", " s", Nature::Number),
            ("took 73.", "6", "2", " ms", Nature::Number),
            ("id=\"", "5f3c9a7e1b", "aa3c9a7e1b", "\"", Nature::Identifier),
            ("see ", "accessories", "bottles-and-cages", "", Nature::Text),
            ("Hello ", "you", "me", "!", Nature::Name),
            ("<p>welcome ", "a1", "b2", "</p>", Nature::Name),
            ("Howdy, <span class=\"display-name\">", "Ada Lovelace", "Grace", "</span>", Nature::Name),
            ("Welcome ", "to our little shop of bicycles", "back", "", Nature::Text),
            ("Hi ", "17", "18", "", Nature::Number),
            ("Say this: ", "you", "me", "", Nature::Text),
            ("this ", "you", "me", "", Nature::Text),
            ("<h2>", "Market", "Sundry", "</h2>", Nature::Text),
            ("cart: ", "", "3 items", "", Nature::Text),
        ] {
            assert_eq!(nature(before, [first, second], after), expected, "{before}{first}|{second}{after}");
        }
    }
}
