//! Compares page mode with headless Chromium on the WordPress lab (`cargo xtask lab wordpress up`).
//! Both must request the same files of the site, except for the differences in the expected files.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

#[path = "../tests/common/mod.rs"]
mod common;

use petasos_browse::PagePlan;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use testkit::{Action, Origin};

/// The front page, and a post with its comments and form.
const PAGES: [(&str, &str); 2] = [
    ("/", include_str!("front-page.txt")),
    ("/2025/12/the-first-rain-draws-two-wheels-and-a-bell/", include_str!("post.txt")),
];

/// A proxy that records each request and forwards it on its own connection.
fn before(address: SocketAddr) -> Origin {
    Origin::start(move |seen| {
        let kept = |line: &&str| !line.to_ascii_lowercase().starts_with("connection:");
        let head: String = seen.head.lines().filter(kept).map(|line| format!("{line}\r\n")).collect();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        vec![Action::Send(answer), Action::Close]
    })
}

#[test]
fn chromium_and_page_mode_load_the_same_files_of_wordpress() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target/labs/wordpress/lab.toml");
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|_| panic!("run `cargo xtask lab wordpress up` first"));
    let lab: toml::Table = text.parse().unwrap();
    let (host, address) = (lab["host"].as_str().unwrap(), lab["nginx_opcode"].as_str().unwrap());
    let site = before(address.parse().unwrap());
    for (target, differ) in PAGES {
        let mut plan = PagePlan::new(&format!("{}{target}", site.url())).unwrap();
        plan.name_host(host).unwrap();
        let (both, asked) = common::compare(&plan, site.address(), &site, differ);
        assert!(both >= 4, "{target}: {both} in common: {asked:?}");
    }
}
