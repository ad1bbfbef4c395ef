//! `petasos purge` from the user's view: every kind of selector, the token, and the errors.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::path::Path;
use testkit::{
    Authority, Client, Edge, HeldPort, KeyKind, Origin, eventually, get, petasos, petasos_with, response,
};

const PAGES: &[&str] = &["/news/1", "/news/2", "/shop"];

/// Pages that may be stored, each with the tags `page` and `page-TARGET`.
fn pages() -> Origin {
    Origin::start(|seen| {
        let tags = format!("Surrogate-Key: page page-{}", seen.target());
        response("200 OK", &["Cache-Control: s-maxage=600", &tags], seen.target().as_bytes())
    })
}

/// The pages among [`PAGES`] that are hits. Afterwards all of them are stored.
fn stored(edge: &Edge) -> Vec<&'static str> {
    let is_hit = |target: &&&str| {
        let answer = get(edge.address, target, &[]);
        answer.field("Cache-Status").unwrap().contains("hit-fresh")
    };
    PAGES.iter().filter(is_hit).copied().collect()
}

/// Runs a purge that must succeed and returns its output.
fn purged(edge: &Edge, arguments: &[&str]) -> String {
    let admin = edge.admin.to_string();
    let output = petasos([&["purge", "--admin", &admin][..], arguments].concat());
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    output.stdout
}

#[test]
fn every_selector_purges_exactly_its_pages() {
    let origin = pages();
    let edge = Edge::start(&origin.url(), &[]);
    stored(&edge);
    let rest = "Nothing was removed at once. Petasos serves no other purged response, and each is removed when it is found.\n";
    for (arguments, told, left) in [
        (&["http://example.test/news/1"][..], "1 stored response was removed.\n", &["/news/2", "/shop"][..]),
        (
            &["https://example.test/news/1", "http://example.test/shop"],
            "2 stored responses were removed.\n",
            &["/news/2"],
        ),
        (&["http://example.test/other"], "Nothing was removed.\n", PAGES),
        (&["--tag", "page-/shop"], "1 stored response was removed.\n", &["/news/1", "/news/2"]),
        (&["--tag", "page-/shop", "--tag", "page", "--all-tags"], rest, &["/news/1", "/news/2"]),
        (&["--prefix", "http://example.test/news/"], rest, &["/shop"]),
        (&["--ban", "req.url ~ 2$ && obj.status == 200"], rest, &["/news/1", "/shop"]),
        (&["--host", "example.test"], "3 stored responses were removed.\n", &[]),
        (&["--host", "other.test"], "Nothing was removed.\n", PAGES),
        (&["--all"], "3 stored responses were removed.\n", &[]),
        (&["--tag", "page", "--soft"], "3 stored responses were marked stale.\n", &[]),
    ] {
        assert_eq!(stored(&edge), PAGES, "before {arguments:?}");
        assert_eq!(purged(&edge, arguments), told, "{arguments:?}");
        assert_eq!(stored(&edge), left, "{arguments:?}");
        stored(&edge);
    }
}

#[test]
fn refill_fetches_the_most_requested_pages_again() {
    for (flags, asks) in [(&[][..], &["--refill"][..]), (&["--refill"], &[])] {
        let origin = pages();
        let edge = Edge::start(&origin.url(), flags);
        stored(&edge);
        stored(&edge);
        purged(&edge, &[&["--tag", "page"][..], asks].concat());
        let is_back = |target: &&str| origin.count(target) == 2;
        eventually("the pages are fetched again", || PAGES.iter().all(is_back));
    }
}

#[test]
fn token_is_read_from_the_environment_or_a_file() {
    let origin = pages();
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let secret = file("secret", "open sesame\nanother line\n");
    let edge = Edge::configured(&origin.url(), &format!("token_file = '{secret}'\n"), &[]);
    let admin = edge.admin.to_string();
    let purge = |variables: &[(&str, &str)], arguments: &[&str]| {
        petasos_with(variables, [&["purge", "--all", "--admin", &admin][..], arguments].concat())
    };
    assert_eq!(purge(&[("PETASOS_TOKEN", "open sesame")], &[]).code, Some(0));
    assert_eq!(purge(&[("PETASOS_TOKEN", "wrong")], &["--token-file", &secret]).code, Some(0));
    for (variables, arguments, words) in [
        (&[][..], &[][..], "PETASOS_TOKEN"),
        (&[("PETASOS_TOKEN", "wrong")], &[], "not the right one"),
        (&[], &["--token-file", "/nowhere"], "cannot read the token file /nowhere"),
        (&[], &["--token-file", &file("empty", "\nx")], "is empty"),
    ] {
        let output = purge(variables, arguments);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{words}");
        assert!(output.stderr.contains(words), "{}", output.stderr);
    }
}

#[test]
fn bad_purge_exits_with_2_and_an_explanation() {
    let held = HeldPort::take();
    let nobody = held.address().to_string();
    let origin = Origin::start(|_| response("200 OK", &[], b"<p>a page</p>"));
    let no_edge = origin.address().to_string();
    for (arguments, words) in [
        (&[][..], "--all"),
        (&["--all", "--tag", "a"], "cannot be used with"),
        (&["--all", "--all-tags"], "cannot be used with"),
        (&["--all-tags"], "--tag"),
        (&["/news"], "URL: no URL: relative URL without a base"),
        (&["--host", "a/b"], "--host: expected a host name, found `a/b`"),
        (&["--ban", "req.url = a"], "--ban: the ban expression cannot be read at column 9"),
        (&["--all", "--admin", &nobody], "no edge answers at the admin address"),
        (&["--all", "--admin", &no_edge], "is not from a Petasos edge"),
    ] {
        let output = petasos(["purge"].iter().chain(arguments));
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(output.stderr.contains(words), "{arguments:?}: {}", output.stderr);
    }
}

#[test]
fn command_purges_although_loopback_is_a_trusted_proxy() {
    let origin = pages();
    let edge = Edge::as_shipped(&origin.url(), "trusted_proxies = ['127.0.0.1', '::1']\n");
    stored(&edge);
    assert_eq!(purged(&edge, &["--all"]), "3 stored responses were removed.\n");
}

#[test]
fn token_is_created_once_and_read_by_the_command() {
    let origin = pages();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    let file = path.to_str().unwrap();
    let arguments = ["--token-file", file, "--create-token"];
    let edge = Edge::start(&origin.url(), &arguments);
    let token = std::fs::read_to_string(&path).unwrap();
    assert_eq!(token.trim().len(), 64);
    eventually("the edge says so", || edge.stderr().contains("created the token file"));
    stored(&edge);
    let admin = edge.admin.to_string();
    let refused = petasos(["purge", "--all", "--admin", &admin]);
    assert!(refused.code == Some(2) && refused.stderr.contains("--token-file"), "{}", refused.stderr);
    assert_eq!(purged(&edge, &["--all", "--token-file", file]), "3 stored responses were removed.\n");
    drop(edge);
    let edge = Edge::start(&origin.url(), &arguments);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), token, "it is not written again");
    assert!(!edge.stderr().contains("created"), "{}", edge.stderr());
    assert_eq!(purged(&edge, &["--all", "--token-file", file]), "Nothing was removed.\n");
}

#[test]
fn check_shows_the_errors_in_a_list_of_networks() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let list = write("cdn.txt", "# a network\n192.0.2.0/24\n10.0.0.1/8\n");
    let configuration =
        format!("origin = 'http://127.0.0.1:1'\ntrusted_proxies = ['@{list}', '@/nowhere.txt']\n");
    let output = petasos(["check", &write("petasos.toml", &configuration)]);
    assert_eq!(output.code, Some(2), "{}", output.stderr);
    for words in ["cdn.txt:3:1", "write 10.0.0.0/8 for the network", "cannot read the list /nowhere.txt"] {
        assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
    }
    write("cdn.txt", "192.0.2.0/24 # a network\n");
    let configuration = format!("origin = 'http://127.0.0.1:1'\ntrusted_proxies = ['@{list}', '::1']\n");
    let output = petasos(["check", &write("petasos.toml", &configuration), "--print"]);
    assert!(output.stdout.contains("trusted proxies 192.0.2.0/24, ::1\n"), "{}", output.stdout);
}

#[test]
fn edge_that_demands_a_certificate_is_reached_with_one() {
    let (directory, origin) = (tempfile::tempdir().unwrap(), pages());
    let at = |name: &str| directory.path().join(name).display().to_string();
    let (edges, clients) = (Authority::new("of edges"), Authority::new("of clients"));
    let valid = (2000, 2100);
    edges.issue(&["127.0.0.1"], KeyKind::Ecdsa, valid).write(directory.path(), "edge");
    clients.issue(&["operator"], KeyKind::Ecdsa, valid).write(directory.path(), "operator");
    std::fs::write(at("edges.pem"), edges.pem()).unwrap();
    std::fs::write(at("clients.pem"), clients.pem()).unwrap();
    let configuration = format!(
        "admin_certificate = '{},{}'\nadmin_client_ca = '{}'\n",
        at("edge.pem"),
        at("edge.key"),
        at("clients.pem")
    );
    let edge = Edge::configured(&origin.url(), &configuration, &[]);
    stored(&edge);
    let admin = edge.admin.to_string();
    let run = |arguments: &[&str]| petasos([&["purge", "--all", "--admin", &admin], arguments].concat());
    let (ca, own) = (at("edges.pem"), format!("{},{}", at("operator.pem"), at("operator.key")));
    let done = run(&["--admin-ca", &ca, "--admin-certificate", &own]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "3 stored responses were removed.\n"));
    let asked =
        petasos(["why", "--admin", &admin, "--admin-ca", &ca, "--admin-certificate", &own, "http://a/"]);
    assert_eq!(asked.code, Some(0), "{}", asked.stderr);
    for (arguments, words) in [
        (&[][..], "--admin-ca"),
        (&["--admin-ca", &ca], "certificate"),
        (&["--admin-ca", &at("clients.pem"), "--admin-certificate", &own], "no authority"),
        (&["--admin-ca", &at("none.pem")], "cannot read"),
        (&["--admin-certificate", &own], "--admin-ca"),
    ] {
        let refused = run(arguments);
        assert_eq!(refused.code, Some(2), "{arguments:?}");
        assert!(refused.stderr.contains(words), "{arguments:?}: {}", refused.stderr);
    }
}

/// A request of Drupal's module Purge, as `integrations/drupal` has recorded it.
fn recorded(name: &str, edge: &str, token: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integrations/drupal/requests");
    let text = std::fs::read_to_string(directory.join(name)).unwrap();
    let (head, body) = text.split_once("\n\n").unwrap();
    let head = head.replace("{{edge}}", edge).replace("{{token}}", token).replace('\n', "\r\n");
    format!("{head}\r\n\r\n{body}")
}

#[test]
fn recorded_requests_of_drupal_purge_their_pages() {
    let origin = Origin::start(|seen| {
        let tags = match seen.target() {
            "/news/1" => "node:1 rendered",
            "/news/2" => "node:10 rendered",
            _ => "node_list node:100 rendered",
        };
        let tags = format!("Purge-Cache-Tags: http_response {tags}");
        response("200 OK", &["Cache-Control: public, max-age=600", &tags], b"<p>a page</p>")
    });
    let directory = tempfile::tempdir().unwrap();
    let token_file = directory.path().join("token");
    std::fs::write(&token_file, "t0ken\n").unwrap();
    let edge = Edge::as_shipped(&origin.url(), &format!("token_file = '{}'\n", token_file.display()));
    stored(&edge);
    for (name, address, left) in [
        ("tags-bundled.http", edge.address, &["/news/2"][..]),
        ("tag.http", edge.address, &["/news/1", "/shop"]),
        ("url-admin.http", edge.admin, &["/news/1", "/news/2"]),
        ("everything.http", edge.address, &[]),
    ] {
        assert_eq!(stored(&edge), PAGES, "before {name}");
        let send = |token| {
            let request = recorded(name, &address.to_string(), token);
            Client::connect(address).try_ask(request).unwrap().status
        };
        assert_eq!((send("wrong"), stored(&edge)), (403, PAGES.to_vec()), "{name}");
        assert_eq!(send("t0ken"), 200, "{name}");
        assert_eq!(stored(&edge), left, "{name}");
        stored(&edge);
    }
}
