//! Real web servers from Debian packages, on a loopback port of their own, with a configuration that a test gives.

use crate::{HeldPort, eventually};
use std::fs::Permissions;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// nginx; what it is given stands in a server block.
    Nginx,
    /// Apache; what it is given stands in a virtual host.
    Apache,
    /// lighttpd; what it is given is a script for its module magnet.
    Lighttpd,
}

/// A running web server, killed when this is dropped. For what its configuration does not say it has an empty
/// directory.
pub struct WebServer {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    _port: HeldPort,
    _directory: TempDir,
}

impl Kind {
    /// All of them.
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

    fn arguments(self, configuration: &str) -> Vec<&str> {
        match self {
            Self::Nginx => vec!["-e", "stderr", "-c", configuration],
            Self::Apache => vec!["-X", "-f", configuration],
            Self::Lighttpd => vec!["-D", "-f", configuration],
        }
    }

    fn configuration(self, directory: &Path, address: SocketAddr) -> String {
        let (directory, port) = (directory.display(), address.port());
        match self {
            Self::Nginx => format!(
                "daemon off;\nmaster_process off;\npid {directory}/pid;\nevents {{ }}\nhttp {{\n\
                 client_body_temp_path {directory}/body;\nfastcgi_temp_path {directory}/fastcgi;\n\
                 proxy_temp_path {directory}/proxy;\nuwsgi_temp_path {directory}/uwsgi;\n\
                 scgi_temp_path {directory}/scgi;\naccess_log off;\nerror_log stderr crit;\ngzip on;\ngzip_types *;\n\
                 server {{\nlisten {address};\nroot {directory}/empty;\ninclude {directory}/given;\n}}\n}}\n"
            ),
            Self::Apache => {
                let modules: String =
                    ["mpm_event", "authz_core", "headers", "rewrite", "mime", "deflate", "filter"]
                        .map(|name| {
                            format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")
                        })
                        .concat();
                format!(
                    "{modules}ServerRoot {directory}\nPidFile {directory}/pid\nDefaultRuntimeDir {directory}\n\
                     ErrorLog /dev/stderr\nTypesConfig /dev/null\nServerName localhost\nUser www-data\nGroup www-data\nListen {address}\n\
                     AddType text/css .gz\nAddLanguage br .br\nAddEncoding x-gzip .gz\n\
                     AddOutputFilterByType DEFLATE text/html\n\
                     <Directory />\nRequire all denied\n</Directory>\n\
                     <VirtualHost {address}>\nDocumentRoot {directory}/empty\n\
                     <Directory {directory}/empty>\nRequire all granted\n</Directory>\n\
                     Include {directory}/given\n</VirtualHost>\n"
                )
            }
            Self::Lighttpd => format!(
                "server.modules = ( \"mod_magnet\" )\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n\
                 server.document-root = \"{directory}/empty\"\n\
                 magnet.attract-raw-url-to = ( \"{directory}/given\" )\n"
            ),
        }
    }
}

impl WebServer {
    /// Starts a server and waits until it accepts connections.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(kind: Kind, given: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Apache reads as a user of its own.
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir(directory.path().join("empty")).unwrap();
        std::fs::write(directory.path().join("given"), given).unwrap();
        let port = HeldPort::take();
        let address = port.address();
        let configuration = directory.path().join("configuration");
        std::fs::write(&configuration, kind.configuration(directory.path(), address)).unwrap();
        let mut command = Command::new(kind.program());
        command
            .args(kind.arguments(configuration.to_str().unwrap()))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("{} does not run: {error}", kind.program()));
        eventually("the web server accepts connections", || {
            assert!(child.try_wait().unwrap().is_none(), "{} has ended at once", kind.name());
            TcpStream::connect(address).is_ok()
        });
        Self { child, address, _port: port, _directory: directory }
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        // One that has ended by itself needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
