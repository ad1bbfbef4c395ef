//! The report of the command: files before and after, the configuration of Petasos, and the
//! commands that switch to it and back.

use crate::system::System;
use serde::Serialize;
use similar::TextDiff;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;
/// Name of the configuration of Petasos in the written directory.
const CONFIGURATION: &str = "petasos.toml";

/// A changed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its path, without symbolic links.
    pub file: PathBuf,
    /// Its text.
    pub before: String,
    /// Its text with the changes.
    pub after: String,
    /// The unified diff of both.
    pub diff: String,
}

impl Change {
    pub(crate) fn new(file: &Path, before: &str, after: String) -> Self {
        let path = file.display().to_string();
        let diff = TextDiff::from_lines(before, after.as_str())
            .unified_diff()
            .context_radius(CONTEXT_LINES)
            .header(&path, &path)
            .to_string();
        Self { file: file.to_path_buf(), before: before.to_owned(), after, diff }
    }
}

/// A note for the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// File, line and column, if it is about a place.
    pub place: Option<String>,
    /// The sentence.
    pub text: String,
}

/// All changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Adoption {
    /// `nginx` or `Apache`.
    pub server: &'static str,
    /// The server's unit of systemd.
    pub unit: &'static str,
    /// The file where reading began.
    pub read_from: String,
    /// The web server's new address.
    pub loopback: String,
    /// The addresses that Petasos takes over.
    pub listeners: Vec<String>,
    /// The changed files.
    pub changes: Vec<Change>,
    /// The configuration of Petasos.
    pub configuration: String,
    /// Content management systems that were found.
    pub systems: Vec<System>,
    /// Notes for the operator.
    pub notes: Vec<Note>,
}

/// A path as a word of a shell.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-+:@".contains(character);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The place of a file in a written directory: below `before` or `after`, with its whole path.
fn copy_of(directory: &Path, side: &str, file: &Path) -> PathBuf {
    directory.join(side).join(file.strip_prefix("/").unwrap_or(file))
}

impl Adoption {
    /// The files for a directory: the path of each, and its text.
    pub fn files(&self, directory: &Path) -> Vec<(PathBuf, &str)> {
        let mut files = vec![(directory.join(CONFIGURATION), self.configuration.as_str())];
        for change in &self.changes {
            files.push((copy_of(directory, "before", &change.file), change.before.as_str()));
            files.push((copy_of(directory, "after", &change.file), change.after.as_str()));
        }
        files
    }

    /// The commands that switch to Petasos, with the files in `directory`.
    pub fn switch(&self, directory: &Path) -> Vec<String> {
        let configuration = shell_word(&directory.join(CONFIGURATION));
        let mut commands = vec![
            format!("sudo petasos check {configuration}"),
            format!("sudo cp {configuration} /etc/petasos/petasos.toml"),
        ];
        commands.extend(self.copies(directory, "after"));
        if self.server == "nginx" {
            commands.push("sudo nginx -t".to_owned());
        } else {
            if self.unit == "apache2" {
                commands.push("sudo a2enmod remoteip setenvif".to_owned());
            }
            commands.push("sudo apachectl configtest".to_owned());
        }
        commands.push(self.renew());
        commands.push("sudo systemctl restart petasos".to_owned());
        commands
    }

    /// The commands that undo it.
    pub fn back(&self, directory: &Path) -> Vec<String> {
        let mut commands = vec!["sudo systemctl stop petasos".to_owned()];
        commands.extend(self.copies(directory, "before"));
        commands.push(self.renew());
        commands
    }

    fn copies(&self, directory: &Path, side: &str) -> Vec<String> {
        let copy = |change: &Change| {
            format!(
                "sudo cp {} {}",
                shell_word(&copy_of(directory, side, &change.file)),
                shell_word(&change.file)
            )
        };
        self.changes.iter().map(copy).collect()
    }

    /// The command that makes the web server bind its new addresses.
    fn renew(&self) -> String {
        let verb = if self.server == "nginx" { "reload" } else { "restart" };
        format!("sudo systemctl {verb} {}", self.unit)
    }

    /// The report as text. `written`: the files are in `directory`.
    pub fn text(&self, directory: &Path, written: bool) -> String {
        let mut text = format!(
            "{} moves to {}, and Petasos takes over {}. Nothing has been changed.\n",
            self.server,
            self.loopback,
            self.listeners.join(", ")
        );
        for change in &self.changes {
            let _ = write!(text, "\n{}", change.diff);
        }
        let _ = write!(text, "\n{CONFIGURATION}:\n\n");
        for line in self.configuration.lines() {
            text.push_str(if line.is_empty() { "" } else { "    " });
            let _ = writeln!(text, "{line}");
        }
        for system in &self.systems {
            let _ = write!(text, "\n{} in {}:\n", system.name, system.root);
            for line in &system.settings {
                let _ = writeln!(text, "    {line}");
            }
        }
        if !self.notes.is_empty() {
            text.push_str("\nNotes:\n");
        }
        for note in &self.notes {
            let place = note.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
            let _ = writeln!(text, "  - {place}{}", note.text);
        }
        if written {
            let _ = write!(text, "\nThe files are in {}. To switch:\n\n", directory.display());
        } else {
            text.push_str("\nTo switch, write the files with --write DIR first; then:\n\n");
        }
        for command in self.switch(directory) {
            let _ = writeln!(text, "    {command}");
        }
        text.push_str("\nTo go back:\n\n");
        for command in self.back(directory) {
            let _ = writeln!(text, "    {command}");
        }
        text
    }

    /// The report as JSON.
    pub fn json(&self, directory: &Path) -> String {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.insert("switch".to_owned(), self.switch(directory).into());
            object.insert("back".to_owned(), self.back(directory).into());
        }
        format!("{value:#}\n")
    }
}
