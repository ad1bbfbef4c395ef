//! The order of the examination: which facts are asked for, and which finding each becomes.

use crate::account::{Account, Ownership};
use crate::facts::PortFact;
use crate::finding::Finding;
use crate::{judge, probe};
use address::{Address, HttpUrl};
use config::{AccessLogTarget, EdgePlan, SitePlan};
use rustix::process::{Resource, getrlimit};
use std::path::{Path, PathBuf};

/// Examines the machine for a plan that the file at `name` resolves to. `account` runs the edge.
pub fn examine(plan: &EdgePlan, name: &Path, account: &Account) -> Vec<Finding> {
    let mut found = Vec::new();
    found
        .extend(Ownership::of(name).ok().map(|file| judge::configuration(&name.display().to_string(), file)));
    ports_and_descriptors(plan, &mut found);
    found.push(judge::memory(plan.memory_bytes, platform::memory_bytes()));
    let writable = account.is_service().then(probe::sandbox).flatten();
    for (setting, path, _) in directories(plan) {
        let fact = probe::directory(&path, account).map(|mut fact| {
            // Other programs may write their logs or temporary files beside those of the edge.
            let is_shared = matches!(setting, "access_log" | "spool_directory");
            fact.foreign = fact.foreign.filter(|_| !is_shared);
            fact
        });
        found.extend(fact.map(|fact| judge::directory(setting, &fact, account)));
        found.extend(writable.as_deref().and_then(|writable| judge::sandbox(setting, &path, writable)));
    }
    for (setting, path) in secrets(plan) {
        found.extend(judge::secret(&probe::secret(setting, path, account), account));
    }
    for (setting, path, limit) in directories(plan) {
        // The contents of this one need not survive the machine.
        if setting == "runtime_directory" {
            continue;
        }
        let fact = probe::disk(setting, &path, limit);
        found.extend(fact.into_iter().flat_map(|fact| judge::disk(&fact, plan.limits.disk_timeout)));
    }
    found.push(judge::clock(probe::clock()));
    network(plan, &mut found);
    found
}

/// Addresses of listeners, and the descriptors for their connections.
fn ports_and_descriptors(plan: &EdgePlan, found: &mut Vec<Finding>) {
    let mut running = None;
    let addresses = plan.listeners.iter().map(|listener| &listener.address).chain([&plan.admin]);
    for address in addresses {
        let fact = probe::port(address);
        let finding = judge::port(&address.to_string(), &fact);
        if let (PortFact::Taken { process: Some(process), .. }, crate::Level::Ok) = (fact, finding.level) {
            running = Some(process);
        }
        found.push(finding);
    }
    let connections = connections(plan);
    found.push(match running {
        Some(process) => {
            let holder = format!("Petasos (process {})", process.number);
            judge::descriptors(connections, process.files_max, &holder)
        }
        None => {
            judge::descriptors(connections, getrlimit(Resource::Nofile).maximum, "a process of this shell")
        }
    });
}

/// The largest number of connections, of clients and to origins.
fn connections(plan: &EdgePlan) -> u64 {
    let mut origins = Vec::new();
    let mut count = plan.limits.connections_max + plan.limits.admin_connections_max;
    for site in &plan.sites {
        let limits = site.limits.over(&plan.limits);
        for url in site.origins() {
            // Sites with other names have separate connections.
            let origin = (&site.names, url.authority());
            if !origins.contains(&origin) {
                count = count.saturating_add(limits.fetches_max).saturating_add(limits.idle_connections_max);
                origins.push(origin);
            }
        }
    }
    count as u64
}

/// A setting, its directory, and the largest size of the files there.
type NamedDirectory = (&'static str, PathBuf, Option<u64>);

/// The directories in which the edge writes.
fn directories(plan: &EdgePlan) -> Vec<NamedDirectory> {
    let disk = plan.disk.as_ref().map(|disk| ("disk", disk.directory.clone(), Some(disk.bytes_max)));
    let runtime = plan.disk.as_ref().and_then(|disk| disk.runtime_directory.clone());
    let tree = plan.static_tree.as_ref();
    let log = match &plan.access_log {
        Some(AccessLogTarget::File(path)) => path.parent().map(Path::to_owned),
        _ => None,
    };
    let named = [
        disk,
        plan.state_directory.clone().map(|path| ("state_directory", path, None)),
        runtime.map(|path| ("runtime_directory", path, None)),
        plan.spool.directory.clone().map(|path| ("spool_directory", path, None)),
        log.map(|path| ("access_log", path, None)),
        tree.map(|tree| ("static_tree.directory", tree.directory.clone(), Some(tree.bytes_max))),
    ];
    named.into_iter().flatten().collect()
}

/// The files with secrets.
fn secrets(plan: &EdgePlan) -> Vec<(&'static str, PathBuf)> {
    let listeners = plan.listeners.iter().filter_map(|listener| listener.tls.as_ref());
    let keys = listeners.flat_map(|tls| &tls.certificates).map(|pair| ("tls", pair.key.clone()));
    let admin = plan.admin_tls.as_ref().map(|tls| ("admin_certificate", tls.certificate.key.clone()));
    let origins = plan.sites.iter().filter_map(|site| site.origin_tls.as_ref()?.certificate.as_ref());
    let origins = origins.map(|pair| ("origin_certificate", pair.key.clone()));
    let passwords = plan.routes.iter().filter_map(|route| route.password.as_ref());
    let passwords = passwords.map(|password| ("basic_auth", PathBuf::from(&password.path)));
    let token = plan.token_file.clone().map(|path| ("token_file", path));
    let binding = plan.acme.eab_file.clone().map(|path| ("acme_eab_file", path));
    let mut all: Vec<_> =
        keys.chain(admin).chain(origins).chain(passwords).chain(token).chain(binding).collect();
    all.sort();
    all.dedup();
    all
}

/// Origins, and the names and the authority of certificates.
fn network(plan: &EdgePlan, found: &mut Vec<Finding>) {
    let mut origins: Vec<Address> = Vec::new();
    for url in plan.sites.iter().flat_map(SitePlan::origins) {
        if !origins.contains(url.address()) {
            origins.push(url.address().clone());
        }
    }
    for origin in origins {
        found.push(judge::reach("the origin", &origin.to_string(), &probe::reach(&origin)));
    }
    let names = plan.acme_names();
    if let (false, Ok(authority)) = (names.is_empty(), HttpUrl::parse(&plan.acme.directory_url)) {
        let address = authority.address();
        found.push(judge::reach("the authority", &address.to_string(), &probe::reach(&address)));
    }
    for name in names.iter().flatten() {
        found.push(judge::certificate_name(name, probe::has_address(name)));
    }
}
