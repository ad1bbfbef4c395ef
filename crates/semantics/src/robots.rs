//! Who asks for a page: a person, or a robot by its own word.
//!
//! Invariant: what is answered depends on none of this, only whose turn it is when not all can be served at once. A
//! robot that says it is a browser counts as a person.

use message::{Fields, names};

/// Parts of the names by which robots go, lower-case. A source for each: their owners' pages about their crawlers, or
/// the word itself.
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

/// Whether a request with these fields is a robot's: it names itself one, or, as no browser does, nothing at all.
pub fn is_robot(fields: &Fields) -> bool {
    let Some(agent) = fields.first(names::USER_AGENT).filter(|agent| !agent.is_empty()) else { return true };
    let agent = agent.to_ascii_lowercase();
    MARKS.into_iter().any(|mark| agent.windows(mark.len()).any(|part| part == mark)) || names_a_bot(&agent)
}

/// Whether a word ends in `bot`, but for a maker of telephones.
fn names_a_bot(agent: &[u8]) -> bool {
    agent.split(|octet| !octet.is_ascii_alphabetic()).any(|word| word.ends_with(b"bot") && word != b"cubot")
}

#[cfg(test)]
mod tests {
    use super::is_robot;
    use message::Fields;

    #[test]
    fn robots_are_known_by_their_names() {
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
