//! Reads the configuration of nginx or Apache and writes the configuration for a Petasos in front:
//! the web server moves to a loopback address, and Petasos takes over the public addresses.
//!
//! Invariants:
//!
//! * This crate changes nothing and opens no file. A [`Machine`] hands it texts.
//! * A changed text differs from the operator's only where [`Adoption`] says so: layout and
//!   comments stay.
//! * A directive that cannot be kept is refused with its place, or noted.

mod apache;
mod apache_plan;
mod configuration;
mod directive;
mod host;
mod nginx;
mod nginx_plan;
mod report;
mod source;
mod system;

pub use report::{Adoption, Change, Note};
pub use source::{Edit, FILE_BYTES_MAX, Machine, Place, Refusal, Span, TextFile, apply, comment_out};
pub use system::System;

use host::{Decision, Fate, Host};
use source::{Position, Sources};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// First loopback port to try for the web server.
const FIRST_PORT: u16 = 8080;
/// Port of the admin address of Petasos.
const ADMIN_PORT: u16 = 8081;
/// Number of ports that are tried.
const PORTS_TRIED_MAX: u16 = 100;
/// Main files of configurations, with the name of the service that reads them.
const MAIN_FILES: [(&str, Service); 3] = [
    ("nginx.conf", Service { server: "nginx", unit: "nginx" }),
    ("apache2.conf", Service { server: "Apache", unit: "apache2" }),
    ("httpd.conf", Service { server: "Apache", unit: "httpd" }),
];
/// Beginnings of lines that only Apache's language has, in lower case.
const APACHE_LINES: [&str; 6] =
    ["<virtualhost", "<ifmodule", "<directory", "listen ", "serverroot ", "define "];

/// A web server and its unit of systemd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) server: &'static str,
    pub(crate) unit: &'static str,
}

/// The arguments of the command.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// A file or directory of a web server's configuration.
    pub start: PathBuf,
    /// The loopback port for the web server; if left out, the first free one from 8080 on.
    pub port: Option<u16>,
}

/// Where a configuration begins.
struct Start {
    service: Service,
    files: Vec<PathBuf>,
    /// Where relative paths begin.
    root: PathBuf,
    is_main: bool,
}

/// Reads a configuration and works out the changes.
///
/// # Errors
/// The first part that cannot be read, is not understood, or cannot be kept.
pub fn adopt(request: &Request, machine: &dyn Machine) -> Result<Adoption, Refusal> {
    let (start, note) = beginning(&request.start, machine)?;
    let (adoption, has_start) = adopt_from(&start, request, machine, note.as_deref())?;
    if has_start {
        return Ok(adoption);
    }
    Err(Refusal::general(
        format!("{} is not part of {}", request.start.display(), shown(&start.files)),
        "enable the site first, or name its file outside of this directory",
    ))
}

/// Where to begin, and a note about it.
fn beginning(start: &Path, machine: &dyn Machine) -> Result<(Start, Option<String>), Refusal> {
    let main_of = |directory: &Path| {
        MAIN_FILES.iter().find_map(|(name, service)| {
            let path = directory.join(name);
            machine.exists(&path).then(|| Start {
                service: *service,
                files: vec![path],
                root: directory.to_path_buf(),
                is_main: true,
            })
        })
    };
    if machine.is_directory(start) {
        if let Some(main) = main_of(start) {
            return Ok((main, None));
        }
        if let Some(main) = start.ancestors().skip(1).find_map(main_of) {
            let note = format!("reads {}, because ports move for all sites at once", shown(&main.files));
            return Ok((main, Some(note)));
        }
        let files = machine.matching(&format!("{}/*", start.display()));
        let is_left_over = |path: &PathBuf| {
            let name = path.to_string_lossy();
            [".dpkg-dist", ".dpkg-old", ".bak", ".orig", "~"].iter().any(|end| name.ends_with(end))
        };
        let files: Vec<PathBuf> =
            files.into_iter().filter(|path| !machine.is_directory(path) && !is_left_over(path)).collect();
        let Some(first) = files.first() else {
            let fix = "name /etc/nginx, /etc/apache2, or the file of a site";
            return Err(Refusal::general(format!("{} has no configuration", start.display()), fix));
        };
        let service = kind(first, machine)?;
        return Ok((Start { service, root: start.to_path_buf(), files, is_main: false }, None));
    }
    let directory = start.parent().unwrap_or_else(|| Path::new(""));
    let main_name = MAIN_FILES.iter().find(|(name, _)| start.file_name().is_some_and(|file| file == *name));
    if let Some((_, service)) = main_name {
        let main = Start {
            service: *service,
            files: vec![start.to_path_buf()],
            root: directory.to_path_buf(),
            is_main: true,
        };
        return Ok((main, None));
    }
    let service = kind(start, machine)?;
    let real = machine.read(start).map_or_else(|_| start.to_path_buf(), |file| file.path);
    let main = start.ancestors().chain(real.ancestors()).skip(1).find_map(main_of);
    let main = main.filter(|main| main.service.server == service.server);
    if let Some(main) = main {
        let note = format!("reads {}, because ports move for all sites at once", shown(&main.files));
        return Ok((main, Some(note)));
    }
    let alone =
        Start { service, files: vec![start.to_path_buf()], root: directory.to_path_buf(), is_main: false };
    Ok((alone, Some("no main file was found, so this file was read alone".to_owned())))
}

fn shown(files: &[PathBuf]) -> String {
    files.first().map(|path| path.display().to_string()).unwrap_or_default()
}

/// The web server that a file is for.
fn kind(path: &Path, machine: &dyn Machine) -> Result<Service, Refusal> {
    let file = machine.read(path).map_err(|error| {
        Refusal::general(
            format!("{} cannot be read: {error}", path.display()),
            "correct the path, or run the command as a user who may read it",
        )
    })?;
    let is_apache = file.text.lines().any(|line| {
        let line = line.trim_start().to_ascii_lowercase();
        APACHE_LINES.iter().any(|begin| line.starts_with(begin) && !line.trim_end().ends_with(';'))
    });
    Ok(if is_apache {
        Service { server: "Apache", unit: "apache2" }
    } else {
        Service { server: "nginx", unit: "nginx" }
    })
}

/// The findings of one of the two readers.
struct Found {
    hosts: Vec<Host>,
    decision: Decision,
    trusted_proxies: Vec<String>,
    tls_1_3_only: bool,
    notes: Vec<(Option<Position>, String)>,
    loopback: String,
}

fn adopt_from(
    start: &Start,
    request: &Request,
    machine: &dyn Machine,
    note: Option<&str>,
) -> Result<(Adoption, bool), Refusal> {
    let mut sources = Sources::default();
    let found = if start.service.server == "nginx" {
        adopt_nginx(start, request, machine, &mut sources)?
    } else {
        adopt_apache(start, request, machine, &mut sources)?
    };
    let real = machine.read(&request.start).ok().map(|file| file.path);
    let has_start = real.is_none_or(|real| sources.files.iter().any(|source| source.path == real));
    let plain_port =
        found.decision.listeners.iter().find(|listener| !listener.tls).map_or(80, |listener| listener.port);
    let systems: Vec<Option<System>> = found
        .hosts
        .iter()
        .map(|host| host.root.as_deref().and_then(|root| system::recognise(machine, root, plain_port)))
        .collect();
    let parts = configuration::Parts {
        server: start.service.server,
        hosts: &found.hosts,
        decision: &found.decision,
        loopback: &found.loopback,
        trusted_proxies: &found.trusted_proxies,
        tls_1_3_only: found.tls_1_3_only,
        systems: &systems,
    };
    let configuration = configuration::write(&parts, &sources)?;
    let mut notes: Vec<Note> =
        note.map(|text| Note { place: None, text: text.to_owned() }).into_iter().collect();
    for (position, text) in found.notes.into_iter().chain(found.decision.notes.iter().cloned()) {
        notes.push(Note { place: position.map(|position| sources.place(position).to_string()), text });
    }
    let moved = found.hosts.iter().zip(&found.decision.fates).zip(systems);
    let mut kept: Vec<System> =
        moved.filter(|((_, fate), _)| **fate != Fate::Goes).filter_map(|(_, system)| system).collect();
    kept.dedup();
    let changes =
        sources.changed()?.into_iter().map(|(path, before, after)| Change::new(path, before, after));
    let adoption = Adoption {
        server: start.service.server,
        unit: start.service.unit,
        read_from: shown(&start.files),
        loopback: found.loopback,
        listeners: found.decision.listeners.iter().map(|listener| listener.address.clone()).collect(),
        changes: changes.collect(),
        configuration,
        systems: kept,
        notes,
    };
    Ok((adoption, has_start))
}

fn adopt_nginx(
    start: &Start,
    request: &Request,
    machine: &dyn Machine,
    sources: &mut Sources,
) -> Result<Found, Refusal> {
    let mut items = Vec::new();
    for file in &start.files {
        items.extend(nginx::read(machine, sources, file, &start.root)?);
    }
    let mut nginx = nginx_plan::survey(&items, sources)?;
    check_public(&nginx.hosts, &nginx.ports, start)?;
    let decision = host::decide(&nginx.hosts, sources)?;
    let loopback = loopback(request, machine, &nginx.ports)?;
    nginx.change(&decision, &loopback, sources)?;
    Ok(Found {
        hosts: nginx.hosts,
        decision,
        trusted_proxies: nginx.trusted_proxies,
        tls_1_3_only: nginx.tls_1_3_only,
        notes: nginx.notes,
        loopback,
    })
}

fn adopt_apache(
    start: &Start,
    request: &Request,
    machine: &dyn Machine,
    sources: &mut Sources,
) -> Result<Found, Refusal> {
    let root =
        start.files.first().and_then(|file| machine.read(file).ok()).and_then(|file| server_root(&file.text));
    let root = root.unwrap_or_else(|| start.root.clone());
    let apache = apache::read(machine, sources, &start.files, &root, start.is_main)?;
    let mut hosts = apache_plan::survey(&apache, sources)?;
    check_public(&hosts.hosts, &hosts.ports, start)?;
    let decision = host::decide(&hosts.hosts, sources)?;
    let loopback = loopback(request, machine, &hosts.ports)?;
    hosts.change(&decision, &loopback, sources);
    Ok(Found {
        hosts: hosts.hosts,
        decision,
        trusted_proxies: hosts.trusted_proxies,
        tls_1_3_only: hosts.tls_1_3_only,
        notes: hosts.notes,
        loopback,
    })
}

/// The directory where Apache's relative paths begin, if the file states it.
fn server_root(text: &str) -> Option<PathBuf> {
    let line =
        text.lines().map(str::trim).find(|line| line.to_ascii_lowercase().starts_with("serverroot "))?;
    Some(PathBuf::from(line.get("serverroot ".len()..)?.trim().trim_matches('"')))
}

fn check_public(hosts: &[Host], ports: &BTreeSet<u16>, start: &Start) -> Result<(), Refusal> {
    if !hosts.is_empty() {
        return Ok(());
    }
    let file = shown(&start.files);
    Err(if ports.is_empty() {
        Refusal::general(
            format!("{file} has no server that visitors can reach"),
            "name the main file (nginx.conf, apache2.conf), its directory, or the file of a site",
        )
    } else {
        Refusal::general(
            format!("{file} has only addresses of this machine itself, so there is a proxy in front already"),
            "put Petasos in the place of that proxy, or give it `--origin` with one of these addresses",
        )
    })
}

/// The address for the web server.
fn loopback(request: &Request, machine: &dyn Machine, used: &BTreeSet<u16>) -> Result<String, Refusal> {
    if let Some(port) = request.port {
        if used.contains(&port) {
            let problem = format!("port {port} is used by the web server already");
            return Err(Refusal::general(problem, "choose another one with --port"));
        }
        return Ok(format!("127.0.0.1:{port}"));
    }
    (FIRST_PORT..FIRST_PORT + PORTS_TRIED_MAX)
        .find(|port| *port != ADMIN_PORT && !used.contains(port) && machine.is_port_free(*port))
        .map(|port| format!("127.0.0.1:{port}"))
        .ok_or_else(|| Refusal::general("no port from 8080 on is free", "choose one with --port"))
}
