//! Reads the steps of a ladder, and the kinds of values that other parts of the file share with
//! them: texts with variables, URLs, commands, actions and proofs.

use crate::ladder::{
    BytesPattern, CONCURRENCY_MAX, HeaderTest, JsonTest, LadderStep, Load, Proof, StepAction, VersionCommand,
};
use crate::plan::cell_id;
use crate::template::Template;
use crate::unique::Unique;
use document::{Keys, Reader, Scalar};
use std::collections::BTreeSet;
use toml::Spanned;
use toml::de::DeValue;

/// Name under which the version of this program is recorded.
pub(crate) const OWN_VERSION: &str = "petasos";

/// Names of the variables that a text may use.
#[derive(Clone, Debug)]
pub(crate) struct VariableNames {
    known: BTreeSet<String>,
    /// Whether the list is complete. If not, an unknown name is not reported, because the
    /// unreadable variables file may define it.
    complete: bool,
}

impl VariableNames {
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>, complete: bool) -> Self {
        Self { known: names.map(str::to_owned).collect(), complete }
    }

    /// Returns these names with one more.
    pub(crate) fn and(&self, name: &str) -> Self {
        let mut more = self.clone();
        more.known.insert(name.to_owned());
        more
    }

    /// Parses a text with variables and reports the unknown ones.
    pub(crate) fn template(&self, reader: &Reader, text: &Spanned<String>) -> Template {
        let template = Template::parse(text.get_ref());
        for name in template.variables().filter(|name| self.complete && !self.known.contains(*name)) {
            let help = match document::nearest(name, self.known.iter().map(String::as_str)) {
                Some(known) => format!("did you mean {{{known}}}?"),
                None => {
                    let known: Vec<String> = self.known.iter().map(|name| format!("{{{name}}}")).collect();
                    format!(
                        "the variables here are {}; write {{{{{name}}}}} for a literal {{{name}}}",
                        known.join(", ")
                    )
                }
            };
            reader.problem(text.span(), format!("there is no variable {{{name}}} here"), &help);
        }
        template
    }

    pub(crate) fn url(&self, keys: &mut Keys<'_, '_>, key: &'static str) -> Option<Template> {
        let text = keys.text(key)?;
        check_url(keys.reader, &text);
        Some(self.template(keys.reader, &text))
    }

    /// Reads the program and its arguments under the key `command`.
    pub(crate) fn command(&self, keys: &mut Keys<'_, '_>) -> Option<Vec<Template>> {
        let span = keys.value("command")?.span();
        let words = keys.texts("command")?;
        if words.is_empty() {
            let help = "name the program, then its arguments, each in quotes";
            keys.reader.problem(span, "`command` is empty", help);
        }
        Some(words.iter().map(|word| self.template(keys.reader, word)).collect())
    }

    pub(crate) fn required_command(&self, keys: &mut Keys<'_, '_>) -> Vec<Template> {
        if keys.value("command").is_none() {
            keys.missing("command", "command = [\"program\", \"argument\"]");
        }
        self.command(keys).unwrap_or_default()
    }
}

/// Reads all steps of the file.
pub(crate) fn steps(
    keys: &mut Keys<'_, '_>,
    names: &VariableNames,
    defaults: (&str, Load),
    versions: &[VersionCommand],
) -> Vec<LadderStep> {
    let mut ids = Unique::new("step or cell");
    let tables = keys.tables("step");
    if tables.is_empty() {
        keys.missing("step", "a table begun by a line [[step]]");
    }
    let mut steps: Vec<LadderStep> = Vec::new();
    for (mut keys, position) in tables.into_iter().zip(1..) {
        let version = version(&mut keys, versions);
        let against = against(&mut keys, &steps);
        steps.push(LadderStep { version, against, ..step(keys, names, defaults, position, &mut ids) });
    }
    steps
}

/// Reads the id of the step that this one is compared with. It must be an earlier step.
fn against(keys: &mut Keys<'_, '_>, earlier: &[LadderStep]) -> Option<String> {
    let id = keys.text("against")?;
    let known = || earlier.iter().map(|step| step.id.as_str());
    if known().all(|known| known != id.get_ref().as_str()) {
        let help = match document::nearest(id.get_ref(), known()) {
            Some(known) => format!("did you mean `{known}`?"),
            None => "give the `id` of a [[step]] above this line".to_owned(),
        };
        keys.reader.problem(id.span(), format!("there is no earlier step `{}`", id.get_ref()), &help);
    }
    Some(id.into_inner())
}

/// Reports a `page` that is not a path.
pub(crate) fn check_page(reader: &Reader, page: &Spanned<String>) {
    if !page.get_ref().is_empty() && !page.get_ref().starts_with('/') {
        let help = "leave scheme and host out; they come from the step's `address`";
        reader.problem(page.span(), "`page` must be a path that starts with `/`", help);
    }
}

fn step(
    mut keys: Keys<'_, '_>,
    names: &VariableNames,
    (page, defaults): (&str, Load),
    position: u32,
    ids: &mut Unique,
) -> LadderStep {
    let id = keys.required_text("id", "id = \"page-cache\"");
    ids.check(&keys, &id);
    if keys.value("concurrency").is_none() {
        keys.missing("concurrency", "concurrency = 25");
    }
    let own = load(&mut keys, defaults);
    let address = keys.required_text("address", "address = \"127.0.0.1:8080\"");
    if address.get_ref().contains('/') {
        let help = "leave `http://` and the path out";
        keys.reader.problem(address.span(), "`address` must be a host and a port", help);
    }
    let own_page = keys.text("page");
    own_page.iter().for_each(|page| check_page(keys.reader, page));
    let step = LadderStep {
        reference: keys.flag("reference").unwrap_or(false),
        breaks_down: keys.flag("breaks_down").unwrap_or(false),
        page: own_page.map_or_else(|| page.to_owned(), Spanned::into_inner),
        number: keys.text("number").map_or_else(|| position.to_string(), Spanned::into_inner),
        title: keys.required_text("title", "title = \"page cache\"").into_inner(),
        about: keys.required_text("about", "about = \"what the layer does, in a sentence\"").into_inner(),
        address: names.template(keys.reader, &address),
        host: keys.text("host").map(Spanned::into_inner),
        on: actions(&mut keys, "on", names),
        reset: actions(&mut keys, "reset", names),
        warm: actions(&mut keys, "warm", names),
        proof: proofs(&mut keys, names),
        also: also(&mut keys, id.get_ref(), own, ids),
        own,
        version: None,
        against: None,
        id: id.into_inner(),
    };
    keys.finish();
    step
}

/// Reads the name of the program whose version is the step's. It must be defined in the file, or be
/// `petasos`.
fn version(keys: &mut Keys<'_, '_>, versions: &[VersionCommand]) -> Option<String> {
    let name = keys.text("version")?;
    let known = || versions.iter().map(|version| version.name.as_str()).chain([OWN_VERSION]);
    if known().all(|version| version != name.get_ref().as_str()) {
        let help = match document::nearest(name.get_ref(), known()) {
            Some(known) => format!("did you mean `{known}`?"),
            None => "name a version that has a [[version]] table in this file, or `petasos`".to_owned(),
        };
        keys.reader.problem(name.span(), format!("there is no version `{}`", name.get_ref()), &help);
    }
    Some(name.into_inner())
}

/// Reads the keys that define the load of a cell.
fn load(keys: &mut Keys<'_, '_>, defaults: Load) -> Load {
    Load {
        concurrency: keys.count("concurrency", 1..=CONCURRENCY_MAX).unwrap_or(defaults.concurrency),
        keepalive: keys.flag("keepalive").unwrap_or(defaults.keepalive),
        warmup: keys.duration("warmup").unwrap_or(defaults.warmup),
        duration: keys.duration("duration").unwrap_or(defaults.duration),
        requests_max: keys.count("requests_max", 1..=u64::MAX).or(defaults.requests_max),
    }
}

fn also(keys: &mut Keys<'_, '_>, step: &str, own: Load, ids: &mut Unique) -> Vec<(String, Load)> {
    let mut cells = Vec::new();
    for mut keys in keys.tables("also") {
        let cell = load(&mut keys, own);
        let id = keys.text("id");
        if let Some(id) = &id {
            ids.check(&keys, id);
        }
        let id = id.map_or_else(|| cell_id(step, cell.concurrency, cell.keepalive), Spanned::into_inner);
        cells.push((id, cell));
        keys.finish();
    }
    cells
}

/// Reads a list of actions.
pub(crate) fn actions(keys: &mut Keys<'_, '_>, key: &'static str, names: &VariableNames) -> Vec<StepAction> {
    let expected = "a list of actions: \"METHOD URL\" or { command = [...] }";
    let items = keys.items(key, expected).unwrap_or_default();
    let action = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
        DeValue::String(text) => {
            http_action(keys.reader, names, &Spanned::new(item.span(), text.to_string()))
        }
        DeValue::Table(table) => {
            let mut keys = Keys::new(keys.reader, table, item.span());
            let command = names.required_command(&mut keys);
            keys.finish();
            Some(StepAction::Command(command))
        }
        _ => {
            keys.reader.problem(item.span(), format!("`{key}` must be {expected}"), "");
            None
        }
    };
    items.iter().filter_map(action).collect()
}

fn http_action(reader: &Reader, names: &VariableNames, text: &Spanned<String>) -> Option<StepAction> {
    let split = text
        .get_ref()
        .split_once(' ')
        .filter(|(method, _)| !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase()));
    let Some((method, url)) = split else {
        let help = "write for example \"POST http://127.0.0.1:8080/flush\", or { command = [\"program\"] }";
        reader.problem(text.span(), "an action must be a method, a space and a URL", help);
        return None;
    };
    let url = Spanned::new(text.span(), url.trim_start().to_owned());
    check_url(reader, &url);
    Some(StepAction::Http { method: method.to_owned(), url: names.template(reader, &url) })
}

fn proofs(keys: &mut Keys<'_, '_>, names: &VariableNames) -> Vec<Proof> {
    let tables = keys.tables("proof");
    if tables.is_empty() {
        keys.missing(
            "proof",
            "proof = [{ header = \"X-Cache\", matches = \"^HIT\" }]: a step must show that its layer is on",
        );
    }
    tables.into_iter().filter_map(|keys| proof(keys, names)).collect()
}

fn proof(mut keys: Keys<'_, '_>, names: &VariableNames) -> Option<Proof> {
    let header = keys.text("header");
    let url = names.url(&mut keys, "json");
    let proof = match (header, url) {
        (Some(header), None) => {
            header_test(&mut keys, names).map(|test| Proof::Header { name: header.into_inner(), test })
        }
        (None, Some(url)) => {
            let pointer = keys.required_text("pointer", "pointer = \"/switches/opcode\"");
            let pointer = self::pointer(keys.reader, pointer);
            json_test(&mut keys).map(|test| Proof::Json { url, pointer, test })
        }
        _ => {
            let help = "give either `header` with `is`, `matches` or `absent`, or `json` with `pointer` and `is` or `min`";
            keys.reader.problem(
                keys.span.clone(),
                "a proof must test either a header field or a JSON document",
                help,
            );
            return None;
        }
    };
    keys.finish();
    proof
}

fn header_test(keys: &mut Keys<'_, '_>, names: &VariableNames) -> Option<HeaderTest> {
    let is = keys.text("is").map(|text| HeaderTest::Is(names.template(keys.reader, &text)));
    let matches = keys.text("matches");
    let matches = matches.and_then(|text| pattern(keys.reader, &text)).map(HeaderTest::Matches);
    let absent = keys.flag("absent").filter(|absent| *absent).map(|_| HeaderTest::Absent);
    let help = "give exactly one of `is`, `matches` and `absent = true`";
    let one = keys.exactly_one(&["is", "matches", "absent"], "a proof must have exactly one test", help);
    is.or(matches).or(absent).filter(|_| one)
}

fn json(value: Scalar) -> serde_json::Value {
    match value {
        Scalar::Text(text) => text.into(),
        Scalar::Flag(flag) => flag.into(),
        Scalar::Integer(number) => number.into(),
        Scalar::Float(number) => number.into(),
    }
}

fn json_test(keys: &mut Keys<'_, '_>) -> Option<JsonTest> {
    let is = keys.scalar("is").map(|value| JsonTest::Is(json(value)));
    let min = keys.number("min").map(JsonTest::Min);
    let help = "give exactly one of `is` (a text, a number, true or false) and `min` (a number)";
    let one = keys.exactly_one(&["is", "min"], "a proof must have exactly one test", help);
    is.or(min).filter(|_| one)
}

/// Checks a JSON pointer (RFC 6901) and returns it unchanged.
pub(crate) fn pointer(reader: &Reader, text: Spanned<String>) -> String {
    if !text.get_ref().starts_with('/') && !text.get_ref().is_empty() {
        reader.problem(
            text.span(),
            "a JSON pointer must start with `/`",
            "write for example \"/counters/queries\"",
        );
    }
    text.into_inner()
}

pub(crate) fn pattern(reader: &Reader, text: &Spanned<String>) -> Option<BytesPattern> {
    match BytesPattern::parse(text.get_ref()) {
        Ok(pattern) => Some(pattern),
        Err(message) => {
            reader.problem(text.span(), message, "");
            None
        }
    }
}

pub(crate) fn check_url(reader: &Reader, text: &Spanned<String>) {
    if !text.get_ref().starts_with("http://") {
        let help = "write an http:// URL; ladders do not support TLS";
        reader.problem(
            text.span(),
            format!("the URL `{}` does not begin with http://", text.get_ref()),
            help,
        );
    }
}
