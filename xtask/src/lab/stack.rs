//! The common parts of all content system labs: addresses, files, and the steps that build or start
//! a part. Also how a stack is started, inspected and stopped.
//!
//! Invariant: everything lives in one directory and on loopback ports that were free. No file of
//! the system is written, and no service of the system is used. Each step can be repeated after a
//! crash in any step. This module has no code for a particular content system: each is a [`Stack`]
//! table in a separate module.

use super::files::{self, StackFile};
use crate::account::ServerAccount;
use crate::client;
use crate::packages::{self, tail};
use crate::place;
use crate::service::{LabDirectory, LabService};
use anyhow::{Context, Result, bail, ensure};
use message::Status;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Timeout of one page request while a lab starts. The first request compiles every script.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Values by name. They are written to `lab.toml`, where ladders use them as variables, and replace
/// placeholders in files and commands.
pub(crate) type Values = BTreeMap<String, String>;

/// A content system with the servers around it.
pub(crate) struct Stack {
    /// Name in messages.
    pub(crate) title: &'static str,
    /// Name of the subcommand and of the directory below `target/labs`.
    pub(crate) name: &'static str,
    /// Host name of the site, the same at every address.
    pub(crate) host: &'static str,
    /// Path of a page that returns 200 at every address.
    pub(crate) page: &'static str,
    /// Path of the log-in page.
    pub(crate) log_in: &'static str,
    /// Debian packages. Each list is installed before the next.
    pub(crate) packages: &'static [&'static [&'static str]],
    /// Loopback addresses: name of the variable, and a description of the server there.
    pub(crate) addresses: &'static [(&'static str, &'static str)],
    /// Names of secrets, which are generated once. The first is the administrator's password.
    pub(crate) secrets: &'static [&'static str],
    /// Files that are written at each start.
    pub(crate) templates: &'static [&'static [StackFile]],
    /// Whether the parts that are not in `templates` match this version of the lab.
    pub(crate) is_current: fn(&StackSite<'_>) -> bool,
    /// Steps that start the stack, in order.
    pub(crate) steps: &'static [StackStep],
}

/// A step of starting a stack.
pub(crate) enum StackStep {
    /// Makes a part of the stack, unless it exists.
    Make(fn(&StackSite<'_>) -> Result<()>),
    /// Writes the stack's files.
    Write,
    /// Starts a server and waits until it is ready.
    Start(StackServer),
}

/// One server of a stack.
pub(crate) struct StackServer {
    /// Name in records, logs and messages. `NAME_pid` is a variable.
    pub(crate) name: &'static str,
    /// Program and arguments, separated by single spaces. Placeholders are replaced.
    pub(crate) command: &'static str,
    /// How to find out that it is ready.
    pub(crate) ready: ReadyCondition,
}

/// Condition under which a server counts as ready.
pub(crate) enum ReadyCondition {
    /// It accepts a connection at this Unix socket below `run`.
    Socket(&'static str),
    /// It answers the stack's page at these addresses.
    Pages(&'static [&'static str]),
}

/// A stack in its directory, with the values of this start.
pub(crate) struct StackSite<'a> {
    /// The stack.
    pub(crate) stack: &'a Stack,
    /// The directory and account of its servers.
    pub(crate) place: &'a LabDirectory,
    /// Values for placeholders.
    pub(crate) values: Values,
}

/// Installs missing packages and files, and starts the stack below `dir`. `given` are values from
/// the caller. Does nothing if the stack is already up with these values.
///
/// # Errors
/// Names the step that failed and shows the last lines of its log. All servers are stopped in that
/// case.
pub(crate) fn up(stack: &Stack, dir: &Path, given: &[(&str, String)]) -> Result<()> {
    packages::ensure_in_order(stack.packages)?;
    let _lock = place::lock(dir)?;
    let place = LabDirectory::settle(dir)?;
    let as_given =
        |values: &Values| given.iter().all(|(name, value)| values.get(*name).is_some_and(|is| is == value));
    if let Some(values) = read_values(dir).filter(as_given) {
        let site = StackSite { stack, place: &place, values };
        if site.is_up() {
            eprintln!("the {} lab is up already", stack.title);
            return site.show(dir);
        }
    }
    stop_all(stack, &place, dir)?;
    let start = || {
        let mut site = StackSite { stack, place: &place, values: values(stack, &place, given)? };
        site.start_all(dir)?;
        site.show(dir)
    };
    start().inspect_err(|_| {
        // The cause of the failure matters more than an error while cleaning up. `down` tries
        // again.
        let _ = stop_all(stack, &place, dir);
    })
}

/// Calls `work` with a running stack.
///
/// # Errors
/// The errors of `work`, and an error if the stack is not up.
pub(crate) fn running<T>(
    stack: &Stack,
    dir: &Path,
    work: impl FnOnce(&StackSite<'_>) -> Result<T>,
) -> Result<T> {
    let values = read_values(dir).with_context(|| format!("the {} lab is not up", stack.title))?;
    let place = LabDirectory::find(dir, ServerAccount::for_servers()?)?;
    work(&StackSite { stack, place: &place, values })
}

/// Stops all servers of the stack. The files stay, so that the next `up` takes only seconds.
///
/// # Errors
/// If a server does not end.
pub(crate) fn down(stack: &Stack, dir: &Path) -> Result<()> {
    if !dir.join("site").exists() {
        eprintln!("the {} lab is not up", stack.title);
        return Ok(());
    }
    let _lock = place::lock(dir)?;
    let stopped = stop_all(stack, &LabDirectory::settle(dir)?, dir)?;
    eprintln!("the {} lab {}", stack.title, if stopped { "is stopped" } else { "is not up" });
    Ok(())
}

/// Prints the servers and addresses of the stack.
///
/// # Errors
/// If a server of the stack does not run or does not answer.
pub(crate) fn status(stack: &Stack, dir: &Path) -> Result<()> {
    let command = format!("`cargo xtask lab {} up`", stack.name);
    let values = read_values(dir)
        .with_context(|| format!("the {} lab is not up: {command} starts it", stack.title))?;
    let place = LabDirectory::find(dir, ServerAccount::for_servers()?)?;
    let site = StackSite { stack, place: &place, values };
    site.show(dir)?;
    ensure!(site.is_up(), "a part of the lab does not run: {command} starts it again");
    Ok(())
}

/// The content of the stack's page without a coding, from its first address.
///
/// # Errors
/// If the stack is not up, or does not answer with this page.
pub(crate) fn page(stack: &Stack, dir: &Path) -> Result<Vec<u8>> {
    let values = read_values(dir).with_context(|| format!("the {} lab is not up", stack.title))?;
    let (name, _) = stack.addresses.first().context("the lab has no address")?;
    let address = values.get(*name).context("lab.toml is incomplete")?.parse()?;
    let request = format!("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", stack.page, stack.host);
    let answer = client::ask(address, &request, PAGE_TIMEOUT)?;
    ensure!(
        answer.head.status == Status::OK,
        "the {} lab answers with {}",
        stack.title,
        answer.head.status.code()
    );
    Ok(answer.content)
}

fn read_values(dir: &Path) -> Option<Values> {
    toml::from_str(&fs::read_to_string(dir.join("lab.toml")).ok()?).ok()
}

/// Values for a start: free addresses, paths and secrets.
fn values(stack: &Stack, place: &LabDirectory, given: &[(&str, String)]) -> Result<Values> {
    let site = place.directory.to_str().context("the directory's name is not text")?;
    let mut values: Values = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let mut put = |name: &str, value: String| values.insert(name.to_owned(), value);
    put("host", stack.host.to_owned());
    put("site", site.to_owned());
    put("mariadb_socket", format!("{site}/run/mariadb.sock"));
    put("admin_user", "admin".to_owned());
    for name in stack.secrets {
        put(name, files::secret(place, name)?);
    }
    for ((name, _), address) in stack.addresses.iter().zip(place::loopback_addresses(stack.addresses.len())?)
    {
        put(name, address.to_string());
        put(&format!("{name}_host"), address.ip().to_string());
        put(&format!("{name}_port"), address.port().to_string());
    }
    Ok(values)
}

/// Stops the servers in reverse order of their start. Returns whether any server ran.
fn stop_all(stack: &Stack, place: &LabDirectory, dir: &Path) -> Result<bool> {
    let mut any = false;
    for server in stack.servers().rev() {
        any |= place.stop(server.name)?;
    }
    match fs::remove_file(dir.join("lab.toml")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            bail!("cannot remove lab.toml: {error}")
        }
        _ => Ok(any),
    }
}

/// Writes lab.toml, readable by the caller only, because it contains secrets.
fn write_values(dir: &Path, values: &Values) -> Result<()> {
    let path = dir.join("lab.toml");
    let mut file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(toml::to_string(values)?.as_bytes())?;
    Ok(())
}

impl Stack {
    /// The servers, in the order of their start.
    fn servers(&self) -> impl DoubleEndedIterator<Item = &StackServer> {
        self.steps
            .iter()
            .filter_map(|step| if let StackStep::Start(server) = step { Some(server) } else { None })
    }
}

impl StackSite<'_> {
    /// A path below the stack's directory.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.place.directory.join(path)
    }

    /// The value with this name.
    ///
    /// # Errors
    /// If there is no such value.
    pub(crate) fn value(&self, name: &str) -> Result<&str> {
        self.values.get(name).map(String::as_str).with_context(|| format!("there is no value {name}"))
    }

    /// Replaces the placeholders of a text with the values of this start and those in `own`.
    ///
    /// # Errors
    /// If a placeholder has no value.
    pub(crate) fn render(&self, text: &str, own: &[(&str, &str)]) -> Result<String> {
        let general = self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        place::render(text, &general.chain(own.iter().copied()).collect::<Vec<_>>())
    }

    /// Runs a command, with its output in the log of this name.
    ///
    /// # Errors
    /// If the command fails; shows the end of the log.
    pub(crate) fn run(&self, name: &str, command: &mut Command) -> Result<()> {
        let path = self.place.log(name);
        let log = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let status = command.current_dir(&self.place.directory).stdout(log.try_clone()?).stderr(log).status();
        let status = status.with_context(|| format!("cannot run {name}"))?;
        ensure!(status.success(), "{name} ended with {status}; {}", tail(&path));
        Ok(())
    }

    /// Makes an empty directory below the stack's directory, owned by the servers' account. Removes
    /// an existing one first.
    ///
    /// # Errors
    /// Names the directory that cannot be removed or made.
    pub(crate) fn make_empty(&self, path: &str) -> Result<()> {
        let directory = self.at(path);
        remove(&directory)?;
        place::make_own(self.place.account, &directory)
    }

    /// Whether a GET of `target` at the address of this name returns 200.
    pub(crate) fn answers(&self, name: &str, target: &str) -> bool {
        let status = || -> Option<bool> {
            let address: SocketAddr = self.value(name).ok()?.parse().ok()?;
            let host = self.stack.host;
            let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            Some(client::is_ok(address, &request, PAGE_TIMEOUT))
        };
        status().unwrap_or(false)
    }

    fn start_all(&mut self, dir: &Path) -> Result<()> {
        for step in self.stack.steps {
            match step {
                StackStep::Make(make) => make(self)?,
                StackStep::Write => files::write_all(self)?,
                StackStep::Start(server) => self.start(server)?,
            }
        }
        for server in self.stack.servers() {
            let name = server.name;
            let pid = self.place.running(name).with_context(|| format!("{name} ended at once"))?;
            self.values.insert(format!("{}_pid", name.replace('-', "_")), pid.to_string());
        }
        write_values(dir, &self.values)
    }

    fn start(&self, server: &StackServer) -> Result<()> {
        if let ReadyCondition::Socket(name) = server.ready {
            // A socket file that a killed server left would make the new server believe that
            // another one listens. It fails harmlessly if there is no file.
            let _ = fs::remove_file(self.at("run").join(name));
        }
        self.place.start(&self.service(server)?, || self.is_ready(server))
    }

    fn is_ready(&self, server: &StackServer) -> bool {
        match server.ready {
            ReadyCondition::Socket(name) => UnixStream::connect(self.at("run").join(name)).is_ok(),
            ReadyCondition::Pages(addresses) => {
                addresses.iter().all(|name| self.answers(name, self.stack.page))
            }
        }
    }

    fn service(&self, server: &StackServer) -> Result<LabService> {
        // Splitting at spaces is correct because `LabDirectory::settle` guarantees paths without
        // spaces.
        let command = self.render(server.command, &[])?.split(' ').map(str::to_owned).collect();
        Ok(LabService { name: server.name, command })
    }

    /// Whether every server runs, has the configuration of this version, and answers.
    fn is_up(&self) -> bool {
        files::are_current(self)
            && (self.stack.is_current)(self)
            && self.stack.servers().all(|server| {
                self.service(server).is_ok_and(|service| self.place.is_running(&service))
                    && self.is_ready(server)
            })
    }

    /// Prints the servers and addresses.
    fn show(&self, dir: &Path) -> Result<()> {
        let Stack { host, log_in, addresses, .. } = self.stack;
        let mut out = std::io::stdout().lock();
        for StackServer { name, .. } in self.stack.servers() {
            let state =
                self.place.running(name).map_or_else(|| "stopped".to_owned(), |pid| format!("process {pid}"));
            writeln!(out, "{name:<13} {state}")?;
        }
        for (name, about) in *addresses {
            writeln!(out, "{name:<13} http://{}/ ({about})", self.value(name)?)?;
        }
        let (first, _) = addresses.first().context("a stack has an address")?;
        let address = self.value(first)?;
        writeln!(out, "{:<13} {host}; as a header: curl -H 'Host: {host}' http://{address}/", "host")?;
        let user = self.value("admin_user")?;
        writeln!(out, "{:<13} http://{address}{log_in} as {user}, password in lab.toml", "log-in")?;
        writeln!(out, "{:<13} {}", "variables", dir.join("lab.toml").display())?;
        writeln!(out, "{:<13} {}", "files, logs", self.place.directory.display())?;
        Ok(())
    }
}

/// Removes a directory with its contents, if it exists.
///
/// # Errors
/// Names the directory if it cannot be removed.
pub(crate) fn remove(directory: &Path) -> Result<()> {
    let removed = if directory.exists() { fs::remove_dir_all(directory) } else { Ok(()) };
    removed.with_context(|| format!("cannot remove {}", directory.display()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Stack, StackSite, Values, read_values, write_values};
    use crate::account::ServerAccount;
    use crate::service::LabDirectory;
    use std::fmt::Write;
    use std::path::PathBuf;

    /// Lines of a stack's files and commands that contain values, with a fixed directory and fixed
    /// addresses.
    pub(crate) fn rendered(stack: &Stack) -> String {
        let place = LabDirectory { directory: PathBuf::from("/lab/site"), account: ServerAccount::Caller };
        let mut values = Values::from(
            ["site", "source", "host", "mariadb_socket"].map(|name| (name.into(), "/lab/site".into())),
        );
        for name in stack.secrets {
            values.insert((*name).to_owned(), "100secret".to_owned());
        }
        for (number, (name, _)) in stack.addresses.iter().enumerate() {
            values.insert((*name).to_owned(), format!("127.0.0.1:{}", 1001 + number));
            values.insert(format!("{name}_host"), "127.0.0.1".to_owned());
            values.insert(format!("{name}_port"), (1001 + number).to_string());
        }
        let site = StackSite { stack, place: &place, values };
        let mut lines = String::new();
        for (path, text) in super::files::render_all(&site).unwrap() {
            let filled = text.lines().filter(|line| line.contains("/lab/site") || line.contains("100"));
            filled.for_each(|line| writeln!(lines, "{path}: {}", line.trim()).unwrap());
        }
        for server in stack.servers() {
            writeln!(lines, "{}", site.service(server).unwrap().command.join(" ")).unwrap();
        }
        lines
    }

    #[test]
    fn values_are_a_flat_table_of_texts() {
        let dir = tempfile();
        let values =
            Values::from([("a".to_owned(), "127.0.0.1:1".to_owned()), ("b".to_owned(), "\"".to_owned())]);
        write_values(&dir, &values).unwrap();
        assert_eq!(read_values(&dir), Some(values));
    }

    /// A directory for this test.
    fn tempfile() -> PathBuf {
        let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/xtask-tests/values");
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }
}
