//! Runs `ab` and `petasos ab`, and starts servers that treat HTTP/1.0 clients as usual servers do.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Action, CommandOutput, Origin, Seen, petasos, response};

/// A User-Agent for both programs, so that both send the same bytes.
pub(crate) const SAME_NAME: [&str; 2] = ["-H", "User-Agent: Tester/1.0"];

/// Runs the real `ab`.
pub(crate) fn theirs(arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new("ab");
    let output = command.args(arguments).env("TZ", "UTC").stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| {
        panic!("cannot run ab ({error}): install it from Debian's package apache2-utils")
    });
    CommandOutput {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs `petasos ab`.
pub(crate) fn ours(arguments: &[&str]) -> CommandOutput {
    petasos([&["ab"][..], arguments].concat())
}

/// An origin that treats HTTP/1.0 clients as usual servers do: it closes the connection unless
/// asked to keep it.
pub(crate) fn origin(
    status: &'static str,
    body: impl Fn(&Seen, usize) -> Vec<u8> + Send + Sync + 'static,
) -> Origin {
    let number = AtomicUsize::new(0);
    Origin::start(move |seen| answer(status, seen, &body(seen, number.fetch_add(1, Ordering::SeqCst))))
}

/// The actions of an origin of this kind for one response.
pub(crate) fn answer(status: &str, seen: &Seen, body: &[u8]) -> Vec<Action> {
    let kept = seen.field("Connection").is_some_and(|value| value == "Keep-Alive");
    let connection = if kept { "Connection: Keep-Alive" } else { "Connection: close" };
    let mut actions = response(status, &["Server: Tester/1.0 (test)", connection], body);
    if seen.head.starts_with("HEAD")
        && let Some(Action::Send(octets)) = actions.first_mut()
    {
        octets.truncate(octets.len() - body.len());
    }
    if !kept {
        actions.push(Action::Close);
    }
    actions
}

/// An origin whose page is always the same.
pub(crate) fn page() -> Origin {
    origin("200 OK", |_, _| b"hello world".to_vec())
}
