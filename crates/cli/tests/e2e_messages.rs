//! The messages of the real binary on standard error have a time and a level.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use testkit::{Edge, HeldPort, eventually};

#[test]
fn log_level_selects_the_messages() {
    for (level, has_info) in [("warn", false), ("info", true)] {
        let port = HeldPort::take();
        let directory = tempfile::tempdir().unwrap();
        let token = directory.path().join("token");
        let arguments = ["--create-token", "--token-file", token.to_str().unwrap(), "--log-level", level];
        let edge = Edge::start(&format!("http://{}", port.address()), &arguments);
        // The token is created before the origin is looked for.
        let warning = " WARN petasos: warning: the origin http://";
        eventually("the origin is missed", || edge.stderr().contains(warning));
        let said = edge.stderr();
        assert_eq!(said.contains(" INFO petasos: created the token file "), has_info, "{level}: {said}");
        let time = said.split(' ').next().unwrap();
        assert!(time.len() == "2026-01-02T03:04:05.678Z".len() && time.ends_with('Z'), "{said}");
    }
}
