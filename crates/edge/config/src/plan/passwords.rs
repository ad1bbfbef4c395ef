//! Sites and routes that ask for a password.
//!
//! Invariant: the edge receives a password file complete or not at all.

use crate::ReadFile;
use crate::levels::SettingLevels;
use document::{Diagnostic, Place};
use passwords::PasswordFile;
use std::sync::Arc;

/// The value of `basic_auth` for routes that ask for no password although their site does.
const NONE: &str = "none";

/// Upper bound of the bad lines reported for one file. In a file of the wrong kind, every line is
/// bad.
const BAD_LINES_REPORTED_MAX: usize = 10;

/// The password that a site or route asks for, by basic authentication (RFC 7617).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordPlan {
    /// The realm, which browsers show in the password dialog.
    pub realm: String,
    /// The path of the password file.
    pub path: String,
    /// Its users.
    pub file: Arc<PasswordFile>,
}

impl PasswordPlan {
    pub(super) fn resolve(
        levels: &SettingLevels<'_>,
        read: &ReadFile<'_>,
        problems: &mut Vec<Diagnostic>,
    ) -> Option<Self> {
        let path = levels.text("basic_auth").filter(|path| *path != NONE)?;
        let place = levels.place("basic_auth").unwrap_or(Place::Default);
        let realm = levels.text("basic_auth_realm").unwrap_or_default();
        let is_plain = |letter: char| matches!(letter, ' '..='~') && !matches!(letter, '"' | '\\');
        if !realm.chars().all(is_plain) {
            let place = levels.place("basic_auth_realm").unwrap_or(Place::Default);
            let text = "`basic_auth_realm` has only letters, digits and signs of ASCII, without \" and \\";
            problems.push(Diagnostic::new(text, place));
        }
        let text = read(path).map_err(|error| {
            let problem =
                Diagnostic::new(format!("cannot read the password file {path}: {error}"), place.clone());
            problems.push(problem.with_help(format!("make it with `htpasswd -cB {path} USER`")));
        });
        let text = text.ok()?;
        match PasswordFile::parse(&text) {
            Ok(file) => {
                if file.users() == 0 {
                    let text = format!("the password file {path} has no users, so nobody could log in");
                    let help = format!("add one with `htpasswd -B {path} USER`");
                    problems.push(Diagnostic::new(text, place).with_help(help));
                }
                Some(Self { realm: realm.to_owned(), path: path.to_owned(), file: Arc::new(file) })
            }
            Err(bad) => {
                // The place is the setting, because a picture of the line would show its hash.
                for line in bad.into_iter().take(BAD_LINES_REPORTED_MAX) {
                    let text = format!("{path}:{}: {}", line.number, line.problem);
                    problems.push(Diagnostic::new(text, place.clone()));
                }
                None
            }
        }
    }

    /// The plan in words, for `petasos check --print`.
    pub(super) fn explain(&self) -> String {
        let users = self.file.users();
        format!(
            "asks for a password of {} ({users} {})",
            self.path,
            if users == 1 { "user" } else { "users" }
        )
    }
}
