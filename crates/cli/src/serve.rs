//! `petasos serve`: starts the caching reverse proxy. Its flags are generated from the settings
//! table: one for each setting that has a flag.

use crate::log;
use crate::output::note;
use anyhow::{Context, anyhow};
use clap::{Arg, ArgAction, ArgMatches, Command};
use config::{EdgePlan, Machine, Overrides, SETTINGS};
use document::{Diagnostic, decode};
use edge::SocketSource;
use std::ffi::OsStr;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The subcommand with its flags.
pub(crate) fn command() -> Command {
    let command =
        Command::new("serve").about("Run the caching reverse proxy in front of a web application").arg(
            Arg::new("file")
                .value_name("FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Configuration file. Without a file, give at least --origin"),
        );
    with_settings(command).arg(Arg::new("upgrade").long("upgrade").action(ArgAction::SetTrue).help(
        "Take over from the running process with the same admin address: its listening sockets and \
             its disk directory. That process then drains and ends",
    ))
}

/// Adds a flag for each setting of the table that has one.
fn with_settings(command: Command) -> Command {
    SETTINGS.iter().filter_map(|setting| Some((setting, setting.flag?))).fold(
        command,
        |command, (setting, flag)| {
            let default =
                setting.default.map_or_else(String::new, |default| format!(" [default: {default}]"));
            let arg = Arg::new(setting.key)
                .long(flag.trim_start_matches('-'))
                .value_name(setting.kind.placeholder())
                .help(format!("{}{default}", setting.doc));
            command.arg(if setting.kind.is_switch() {
                arg.num_args(0..=1).require_equals(true).default_missing_value("true")
            } else {
                arg
            })
        },
    )
}

/// Below this value of the setting `memory`, in bytes, the process gives up some speed to stay
/// within its memory. It switches transparent huge pages off, because with them the first
/// allocation of each thread would make 2 MiB resident. Its allocator returns freed memory at once,
/// because threads that rest would keep it.
const AMPLE_MEMORY_BYTES: u64 = 1 << 30;

pub(crate) fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let inherited = net::InheritedSockets::from_environment()
        .context("a file descriptor that was passed to the process is no listening socket")?;
    let file = matches.get_one::<PathBuf>("file");
    let overrides: Overrides = SETTINGS
        .iter()
        .filter(|setting| setting.flag.is_some())
        .filter_map(|setting| Some((setting.key, matches.get_one::<String>(setting.key)?.clone())))
        .collect();
    let plan = read(file.map(PathBuf::as_path), &overrides)?;
    if plan.memory_bytes < AMPLE_MEMORY_BYTES {
        allocator::return_at_once();
        // Ignoring the error is safe: a kernel that refuses this only lets the process use more
        // memory.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
    tell_warnings_in_time(&plan);
    log::install(plan.log_level);
    let source: edge::PlanSource = {
        let file = file.cloned();
        // Measured once: a change of the machine is no change of the configuration.
        let machine = machine();
        // Warnings are for the operator who starts the edge or runs `check`.
        Arc::new(move || read_on(&machine, file.as_deref(), &overrides).map_err(|error| format!("{error:#}")))
    };
    let sockets = if matches.get_flag("upgrade") {
        SocketSource::Predecessor
    } else {
        SocketSource::Inherited(inherited)
    };
    edge::serve(
        plan,
        source,
        (sockets, Arc::new(start_successor)),
        edge::System::of_machine(),
        &mut io::stdout(),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Starts the program at the path of this one with the same arguments, to take over.
fn start_successor() -> io::Result<Child> {
    let mut arguments = std::env::args_os();
    let program = arguments.next().ok_or(io::ErrorKind::NotFound)?;
    let upgrade = OsStr::new("--upgrade");
    // These variables of the service manager concern this process only.
    std::process::Command::new(program)
        .args(arguments.filter(|argument| argument != upgrade))
        .arg(upgrade)
        .env_remove("WATCHDOG_PID")
        .env_remove("LISTEN_PID")
        .env_remove("LISTEN_FDS")
        .spawn()
}

/// The longest time for which the start waits for standard error.
const WARNINGS_TIME_MAX: Duration = Duration::from_secs(1);

/// As [`tell_warnings`], but a reader of standard error that does not read cannot prevent the
/// start.
fn tell_warnings_in_time(plan: &EdgePlan) {
    if plan.warnings.is_empty() {
        return;
    }
    let (plan, (told, ended)) = (plan.clone(), mpsc::sync_channel(1));
    let telling = thread::spawn(move || {
        tell_warnings(&plan);
        // The receiver is gone if standard error was slow.
        let _ = told.send(());
    });
    if ended.recv_timeout(WARNINGS_TIME_MAX).is_ok() {
        // It has nothing left to do.
        let _ = telling.join();
    }
}

/// Prints the warnings of the configuration to standard error.
pub(crate) fn tell_warnings(plan: &EdgePlan) {
    for warning in &plan.warnings {
        note(format_args!("{warning}\n"));
    }
}

/// Reads the configuration file, if there is one, applies the overrides and resolves both into a
/// plan.
///
/// # Errors
/// If the file cannot be read or is not UTF-8, or if the configuration has errors.
pub(crate) fn read(file: Option<&Path>, overrides: &Overrides) -> anyhow::Result<EdgePlan> {
    read_on(&machine(), file, overrides)
}

/// As [`read`], for this machine.
pub(crate) fn read_on(
    machine: &Machine,
    file: Option<&Path>,
    overrides: &Overrides,
) -> anyhow::Result<EdgePlan> {
    let (name, text) = match file {
        Some(path) => {
            let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            let name = path.display().to_string();
            let text = decode(&name, bytes).map_err(|fault| unusable(&[fault.into_problem()]))?;
            (name, text)
        }
        None => ("(no file)".to_owned(), String::new()),
    };
    let read = |path: &str| Ok(decode(path, std::fs::read(path)?)?);
    config::load(&name, &text, overrides, machine, &read).map_err(|problems| unusable(&problems))
}

/// The machine on which this process runs.
pub(crate) fn machine() -> Machine {
    Machine {
        cores: platform::cores(),
        memory_bytes: platform::memory_bytes(),
        state_directory: platform::state_directory(),
        runtime_directory: platform::runtime_directory(),
        spool_directory: platform::spool_directory(),
    }
}

/// Builds one error from all problems of a configuration.
pub(crate) fn unusable(problems: &[Diagnostic]) -> anyhow::Error {
    let mut message = String::from("the configuration cannot be used\n");
    for problem in problems {
        // Writing into a String cannot fail.
        let _ = write!(message, "\n{problem}\n");
    }
    anyhow!(message)
}
