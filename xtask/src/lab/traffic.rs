//! `cargo xtask long traffic NAME`: the traffic of an ordinary site on a lab, through a Petasos
//! without any settings for the site.
//!
//! The measurement and its limits are in `crates/cli/lab/systems/traffic.rs` and `rates.rs` there.
//! `cargo xtask test` runs both in their short form. This module only starts them.

use super::{LabTrafficArgs, Plugin};
use anyhow::{Context, Error, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::rates::{ROUNDS_PATH, Rounds};

/// Sends the traffic to the lab `name` below `dir`, in real time if `paced`.
///
/// # Errors
/// If fewer requests than required were hits, a visitor received another's data, or the test could
/// not run.
pub(super) fn run(name: &str, dir: &Path, paced: bool) -> Result<()> {
    let form = if paced { "paced" } else { "full" };
    start(&format!("traffic::{name}"), dir, &[("PETASOS_TRAFFIC", form)])
}

/// Measures the hit ratios at low rates on the WordPress lab below `dir`, in the rounds that `args`
/// chooses.
///
/// # Errors
/// If a page was staler than allowed, or the test could not run.
pub(super) fn rates(dir: &Path, args: &LabTrafficArgs) -> Result<()> {
    let file = dir.join("rates.json");
    let name = file.to_str().context("the directory has a name that is no text")?;
    if file.exists() && !args.resume {
        std::fs::remove_file(&file).with_context(|| format!("cannot remove {name}"))?;
    }
    let minutes = args.minutes.to_string();
    let variables = [("PETASOS_RATES", minutes.as_str()), ("PETASOS_RATES_FILE", name)];
    let plugin = args.plugin.map(|plugin| match plugin {
        Plugin::On => ("PETASOS_RATES_PLUGIN", "on"),
        Plugin::Off => ("PETASOS_RATES_PLUGIN", "off"),
    });
    start("rates::wordpress", dir, &variables.into_iter().chain(plugin).collect::<Vec<_>>())?;
    if args.write {
        let path = Path::new(ROUNDS_PATH);
        let mut kept = Rounds::read(path).map_err(Error::msg)?;
        Rounds::read(&file).map_err(Error::msg)?.rounds.into_iter().for_each(|round| kept.keep(round));
        kept.write(path).map_err(Error::msg)?;
        println!("{ROUNDS_PATH} is written; `cargo xtask docs` renders docs/hit-ratio.md");
    }
    Ok(())
}

/// Runs one of the tests, with the environment variables that choose its form.
fn start(test: &str, dir: &Path, variables: &[(&str, &str)]) -> Result<()> {
    crate::test::build_binary()?;
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--quiet", "--locked", "--package", "petasos", "--features", "lab"]);
    command.args(["--test", "lab_systems", "--", "--exact", test, "--nocapture"]).stdin(Stdio::null());
    command.env("PETASOS_LAB", dir).envs(variables.iter().copied());
    let status = command.status().context("cannot run cargo")?;
    ensure!(status.success(), "{test} ended with {status}");
    Ok(())
}
