//! Turns the text of a ladder file into a [`Ladder`]: the top level, services, groups, meters and
//! modes. `read_step` reads the steps.
//!
//! Invariants:
//!
//! * The result is a ladder without any known fault, or a list of all faults with place and fix.
//! * Reading starts no process. The only other file that is opened is the one named by
//!   `variables_from`.

use crate::ladder::{
    BytesPattern, Group, Ladder, Load, Meter, MeterSource, ModeOverrides, ROUNDS_MAX, Role, Root, Same,
};
use crate::ladder::{CONCURRENCY_MAX, Service, VersionCommand};
use crate::plan::{self, Cell, Choice, Effort};
use crate::read_step::{self, VariableNames};
use crate::read_traffic;
use crate::template::{Template, is_name};
use crate::unique::Unique;
use document::{Diagnostic, Keys, Place, Reader};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use toml::Spanned;

/// Variables that every ladder has.
const BUILT_IN: [&str; 3] = ["page", "petasos", "out"];
/// Defaults of the top level.
const ROUNDS: u64 = 3;
const WARMUP: Duration = Duration::from_secs(1);
const DURATION: Duration = Duration::from_secs(4);
const SETTLE_LIMIT: Duration = Duration::from_secs(10);
const READY_LIMIT: Duration = Duration::from_secs(30);

/// Reads a ladder. `name` is the name of the text in messages. Relative paths start in `directory`,
/// which is also the value of `{here}`. A built-in ladder has no directory.
///
/// # Errors
/// Returns every problem in the text, in order of position.
pub fn read_ladder(name: &str, text: &str, directory: Option<&Path>) -> Result<Ladder, Vec<Diagnostic>> {
    let reader = Reader::new(name, text);
    let table = reader.parse(text);
    let ladder = table.as_ref().map(|table| top(Keys::new(&reader, table.get_ref(), 0..0), directory));
    let problems = reader.into_problems();
    ladder.filter(|_| problems.is_empty()).ok_or(problems)
}

/// Reads a ladder file.
///
/// # Errors
/// The same as for [`read_ladder`]. It is also an error if the file cannot be read or is not UTF-8.
pub fn read_ladder_file(path: &Path) -> Result<Ladder, Vec<Diagnostic>> {
    let fault = |message: String, help: &str| vec![Diagnostic::new(message, Place::Default).with_help(help)];
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| {
        fault(
            format!("cannot read {name}: {error}"),
            "give the path of a ladder file; docs/ladder.md describes the format",
        )
    })?;
    let text = document::decode(&name, bytes).map_err(|fault| vec![fault.into_problem()])?;
    // A bare file name has an empty parent, which means the current directory.
    let parent =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    read_ladder(&name, &text, Some(parent))
}

fn top(mut keys: Keys<'_, '_>, directory: Option<&Path>) -> Ladder {
    let ports = ports(&mut keys);
    let (constants, all_known) = constants(&mut keys, directory);
    let built_in = BUILT_IN.into_iter();
    let given = ports.iter().chain(constants.keys()).map(String::as_str);
    let names = VariableNames::new(built_in.chain(given), all_known);
    let defaults = Load {
        concurrency: 1,
        keepalive: false,
        warmup: keys.duration("warmup").unwrap_or(WARMUP),
        duration: keys.duration("duration").unwrap_or(DURATION),
        requests_max: None,
    };
    let page = keys.required_text("page", "page = \"/\"");
    read_step::check_page(keys.reader, &page);
    let services = services(&mut keys, &names);
    let versions = versions(&mut keys, &names);
    let sessions = read_traffic::sessions(&mut keys, &names);
    let steps = read_step::steps(&mut keys, &names, (page.get_ref(), defaults), &versions);
    let ladder = Ladder {
        title: keys.required_text("title", "title = \"My site\"").into_inner(),
        synthetic: keys.flag("synthetic").unwrap_or(false),
        about: keys.text("about").map(Spanned::into_inner),
        page: page.into_inner(),
        seed: keys.count("seed", 0..=u64::MAX).unwrap_or(1),
        rounds: keys.count("rounds", 1..=ROUNDS_MAX).unwrap_or(ROUNDS),
        settle_limit: keys.duration("settle_limit").unwrap_or(SETTLE_LIMIT),
        cooldown: keys.duration("cooldown").unwrap_or_default(),
        bystander: bystander(&mut keys, &names),
        bystander_session: read_traffic::session(&mut keys, "bystander_session", &sessions),
        loads: read_traffic::loads(&mut keys, &names, &sessions, &steps),
        sessions: sessions.all,
        same: same(&mut keys),
        normalise: normalise(&mut keys),
        groups: groups(&mut keys, &names, &services),
        meters: meters(&mut keys, &names),
        steps,
        versions,
        quick: mode(&mut keys, "quick", quick_defaults()),
        full: mode(&mut keys, "full", full_defaults()),
        ports,
        constants,
        services,
    };
    check_cells(&mut keys, &ladder);
    keys.finish();
    ladder
}

/// Reports two cells of one plan with the same id, because the runs of a cell are found by its id.
/// Positions in the ladder are those in the file only if the file has no other fault.
fn check_cells(keys: &mut Keys<'_, '_>, ladder: &Ladder) {
    if !keys.reader.is_clean() {
        return;
    }
    let (steps, loads) = (keys.tables("step"), keys.tables("load"));
    let id_of = |cell: &Cell| ladder.steps.get(cell.step).map_or("", |step| &step.id).to_owned();
    let mut reported = BTreeSet::new();
    for effort in [Effort::Normal, Effort::Full, Effort::Quick] {
        let mut step_of: BTreeMap<String, String> = BTreeMap::new();
        for cell in plan::cells(ladder, &Choice { effort, ..Choice::default() }) {
            let step = id_of(&cell);
            let Some(other) = step_of.insert(cell.id.clone(), step.clone()) else { continue };
            let table = match cell.traffic {
                Some(load) => loads.get(load),
                None => steps.get(cell.step),
            };
            if let Some(table) = table.filter(|_| reported.insert(cell.id.clone())) {
                let message = format!(
                    "two cells would have the id `{}`: one of step `{other}` and one of step `{step}`",
                    cell.id
                );
                let help = "give a step, a load or a table of `also` another id";
                keys.reader.problem(table.span.clone(), message, help);
            }
        }
    }
}

fn ports(keys: &mut Keys<'_, '_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in keys.texts("ports").unwrap_or_default() {
        let text = name.get_ref();
        if !is_name(text) || BUILT_IN.contains(&text.as_str()) {
            let help = "use lower-case letters, digits and `_`, and no built-in name (page, petasos, out)";
            keys.reader.problem(name.span(), format!("`{text}` cannot name a port"), help);
        } else if names.contains(text) {
            keys.reader.problem(name.span(), format!("port `{text}` is listed twice"), "remove one of them");
        } else {
            names.push(name.into_inner());
        }
    }
    names
}

/// Returns the constant variables: `here`, and those of the file named by `variables_from`. The
/// flag tells whether the list is complete. It is false if that file cannot be read.
fn constants(keys: &mut Keys<'_, '_>, directory: Option<&Path>) -> (BTreeMap<String, String>, bool) {
    let mut constants = BTreeMap::new();
    if let Some(directory) = directory {
        constants.insert("here".to_owned(), directory.display().to_string());
    }
    let made_by = keys.text("variables_made_by");
    let Some(from) = keys.text("variables_from") else { return (constants, true) };
    let path = directory.unwrap_or_else(|| Path::new(".")).join(from.get_ref());
    let help = match &made_by {
        Some(command) => format!("create it with `{}`", command.get_ref()),
        None => "its path is relative to the ladder file".to_owned(),
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => {
            keys.reader.problem(from.span(), format!("cannot read {}: {error}", path.display()), &help);
            return (constants, false);
        }
    };
    let table = match text.parse::<toml::Table>() {
        Ok(table) => table,
        Err(error) => {
            let message = format!("{} is not TOML: {}", path.display(), error.message().trim_end());
            keys.reader.problem(from.span(), message, &help);
            return (constants, false);
        }
    };
    constants.extend(table.into_iter().filter_map(|(name, value)| match value {
        toml::Value::String(value) => Some((name, value)),
        toml::Value::Integer(value) => Some((name, value.to_string())),
        _ => None,
    }));
    (constants, true)
}

fn bystander(keys: &mut Keys<'_, '_>, names: &VariableNames) -> Option<Template> {
    let text = keys.text("bystander")?;
    if !text.get_ref().starts_with('/') {
        keys.reader.problem(text.span(), "`bystander` must be a path that starts with `/`", "");
    }
    Some(names.and("unique").template(keys.reader, &text))
}

fn same(keys: &mut Keys<'_, '_>) -> Same {
    match keys.text("same") {
        Some(text) if text.get_ref() == "length" => Same::Length,
        Some(text) if text.get_ref() != "content" => {
            let message = format!("`same` cannot be `{}`", text.get_ref());
            keys.reader.problem(text.span(), message, "write same = \"content\" or same = \"length\"");
            Same::Content
        }
        _ => Same::Content,
    }
}

fn normalise(keys: &mut Keys<'_, '_>) -> Vec<BytesPattern> {
    let texts = keys.texts("normalise").unwrap_or_default();
    let pattern = |text: &Spanned<String>| read_step::pattern(keys.reader, text);
    texts.iter().filter_map(pattern).collect()
}

fn services(keys: &mut Keys<'_, '_>, names: &VariableNames) -> Vec<Service> {
    let mut seen = Unique::new("service");
    let mut services = Vec::new();
    for mut keys in keys.tables("service") {
        let name = keys.required_text("name", "name = \"site\"");
        seen.check(&keys, &name);
        services.push(Service {
            name: name.into_inner(),
            command: names.required_command(&mut keys),
            ready: names.url(&mut keys, "ready"),
            ready_limit: keys.duration("ready_limit").unwrap_or(READY_LIMIT),
        });
        keys.finish();
    }
    services
}

fn groups(keys: &mut Keys<'_, '_>, names: &VariableNames, services: &[Service]) -> Vec<Group> {
    let mut seen = Unique::new("group");
    let mut groups = Vec::new();
    for mut keys in keys.tables("group") {
        let name = keys.required_text("name", "name = \"site\"");
        seen.check(&keys, &name);
        let role = keys.required_text("role", "role = \"site\"");
        let known = Role::ALL.iter().find(|(name, _)| name == role.get_ref()).map(|(_, role)| *role);
        if known.is_none() && !role.get_ref().is_empty() {
            let help = "the roles are site, database, accelerator and other";
            keys.reader.problem(role.span(), format!("there is no role `{}`", role.get_ref()), help);
        }
        let root = root(&mut keys, names, services);
        groups.extend(root.map(|root| Group {
            name: name.into_inner(),
            role: known.unwrap_or(Role::Other),
            root,
        }));
        keys.finish();
    }
    groups
}

fn root(keys: &mut Keys<'_, '_>, names: &VariableNames, services: &[Service]) -> Option<Root> {
    let service = keys.text("service").map(|service| {
        if !services.iter().any(|known| known.name == *service.get_ref()) {
            let message = format!("there is no service `{}`", service.get_ref());
            keys.reader.problem(
                service.span(),
                message,
                "name a service that has a [[service]] table in this file",
            );
        }
        Root::Service(service.into_inner())
    });
    let pidfile = keys.text("pidfile").map(|text| Root::PidFile(names.template(keys.reader, &text)));
    let pid = keys.text("pid").map(|text| Root::Pid(names.template(keys.reader, &text)));
    let message = "a group must identify its processes in exactly one way";
    let help = "give exactly one of `service`, `pidfile` and `pid`";
    let one = keys.exactly_one(&["service", "pidfile", "pid"], message, help);
    service.or(pidfile).or(pid).filter(|_| one)
}

fn meters(keys: &mut Keys<'_, '_>, names: &VariableNames) -> Vec<Meter> {
    let mut seen = Unique::new("meter");
    let mut meters = Vec::new();
    for mut keys in keys.tables("meter") {
        let name = keys.required_text("name", "name = \"queries\"");
        seen.check(&keys, &name);
        let unit = keys.required_text("unit", "unit = \"queries\"").into_inner();
        let command = names.command(&mut keys).map(MeterSource::Command);
        let json = names.url(&mut keys, "http").zip(keys.text("json"));
        let json = json.map(|(url, pointer)| MeterSource::Json {
            url,
            pointer: read_step::pointer(keys.reader, pointer),
        });
        let message = "a meter must read its counter in exactly one way";
        let help = "give either `command`, or `http` with `json`";
        let one = keys.exactly_one(&["command", "http"], message, help);
        let both = keys.exactly_one(&["command", "json"], message, help);
        let source = command.or(json).filter(|_| one && both);
        meters.extend(source.map(|source| Meter { name: name.into_inner(), unit, source }));
        keys.finish();
    }
    meters
}

fn versions(keys: &mut Keys<'_, '_>, names: &VariableNames) -> Vec<VersionCommand> {
    let mut versions = Vec::new();
    for mut keys in keys.tables("version") {
        let name = keys.required_text("name", "name = \"PHP\"").into_inner();
        versions.push(VersionCommand { name, command: names.required_command(&mut keys) });
        keys.finish();
    }
    versions
}

fn quick_defaults() -> ModeOverrides {
    ModeOverrides {
        rounds: Some(1),
        warmup: Some(Duration::from_millis(300)),
        duration: Some(Duration::from_secs(1)),
        concurrency: Vec::new(),
        also: false,
    }
}

fn full_defaults() -> ModeOverrides {
    let concurrency = vec![1, 4, 6, 10, 20, 25, 40, 100];
    ModeOverrides { rounds: Some(5), warmup: None, duration: None, concurrency, also: true }
}

fn mode(keys: &mut Keys<'_, '_>, key: &'static str, defaults: ModeOverrides) -> ModeOverrides {
    let Some(mut keys) = keys.table(key) else { return defaults };
    let mode = ModeOverrides {
        rounds: keys.count("rounds", 1..=ROUNDS_MAX).or(defaults.rounds),
        warmup: keys.duration("warmup").or(defaults.warmup),
        duration: keys.duration("duration").or(defaults.duration),
        concurrency: keys.counts("concurrency", 1..=CONCURRENCY_MAX).unwrap_or(defaults.concurrency),
        also: keys.flag("also").unwrap_or(defaults.also),
    };
    keys.finish();
    mode
}
