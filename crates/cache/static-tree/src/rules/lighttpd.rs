//! The rules for lighttpd: a script for its module `mod_magnet`. lighttpd's own rules do not
//! suffice, because they cannot check whether a file exists outside the document root.

use super::cookies;
use super::{CACHE_CONTROL, RuleInputs};
use crate::Layout;
use crate::path::PUNCTUATION;

/// The constant part of the script. It uses variables and the function `page_of`, which [`text`]
/// defines above it.
const SCRIPT: &str = include_str!("lighttpd.lua");

pub(super) fn text(rules: &RuleInputs<'_>) -> String {
    let RuleInputs { layout, directory, policy } = rules;
    let page = match layout {
        Layout::Typo3 => {
            "    if port == \"\" then port = scheme == \"https\" and \"443\" or \"80\" end\n    \
             return scheme .. \"_\" .. host .. \"_\" .. port .. path .. \"/index\"\n"
        }
        Layout::WpSuperCache => {
            "    if path:sub(-1) ~= \"/\" then return nil end\n    \
             return host .. path .. (scheme == \"https\" and \"index-https.html\" or \"index.html\")\n"
        }
        Layout::CacheEnabler => {
            "    if path:sub(-1) ~= \"/\" then return nil end\n    return host .. path .. scheme .. \"-index.html\"\n"
        }
        Layout::Boost => {
            "    if scheme ~= \"http\" then return nil end\n    return host .. path .. \"_.html\"\n"
        }
    };
    let list = |patterns: &[String]| {
        let lines: String = patterns.iter().map(|pattern| format!("    \"{pattern}\",\n")).collect();
        format!("{{\n{lines}}}")
    };
    let (noise, session) = cookies::lua(policy);
    let session = session.map_or_else(|| "nil".to_owned(), |session| list(&session));
    let punctuation: String = PUNCTUATION.chars().map(|character| format!("%{character}")).collect();
    format!(
        "-- Petasos' static tree in lighttpd, layout {layout}: a script for the module magnet. In the configuration,\n\
         -- with this file's name, before what else would answer:\n\
         --     server.modules += ( \"mod_magnet\" )\n\
         --     magnet.attract-raw-url-to = ( \"/etc/lighttpd/petasos-static-tree.lua\" )\n\
         local directory = \"{directory}\"\n\
         local cache_control = \"{CACHE_CONTROL}\"\n\
         local punctuation = \"{punctuation}\"\n\
         local noise_cookies = {}\n\
         -- Where there is no list, every cookie that is not noise may change a page.\n\
         local session_cookies = {session}\n\
         local function page_of(scheme, host, port, path)\n{page}end\n\n{SCRIPT}",
        list(&noise),
        layout = layout.name(),
    )
}
