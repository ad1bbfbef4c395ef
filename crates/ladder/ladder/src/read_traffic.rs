//! Reads the tables `[[session]]` and `[[load]]`: visitors who log in, and loads other than the
//! anonymous one.
//!
//! Invariant: the same as for the whole file. The result has no known fault, and every fault is
//! reported with its place.

use crate::ladder::{BytesPattern, CONCURRENCY_MAX, LadderStep};
use crate::read_step::{self, VariableNames, actions, check_url};
use crate::template::is_name;
use crate::traffic::{
    ANONYMOUS, Audience, LoadChange, PostContent, RequestTemplate, SHARE_MAX, Session, Traffic, VISITORS_MAX,
    WRITES_PER_S_MAX, Write, weights,
};
use crate::unique::Unique;
use document::{Keys, Reader};
use toml::Spanned;
use toml::de::DeValue;

/// Default number of visitors of a session.
const VISITORS: u64 = 5;
/// Variables of visitors' requests, in addition to the ladder's.
const OF_VISITORS: [&str; 3] = ["address", "unique", "visitor"];

/// The sessions of a file, each with the variable names that its visitors' requests may use.
pub(crate) struct Sessions {
    pub(crate) all: Vec<Session>,
    names: Vec<VariableNames>,
}

/// Reads all sessions of the file. A request may use the variables that earlier requests of the
/// log-in keep.
pub(crate) fn sessions(keys: &mut Keys<'_, '_>, names: &VariableNames) -> Sessions {
    let names = OF_VISITORS.into_iter().fold(names.clone(), |names, name| names.and(name));
    let mut seen = Unique::new("session");
    let mut sessions = Sessions { all: Vec::new(), names: Vec::new() };
    for mut keys in keys.tables("session") {
        let name = keys.required_text("name", "name = \"reader\"");
        seen.check(&keys, &name);
        let visitors = keys.count("visitors", 1..=VISITORS_MAX).unwrap_or(VISITORS);
        let shows = keys.required_text("shows", "shows = 'class=\"logged-in\"'");
        let shows = read_step::pattern(keys.reader, &shows);
        let steps = keys.tables("log_in");
        if steps.is_empty() {
            keys.missing(
                "log_in",
                "log_in = [{ post = \"http://{address}/login\", form = { user = \"ada\" } }]",
            );
        }
        let mut names = names.clone();
        let mut log_in = Vec::new();
        for keys in steps {
            let exchange = exchange(keys, &names);
            names = exchange.keep.iter().fold(names, |names, (name, _)| names.and(name));
            log_in.push(exchange);
        }
        if let Some(shows) = shows {
            sessions.all.push(Session { name: name.into_inner(), visitors, log_in, shows });
            sessions.names.push(names);
        }
        keys.finish();
    }
    sessions
}

/// Looks up the session that a key names and returns its position.
pub(crate) fn session(keys: &mut Keys<'_, '_>, key: &'static str, sessions: &Sessions) -> Option<usize> {
    let name = keys.text(key)?;
    let known = || sessions.all.iter().map(|session| session.name.as_str());
    let position = known().position(|known| known == name.get_ref());
    if position.is_none() {
        let help = match document::nearest(name.get_ref(), known()) {
            Some(known) => format!("did you mean `{known}`?"),
            None => "name a session that has a [[session]] table in this file".to_owned(),
        };
        keys.reader.problem(name.span(), format!("there is no session `{}`", name.get_ref()), &help);
    }
    position
}

/// Reads one request of a visitor.
fn exchange(mut keys: Keys<'_, '_>, names: &VariableNames) -> RequestTemplate {
    let exchange = parts(&mut keys, names);
    keys.finish();
    exchange
}

/// Reads the keys that define a visitor's request, and what to keep of its response.
fn parts(keys: &mut Keys<'_, '_>, names: &VariableNames) -> RequestTemplate {
    let get = keys.text("get");
    let post = keys.text("post");
    keys.exactly_one(
        &["get", "post"],
        "a visitor's request must have exactly one of `get` and `post`",
        "add get = \"URL\" or post = \"URL\"",
    );
    let is_post = post.is_some();
    let url = post.or(get).unwrap_or_else(|| Spanned::new(keys.span.clone(), "http://".to_owned()));
    check_url(keys.reader, &url);
    let url = names.template(keys.reader, &url);
    let form = keys.named_texts("form");
    let json = keys.text("json");
    if (form.is_some() || json.is_some()) && !is_post || form.is_some() && json.is_some() {
        let help = "give `post` with either `form` or `json`";
        keys.reader.problem(
            keys.span.clone(),
            "only a request with `post` can have `form` or `json`, and not both",
            help,
        );
    }
    let reader = keys.reader;
    let of = |texts: Vec<(String, Spanned<String>)>| {
        let template = |(name, text): (String, Spanned<String>)| (name, names.template(reader, &text));
        texts.into_iter().map(template).collect::<Vec<_>>()
    };
    let content = match (form, json) {
        (_, Some(json)) => Some(PostContent::Json(names.template(keys.reader, &json))),
        (Some(form), None) => Some(PostContent::Form(of(form))),
        (None, None) => is_post.then(|| PostContent::Form(Vec::new())),
    };
    let headers = keys.named_texts("headers").map(of).unwrap_or_default();
    RequestTemplate { url, headers, content, keep: keep(keys) }
}

/// Reads the variables that are taken from a response.
fn keep(keys: &mut Keys<'_, '_>) -> Vec<(String, BytesPattern)> {
    let mut kept = Vec::new();
    for (name, text) in keys.named_texts("keep").unwrap_or_default() {
        if !is_name(&name) {
            let help = "use lower-case letters, digits and `_`";
            keys.reader.problem(text.span(), format!("`{name}` cannot name a variable"), help);
        }
        let Some(pattern) = read_step::pattern(keys.reader, &text) else { continue };
        if pattern.0.captures_len() != 2 {
            let help = "put parentheses around the value to keep, for example \"nonce=([0-9a-f]+)\"";
            keys.reader.problem(text.span(), "the expression must have exactly one group", help);
        }
        kept.push((name, pattern));
    }
    kept
}

/// Reads all loads of the file.
pub(crate) fn loads(
    keys: &mut Keys<'_, '_>,
    names: &VariableNames,
    sessions: &Sessions,
    steps: &[LadderStep],
) -> Vec<Traffic> {
    let mut seen = Unique::new("load");
    let mut loads = Vec::new();
    for mut keys in keys.tables("load") {
        let id = keys.required_text("id", "id = \"logged-in\"");
        seen.check(&keys, &id);
        if id.get_ref() == ANONYMOUS {
            let message = "the id `anonymous` belongs to the load that every ladder has";
            keys.reader.problem(id.span(), message, "use a different id");
        }
        loads.push(Traffic {
            id: id.into_inner(),
            title: keys.required_text("title", "title = \"logged-in visitors\"").into_inner(),
            about: keys.text("about").map(Spanned::into_inner),
            steps: positions(&mut keys, steps),
            change: LoadChange {
                concurrency: keys.count("concurrency", 1..=CONCURRENCY_MAX),
                keepalive: keys.flag("keepalive"),
                warmup: keys.duration("warmup"),
                duration: keys.duration("duration"),
            },
            visitors: audiences(&mut keys, sessions),
            writes: writes(&mut keys, sessions),
            undo: actions(&mut keys, "undo", names),
        });
        keys.finish();
    }
    loads
}

/// Positions of the steps that a load names; all steps if it names none.
fn positions(keys: &mut Keys<'_, '_>, steps: &[LadderStep]) -> Vec<usize> {
    let Some(ids) = keys.texts("steps") else { return (0..steps.len()).collect() };
    let is_empty = |list: &&Spanned<DeValue<'_>>| list.get_ref().as_array().is_some_and(|all| all.is_empty());
    if let Some(list) = keys.value("steps").filter(is_empty) {
        let help = "name steps, or leave `steps` out for all of them";
        keys.reader.problem(list.span(), "`steps` is empty, so the load would measure nothing", help);
    }
    let mut positions = Vec::new();
    for id in ids {
        match steps.iter().position(|step| step.id == *id.get_ref()) {
            Some(position) if positions.contains(&position) => {
                let message = format!("step `{}` is listed twice", id.get_ref());
                keys.reader.problem(id.span(), message, "remove one of them");
            }
            Some(position) => positions.push(position),
            None => not_a_step(keys.reader, &id, steps),
        }
    }
    positions
}

fn not_a_step(reader: &Reader, id: &Spanned<String>, steps: &[LadderStep]) {
    let help = match document::nearest(id.get_ref(), steps.iter().map(|step| step.id.as_str())) {
        Some(known) => format!("did you mean `{known}`?"),
        None => "give the `id` of a [[step]] of this file".to_owned(),
    };
    reader.problem(id.span(), format!("there is no step `{}`", id.get_ref()), &help);
}

fn audiences(keys: &mut Keys<'_, '_>, sessions: &Sessions) -> Vec<Audience> {
    let tables = keys.tables("visitors");
    if tables.is_empty() {
        keys.missing(
            "visitors",
            "visitors = [{ session = \"reader\" }], or { share = 95 } for visitors without a session",
        );
    }
    let audience = |mut keys: Keys<'_, '_>| {
        let session = session(&mut keys, "session", sessions);
        let share = keys.count("share", 1..=SHARE_MAX).unwrap_or(1);
        keys.finish();
        Audience { session, share }
    };
    let audiences: Vec<Audience> = tables.into_iter().map(audience).collect();
    let visitors = |session: usize| sessions.all.get(session).map_or(1, |session| session.visitors);
    let kinds = audiences.iter().map(|of| (of.share, of.session.map_or(1, visitors)));
    if weights(&kinds.collect::<Vec<_>>()).is_none() {
        let message = "the shares of these visitors have no common measure that fits into 32 bits";
        let help = "give sessions the same number of `visitors`, or the load fewer kinds";
        keys.reader.problem(keys.span.clone(), message, help);
    }
    audiences
}

fn writes(keys: &mut Keys<'_, '_>, sessions: &Sessions) -> Vec<Write> {
    let mut seen = Unique::new("write");
    let mut writes = Vec::new();
    for mut keys in keys.tables("write") {
        let name = keys.required_text("name", "name = \"comment\"");
        seen.check(&keys, &name);
        if keys.value("session").is_none() {
            keys.missing("session", "session = \"editor\"");
        }
        let session = session(&mut keys, "session", sessions);
        let per_s = keys.number("per_s").unwrap_or(1.0);
        if !(per_s > 0.0 && per_s <= WRITES_PER_S_MAX) {
            let message = format!("`per_s` must be above 0 and at most {WRITES_PER_S_MAX}");
            keys.reader.problem(keys.span.clone(), message, "");
        }
        let session = session.and_then(|session| Some((session, sessions.names.get(session)?)));
        if let Some((session, names)) = session {
            let exchange = parts(&mut keys, names);
            writes.push(Write { name: name.into_inner(), session, per_s, exchange });
            keys.finish();
        }
    }
    writes
}
