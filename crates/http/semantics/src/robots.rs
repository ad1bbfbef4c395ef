//! Whether a request comes from a person or from a robot that says so.
//!
//! Invariant: the content of the response never depends on this. It only decides the order of
//! requests when not all can be served at once. A robot that claims to be a browser counts as a
//! person.

use message::{Fields, names};

/// Substrings of robots' names, in lower case. They are taken from the owners' pages about their
/// crawlers, or are general words.
const MARKS: [&[u8]; 10] = [
    b"crawl",
    b"spider",
    b"scrap",
    b"slurp",               // Yahoo
    b"facebookexternalhit", // previews of links
    b"mediapartners-google",
    b"google-inspectiontool",
    b"ia_archiver",
    b"feedfetcher",
    b"headlesschrome",
];

/// Whether a request with these fields comes from a robot. The `User-Agent` names a robot, or is
/// missing or empty, which no browser sends.
pub fn is_robot(fields: &Fields) -> bool {
    let Some(agent) = fields.first(names::USER_AGENT).filter(|agent| !agent.is_empty()) else { return true };
    let agent = agent.to_ascii_lowercase();
    MARKS.into_iter().any(|mark| agent.windows(mark.len()).any(|part| part == mark)) || names_a_bot(&agent)
}

/// Whether a word ends in `bot`, except `cubot`, a maker of telephones.
fn names_a_bot(agent: &[u8]) -> bool {
    agent.split(|octet| !octet.is_ascii_alphabetic()).any(|word| word.ends_with(b"bot") && word != b"cubot")
}

#[cfg(test)]
mod tests {
    use super::is_robot;
    use message::Fields;

    #[test]
    fn robots_are_recognised_by_their_names() {
        for (agent, expected) in [
            ("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", false),
            ("Mozilla/5.0 (Linux; Android 9; CUBOT_X19) AppleWebKit/537.36 Chrome/80 Mobile", false),
            ("curl/7.88.1", false),
            ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", true),
            ("Mozilla/5.0 (compatible; bingbot/2.0)", true),
            ("Mozilla/5.0 (compatible; Baiduspider/2.0)", true),
            ("GPTBot", true),
            ("Screaming-Crawler 3", true),
            ("", true),
        ] {
            let mut fields = Fields::new();
            fields.push("User-Agent", agent);
            assert_eq!(is_robot(&fields), expected, "{agent}");
        }
        assert!(is_robot(&Fields::new()));
    }
}
