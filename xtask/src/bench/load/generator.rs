//! The load generators, and the arguments that make each produce the same load.
//!
//! Invariant: generators run one at a time, each as a separate process, which is killed if it runs
//! for too long. Its processor time comes from the kernel's account of this process's children,
//! with a resolution of a hundredth of a second. A failing generator spoils only its own turn.

use super::super::optimised;
use anyhow::{Context, Result};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time that a generator may take beyond its duration.
const GRACE: Duration = Duration::from_secs(15);
/// Interval between two checks whether it has ended.
const POLL: Duration = Duration::from_millis(20);

/// Load parameters that every generator supports.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadParameters {
    pub(super) address: SocketAddr,
    pub(super) connections: u16,
    pub(super) seconds: u16,
    pub(super) keep_alive: bool,
}

/// One load generator.
pub(super) struct LoadGenerator {
    pub(super) name: &'static str,
    /// Builds the program name and arguments; `None` if the generator cannot produce this load.
    arguments: fn(&LoadParameters, &str) -> Option<Vec<String>>,
}

/// All generators, in the order of the tables.
pub(super) const GENERATORS: &[LoadGenerator] = &[
    LoadGenerator { name: "petasos", arguments: petasos },
    LoadGenerator { name: "bare loop", arguments: bare },
    LoadGenerator { name: "wrk", arguments: wrk },
    LoadGenerator { name: "ab", arguments: ab },
    LoadGenerator { name: "h2load", arguments: h2load },
    LoadGenerator { name: "hey", arguments: hey },
    LoadGenerator { name: "siege", arguments: siege },
];

/// A command that runs a generator once.
pub(super) struct GeneratorTurn {
    program: PathBuf,
    arguments: Vec<String>,
    home: PathBuf,
    time_max: Duration,
}

impl LoadGenerator {
    /// Prepares a turn with this load; `None` if the generator cannot produce it. Files that it
    /// needs are written to `directory`.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn command(&self, load: &LoadParameters, directory: &Path) -> Result<Option<GeneratorTurn>> {
        // Without a configuration file in its usual place, siege writes one and then sends no load.
        let own = directory.join(".siege");
        fs::create_dir_all(&own).with_context(|| format!("cannot make {}", own.display()))?;
        let configuration = own.join("siege.conf");
        let connection = if load.keep_alive { "keep-alive" } else { "close" };
        let text = format!(
            "connection = {connection}\nprotocol = HTTP/1.1\nparser = false\nlogging = false\nverbose = false\n\
             quiet = true\nlimit = {}\n",
            u8::MAX
        );
        fs::write(&configuration, text)
            .with_context(|| format!("cannot write {}", configuration.display()))?;
        let Some(words) = (self.arguments)(load, &configuration.to_string_lossy()) else { return Ok(None) };
        let (program, arguments) = words.split_first().context("a command has a program")?;
        let program =
            if program.starts_with("petasos") { optimised(program)? } else { PathBuf::from(program) };
        let time_max = Duration::from_secs(load.seconds.into()) + GRACE;
        Ok(Some(GeneratorTurn {
            program,
            arguments: arguments.to_vec(),
            home: directory.to_owned(),
            time_max,
        }))
    }
}

/// Outcome of a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TurnOutcome {
    /// The generator succeeded. Holds its processor time.
    Whole(Duration),
    /// The generator failed, or was killed after its time. Holds the reason.
    Missing(String),
}

impl GeneratorTurn {
    /// Runs the generator to its end.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn run(&self) -> Result<TurnOutcome> {
        let before = children_cpu()?;
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .env("HOME", &self.home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        Ok(match self.wait(&mut child)? {
            None => TurnOutcome::Whole(children_cpu()?.saturating_sub(before)),
            Some(reason) => TurnOutcome::Missing(reason),
        })
    }

    /// Waits for the generator to end. Returns the reason if it failed.
    fn wait(&self, child: &mut Child) -> Result<Option<String>> {
        for _ in 0..self.time_max.as_millis() / POLL.as_millis() {
            if let Some(status) = child.try_wait()? {
                return Ok((!status.success()).then(|| format!("it ended with {status}")));
            }
            std::thread::sleep(POLL);
        }
        child.kill()?;
        child.wait()?;
        Ok(Some(format!("it did not end in {} s and was killed", self.time_max.as_secs())))
    }
}

/// Processor time of all children that have ended (proc(5): `cutime` and `cstime`).
fn children_cpu() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    let ticks = children_ticks(&stat).context("/proc/self/stat is not as it should be")?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Sum of fields 16 and 17. The program name in field 2 may contain anything, so fields are counted
/// from its closing parenthesis.
fn children_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(13);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn petasos(load: &LoadParameters, _: &str) -> Option<Vec<String>> {
    // `--accept-invalid` because one busy thread is intended here, but makes the run invalid.
    let LoadParameters { address, connections, seconds, .. } = load;
    let close = if load.keep_alive { "" } else { " --no-keepalive" };
    Some(words(&format!(
        "petasos bench -c {connections} -t {seconds}s --threads 1 --accept-invalid{close} http://{address}/"
    )))
}

fn bare(load: &LoadParameters, _: &str) -> Option<Vec<String>> {
    let LoadParameters { address, connections, seconds, .. } = load;
    let connection = if load.keep_alive { "keep" } else { "close" };
    Some(words(&format!("petasos-null ask {address} / {connections} {seconds} {connection}")))
}

fn wrk(load: &LoadParameters, _: &str) -> Option<Vec<String>> {
    let LoadParameters { address, connections, seconds, .. } = load;
    let mut words = words(&format!("wrk -t1 -c{connections} -d{seconds}s http://{address}/"));
    if !load.keep_alive {
        words.extend(["-H".to_owned(), "Connection: close".to_owned()]);
    }
    Some(words)
}

fn ab(load: &LoadParameters, _: &str) -> Option<Vec<String>> {
    let LoadParameters { address, connections, seconds, .. } = load;
    let keep = if load.keep_alive { " -k" } else { "" };
    // -t sets -n, so -n must come after it.
    Some(words(&format!("ab -q{keep} -c {connections} -t {seconds} -n 2000000 http://{address}/")))
}

fn h2load(load: &LoadParameters, _: &str) -> Option<Vec<String>> {
    let LoadParameters { address, connections, seconds, .. } = load;
    // h2load has no option for one request on each connection.
    load.keep_alive.then(|| words(&format!("h2load --h1 -t1 -c{connections} -D{seconds} http://{address}/")))
}

fn hey(load: &LoadParameters, _: &str) -> Option<Vec<String>> {
    let LoadParameters { address, connections, seconds, .. } = load;
    let close = if load.keep_alive { "" } else { " -disable-keepalive" };
    Some(words(&format!("hey -cpus 1 -c {connections} -z {seconds}s{close} http://{address}/")))
}

fn siege(load: &LoadParameters, configuration: &str) -> Option<Vec<String>> {
    let LoadParameters { address, connections, seconds, .. } = load;
    // siege always has a thread for each connection.
    let arguments = format!("-b -c{connections} -t{seconds}S http://{address}/");
    Some([vec!["siege".to_owned(), "-R".to_owned(), configuration.to_owned()], words(&arguments)].concat())
}

#[cfg(test)]
mod tests {
    use super::{GENERATORS, GeneratorTurn, LoadParameters, TurnOutcome, children_ticks};
    use std::time::Duration;

    #[test]
    fn children_time_is_parsed_after_any_program_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 200 0 0 11 12 13 14 20 0 1 0 5 6 7";
        assert_eq!(children_ticks(stat), Some(13 + 14));
        assert_eq!(children_ticks("7 (a) S 1"), None);
    }

    fn turn(script: &str, time_max: Duration) -> TurnOutcome {
        let arguments = vec!["-c".to_owned(), script.to_owned()];
        GeneratorTurn { program: "sh".into(), arguments, home: ".".into(), time_max }.run().unwrap()
    }

    #[test]
    fn generator_that_fails_or_hangs_has_a_missing_turn() {
        let long = Duration::from_secs(60);
        assert!(matches!(turn("true", long), TurnOutcome::Whole(_)));
        assert_eq!(turn("exit 3", long), TurnOutcome::Missing("it ended with exit status: 3".to_owned()));
        let killed = turn("exec sleep 600", Duration::from_millis(100));
        assert_eq!(killed, TurnOutcome::Missing("it did not end in 0 s and was killed".to_owned()));
    }

    #[test]
    fn every_generator_gets_the_same_load() {
        for keep_alive in [true, false] {
            let load = LoadParameters {
                address: ([127, 0, 0, 1], 81).into(),
                connections: 64,
                seconds: 3,
                keep_alive,
            };
            for generator in GENERATORS {
                let Some(words) = (generator.arguments)(&load, "rc") else { continue };
                let line = words.join(" ");
                assert!(line.contains("127.0.0.1:81") && line.contains("64") && line.contains('3'), "{line}");
            }
        }
    }
}
