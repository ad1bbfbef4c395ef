//! The labs' own configurations of nginx. The server that visitors use gets a public port; the
//! others keep addresses of the machine.
//!
//! Invariant: the configurations are those of `labs/`. The applications behind them are small
//! pages, because the labs themselves test the systems.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use testkit::HeldPort;

/// A lab.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lab {
    name: &'static str,
    /// The host name of its site.
    pub(crate) host: &'static str,
    /// The address that becomes public.
    public: &'static str,
    private: &'static [&'static str],
    /// Where the files of the site are, below the lab's directory.
    root: &'static str,
    /// Scripts below the root that show the request as the application sees it.
    scripts: &'static [&'static str],
    /// The requests that are compared: of the start page, a file, a folder, a missing page, the
    /// script, a change, and others.
    pub(crate) requests: &'static [&'static str],
}

pub(crate) const WORDPRESS: Lab = Lab {
    name: "wordpress",
    host: "wordpress.test",
    public: "nginx_opcode",
    private: &["nginx_plain", "nginx_cache"],
    root: "wordpress",
    scripts: &["index.php", "page.php", "wp-config.php", "wp-content/uploads/script.php"],
    requests: &[
        "GET /",
        "GET /style.css",
        "GET /folder",
        "GET /missing",
        "GET /page.php?a=1",
        "POST /page.php",
        "GET /missing.css",
        "GET /wp-config.php",
        "GET /wp-content/uploads/script.php",
        "GET /.hidden",
    ],
};

pub(crate) const MEDIAWIKI: Lab = Lab {
    name: "mediawiki",
    host: "mediawiki.test",
    public: "nginx_objects",
    private: &["nginx_plain", "nginx_opcode", "nginx_files"],
    root: "mediawiki",
    scripts: &["index.php", "load.php"],
    requests: &[
        "GET /",
        "GET /resources/style.css",
        "GET /wiki/Welcome",
        "GET /missing",
        "GET /index.php?title=Welcome",
        "POST /index.php/Welcome",
        "GET /load.php?modules=site",
        "GET /images/none.png",
    ],
};

pub(crate) const DRUPAL: Lab = Lab {
    name: "drupal",
    host: "drupal.test",
    public: "nginx_objects",
    private: &["nginx_plain", "nginx_plain_pages", "nginx_opcode", "nginx_pages", "nginx_aggressive"],
    root: "drupal",
    scripts: &["index.php", "lab-flush.php"],
    requests: &[
        "GET /",
        "GET /style.css",
        "GET /folder",
        "GET /node/1",
        "GET /index.php?a=1",
        "POST /node/1",
        "GET /page.inc",
        "GET /.hidden",
    ],
};

pub(crate) const WAGTAIL: Lab = Lab {
    name: "wagtail",
    host: "wagtail.test",
    public: "nginx_templates",
    private: &["nginx_plain", "nginx_pages"],
    root: "static",
    scripts: &[],
    requests: &[
        "GET /",
        "GET /static/style.css",
        "GET /folder",
        "GET /static/missing.css",
        "GET /page/?a=1",
        "POST /page/",
    ],
};

/// Writes the configuration and the site's files. The returned ports are those of the private
/// addresses.
pub(crate) fn write(lab: &Lab, path: &Path, port: u16) -> Vec<HeldPort> {
    let ports: Vec<HeldPort> = lab.private.iter().map(|_| HeldPort::take()).collect();
    let private = lab.private.iter().zip(&ports).map(|(name, port)| (*name, port.address().to_string()));
    // The configuration of the WordPress lab also connects to this address.
    let addresses: Vec<_> = private.chain([(lab.public, format!("0.0.0.0:{port}"))]).collect();
    let shown = path.display().to_string();
    let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
    for (folder, names) in [
        ("common", ["nginx-http.conf", "nginx-php.conf"]),
        (lab.name, ["conf/nginx.conf", "conf/nginx-site.conf"]),
    ] {
        for name in names {
            let text = fs::read_to_string(labs.join(folder).join(name)).unwrap();
            let text = text.replace("{{site}}/conf/", &format!("{shown}/etc/")).replace("{{site}}", &shown);
            let text = text.replace("/usr/share/mediawiki", &format!("{shown}/mediawiki"));
            let text =
                addresses.iter().fold(text, |text, (name, at)| text.replace(&format!("{{{{{name}}}}}"), at));
            assert!(!text.contains("{{"), "{text}");
            fs::write(path.join("etc").join(name.trim_start_matches("conf/")), text).unwrap();
        }
    }
    for name in ["log", "run", "images"] {
        fs::create_dir_all(path.join(name)).unwrap();
    }
    let root = path.join(lab.root);
    for name in ["folder", "resources", "wp-content/uploads"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    for name in ["style.css", "resources/style.css", "page.inc", ".hidden"] {
        fs::write(root.join(name), "a { color: red }\n".repeat(9)).unwrap();
    }
    for script in lab.scripts {
        fs::write(root.join(script), super::place::PAGE).unwrap();
    }
    for pool in ["plain", "opcode"] {
        symlink(path.join("php.sock"), path.join(format!("run/php-{pool}.sock"))).unwrap();
    }
    if lab.scripts.is_empty() {
        for pool in ["plain", "templates", "pages"] {
            let socket = path.join(format!("run/{pool}.sock"));
            let listener = UnixListener::bind(&socket).unwrap();
            // nginx has another user.
            fs::set_permissions(socket, fs::Permissions::from_mode(0o666)).unwrap();
            application(listener);
        }
    }
    ports
}

/// An application behind a proxy. It shows the request as it sees it, like the scripts in PHP. Its
/// thread ends with the test program.
fn application(listener: UnixListener) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read(&mut byte).unwrap_or_default() == 0 {
                    break;
                }
                head.extend(byte);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let field = |name: &str| {
                let of = |line: &str| {
                    line.split_once(": ")
                        .filter(|(found, _)| *found == name)
                        .map(|(_, value)| value.to_owned())
                };
                head.lines().find_map(of).unwrap_or_default()
            };
            let line = head.lines().next().unwrap_or_default();
            let mut text = format!("scheme={}\nhost={} {line}\n", field("X-Forwarded-Proto"), field("Host"));
            let mut lifetime = "Cache-Control: max-age=60\r\n";
            if line.starts_with("POST") {
                lifetime = "";
                text +=
                    &format!("client={}\n", field("X-Forwarded-For").split(',').next().unwrap_or_default());
            }
            let length = text.len();
            // nginx may have ended meanwhile.
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{lifetime}Content-Length: {length}\r\nConnection: close\r\n\r\n{text}"
            );
        }
    });
}
