//! Real web servers from Debian packages, with a given configuration, on their own loopback ports.
//! A test fails with a message if the server is not installed.

mod haproxy;
mod nginx;

pub use haproxy::HaProxy;
pub use nginx::Nginx;

use crate::{HeldPort, eventually};
use std::fs::Permissions;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Document root of a server, below its directory. Empty at first.
const ROOT: &str = "root";
/// File below a server's directory with the given configuration.
const GIVEN: &str = "given";

/// The kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// nginx. The given configuration is included in a server block.
    Nginx,
    /// Apache. The given configuration is included in a virtual host.
    Apache,
    /// lighttpd. The given text is a script for its module magnet.
    Lighttpd,
}

/// A running web server. It is killed when this is dropped. By default it serves an empty
/// directory.
pub struct WebServer {
    _running: ServerProcess,
    /// The address where it listens.
    pub address: SocketAddr,
    _port: HeldPort,
    _directory: TempDir,
}

impl ServerKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Nginx, Self::Apache, Self::Lighttpd];

    /// The name in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Apache => "apache",
            Self::Lighttpd => "lighttpd",
        }
    }

    const fn program(self) -> &'static str {
        match self {
            Self::Nginx => "/usr/sbin/nginx",
            Self::Apache => "/usr/sbin/apache2",
            Self::Lighttpd => "/usr/sbin/lighttpd",
        }
    }

    /// The Debian package of the program.
    const fn package(self) -> &'static str {
        match self {
            Self::Nginx => "nginx-core",
            Self::Apache => "apache2-bin",
            Self::Lighttpd => "lighttpd",
        }
    }

    fn arguments(self, configuration: &str) -> Vec<&str> {
        match self {
            Self::Nginx => vec!["-e", "stderr", "-c", configuration],
            Self::Apache => vec!["-X", "-f", configuration],
            Self::Lighttpd => vec!["-D", "-f", configuration],
        }
    }

    fn configuration(self, directory: &Path, address: SocketAddr) -> String {
        let path = directory.display();
        let port = address.port();
        match self {
            Self::Nginx => {
                let server = nginx::server(directory, &address.to_string());
                nginx::configuration(directory, &format!("gzip on;\ngzip_types *;\n{server}"))
            }
            Self::Apache => {
                let modules: String =
                    ["mpm_event", "authz_core", "headers", "rewrite", "mime", "deflate", "filter"]
                        .map(|name| {
                            format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")
                        })
                        .concat();
                format!(
                    "{modules}ServerRoot {path}\nPidFile {path}/pid\nDefaultRuntimeDir {path}\n\
                     ErrorLog /dev/stderr\nTypesConfig /dev/null\nServerName localhost\nUser www-data\nGroup www-data\nListen {address}\n\
                     AddType text/css .gz\nAddLanguage br .br\nAddEncoding x-gzip .gz\n\
                     AddOutputFilterByType DEFLATE text/html\n\
                     <Directory />\nRequire all denied\n</Directory>\n\
                     <VirtualHost {address}>\nDocumentRoot {path}/{ROOT}\n\
                     <Directory {path}/{ROOT}>\nRequire all granted\n</Directory>\n\
                     Include {path}/{GIVEN}\n</VirtualHost>\n"
                )
            }
            Self::Lighttpd => format!(
                "server.modules = ( \"mod_magnet\" )\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n\
                 server.document-root = \"{path}/{ROOT}\"\n\
                 magnet.attract-raw-url-to = ( \"{path}/{GIVEN}\" )\n"
            ),
        }
    }
}

impl WebServer {
    /// Starts a server and waits until it accepts connections.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(kind: ServerKind, given: &str) -> Self {
        let directory = directory(given);
        let port = HeldPort::take();
        let address = port.address();
        let configuration = kind.configuration(directory.path(), address);
        let running = ServerProcess::start(kind, directory.path(), &configuration, address);
        Self { _running: running, address, _port: port, _directory: directory }
    }
}

/// Creates a server's directory with an empty document root and the given configuration.
fn directory(given: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    // Apache's worker processes run as another user.
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(directory.path().join(ROOT)).unwrap();
    std::fs::write(directory.path().join(GIVEN), given).unwrap();
    directory
}

/// A server's process. It is killed when this is dropped.
struct ServerProcess(Child);

impl ServerProcess {
    /// Starts a server with this directory and configuration, and waits until it accepts
    /// connections at `address`.
    fn start(kind: ServerKind, directory: &Path, configuration: &str, address: SocketAddr) -> Self {
        let path = directory.join("configuration");
        std::fs::write(&path, configuration).unwrap();
        let mut command = Command::new(kind.program());
        command.args(kind.arguments(path.to_str().unwrap()));
        Self::spawn(command, kind.package(), address)
    }

    /// Starts a server from this Debian package, and waits until it accepts connections at
    /// `address`.
    fn spawn(mut command: Command, package: &str, address: SocketAddr) -> Self {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap_or_else(|error| {
            panic!("{program} does not run ({error}): install it from Debian's {package}")
        });
        let mut running = Self(child);
        eventually("the web server accepts connections", || {
            assert!(running.0.try_wait().unwrap().is_none(), "{program} has ended at once");
            TcpStream::connect(address).is_ok()
        });
        running
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Errors are ignored, because the process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
