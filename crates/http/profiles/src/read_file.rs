//! Reads the contents of a profile's file from its TOML tables.
//!
//! Invariant: every key is read here by its name, so that the reader of documents can tell a
//! misspelt key and the nearest known one.

use crate::file::{
    BeyondWord, BriefRow, ChangesWord, ClientAddressWord, CookieRow, CookieWord, CredentialsWord,
    DownstreamRow, DownstreamWord, File, ForwardingWord, FrontRow, IdentityRow, Lifetime, MaintenanceRow,
    ParameterRow, ParameterWord, PathRow, PathWord, PurgeRow, RouteRow, Row, RulesRow, StaticRow,
    UnknownCookies, UnknownParametersTable, UnknownWord, WriteRow,
};
use document::{Keys, Reader};
use std::ops::RangeInclusive;
use toml::Spanned;

/// Lifetimes in seconds. The limit is that of durations in the settings.
const SECONDS: RangeInclusive<u64> = 0..=u64::MAX / 1_000_000_000;

/// Statuses of HTTP (RFC 9110 section 15 demands three digits).
const STATUSES: RangeInclusive<u64> = 100..=999;

/// Reads a whole file. Problems are reported to `reader`; after one, values may be placeholders.
pub(crate) fn file(reader: &Reader, text: &str) -> Option<File> {
    let table = reader.parse(text)?;
    let mut keys = Keys::new(reader, table.get_ref(), 0..0);
    let file = File {
        title: required(&mut keys, "title"),
        about: optional(&mut keys, "about").unwrap_or_default(),
        extends: optional(&mut keys, "extends"),
        software: texts(&mut keys, "software"),
        lab: optional(&mut keys, "lab"),
        lifetime: table_of(&mut keys, "lifetime", lifetime),
        downstream: table_of(&mut keys, "downstream", downstream),
        rules: table_of(&mut keys, "rules", rules),
        unknown_cookies: table_of(&mut keys, "unknown_cookies", unknown_cookies),
        unknown_parameters: table_of(&mut keys, "unknown_parameters", unknown_parameters),
        cookie: rows(&mut keys, "cookie", cookie),
        path: rows(&mut keys, "path", path),
        static_file: rows(&mut keys, "static", static_file),
        parameter: rows(&mut keys, "parameter", parameter),
        brief: rows(&mut keys, "brief", brief),
        maintenance: rows(&mut keys, "maintenance", maintenance),
        front: rows(&mut keys, "front", front),
        route: rows(&mut keys, "route", route),
        identity: rows(&mut keys, "identity", identity),
        write: rows(&mut keys, "write", write),
        purge: rows(&mut keys, "purge", purge),
        places: keys.places(),
    };
    keys.finish();
    Some(file)
}

fn lifetime(keys: &mut Keys<'_, '_>) -> Lifetime {
    need(keys, "default_ttl_secs", "default_ttl_secs = 60");
    Lifetime {
        default_ttl_secs: keys.count("default_ttl_secs", SECONDS).unwrap_or_default(),
        grace_secs: keys.count("grace_secs", SECONDS),
        source: source(keys),
    }
}

fn downstream(keys: &mut Keys<'_, '_>) -> DownstreamRow {
    let words = [("as-stated", DownstreamWord::AsStated), ("no-cache", DownstreamWord::NoCache)];
    DownstreamRow { pages: word(keys, "pages", DownstreamWord::AsStated, &words), source: source(keys) }
}

fn rules(keys: &mut Keys<'_, '_>) -> RulesRow {
    let forwarding = [("keyed", ForwardingWord::Keyed), ("everything", ForwardingWord::Everything)];
    let address = [("constant", ClientAddressWord::Constant), ("leader", ClientAddressWord::Leader)];
    let credentials =
        [("with-public", CredentialsWord::WithPublic), ("as-stated", CredentialsWord::AsStated)];
    RulesRow {
        forwarding: keys.word("forwarding", &forwarding),
        client_address: keys.word("client_address", &address),
        equal_spellings: keys.flag("equal_spellings"),
        exact_etags: keys.flag("exact_etags"),
        stores_cookies: keys.flag("stores_cookies"),
        credentials: keys.word("credentials", &credentials),
        heuristics: keys.flag("heuristics"),
        targeted_fields: keys.has("targeted_fields").then(|| texts(keys, "targeted_fields")),
        reload_age_min_secs: keys.count("reload_age_min_secs", SECONDS),
        not_found_ttl_secs: keys.count("not_found_ttl_secs", SECONDS),
        error_ttl_secs: keys.count("error_ttl_secs", SECONDS),
        stale_on_error_max_secs: keys.count("stale_on_error_max_secs", SECONDS),
    }
}

fn unknown_cookies(keys: &mut Keys<'_, '_>) -> UnknownCookies {
    let words = [("pass", UnknownWord::Pass), ("noise", UnknownWord::Noise)];
    UnknownCookies { mean: word(keys, "mean", UnknownWord::Pass, &words), source: source(keys) }
}

fn unknown_parameters(keys: &mut Keys<'_, '_>) -> UnknownParametersTable {
    let words = [("refuse", BeyondWord::Refuse), ("page", BeyondWord::Page)];
    need(keys, "per_minute", "per_minute = 1200");
    let per_minute = keys.count("per_minute", 0..=u64::MAX).unwrap_or_default();
    UnknownParametersTable {
        per_minute: usize::try_from(per_minute).unwrap_or(usize::MAX),
        beyond: word(keys, "beyond", BeyondWord::Refuse, &words),
        source: source(keys),
    }
}

fn cookie(keys: &mut Keys<'_, '_>) -> CookieRow {
    let words = [("key", CookieWord::Key), ("session", CookieWord::Session), ("noise", CookieWord::Noise)];
    CookieRow {
        means: word(keys, "means", CookieWord::Noise, &words),
        names: required_texts(keys, "names"),
        source: source(keys),
    }
}

fn path(keys: &mut Keys<'_, '_>) -> PathRow {
    PathRow {
        means: keys
            .word("means", &[("bypass", PathWord::Bypass), ("public", PathWord::Public)])
            .unwrap_or_default(),
        patterns: required_texts(keys, "patterns"),
        source: source(keys),
    }
}

fn static_file(keys: &mut Keys<'_, '_>) -> StaticRow {
    StaticRow {
        extensions: texts(keys, "extensions"),
        paths: texts(keys, "paths"),
        guess_secs_max: keys.count("guess_secs_max", SECONDS),
        recheck_secs: keys.count("recheck_secs", SECONDS),
        source: source(keys),
    }
}

fn parameter(keys: &mut Keys<'_, '_>) -> ParameterRow {
    let words = [
        ("bypass", ParameterWord::Bypass),
        ("public", ParameterWord::Public),
        ("tracking", ParameterWord::Tracking),
        ("known", ParameterWord::Known),
    ];
    ParameterRow {
        means: word(keys, "means", ParameterWord::Known, &words),
        names: required_texts(keys, "names"),
        source: source(keys),
    }
}

fn brief(keys: &mut Keys<'_, '_>) -> BriefRow {
    need(keys, "lifetime_secs", "lifetime_secs = 60");
    BriefRow {
        statuses: statuses(keys),
        lifetime_secs: keys.count("lifetime_secs", SECONDS).unwrap_or_default(),
        paths: texts(keys, "paths"),
        fields: required_texts(keys, "fields"),
        source: source(keys),
    }
}

fn maintenance(keys: &mut Keys<'_, '_>) -> MaintenanceRow {
    MaintenanceRow { statuses: statuses(keys), fields: required_texts(keys, "fields"), source: source(keys) }
}

fn front(keys: &mut Keys<'_, '_>) -> FrontRow {
    FrontRow { targets: required_texts(keys, "targets"), source: source(keys) }
}

fn route(keys: &mut Keys<'_, '_>) -> RouteRow {
    RouteRow {
        parameter: required(keys, "parameter"),
        scripts: required_texts(keys, "scripts"),
        prefix: required(keys, "prefix"),
        source: source(keys),
    }
}

fn identity(keys: &mut Keys<'_, '_>) -> IdentityRow {
    IdentityRow { field: required(keys, "field"), except: texts(keys, "except"), source: source(keys) }
}

fn write(keys: &mut Keys<'_, '_>) -> WriteRow {
    let words = [
        ("everything", ChangesWord::Everything),
        ("fronts", ChangesWord::Fronts),
        ("lists", ChangesWord::Lists),
        ("page", ChangesWord::Page),
    ];
    WriteRow {
        methods: required_texts(keys, "methods"),
        paths: texts(keys, "paths"),
        unless_paths: texts(keys, "unless_paths"),
        parameters: texts(keys, "parameters"),
        unless_parameters: texts(keys, "unless_parameters"),
        cookies: texts(keys, "cookies"),
        statuses: statuses(keys),
        locations: texts(keys, "locations"),
        unless_locations: texts(keys, "unless_locations"),
        fields: texts(keys, "fields"),
        unless_fields: texts(keys, "unless_fields"),
        json: texts(keys, "json"),
        unless_json: texts(keys, "unless_json"),
        contents: texts(keys, "contents"),
        changed_links: texts(keys, "changed_links"),
        changed_ids: texts(keys, "changed_ids"),
        changed_parameters: texts(keys, "changed_parameters"),
        changed_locations: texts(keys, "changed_locations"),
        changed_contents: texts(keys, "changed_contents"),
        changed_below: texts(keys, "changed_below"),
        changes: word(keys, "changes", ChangesWord::Everything, &words),
        source: source(keys),
    }
}

fn purge(keys: &mut Keys<'_, '_>) -> PurgeRow {
    PurgeRow { says: required(keys, "says"), source: source(keys) }
}

/// Reads a table of the file with the places of its values.
fn row<T>(mut keys: Keys<'_, '_>, read: impl Fn(&mut Keys<'_, '_>) -> T) -> Row<T> {
    let row = Row { row: read(&mut keys), places: keys.places() };
    keys.finish();
    row
}

fn table_of<T>(
    keys: &mut Keys<'_, '_>,
    key: &'static str,
    read: impl Fn(&mut Keys<'_, '_>) -> T,
) -> Option<Row<T>> {
    keys.table(key).map(|keys| row(keys, read))
}

fn rows<T>(keys: &mut Keys<'_, '_>, key: &'static str, read: impl Fn(&mut Keys<'_, '_>) -> T) -> Vec<Row<T>> {
    keys.tables(key).into_iter().map(|keys| row(keys, &read)).collect()
}

/// Reports a missing key.
fn need(keys: &Keys<'_, '_>, key: &str, example: &str) {
    if !keys.has(key) {
        keys.missing(key, example);
    }
}

fn optional(keys: &mut Keys<'_, '_>, key: &'static str) -> Option<String> {
    keys.text(key).map(Spanned::into_inner)
}

fn required(keys: &mut Keys<'_, '_>, key: &'static str) -> String {
    need(keys, key, &format!("{key} = \"...\""));
    optional(keys, key).unwrap_or_default()
}

/// The document or code that proves a row.
fn source(keys: &mut Keys<'_, '_>) -> String {
    need(keys, "source", "source = \"...\" with the document or code that proves it");
    optional(keys, "source").unwrap_or_default()
}

fn texts(keys: &mut Keys<'_, '_>, key: &'static str) -> Vec<String> {
    keys.texts(key).unwrap_or_default().into_iter().map(Spanned::into_inner).collect()
}

fn required_texts(keys: &mut Keys<'_, '_>, key: &'static str) -> Vec<String> {
    need(keys, key, &format!("{key} = [\"...\"]"));
    texts(keys, key)
}

fn statuses(keys: &mut Keys<'_, '_>) -> Vec<u16> {
    need(keys, "statuses", "statuses = [200]");
    let numbers = keys.counts("statuses", STATUSES).unwrap_or_default();
    numbers.into_iter().filter_map(|number| u16::try_from(number).ok()).collect()
}

/// Reads a required word; a wrong one is reported and replaced by `placeholder`.
fn word<T: Copy>(
    keys: &mut Keys<'_, '_>,
    key: &'static str,
    placeholder: T,
    words: &[(&'static str, T)],
) -> T {
    let example = || words.iter().map(|(word, _)| format!("{key} = \"{word}\"")).collect::<Vec<_>>();
    if !keys.has(key) {
        keys.missing(key, &example().join(" or "));
    }
    keys.word(key, words).unwrap_or(placeholder)
}
