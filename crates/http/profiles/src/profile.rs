//! A profile: the contents of its file, and the policy that they resolve to.
//!
//! Invariant: a profile contains the one that it extends. Its rows are added, and a value, such as
//! `targeted_fields`, is replaced only if the file states another one. Every row has a source, and
//! no pattern matches everything.

use crate::answers::fill_answers;
use crate::file::{
    ChangesWord, ClientAddressWord, CookieRow, CookieWord, CredentialsWord, DownstreamWord, File,
    ForwardingWord, IdentityRow, ParameterRow, ParameterWord, PathWord, RouteRow, Rules, StaticRow,
    UnknownWord, WriteRow,
};
use crate::{
    Changes, ClientAddress, Credentials, Downstream, FieldPattern, Forwarding, IdentityRule, JsonFact,
    LocationPattern, NOBODYS_ADDRESS, NumberPattern, Pattern, Policy, RouteRule, TargetedField,
    UnknownCookie, WriteRule,
};
use std::time::Duration;

/// The rules for a kind of site.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The profile's name.
    pub name: String,
    /// The policy, including the profile that it extends.
    pub policy: Policy,
    /// The file's own contents, without the profile that it extends.
    pub(crate) file: File,
}

/// Why a profile's file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the profile {name} cannot be used: {fault}")]
pub struct ProfileError {
    /// The profile's name or path.
    pub name: String,
    /// The first fault and its place.
    pub fault: String,
}

impl Profile {
    /// Reads the text of a profile's file. `others` are the profiles that it may extend.
    ///
    /// # Errors
    /// [`ProfileError`] with the first fault in the file.
    pub fn parse(name: &str, text: &str, others: &[Self]) -> Result<Self, ProfileError> {
        let fault = |fault: String| ProfileError { name: name.to_owned(), fault };
        let file: File =
            toml::from_str(text).map_err(|error| fault(error.to_string().trim_end().to_owned()))?;
        let mut policy = match &file.extends {
            None => Policy::bare(name.to_owned()),
            Some(base) => {
                let known = others.iter().find(|other| other.name == *base);
                let unknown = || {
                    fault(format!("it extends `{base}`, but there is no such profile; extend a shipped one"))
                };
                Policy { name: name.to_owned(), ..known.ok_or_else(unknown)?.policy.clone() }
            }
        };
        fill(&mut policy, &file).map_err(fault)?;
        Ok(Self { name: name.to_owned(), policy, file })
    }
}

/// Adds the contents of a file to the policy that it extends.
fn fill(policy: &mut Policy, file: &File) -> Result<(), String> {
    if let Some(lifetime) = &file.lifetime {
        require_source("lifetime", &lifetime.source)?;
        policy.default_ttl = Some(Duration::from_secs(lifetime.default_ttl_secs));
        policy.grace = lifetime.grace_secs.map_or(policy.grace, Duration::from_secs);
    }
    if let Some(downstream) = &file.downstream {
        require_source("downstream", &downstream.source)?;
        policy.downstream = match downstream.pages {
            DownstreamWord::AsStated => Downstream::AsStated,
            DownstreamWord::NoCache => Downstream::NoCache,
        };
    }
    if let Some(rules) = &file.rules {
        fill_rules(policy, rules)?;
    }
    if let Some(unknown) = &file.unknown_cookies {
        require_source("unknown_cookies", &unknown.source)?;
        policy.unknown_cookie = match unknown.mean {
            UnknownWord::Pass => UnknownCookie::Pass,
            UnknownWord::Noise => UnknownCookie::Ignore,
        };
    }
    for CookieRow { means, names, source } in &file.cookie {
        require_source("cookie", source)?;
        let list = match means {
            CookieWord::Key => {
                if let Some(name) = names.iter().find(|name| name.contains('*')) {
                    return Err(format!(
                        "a [[cookie]] for the key has the pattern `{name}`; write each name in full"
                    ));
                }
                policy.keyed_cookies.extend(names.iter().cloned());
                continue;
            }
            CookieWord::Session => &mut policy.session_cookies,
            CookieWord::Noise => &mut policy.noise_cookies,
        };
        list.extend(patterns("cookie", names)?);
    }
    fill_targets(policy, file)?;
    for row in &file.static_file {
        fill_static(policy, row)?;
    }
    fill_answers(policy, file)?;
    for row in &file.front {
        require_source("front", &row.source)?;
        if let Some(target) = row.targets.iter().find(|target| !target.starts_with('/')) {
            return Err(format!("a [[front]] has the target `{target}`; let it begin with a slash"));
        }
        policy.fronts.extend(row.targets.iter().cloned());
    }
    for row in &file.route {
        policy.routes.push(route_rule(row)?);
    }
    for IdentityRow { field, except, source } in &file.identity {
        require_source("identity", source)?;
        let except = if except.is_empty() { Vec::new() } else { patterns("identity", except)? };
        policy.identities.push(IdentityRule::parse(field, except)?);
    }
    for row in &file.write {
        require_source("write", &row.source)?;
        policy.writes.push(write_rule(row)?);
    }
    file.purge.iter().try_for_each(|row| require_source("purge", &row.source))
}

fn fill_static(
    policy: &mut Policy,
    StaticRow { extensions, paths, guess_secs_max, recheck_secs, source }: &StaticRow,
) -> Result<(), String> {
    require_source("static", source)?;
    if extensions.is_empty() && paths.is_empty() {
        return Err("a [[static]] names nothing; give paths or extensions".to_owned());
    }
    if let Some(name) =
        extensions.iter().find(|name| !name.bytes().all(|octet| octet.is_ascii_alphanumeric()))
    {
        return Err(format!("a [[static]] has the extension `{name}`; write it without a dot"));
    }
    policy.static_files = true;
    policy.static_extensions.extend(extensions.iter().cloned());
    if !paths.is_empty() {
        policy.static_paths.extend(patterns("static", paths)?);
    }
    if recheck_secs.is_some() && paths.is_empty() {
        return Err(
            "a [[static]] with `recheck_secs` needs paths that the system's own files have".to_owned()
        );
    }
    let given = |secs: &Option<u64>| secs.map(Duration::from_secs);
    policy.static_guess_max = given(guess_secs_max).or(policy.static_guess_max);
    policy.static_recheck = given(recheck_secs).or(policy.static_recheck);
    Ok(())
}

/// Adds the rows about paths and parameters.
fn fill_targets(policy: &mut Policy, file: &File) -> Result<(), String> {
    for row in &file.path {
        require_source("path", &row.source)?;
        let list = match row.means {
            PathWord::Bypass => &mut policy.bypass_paths,
            PathWord::Public => &mut policy.public_paths,
        };
        list.extend(patterns("path", &row.patterns)?);
    }
    for ParameterRow { means, names, source } in &file.parameter {
        require_source("parameter", source)?;
        let list = match means {
            ParameterWord::Bypass => &mut policy.bypass_parameters,
            ParameterWord::Public => &mut policy.public_parameters,
            ParameterWord::Tracking => &mut policy.tracking_parameters,
            ParameterWord::Known => &mut policy.known_parameters,
        };
        list.extend(patterns("parameter", names)?);
    }
    Ok(())
}

fn route_rule(row: &RouteRow) -> Result<RouteRule, String> {
    require_source("route", &row.source)?;
    if !row.prefix.starts_with('/') {
        return Err(format!(
            "a [[route]] has the prefix `{}`, which does not begin with a slash",
            row.prefix
        ));
    }
    let RouteRow { parameter, scripts, prefix, .. } = row.clone();
    Ok(RouteRule { parameter, scripts, prefix })
}

fn fill_rules(policy: &mut Policy, rules: &Rules) -> Result<(), String> {
    let seconds = |secs: Option<u64>| secs.map(Duration::from_secs);
    match rules.forwarding {
        Some(ForwardingWord::Keyed) => policy.forwarding = Forwarding::Keyed,
        Some(ForwardingWord::Everything) => policy.forwarding = Forwarding::Everything,
        None => {}
    }
    match rules.client_address {
        Some(ClientAddressWord::Constant) => {
            policy.client_address = ClientAddress::Constant(NOBODYS_ADDRESS);
        }
        Some(ClientAddressWord::Leader) => policy.client_address = ClientAddress::Leader,
        None => {}
    }
    match rules.credentials {
        Some(CredentialsWord::WithPublic) => policy.credentials = Credentials::WithPublic,
        Some(CredentialsWord::AsStated) => policy.credentials = Credentials::AsStated,
        None => {}
    }
    policy.equal_spellings = rules.equal_spellings.unwrap_or(policy.equal_spellings);
    policy.exact_etags = rules.exact_etags.unwrap_or(policy.exact_etags);
    policy.stores_cookies = rules.stores_cookies.unwrap_or(policy.stores_cookies);
    policy.heuristics = rules.heuristics.unwrap_or(policy.heuristics);
    if let Some(names) = &rules.targeted_fields {
        let read = |name: &String| {
            TargetedField::by_name(name).ok_or_else(|| {
                format!("`targeted_fields`: there is no `{name}`; docs/settings.md lists the fields")
            })
        };
        policy.targeted_fields = names.iter().map(read).collect::<Result<_, _>>()?;
    }
    policy.reload_age_min = seconds(rules.reload_age_min_secs).unwrap_or(policy.reload_age_min);
    policy.not_found_ttl = seconds(rules.not_found_ttl_secs).or(policy.not_found_ttl);
    policy.error_ttl = seconds(rules.error_ttl_secs).or(policy.error_ttl);
    policy.stale_on_error_max = seconds(rules.stale_on_error_max_secs).unwrap_or(policy.stale_on_error_max);
    Ok(())
}

fn write_rule(row: &WriteRow) -> Result<WriteRule, String> {
    if row.methods.is_empty() || row.statuses.is_empty() {
        return Err("a [[write]] needs methods and statuses".to_owned());
    }
    if row.paths.is_empty() && row.parameters.is_empty() {
        return Err(
            "a [[write]] needs paths or parameters; without them, it would match every request".to_owned()
        );
    }
    let proofs = [&row.locations, &row.fields, &row.json, &row.contents, &row.changed_contents]
        .iter()
        .any(|proofs| !proofs.is_empty());
    if !proofs {
        return Err(
            "a [[write]] needs locations, fields, json or contents of the response; without them, every \
             client could forge the write"
                .to_owned(),
        );
    }
    let listed = |texts: &[String]| if texts.is_empty() { Ok(Vec::new()) } else { patterns("write", texts) };
    let number = |text: &String| {
        let fault = || format!("a [[write]] has the content `{text}`; write it as `*text{{id}}text*`");
        NumberPattern::parse(text).ok_or_else(fault)
    };
    let json_path = |path: &String| path.split('.').map(str::to_owned).collect();
    let parameter = |text: &String| {
        let pair = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        pair.ok_or_else(|| format!("a [[write]] has the parameter `{text}`; write it as `name=value`"))
    };
    Ok(WriteRule {
        methods: row.methods.clone(),
        paths: listed(&row.paths)?,
        unless_paths: listed(&row.unless_paths)?,
        parameters: row.parameters.iter().map(parameter).collect::<Result<_, _>>()?,
        unless_parameters: row.unless_parameters.clone(),
        cookies: listed(&row.cookies)?,
        statuses: row.statuses.clone(),
        locations: row.locations.iter().map(|text| LocationPattern::parse(text)).collect(),
        unless_locations: listed(&row.unless_locations)?,
        fields: row.fields.iter().map(|text| FieldPattern::parse(text)).collect::<Result<_, _>>()?,
        unless_fields: row.unless_fields.clone(),
        json: row.json.iter().map(|text| JsonFact::parse_all(text)).collect::<Result<_, _>>()?,
        unless_json: row
            .unless_json
            .iter()
            .map(|text| JsonFact::parse_all(text))
            .collect::<Result<_, _>>()?,
        contents: listed(&row.contents)?,
        changed_links: row.changed_links.iter().map(json_path).collect(),
        changed_ids: row.changed_ids.iter().map(json_path).collect(),
        changed_parameters: row.changed_parameters.clone(),
        changed_locations: row.changed_locations.clone(),
        changed_contents: row.changed_contents.iter().map(number).collect::<Result<_, _>>()?,
        changed_below: row.changed_below.clone(),
        changes: match row.changes {
            ChangesWord::Everything => Changes::Everything,
            ChangesWord::Fronts => Changes::Fronts,
            ChangesWord::Lists => Changes::Lists,
            ChangesWord::Page => Changes::Page,
        },
    })
}

/// Reads the patterns of a row. A row must have one, and none may match everything.
pub(crate) fn patterns(row: &str, texts: &[String]) -> Result<Vec<Pattern>, String> {
    if texts.is_empty() {
        return Err(format!("a [[{row}]] names nothing; give at least one name or pattern"));
    }
    let says_nothing = |text: &&String| text.bytes().all(|octet| matches!(octet, b'*' | b' ' | b'/'));
    match texts.iter().find(says_nothing) {
        Some(text) => Err(format!(
            "a [[{row}]] has the pattern `{text}`, which matches everything; write a narrower pattern"
        )),
        None => Ok(texts.iter().map(|text| Pattern::new(text)).collect()),
    }
}

pub(crate) fn require_source(row: &str, source: &str) -> Result<(), String> {
    if source.trim().is_empty() {
        return Err(format!("a `{row}` has no source; name the document or code that proves it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{Pattern, Policy, Profile, UnknownCookie};
    use std::time::Duration;

    fn parse(text: &str) -> Result<Profile, String> {
        Profile::parse("mine", text, Profile::all()).map_err(|error| error.to_string())
    }

    #[test]
    fn profile_adds_to_the_one_it_extends() {
        let text = "title = 'Mine'\nextends = 'wordpress'\n[lifetime]\ndefault_ttl_secs = 60\nsource = 'me'\n\
                    [unknown_cookies]\nmean = 'noise'\nsource = 'me'\n\
                    [[cookie]]\nmeans = 'noise'\nnames = ['theme']\nsource = 'me'\n";
        let mine = parse(text).unwrap().policy;
        let mut expected = Policy {
            name: "mine".to_owned(),
            default_ttl: Some(Duration::from_secs(60)),
            unknown_cookie: UnknownCookie::Ignore,
            ..Policy::wordpress()
        };
        expected.noise_cookies.push(Pattern::new("theme"));
        assert_eq!(mine, expected);
    }

    #[test]
    fn faulty_profile_is_refused_with_the_place() {
        for (text, told) in [
            ("title = 'a'\nttl = 5", "line 2"),
            ("title = 'a'\nextends = 'b'", "no such profile"),
            ("title = 'a'\n[downstream]\npages = 'max-age=5'\nsource = 'b'", "line 3"),
            ("title = 'a'\n[downstream]\npages = 'no-cache'\nsource = ''", "has no source"),
            ("title = 'a'\n[[cookie]]\nmeans = 'nothing'\nnames = ['b']\nsource = 'c'", "line 3"),
            ("title = 'a'\n[[cookie]]\nmeans = 'noise'\nnames = ['b']", "source"),
            ("title = 'a'\n[[cookie]]\nmeans = 'noise'\nnames = ['b']\nsource = ' '", "has no source"),
            ("title = 'a'\n[[cookie]]\nmeans = 'noise'\nnames = []\nsource = 'c'", "names nothing"),
            ("title = 'a'\n[[cookie]]\nmeans = 'noise'\nnames = ['*']\nsource = 'c'", "everything"),
            ("title = 'a'\n[[cookie]]\nmeans = 'key'\nnames = ['b*']\nsource = 'c'", "in full"),
            ("title = 'a'\n[[path]]\npatterns = ['/*']\nsource = 'c'", "everything"),
            ("title = 'a'\n[[static]]\nextensions = ['.css']\nsource = 'c'", "without a dot"),
            ("title = 'a'\n[[static]]\npaths = ['/*']\nsource = 'c'", "everything"),
            ("title = 'a'\n[[static]]\nsource = 'c'", "names nothing"),
            ("title = 'a'\n[[static]]\nextensions = ['css']\nrecheck_secs = 1\nsource = 'c'", "needs paths"),
            (
                "title = 'a'\n[[write]]\nmethods = ['POST']\nstatuses = [200]\nchanges = 'everything'\nsource = 'b'",
                "every request",
            ),
            (
                "title = 'a'\n[[brief]]\nstatuses = [404]\nlifetime_secs = 1\nfields = []\nsource = 'b'",
                "only the application",
            ),
            (
                "title = 'a'\n[[brief]]\nstatuses = [200]\nlifetime_secs = 1\nfields = ['a: b']\nsource = 'b'",
                "300 to 499",
            ),
            (
                "title = 'a'\n[[maintenance]]\nstatuses = [503]\nfields = ['Retry-After']\nsource = 'b'",
                "write it as `Name: pattern`",
            ),
            ("title = 'a'\n[[front]]\ntargets = ['feed']\nsource = 'b'", "slash"),
            ("title = 'a'\n[rules]\ntargeted_fields = ['Age']", "no `Age`"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with("the profile mine cannot be used") && error.contains(told), "{error}");
        }
    }
}
