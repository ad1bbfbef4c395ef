//! A directory with the configuration of a web server in Debian's layout, a document root, and
//! PHP-FPM.

use crate::debian;
use crate::lab::{self, Lab};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};
use testkit::{Client, HeldPort, PemFiles, Response, Trust, eventually};

/// The page that shows the request as the application sees it. Its content is small and has a
/// lifetime.
pub(crate) const PAGE: &str = "<?php\nif ($_SERVER['REQUEST_METHOD'] === 'GET') header('Cache-Control: max-age=60');\n\
                    echo 'scheme=', empty($_SERVER['HTTPS']) ? 'http' : 'https', \"\\n\";\n\
                    echo 'request_scheme=', $_SERVER['REQUEST_SCHEME'], \"\\n\";\n\
                    echo 'port=', $_SERVER['SERVER_PORT'], \"\\n\";\n\
                    echo 'host=', $_SERVER['HTTP_HOST'], ' ', $_SERVER['REQUEST_URI'], \"\\n\";\n\
                    if ($_SERVER['REQUEST_METHOD'] === 'POST') echo 'client=', $_SERVER['REMOTE_ADDR'], \"\\n\";\n";
/// Modules of the Apache under test, with those that `adopt` asks for.
const MODULES: [&str; 9] =
    ["mpm_event", "authz_core", "mime", "dir", "proxy", "proxy_fcgi", "rewrite", "setenvif", "remoteip"];

/// The web server, and where its configuration comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// nginx with a site in Debian's layout, or as certbot leaves it.
    Nginx,
    /// Apache, in the same way.
    Apache,
    /// nginx as Debian's package configures it.
    DebianNginx,
    /// Apache as Debian's packages configure it.
    DebianApache,
    /// nginx with the configuration of a lab.
    Lab(&'static Lab),
}

impl Server {
    fn is_apache(self) -> bool {
        matches!(self, Self::Apache | Self::DebianApache)
    }
}

/// A process that gets SIGTERM when this is dropped, so that its own processes end too.
struct Running(Child);

impl Running {
    fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.0.id().to_string()).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = Command::new("kill").arg("-TERM").arg(self.0.id().to_string()).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}

/// The site.
pub(crate) struct Place {
    server: Server,
    running: Option<Running>,
    _php: Running,
    directory: tempfile::TempDir,
    plain: HeldPort,
    tls: Option<HeldPort>,
    /// The port for the web server behind Petasos.
    pub(crate) inner: HeldPort,
    /// Ports at addresses of the machine, which do not change.
    _private: Vec<HeldPort>,
}

impl Place {
    /// Writes everything and starts PHP-FPM.
    pub(crate) fn make(server: Server, certificate: Option<&PemFiles>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["etc/sites-available", "etc/sites-enabled", "root/folder", "tmp"] {
            fs::create_dir_all(path.join(name)).unwrap();
        }
        fs::write(path.join("root/index.html"), "<!doctype html><title>start</title>\n").unwrap();
        fs::write(path.join("root/folder/index.html"), "<!doctype html><title>folder</title>\n").unwrap();
        fs::write(path.join("root/static.txt"), "text\n".repeat(9)).unwrap();
        fs::write(path.join("root/page.php"), PAGE).unwrap();
        let plain = HeldPort::take();
        let tls = certificate.map(|_| HeldPort::take());
        if let Some(certificate) = certificate {
            certificate.write(path, "site");
        }
        let ports = (plain.number(), tls.as_ref().map(HeldPort::number));
        // Apache's ETag of a file is weak while the file is younger than a second.
        let before = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        for name in ["index.html", "folder/index.html", "static.txt"] {
            File::options()
                .write(true)
                .open(path.join("root").join(name))
                .unwrap()
                .set_modified(before)
                .unwrap();
        }
        let mut private = Vec::new();
        match server {
            Server::Nginx => write_nginx(path, ports),
            Server::Apache => write_apache(path, ports),
            Server::DebianNginx => debian::write_nginx(path, plain.number()),
            Server::DebianApache => debian::write_apache(path, plain.number()),
            Server::Lab(lab) => private = lab::write(lab, path, plain.number()),
        }
        if matches!(server, Server::Nginx | Server::Apache) {
            let etc = path.join("etc");
            symlink(etc.join("sites-available/site.conf"), etc.join("sites-enabled/site.conf")).unwrap();
        }
        let php = start_php(path);
        let inner = HeldPort::take();
        Self { server, running: None, _php: php, directory, plain, tls, inner, _private: private }
    }

    /// A path of the site.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The main file of the web server.
    pub(crate) fn main_file(&self) -> PathBuf {
        self.path(if self.server.is_apache() { "etc/apache2.conf" } else { "etc/nginx.conf" })
    }

    /// The requests that are compared.
    pub(crate) fn requests(&self) -> &'static [&'static str] {
        match self.server {
            Server::Lab(lab) => lab.requests,
            _ => &[
                "GET /",
                "GET /static.txt",
                "GET /folder",
                "GET /missing",
                "GET /page.php?a=1",
                "POST /page.php",
            ],
        }
    }

    /// Starts the web server and waits until it serves.
    pub(crate) fn start(&mut self) {
        let main = self.main_file();
        let mut command;
        if self.server.is_apache() {
            command = Command::new("/usr/sbin/apache2");
            command
                .args(["-D", "FOREGROUND", "-f"])
                .arg(main)
                .envs(debian::apache_variables(self.directory.path()));
        } else {
            command = Command::new("/usr/sbin/nginx");
            if !matches!(self.server, Server::Lab(_)) {
                command.args(["-g", "daemon off;"]);
            }
            command.args(["-e", "stderr", "-c"]).arg(main);
        }
        self.running = Some(spawn(&mut command, "nginx-core or apache2-bin"));
        eventually("the web server accepts connections", || self.is_open());
    }

    /// Whether a server listens at the public ports.
    pub(crate) fn is_open(&self) -> bool {
        let mut ports = std::iter::once(&self.plain).chain(&self.tls);
        ports.all(|port| TcpStream::connect(port.address()).is_ok())
    }

    /// Lets the web server read its configuration again, and waits until it listens at the address
    /// there and no longer at others.
    pub(crate) fn reload(&self) {
        self.running.as_ref().unwrap().signal("HUP");
        let is_adopted =
            self.configuration().values().any(|text| text.contains(&self.inner.number().to_string()));
        let is_inner = || TcpStream::connect(self.inner.address()).is_ok();
        let is_outer = || {
            let mut ports = std::iter::once(&self.plain).chain(&self.tls);
            ports.any(|port| TcpStream::connect(port.address()).is_ok())
        };
        eventually("the web server has its new address", || {
            if is_adopted { is_inner() && !is_outer() } else { !is_inner() && is_outer() }
        });
    }

    /// Copies the written files of one side over those of the web server.
    pub(crate) fn copy_from(&self, side: &str) {
        let written = self.path("adopted").join(side);
        for (path, text) in read_below(&written) {
            let target = Path::new("/").join(path.strip_prefix(&written).unwrap());
            assert!(target.starts_with(self.directory.path()) && target.exists(), "{}", target.display());
            fs::write(target, text).unwrap();
        }
    }

    /// The files of the configuration with their texts.
    pub(crate) fn configuration(&self) -> BTreeMap<PathBuf, String> {
        read_below(&self.path("etc"))
    }

    /// Sends a request to the public address, with TLS if there is a trust.
    pub(crate) fn ask(&self, request: &str, trust: Option<&Trust>) -> Response {
        let port = if trust.is_some() { self.tls.as_ref().unwrap() } else { &self.plain };
        // Not the address of Petasos, so that the application must take the client's from a field.
        let client = Client::connect_from([127, 0, 0, 9], port.address(), 1 << 16);
        let mut client = match trust {
            Some(trust) => client.secure_after(b"", "localhost", trust).unwrap(),
            None => client,
        };
        let length = if request.starts_with("POST") { "Content-Length: 0\r\n" } else { "" };
        let host = if let Server::Lab(lab) = self.server { lab.host } else { "localhost" };
        client.send(format!(
            "{request} HTTP/1.1\r\nHost: {host}:{}\r\n{length}Connection: close\r\n\r\n",
            port.number()
        ));
        client.read()
    }
}

fn read_below(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(read_below(&path));
        } else {
            let text = fs::read_to_string(&path).unwrap();
            found.insert(path, text);
        }
    }
    found
}

fn spawn(command: &mut Command, package: &str) -> Running {
    let program = command.get_program().to_string_lossy().into_owned();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    Running(
        child.unwrap_or_else(|error| panic!("{program} does not run ({error}): install Debian's {package}")),
    )
}

fn start_php(path: &Path) -> Running {
    let programs = fs::read_dir("/usr/sbin").unwrap().filter_map(Result::ok).map(|entry| entry.path());
    let mut programs: Vec<_> =
        programs.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("php-fpm")).collect();
    programs.sort();
    let program = programs.pop().unwrap_or_else(|| panic!("PHP is missing: install Debian's php-fpm"));
    let shown = path.display();
    let configuration = format!(
        "[global]\nerror_log = {shown}/php.log\ndaemonize = no\n[www]\nuser = www-data\ngroup = www-data\n\
         listen = {shown}/php.sock\nlisten.mode = 0666\npm = static\npm.max_children = 2\n"
    );
    let file = path.join("php.conf");
    fs::write(&file, configuration).unwrap();
    let running = spawn(Command::new(program).arg("--nodaemonize").arg("--fpm-config").arg(file), "php-fpm");
    eventually("PHP accepts connections", || path.join("php.sock").exists());
    running
}

/// Debian's layout of nginx. With TLS, the site is as certbot leaves it.
fn write_nginx(path: &Path, (plain, tls): (u16, Option<u16>)) {
    let shown = path.display();
    let temporary: String = ["client_body", "fastcgi", "proxy", "uwsgi", "scgi"]
        .map(|kind| format!("\t{kind}_temp_path {shown}/tmp/{kind};\n"))
        .concat();
    let main = format!(
        "user www-data;\npid {shown}/pid;\nerror_log stderr crit;\nevents {{ }}\nhttp {{\n\taccess_log off;\n{temporary}\
         \tinclude /etc/nginx/mime.types;\n\tinclude {shown}/etc/sites-enabled/*;\n}}\n"
    );
    fs::write(path.join("etc/nginx.conf"), main).unwrap();
    let rest = format!(
        "\n\troot {shown}/root;\n\tindex index.html;\n\n\tserver_name {};\n\n\tlocation / {{\n\
         \t\t# First attempt to serve request as file\n\t\ttry_files $uri $uri/ =404;\n\t}}\n\n\
         \t# pass PHP scripts to FastCGI server\n\tlocation ~ \\.php$ {{\n\t\tinclude /etc/nginx/fastcgi.conf;\n\
         \t\tfastcgi_pass unix:{shown}/php.sock;\n\t}}\n",
        if tls.is_some() { "localhost" } else { "_" }
    );
    let site = match tls {
        None => format!(
            "# Default server configuration\nserver {{\n\tlisten {plain} default_server;\n\tlisten [::]:{plain} default_server;\n{rest}}}\n"
        ),
        Some(tls) => format!(
            "server {{\n{rest}\n    listen {tls} ssl; # managed by Certbot\n    ssl_certificate {shown}/site.pem; # managed by Certbot\n\
             \x20   ssl_certificate_key {shown}/site.key; # managed by Certbot\n}}\n\
             server {{\n    if ($host = localhost) {{\n        return 301 https://$host$request_uri;\n    }} # managed by Certbot\n\n\
             \tlisten {plain};\n\tserver_name localhost;\n    return 404; # managed by Certbot\n}}\n"
        ),
    };
    fs::write(path.join("etc/sites-available/site.conf"), site).unwrap();
}

/// Debian's layout of Apache.
fn write_apache(path: &Path, (plain, tls): (u16, Option<u16>)) {
    let shown = path.display();
    let modules: String = MODULES
        .iter()
        .chain(tls.map(|_| &"ssl"))
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .collect();
    let main = format!(
        "{modules}ServerRoot {shown}/etc\nPidFile {shown}/pid\nDefaultRuntimeDir {shown}\nErrorLog /dev/stderr\n\
         TypesConfig /etc/mime.types\nUser www-data\nGroup www-data\n<Directory />\n\tRequire all denied\n</Directory>\n\
         <Directory {shown}/root>\n\tRequire all granted\n</Directory>\nDirectoryIndex index.html\n\
         Include ports.conf\nIncludeOptional sites-enabled/*.conf\n"
    );
    fs::write(path.join("etc/apache2.conf"), main).unwrap();
    let of_tls =
        tls.map(|tls| format!("\n<IfModule ssl_module>\n\tListen {tls}\n</IfModule>\n")).unwrap_or_default();
    fs::write(path.join("etc/ports.conf"), format!("# Ports\nListen {plain}\n{of_tls}")).unwrap();
    let name = if tls.is_some() { "\tServerName localhost\n" } else { "" };
    let rest = format!(
        "{name}\tServerAdmin webmaster@localhost\n\tDocumentRoot {shown}/root\n\n\t<FilesMatch \\.php$>\n\
         \t\tSetHandler \"proxy:unix:{shown}/php.sock|fcgi://localhost\"\n\t</FilesMatch>\n"
    );
    let site = match tls {
        None => format!("<VirtualHost *:{plain}>\n{rest}</VirtualHost>\n"),
        Some(tls) => format!(
            "<VirtualHost *:{tls}>\n{rest}\tSSLEngine on\n\tSSLCertificateFile {shown}/site.pem\n\
             \tSSLCertificateKeyFile {shown}/site.key\n</VirtualHost>\n\
             <VirtualHost *:{plain}>\n{name}\tRewriteEngine on\n\tRewriteCond %{{SERVER_NAME}} =localhost\n\
             \tRewriteRule ^ https://%{{SERVER_NAME}}%{{REQUEST_URI}} [END,NE,R=permanent]\n</VirtualHost>\n"
        ),
    };
    fs::write(path.join("etc/sites-available/site.conf"), site).unwrap();
}
