//! Contradictions between settings that are legal each by itself: errors that refuse the plan, and
//! one warning.

use super::SitePlan;
use crate::document::{ConfigDocument, Level, Located, SiteTable};
use crate::levels::SettingLevels;
use crate::setting::SettingValue;
use document::{Diagnostic, Place};
use profiles::{ClientAddress, LETTER};
use std::collections::HashMap;

/// Warns that shared fetches carry the address of a client (`client_address = "leader"`).
pub(super) fn leading_address(
    site: &SitePlan,
    levels: &SettingLevels<'_>,
    header: &Place,
) -> Option<Diagnostic> {
    if site.policy.client_address != ClientAddress::Leader {
        return None;
    }
    let place = levels.place("client_address").or_else(|| levels.place("profile"));
    let message = format!(
        "site {}: shared fetches carry the address of the client that leads them (client_address = \"leader\", \
         profile {}); a page that the origin shows to some addresses only is then shown to every client \
         unless its response says private",
        site.title(),
        site.profile
    );
    let problem = Diagnostic::warning(message, place.unwrap_or_else(|| header.clone()));
    Some(problem.with_help(
        "leave client_address out, or set it to 192.0.2.1, unless the origin marks these pages private",
    ))
}

/// Refuses `stale_on_error = "override"` with the profile `rfc`, because the override breaks the
/// RFCs.
pub(super) fn disobedience(levels: &SettingLevels<'_>) -> Option<Diagnostic> {
    let overrides = levels.text("stale_on_error") == Some("override");
    if !overrides || levels.text("profile") != Some(LETTER) {
        return None;
    }
    let place = levels.place("stale_on_error")?;
    let problem = Diagnostic::new("`stale_on_error = \"override\"` contradicts the profile `rfc`", place);
    Some(problem.with_help("leave `stale_on_error` out, or choose another profile"))
}

/// Refuses `create_token` without `token_file`.
pub(super) fn nameless_token(top: &SettingLevels<'_>) -> Option<Diagnostic> {
    if top.value("create_token") != Some(SettingValue::Switch(true)) || top.stated("token_file").is_some() {
        return None;
    }
    let place = top.place("create_token")?;
    let problem = Diagnostic::new("`create_token` needs `token_file`, the file to create", place);
    Some(problem.with_help("write token_file = \"/etc/petasos/token\", or use --token-file FILE"))
}

/// Refuses `admin_client_ca` without `admin_certificate`, because plain HTTP has no client
/// certificates.
pub(super) fn clients_without_tls(top: &SettingLevels<'_>) -> Option<Diagnostic> {
    if top.stated("admin_client_ca").is_none() || top.stated("admin_certificate").is_some() {
        return None;
    }
    let place = top.place("admin_client_ca")?;
    let problem = Diagnostic::new("`admin_client_ca` needs TLS at the admin address", place);
    Some(problem.with_help("write admin_certificate = \"CERT.pem,KEY.pem\" too"))
}

/// Refuses `esi_cookies` in tables if none of the `sites` that have them assembles pages: the
/// operator expects that templates get the cookies.
pub(super) fn cookies_without_esi<'a>(
    tables: impl IntoIterator<Item = &'a Level>,
    sites: &[SitePlan],
) -> Vec<Diagnostic> {
    // Without a site, a problem was found already.
    if sites.is_empty() || sites.iter().any(|site| site.esi) {
        return Vec::new();
    }
    let stated = tables.into_iter().filter_map(|level| level.get("esi_cookies"));
    let named = stated.filter(|located| located.value != SettingValue::Texts(Vec::new()));
    let problem = |located: &Located| {
        let message = "`esi_cookies` has no effect without `esi`: no template is read";
        Diagnostic::new(message, located.place.clone())
            .with_help("write esi = true beside it, or leave `esi_cookies` out")
    };
    named.map(problem).collect()
}

/// Refuses a site without names in the static tree, because visitors could create pages under any
/// host name.
pub(super) fn nameless_tree(levels: &SettingLevels<'_>, site: &Place) -> Option<Diagnostic> {
    let is_in_tree = levels.stated("static_tree.directory").is_some()
        && levels.text("static_tree.layout").is_some_and(|layout| layout != "none");
    let is_named = match levels.stated("names") {
        Some(SettingValue::Hosts(names)) => !names.iter().any(|name| name.starts_with("*.")),
        _ => false,
    };
    if !is_in_tree || is_named {
        return None;
    }
    let problem =
        Diagnostic::new("the static tree needs the `names` of the site, each in full", site.clone());
    Some(problem.with_help("write names = [\"example.org\"], or static_tree.layout = \"none\""))
}

/// Refuses a password for pages in the static tree: a web server that serves its files does not ask
/// for it.
pub(super) fn treed_password(levels: &SettingLevels<'_>) -> Option<Diagnostic> {
    levels.stated("static_tree.directory").filter(|_| levels.text("static_tree.layout") != Some("none"))?;
    let problem = Diagnostic::new(
        "a web server that serves the static tree does not ask for the password",
        levels.place("basic_auth")?,
    );
    Some(problem.with_help("write static_tree.layout = \"none\" in the [[site]]"))
}

/// Refuses routes by more than the path in the static tree: a web server that serves its files
/// knows no such routes.
pub(super) fn treed_routes(site: &SiteTable, top: &Level, flags: &Level) -> Option<Diagnostic> {
    let levels = SettingLevels { levels: vec![flags, &site.level, top] };
    let is_in_tree = levels.stated("static_tree.directory").is_some()
        && levels.text("static_tree.layout").is_some_and(|layout| layout != "none");
    let others = ["methods", "fields", "cookies"];
    let is_other = |level: &Level| others.iter().any(|key| level.contains_key(key));
    let (_, place) = site.routes.iter().find(|(level, _)| is_in_tree && is_other(level))?;
    let text = "a web server that serves the static tree knows no routes by method, field or cookie";
    let problem = Diagnostic::new(text, place.clone());
    Some(problem.with_help("use `path` alone, or write static_tree.layout = \"none\" in the [[site]]"))
}

/// Refuses a site that lists names in full beside a wildcard: the names in full are aliases with
/// the same pages, and each name below the wildcard has separate pages.
fn mixed_names(names: &[&str], place: &Place) -> Option<Diagnostic> {
    let below = names.iter().find(|name| name.starts_with("*."))?;
    let full = names.iter().find(|name| !name.starts_with("*."))?;
    let text =
        format!("`{full}` is an alias with the pages of its site, but each name of `{below}` has its own");
    Some(Diagnostic::new(text, place.clone()).with_help("write a [[site]] for each of the two"))
}

/// Refuses a name listed twice, a name that two sites claim, and a second site that answers
/// to any name.
pub(super) fn clashes(document: &ConfigDocument) -> Vec<Diagnostic> {
    let mut owners: HashMap<&str, usize> = HashMap::new();
    let mut problems = Vec::new();
    let lone = [(&document.top, &Place::Default)];
    let tables: Vec<_> = document.sites.iter().map(|site| (&site.level, &site.place)).collect();
    let sites = if tables.is_empty() { &lone[..] } else { &tables };
    for (index, (level, place)) in sites.iter().enumerate() {
        let (names, place) = match level.get("names") {
            Some(Located { value: SettingValue::Hosts(names), place }) => {
                (names.iter().map(String::as_str).collect(), place)
            }
            _ => (vec![""], *place),
        };
        problems.extend(mixed_names(&names, place));
        for name in names {
            let owner = owners.insert(name, index);
            if owner.is_none() {
                continue;
            }
            let problem = if owner == Some(index) {
                Diagnostic::new(format!("`names` lists `{name}` twice"), place.clone())
                    .with_help("remove one of them; case and a final dot make no difference")
            } else if name.is_empty() {
                Diagnostic::new(
                    "a second site has no `names`, but only one site can serve all other names",
                    place.clone(),
                )
                .with_help("give this site `names`")
            } else {
                Diagnostic::new(format!("`{name}` already belongs to another site"), place.clone())
            };
            problems.push(problem);
        }
    }
    problems
}
