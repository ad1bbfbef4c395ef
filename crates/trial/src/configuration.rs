//! The configuration of Petasos for the site: of the temporary edge, and for the operator.
//!
//! Invariant: both begin with the same lines about the site, so the trial tests the file that the
//! operator gets.

use crate::report::TrialReport;
use address::HttpUrl;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Lines of the temporary edge. No directory is named, so it writes no file.
const TEMPORARY: &str = "\
listen = \"127.0.0.1:0\"
admin = \"127.0.0.1:0\"
memory = \"256MiB\"
spool_directory = \"none\"
state_directory = \"none\"
runtime_directory = \"none\"
log_level = \"error\"
";

/// The usual port of Petasos.
const PORT: u16 = 8080;

/// The port of Petasos if the site itself has the usual one.
const OTHER_PORT: u16 = 8090;

/// The configuration of the temporary edge in front of `url`.
pub(crate) fn temporary(url: &HttpUrl, is_insecure: bool) -> String {
    format!("{TEMPORARY}{}", site(url, is_insecure))
}

/// The configuration that the operator may start with: the file `petasos.toml`.
pub(crate) fn proposed(url: &HttpUrl, is_insecure: bool, report: &TrialReport) -> String {
    let mut text = format!(
        "# Petasos in front of {}. Written by `petasos try`.\n\
         # docs/settings.md describes every setting; `petasos check FILE` examines the file.\n\n\
         listen = \"127.0.0.1:{}\"\n{}",
        origin(url),
        port(url),
        site(url, is_insecure)
    );
    if let Some((profile, software)) = report.unproved_profile() {
        // Writing into a String cannot fail, here and below.
        let _ = writeln!(
            text,
            "\n# The pages look like {software}, but do not prove it. If that is right, use its profile.\n\
             # (The next line replaces the profile above.)\n# profile = \"{profile}\""
        );
    }
    // A key may occur once in the file, so that all proposals can take effect together.
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    for (setting, pages) in report.settings() {
        let pages = if pages == 1 { "1 page".to_owned() } else { format!("{pages} pages") };
        let _ = writeln!(text, "\n# With this setting, {pages} more can be answered from memory:");
        for line in setting.lines() {
            let (key, value) = line.split_once(" = ").unwrap_or((line, ""));
            let known = values.insert(key.to_owned(), value.to_owned());
            if known.as_deref() == Some(value) {
                let _ = writeln!(text, "# (As above: {key}.)");
                continue;
            }
            if known.is_some() || key == "profile" {
                let _ = writeln!(text, "# (The next line replaces the {key} above.)");
            }
            let _ = writeln!(text, "# {line}");
        }
    }
    text
}

/// The port at which Petasos would listen beside the site.
pub(crate) fn port(url: &HttpUrl) -> u16 {
    if url.port() == PORT { OTHER_PORT } else { PORT }
}

/// The lines about the site.
fn site(url: &HttpUrl, is_insecure: bool) -> String {
    let mut text = format!("origin = \"{}\"\nprofile = \"auto\"\n", origin(url));
    if url.is_https() {
        // The application would redirect requests that seem to be plain.
        text.push_str("proto = \"https\"\n");
    }
    if is_insecure {
        text.push_str("origin_insecure = true\n");
    }
    text
}

/// The URL of the site's server. An authority has no character that TOML would need escaped.
fn origin(url: &HttpUrl) -> String {
    let scheme = if url.is_https() { "https" } else { "http" };
    format!("{scheme}://{}", url.authority())
}

#[cfg(test)]
mod tests {
    use super::{port, proposed, temporary};
    use crate::report::PageClass;
    use crate::testing::{page, report};
    use address::HttpUrl;
    use profiles::Software;

    #[test]
    fn https_site_keeps_its_scheme_and_certificate_rules() {
        let url = HttpUrl::parse("https://shop.test/a?b=c").unwrap();
        let text = temporary(&url, true);
        let lines = ["origin = \"https://shop.test\"", "proto = \"https\"", "origin_insecure = true"];
        assert!(lines.iter().all(|line| text.contains(line)), "{text}");
        let url = HttpUrl::parse("http://[::1]:8080/").unwrap();
        assert!(temporary(&url, false).ends_with("origin = \"http://[::1]:8080\"\nprofile = \"auto\"\n"));
        assert_eq!(port(&url), 8090);
    }

    #[test]
    fn proposal_of_several_lines_is_a_comment_throughout() {
        let url = HttpUrl::parse("http://shop.test/").unwrap();
        let mut pages = vec![page(PageClass::Setting)];
        pages[0].remedy = Some("profile = \"wordpress\"\nstripped_cookies = [\"sid\"]".to_owned());
        let text = proposed(&url, false, &report(pages));
        let active: Vec<&str> =
            text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        let expected = ["listen = \"127.0.0.1:8080\"", "origin = \"http://shop.test\"", "profile = \"auto\""];
        assert_eq!(active, expected);
        assert!(
            text.contains("replaces the profile above.)\n# profile = \"wordpress\"\n# stripped"),
            "{text}"
        );
    }

    #[test]
    fn profile_of_software_that_is_not_proved_is_proposed() {
        let url = HttpUrl::parse("http://wiki.test/").unwrap();
        let mut told = report(vec![page(PageClass::Memory)]);
        told.software = vec![Software { name: "MediaWiki", evidence: "generator: MediaWiki".to_owned() }];
        assert!(proposed(&url, false, &told).contains("\n# profile = \"mediawiki\"\n"));
        told.profile = "mediawiki".to_owned();
        assert!(!proposed(&url, false, &told).contains("# profile"));
    }

    #[test]
    fn each_key_is_proposed_once() {
        let url = HttpUrl::parse("http://shop.test/").unwrap();
        let remedies = ["stripped_cookies = [\"sid\"]\nttl = \"5m\"", "ttl = \"5m\"", "ttl = \"9m\""];
        let pages = remedies.map(|remedy| {
            let mut page = page(PageClass::Setting);
            page.remedy = Some(remedy.to_owned());
            page
        });
        let text = proposed(&url, false, &report(pages.to_vec()));
        assert_eq!(text.matches("# ttl = \"5m\"").count(), 1, "{text}");
        assert!(text.contains("# (As above: ttl.)"), "{text}");
        assert!(text.contains("# (The next line replaces the ttl above.)\n# ttl = "), "{text}");
    }
}
