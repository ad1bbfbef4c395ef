//! `cargo xtask long changes`: changes the configuration, the certificate and the program of a
//! running edge, ten times each, while three generators send requests in an open loop over HTTP/1,
//! TLS and HTTP/2 and pages are purged.
//!
//! No request may fail, and no client may receive a page older than an answered purge.

mod observer;
mod stage;

use crate::soak;
use anyhow::{Context, Result, ensure};
use observer::{Observations, Protocol};
use serde_json::Value;
use stage::Stage;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Arguments of `cargo xtask long changes`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often each kind of change is made
    #[arg(long, default_value_t = 10)]
    rounds: u32,
    /// Requests a second of each of the three generators
    #[arg(long, default_value_t = 300)]
    rate: u32,
    /// Test this binary instead of building one
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// Pause between two changes.
const PAUSE: Duration = Duration::from_millis(700);

/// Makes the changes under load and prints the clients' observations.
///
/// # Errors
/// If a request failed, a purged page came back, or a part of the test could not run.
pub(crate) fn run(args: &Args) -> Result<()> {
    let program = match &args.program {
        Some(program) => std::path::absolute(program)?,
        None => std::path::absolute(soak::build()?)?,
    };
    let mut stage = Stage::build(&program)?;
    let generators = Protocol::ALL.map(|protocol| (protocol, generator(&stage, protocol, args.rate)));
    let observations = Observations::default();
    let seen = &observations;
    let changed = thread::scope(|scope| {
        for protocol in Protocol::ALL {
            let observer = stage.observer(protocol);
            scope.spawn(move || observer.look(seen));
        }
        let purger = stage.purger();
        scope.spawn(move || purger.purge(seen));
        let changed = change(&mut stage, args.rounds);
        thread::sleep(PAUSE);
        seen.end();
        changed
    });
    let mut failed = observations.print();
    for (protocol, child) in generators {
        failed += reap(protocol, child?)?;
    }
    changed?;
    stage.end()?;
    ensure!(failed == 0, "{failed} requests failed, or received a page that was purged");
    Ok(())
}

/// Makes the changes in turns.
fn change(stage: &mut Stage, rounds: u32) -> Result<()> {
    for round in 1..=rounds {
        thread::sleep(PAUSE);
        stage.reload(round).with_context(|| format!("reload {round}"))?;
        thread::sleep(PAUSE);
        stage.replace_certificate().with_context(|| format!("certificate {round}"))?;
        thread::sleep(PAUSE);
        stage.upgrade(round).with_context(|| format!("upgrade {round}"))?;
        eprintln!("changes: round {round} of {rounds}");
    }
    Ok(())
}

/// Starts `petasos bench` in an open loop. It runs until SIGINT.
fn generator(stage: &Stage, protocol: Protocol, rate: u32) -> Result<Child> {
    let url = stage.url(protocol);
    let mut command = Command::new(stage.program());
    command.args(["bench", &url, "--rate", &rate.to_string(), "-t", "10m", "--variable-length"]);
    command.args(["--threads", "1", "--json", "-", "--keep-going"]);
    if protocol != Protocol::Http1 {
        command.arg("--ca").arg(stage.authority());
    }
    if protocol == Protocol::Http2 {
        command.args(["--http", "2"]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().context("cannot start a generator")
}

/// Ends a generator, prints its counts and returns the number of failed requests.
fn reap(protocol: Protocol, child: Child) -> Result<u64> {
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT)?;
    let output = child.wait_with_output()?;
    let run: Value = serde_json::from_slice(&output.stdout).context("a generator wrote no JSON")?;
    let count = |name: &str| run.get(name).and_then(Value::as_u64).unwrap_or_default();
    let resent = run.pointer("/connections/resent").and_then(Value::as_u64).unwrap_or_default();
    println!(
        "generator {protocol}: {} good, {} failed, {resent} sent again, {} not started; kinds: {}",
        count("good"),
        count("failed"),
        count("not_started"),
        run.get("failed_by_kind").map(Value::to_string).unwrap_or_default()
    );
    ensure!(count("good") > 0, "the generator over {protocol} measured nothing");
    Ok(count("failed") + count("not_started"))
}
