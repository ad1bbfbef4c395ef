//! A profile: the contents of its file, and the policy that they resolve to.
//!
//! Invariant: a profile contains the one that it extends. Its rows are added, and a value, such as
//! `targeted_fields`, is replaced only if the file states another one. Every row has a source, and
//! no pattern matches everything.

use crate::answers::{fill_brief, fill_maintenance, fill_unknown_parameters};
use crate::file::{
    ChangesWord, ClientAddressWord, CookieRow, CookieWord, CredentialsWord, DownstreamWord, Fault, File,
    ForwardingWord, IdentityRow, ParameterRow, ParameterWord, PathRow, PathWord, RouteRow, Row, RulesRow,
    StaticRow, UnknownWord, WriteRow,
};
use crate::{
    Changes, ClientAddress, Credentials, Downstream, FieldPattern, Forwarding, IdentityRule, JsonFact,
    LocationPattern, NOBODYS_ADDRESS, NumberPattern, Pattern, Policy, RouteRule, TargetedField,
    UnknownCookie, WriteRule, read_file,
};
use document::{Diagnostic, Reader, nearest};
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

impl Profile {
    /// Reads the text of a profile's file. `name` is the name of the profile, and that of the text
    /// in messages. `others` are the profiles that it may extend.
    ///
    /// # Errors
    /// All problems of the file with their places. Values without meaning are looked for only in a
    /// file whose keys and types are right.
    pub fn parse(name: &str, text: &str, others: &[Self]) -> Result<Self, Vec<Diagnostic>> {
        let reader = Reader::new(name, text);
        let read = read_file::file(&reader, text).filter(|_| reader.is_clean());
        let profile = read.and_then(|file| {
            let base = file.extends.as_ref().map(|base| extended(base, others));
            match base.unwrap_or_else(|| Ok(Policy::bare(name.to_owned()))) {
                Ok(base) => {
                    let mut policy = Policy { name: name.to_owned(), ..base };
                    fill(&mut policy, &file, &reader);
                    Some(Self { name: name.to_owned(), policy, file })
                }
                Err(help) => {
                    reader.problem(file.places.of("extends", None), "there is no such profile", &help);
                    None
                }
            }
        });
        let problems = reader.into_problems();
        profile.filter(|_| problems.is_empty()).ok_or(problems)
    }
}

/// The policy of the profile called `base`, or advice if there is none.
fn extended(base: &str, others: &[Profile]) -> Result<Policy, String> {
    if let Some(known) = others.iter().find(|other| other.name == base) {
        return Ok(known.policy.clone());
    }
    let names = || others.iter().map(|other| &other.name[..]);
    Err(match nearest(base, names()) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("extend one of {}", names().collect::<Vec<_>>().join(", ")),
    })
}

/// Adds the contents of a file to the policy that it extends. Reports values without meaning.
fn fill(policy: &mut Policy, file: &File, reader: &Reader) {
    let mut each = PolicyBuilder { policy, reader };
    each.table(&file.lifetime, |policy, lifetime| {
        require_source("lifetime", &lifetime.source)?;
        policy.default_ttl = Some(Duration::from_secs(lifetime.default_ttl_secs));
        policy.grace = lifetime.grace_secs.map_or(policy.grace, Duration::from_secs);
        Ok(())
    });
    each.table(&file.downstream, |policy, downstream| {
        require_source("downstream", &downstream.source)?;
        policy.downstream = match downstream.pages {
            DownstreamWord::AsStated => Downstream::AsStated,
            DownstreamWord::NoCache => Downstream::NoCache,
        };
        Ok(())
    });
    each.table(&file.rules, fill_rules);
    each.table(&file.unknown_cookies, |policy, unknown| {
        require_source("unknown_cookies", &unknown.source)?;
        policy.unknown_cookie = match unknown.mean {
            UnknownWord::Pass => UnknownCookie::Pass,
            UnknownWord::Noise => UnknownCookie::Ignore,
        };
        Ok(())
    });
    each.row(&file.cookie, fill_cookies);
    each.row(&file.path, fill_paths);
    each.row(&file.parameter, fill_parameters);
    each.row(&file.static_file, fill_static);
    each.table(&file.unknown_parameters, fill_unknown_parameters);
    each.row(&file.brief, fill_brief);
    each.row(&file.maintenance, fill_maintenance);
    each.row(&file.front, |policy, row| {
        require_source("front", &row.source)?;
        if let Some(place) = row.targets.iter().position(|target| !target.starts_with('/')) {
            return Err(Fault::at("targets", place, "a target in a [[front]] begins with a slash"));
        }
        policy.fronts.extend(row.targets.iter().cloned());
        Ok(())
    });
    each.row(&file.route, |policy, row| route_rule(row).map(|rule| policy.routes.push(rule)));
    each.row(&file.identity, |policy, IdentityRow { field, except, source }| {
        require_source("identity", source)?;
        let except = listed("identity", "except", except)?;
        let rule = IdentityRule::parse(field, except).map_err(|fault| Fault::new("field", fault))?;
        policy.identities.push(rule);
        Ok(())
    });
    each.row(&file.write, |policy, row| {
        require_source("write", &row.source)?;
        policy.writes.push(write_rule(row)?);
        Ok(())
    });
    each.row(&file.purge, |_, row| require_source("purge", &row.source));
}

/// Adds the tables of a file to a policy one by one, and reports the faults of all of them.
struct PolicyBuilder<'a> {
    policy: &'a mut Policy,
    reader: &'a Reader,
}

impl PolicyBuilder<'_> {
    fn row<T>(&mut self, rows: &[Row<T>], fill: impl Fn(&mut Policy, &T) -> Result<(), Fault>) {
        for Row { row, places } in rows {
            if let Err(Fault { key, item, message }) = fill(self.policy, row) {
                self.reader.problem(places.of(key, item), message, "");
            }
        }
    }

    fn table<T>(&mut self, table: &Option<Row<T>>, fill: impl Fn(&mut Policy, &T) -> Result<(), Fault>) {
        self.row(table.as_slice(), fill);
    }
}

fn fill_cookies(policy: &mut Policy, CookieRow { means, names, source }: &CookieRow) -> Result<(), Fault> {
    require_source("cookie", source)?;
    let list = match means {
        CookieWord::Key => {
            if let Some(place) = names.iter().position(|name| name.contains('*')) {
                let message = "a [[cookie]] for the key has a pattern; write each name in full";
                return Err(Fault::at("names", place, message));
            }
            policy.keyed_cookies.extend(names.iter().cloned());
            return Ok(());
        }
        CookieWord::Session => &mut policy.session_cookies,
        CookieWord::Noise => &mut policy.noise_cookies,
    };
    list.extend(patterns("cookie", "names", names)?);
    Ok(())
}

fn fill_static(
    policy: &mut Policy,
    StaticRow { extensions, paths, guess_secs_max, recheck_secs, source }: &StaticRow,
) -> Result<(), Fault> {
    require_source("static", source)?;
    if extensions.is_empty() && paths.is_empty() {
        return Err(Fault::new("", "a [[static]] names nothing; give paths or extensions"));
    }
    let is_extension = |name: &String| name.bytes().all(|octet| octet.is_ascii_alphanumeric());
    if let Some(place) = extensions.iter().position(|name| !is_extension(name)) {
        return Err(Fault::at("extensions", place, "write the extension of a [[static]] without a dot"));
    }
    policy.static_files = true;
    policy.browser_caching = true;
    policy.static_extensions.extend(extensions.iter().cloned());
    policy.static_paths.extend(listed("static", "paths", paths)?);
    if recheck_secs.is_some() && paths.is_empty() {
        let message = "a [[static]] with `recheck_secs` needs paths that the system's own files have";
        return Err(Fault::new("recheck_secs", message));
    }
    let given = |secs: &Option<u64>| secs.map(Duration::from_secs);
    policy.static_guess_max = given(guess_secs_max).or(policy.static_guess_max);
    policy.static_recheck = given(recheck_secs).or(policy.static_recheck);
    Ok(())
}

fn fill_paths(policy: &mut Policy, row: &PathRow) -> Result<(), Fault> {
    require_source("path", &row.source)?;
    let list = match row.means {
        PathWord::Bypass => &mut policy.bypass_paths,
        PathWord::Public => &mut policy.public_paths,
    };
    list.extend(patterns("path", "patterns", &row.patterns)?);
    Ok(())
}

fn fill_parameters(
    policy: &mut Policy,
    ParameterRow { means, names, source }: &ParameterRow,
) -> Result<(), Fault> {
    require_source("parameter", source)?;
    let list = match means {
        ParameterWord::Bypass => &mut policy.bypass_parameters,
        ParameterWord::Public => &mut policy.public_parameters,
        ParameterWord::Tracking => &mut policy.tracking_parameters,
        ParameterWord::Known => &mut policy.known_parameters,
    };
    list.extend(patterns("parameter", "names", names)?);
    Ok(())
}

fn route_rule(row: &RouteRow) -> Result<RouteRule, Fault> {
    require_source("route", &row.source)?;
    if !row.prefix.starts_with('/') {
        return Err(Fault::new("prefix", "the prefix of a [[route]] begins with a slash"));
    }
    let RouteRow { parameter, scripts, prefix, .. } = row.clone();
    Ok(RouteRule { parameter, scripts, prefix })
}

fn fill_rules(policy: &mut Policy, rules: &RulesRow) -> Result<(), Fault> {
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
        let read = |(place, name): (usize, &String)| {
            let fault = || {
                let message = format!("there is no `{name}`; docs/settings.md lists the fields");
                Fault::at("targeted_fields", place, message)
            };
            TargetedField::by_name(name).ok_or_else(fault)
        };
        policy.targeted_fields = names.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    }
    policy.reload_age_min = seconds(rules.reload_age_min_secs).unwrap_or(policy.reload_age_min);
    policy.not_found_ttl = seconds(rules.not_found_ttl_secs).or(policy.not_found_ttl);
    policy.error_ttl = seconds(rules.error_ttl_secs).or(policy.error_ttl);
    policy.stale_on_error_max = seconds(rules.stale_on_error_max_secs).unwrap_or(policy.stale_on_error_max);
    Ok(())
}

fn write_rule(row: &WriteRow) -> Result<WriteRule, Fault> {
    if row.methods.is_empty() || row.statuses.is_empty() {
        return Err(Fault::new("", "a [[write]] needs methods and statuses"));
    }
    if row.paths.is_empty() && row.parameters.is_empty() {
        let message = "a [[write]] needs paths or parameters; without them, it would match every request";
        return Err(Fault::new("", message));
    }
    let proofs = [&row.locations, &row.fields, &row.json, &row.contents, &row.changed_contents]
        .iter()
        .any(|proofs| !proofs.is_empty());
    if !proofs {
        return Err(Fault::new(
            "",
            "a [[write]] needs locations, fields, json or contents of the response; without them, every \
             client could forge the write",
        ));
    }
    let number = |text: &String| {
        let fault = "a content of a [[write]] is written as `*text{id}text*`".to_owned();
        NumberPattern::parse(text).ok_or(fault)
    };
    let json_path = |path: &String| path.split('.').map(str::to_owned).collect();
    let parameter = |text: &String| {
        let pair = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        pair.ok_or_else(|| "a parameter of a [[write]] is written as `name=value`".to_owned())
    };
    let listed = |key, texts: &[String]| listed("write", key, texts);
    Ok(WriteRule {
        methods: row.methods.clone(),
        paths: listed("paths", &row.paths)?,
        unless_paths: listed("unless_paths", &row.unless_paths)?,
        parameters: each("parameters", &row.parameters, parameter)?,
        unless_parameters: row.unless_parameters.clone(),
        cookies: listed("cookies", &row.cookies)?,
        statuses: row.statuses.clone(),
        locations: row.locations.iter().map(|text| LocationPattern::parse(text)).collect(),
        unless_locations: listed("unless_locations", &row.unless_locations)?,
        fields: each("fields", &row.fields, |text| FieldPattern::parse(text))?,
        unless_fields: row.unless_fields.clone(),
        json: each("json", &row.json, |text| JsonFact::parse_all(text))?,
        unless_json: each("unless_json", &row.unless_json, |text| JsonFact::parse_all(text))?,
        contents: listed("contents", &row.contents)?,
        changed_links: row.changed_links.iter().map(json_path).collect(),
        changed_ids: row.changed_ids.iter().map(json_path).collect(),
        changed_parameters: row.changed_parameters.clone(),
        changed_locations: row.changed_locations.clone(),
        changed_contents: each("changed_contents", &row.changed_contents, number)?,
        changed_below: row.changed_below.clone(),
        changes: match row.changes {
            ChangesWord::Everything => Changes::Everything,
            ChangesWord::Fronts => Changes::Fronts,
            ChangesWord::Lists => Changes::Lists,
            ChangesWord::Page => Changes::Page,
        },
    })
}

/// Reads the elements of a list.
pub(crate) fn each<T>(
    key: &'static str,
    texts: &[String],
    read: impl Fn(&String) -> Result<T, String>,
) -> Result<Vec<T>, Fault> {
    let read = |(place, text)| read(text).map_err(|fault| Fault::at(key, place, fault));
    texts.iter().enumerate().map(read).collect()
}

/// Reads the patterns of a row. A row must have one, and none may match everything.
pub(crate) fn patterns(row: &str, key: &'static str, texts: &[String]) -> Result<Vec<Pattern>, Fault> {
    if texts.is_empty() {
        return Err(Fault::new(key, format!("a [[{row}]] names nothing; give at least one name or pattern")));
    }
    listed(row, key, texts)
}

/// Reads the patterns of a row, which may be none.
pub(crate) fn listed(row: &str, key: &'static str, texts: &[String]) -> Result<Vec<Pattern>, Fault> {
    each(key, texts, |text| {
        if text.bytes().all(|octet| matches!(octet, b'*' | b' ' | b'/')) {
            return Err(format!(
                "a [[{row}]] has the pattern `{text}`, which matches everything; write a narrower pattern"
            ));
        }
        Ok(Pattern::new(text))
    })
}

pub(crate) fn require_source(row: &str, source: &str) -> Result<(), Fault> {
    if source.trim().is_empty() {
        let message = format!("a `{row}` has no source; name the document or code that proves it");
        return Err(Fault::new("source", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{Pattern, Policy, Profile, UnknownCookie};
    use document::Diagnostic;
    use std::time::Duration;

    fn parse(text: &str) -> Result<Profile, String> {
        let problems =
            |problems: Vec<Diagnostic>| problems.iter().map(|problem| format!("{problem}\n")).collect();
        Profile::parse("mine", text, Profile::all()).map_err(problems)
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
            ("title = 'a'\nttl = 5", "mine:2:1"),
            ("title = 'a'\nextends = 'b'", "no such profile"),
            ("title = 'a'\n[downstream]\npages = 'max-age=5'\nsource = 'b'", "mine:3:9"),
            ("title = 'a'\n[downstream]\npages = 'no-cache'\nsource = ''", "has no source"),
            ("title = 'a'\n[[cookie]]\nmeans = 'nothing'\nnames = ['b']\nsource = 'c'", "mine:3:9"),
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
            assert!(
                error.starts_with("error: ") && error.contains("--> mine:") && error.contains(told),
                "{error}"
            );
        }
    }
    #[test]
    fn all_faults_are_shown_with_place_and_nearest_name() {
        let text = "title = 'Shop'\nextend = 'default'\n\n[lifetime]\ndefault_ttl_sec = 5\nsource = 'me'\n\n\
                    [[cookie]]\nmeans = 'nose'\nnames = 'theme'\n\n\
                    [[brief]]\nstatuses = [404, 70000]\nlifetime_secs = 99999999999999999999\n\
                    fields = ['X-A: b', 7]\nsource = 'me'\n";
        insta::assert_snapshot!(parse(text).unwrap_err());
    }

    #[test]
    fn all_values_without_meaning_are_shown_at_their_place() {
        let text = "title = 'Shop'\n[[cookie]]\nmeans = 'key'\nnames = ['a', 'b*']\nsource = ''\n\
                    [[cookie]]\nmeans = 'key'\nnames = ['a', 'b*']\nsource = 'me'\n\
                    [[path]]\npatterns = [\n    '/admin/*',\n    '/*',\n]\nsource = 'me'\n\
                    [[static]]\nsource = 'me'\n";
        insta::assert_snapshot!(parse(text).unwrap_err());
        let extended = parse("title = 'a'\nextends = 'wordpres'\n").unwrap_err();
        assert!(
            extended.contains("mine:2:11") && extended.contains("did you mean `wordpress`?"),
            "{extended}"
        );
    }

    #[test]
    fn broken_texts_are_refused_with_a_place() {
        for (text, told) in [
            ("", "`title` is missing"),
            ("title = 'a'\ntitle = 'b'", "duplicate key"),
            ("title = 'a'\n[lifetime]\n[lifetime]", "duplicate key"),
            ("title = 'a", "mine:1:"),
            ("title = 7", "must be a text in quotes"),
            ("title = 'a'\ncookie = 5", "must be a list of tables"),
            ("title = 'a'\n[cookie]\nmeans = 'key'", "must be a list of tables"),
            ("title = 'a'\n[[lifetime]]\nsource = 'b'", "must be a table"),
            ("title = 'a'\n[lifetime]\ndefault_ttl_secs = -1\nsource = 'b'", "mine:3:20"),
            ("title = 'a'\n[lifetime]\ndefault_ttl_secs = 1.5\nsource = 'b'", "mine:3:20"),
            ("title = 'a'\n[lifetime]\ndefault_ttl_secs = 18446744073709551615\nsource = 'b'", "mine:3:20"),
            ("\u{feff}title = 'a'\nx = 'ü'\nö = 1", "mine:3:1"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("--> mine:") && error.contains(told), "{text:?}: {error}");
        }
        let hexadecimal = "title = 'a'\n[lifetime]\ndefault_ttl_secs = 0x1_0\nsource = 'b'";
        assert_eq!(parse(hexadecimal).unwrap().policy.default_ttl, Some(Duration::from_secs(16)));
    }
}
