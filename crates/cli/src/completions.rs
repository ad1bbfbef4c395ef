//! `petasos completions`: the script for a shell's completion of commands and flags.

use crate::bench::measure;
use clap_complete::Shell;
use std::io;
use std::process::ExitCode;

/// Print the script by which a shell completes the commands and flags of petasos
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    measure::write_text(io::stdout(), &script(args.shell))?;
    Ok(ExitCode::SUCCESS)
}

/// The script of a shell.
fn script(shell: Shell) -> String {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut crate::command(), "petasos", &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::script;
    use clap_complete::Shell;

    #[test]
    fn scripts_know_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = script(shell);
            for command in crate::command().get_subcommands() {
                assert!(text.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
            assert!(text.contains("trusted-proxies"), "{shell}: a flag of a setting");
        }
    }
}
