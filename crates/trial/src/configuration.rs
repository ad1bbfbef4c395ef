//! The configuration of Petasos for the site: of the temporary edge, and for the operator.
//!
//! Invariant: both begin with the same lines about the site, so the trial shows what the file does.

use crate::report::TrialReport;
use address::HttpUrl;
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
    for (setting, pages) in report.settings() {
        let pages = if pages == 1 { "1 page".to_owned() } else { format!("{pages} pages") };
        // Writing into a String cannot fail, here and below.
        let _ = writeln!(text, "\n# With this setting, {pages} more can be answered from memory:");
        for line in setting.lines() {
            if line.starts_with("profile ") {
                text.push_str("# (The next line replaces the profile above.)\n");
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
}
