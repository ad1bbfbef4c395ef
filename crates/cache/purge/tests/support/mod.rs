//! Helpers shared by the tests of dialects and of the API.

use invalidation::Mode;
use petasos_purge::{OrderItem, PurgeScope, Reach};

/// An invalidation on one line.
pub(crate) fn shown(invalidation: &OrderItem) -> String {
    let text = |octets: &[u8]| octets.escape_ascii().to_string();
    let of = |reach: &Reach| match reach {
        Reach::Site(host) => text(host),
        Reach::Everywhere => "all sites".to_owned(),
    };
    let scope = match &invalidation.scope {
        PurgeScope::Target { host, target } => format!("{} {}", text(host), text(target)),
        PurgeScope::Prefix { host, prefix } => format!("{} prefix {}", text(host), text(prefix)),
        PurgeScope::Pattern { host, pattern } => format!("{} pattern {}", text(host), pattern.as_str()),
        PurgeScope::Host { host } => format!("{} host", text(host)),
        PurgeScope::Tags { reach, any_of, all_of } => {
            let listed = |word: &str, tags: &[bytes::Bytes]| {
                if tags.is_empty() {
                    String::new()
                } else {
                    format!(" {word} of {}", text(&tags.join(&b" "[..])))
                }
            };
            format!("{}{}{}", of(reach), listed("any", any_of), listed("all", all_of))
        }
        PurgeScope::Ban { reach, ban } => format!("{} ban {ban}", of(reach)),
        PurgeScope::Everything { reach } => format!("{} everything", of(reach)),
    };
    let mode = if invalidation.mode == Mode::Soft { "soft " } else { "" };
    format!("{mode}{scope}")
}
