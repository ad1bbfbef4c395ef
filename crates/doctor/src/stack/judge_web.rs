//! Judges the responses of a web server: compression, kept connections, lifetimes of static files.
//!
//! Invariant: the functions here are pure. A page that was not served is not judged.

use super::facts::{FileFact, Lifetime, WebFact};
use crate::finding::Finding;

/// Shorter contents do not shrink enough.
const COMPRESSED_BYTES_MIN: u64 = 1024;
/// A shorter lifetime of a static file is as good as none: an hour, in seconds.
const LIFETIME_SECS_MIN: u64 = 3600;

/// Everything about a web server.
pub(super) fn web(fact: &WebFact) -> Vec<Finding> {
    let WebFact { url, status, .. } = fact;
    if let Some(location) = fact.location.as_ref().filter(|_| (300..400).contains(status)) {
        return vec![Finding::unseen(
            "web server",
            format!("{url} redirects to {location}, so no page could be measured"),
            format!("name the address of the site: petasos doctor --stack --url {location}"),
        )];
    }
    if *status != 200 {
        return vec![Finding::unseen(
            "web server",
            format!("{url} answers {status}, so no page could be measured"),
            "name a page of your site: petasos doctor --stack --url http://www.example.org/",
        )];
    }
    let mut found = vec![compression(fact), keep_alive(fact)];
    found.extend(lifetimes(fact));
    found
}

/// The web server by its own name.
enum Server {
    Nginx,
    Apache,
    Other,
}

fn server(fact: &WebFact) -> Server {
    let name = fact.server.to_ascii_lowercase();
    if name.starts_with("nginx") {
        Server::Nginx
    } else if name.starts_with("apache") {
        Server::Apache
    } else {
        Server::Other
    }
}

fn compression(fact: &WebFact) -> Finding {
    let is_plain =
        |file: &&FileFact| file.is_text && file.coding.is_none() && file.bytes >= COMPRESSED_BYTES_MIN;
    let plain: Vec<_> = std::iter::once(&fact.page).chain(&fact.files).filter(is_plain).collect();
    let Some(first) = plain.first() else {
        let coding = fact.page.coding.as_deref().unwrap_or("nothing, because it is short");
        return Finding::ok("compression", format!("{}: {coding} for browsers", fact.url));
    };
    let others = match plain.len() {
        1 => String::new(),
        more => format!(" and {} more", more - 1),
    };
    let message =
        format!("{}: {}{others} is sent uncompressed ({} bytes)", fact.url, first.path, first.bytes);
    let fix = match server(fact) {
        Server::Nginx => {
            "write `gzip on; gzip_proxied any; gzip_vary on; gzip_types text/css text/javascript text/plain text/xml \
             application/javascript application/json application/xml image/svg+xml;` in the block http of \
             /etc/nginx/nginx.conf in place of its lines, then systemctl reload nginx"
        }
        Server::Apache => {
            "run `a2enmod deflate`, then systemctl reload apache2 (/etc/apache2/mods-enabled/deflate.conf has the types)"
        }
        Server::Other => {
            "switch compression on in the web server; Petasos in front compresses what it stores"
        }
    };
    Finding::warning("compression", message, fix)
        .because("a page of text shrinks to a fifth: 72 kB of the front page in README.md become 14 kB")
}

fn keep_alive(fact: &WebFact) -> Finding {
    if fact.is_kept {
        return Finding::ok("keep-alive", format!("{}: connections are kept", fact.url));
    }
    let fix = match server(fact) {
        Server::Nginx => {
            "write `keepalive_timeout 65s;` in the block http of /etc/nginx/nginx.conf, then systemctl reload nginx"
        }
        Server::Apache => "write `KeepAlive On` in /etc/apache2/apache2.conf, then systemctl reload apache2",
        Server::Other => "let the web server keep connections; Petasos in front keeps those of visitors",
    };
    let message = format!("{}: the server closes the connection after each response", fact.url);
    Finding::warning("keep-alive", message, fix)
        .because("a browser then connects anew for every file of a page, which costs a round trip each, and more with TLS")
}

/// Whether a path is that of a file, and not of a program such as MediaWiki's `load.php`, which
/// states its lifetimes.
fn is_static(path: &str) -> bool {
    let name = path.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').is_some_and(|(_, extension)| !extension.starts_with("php"))
}

fn lifetimes(fact: &WebFact) -> Option<Finding> {
    let is_short = |file: &&FileFact| match file.lifetime {
        Lifetime::Unstated => true,
        Lifetime::Secs(secs) => secs < LIFETIME_SECS_MIN,
    };
    let files = || fact.files.iter().filter(|file| is_static(&file.path));
    let count = files().count();
    let short: Vec<_> = files().filter(is_short).collect();
    let Some(first) = short.first() else {
        return (count > 0).then(|| {
            Finding::ok(
                "static files",
                format!("{}: browsers may keep the {count} that were requested", fact.url),
            )
        });
    };
    let fix = match server(fact) {
        Server::Nginx => {
            // A location for the names of files would take them from the application's own
            // location.
            "write `map $sent_http_cache_control$sent_http_content_type $lifetime { default off; \
             ~^(?:text/css|text/javascript|application/javascript|image/|font/) 7d; }` in the block http of \
             /etc/nginx/nginx.conf and `expires $lifetime;` in the site's server in /etc/nginx/sites-enabled, then \
             systemctl reload nginx"
        }
        Server::Apache => {
            "run `a2enmod expires`, write `ExpiresActive On`, `ExpiresByType text/css \"access plus 7 days\"` and the same \
             for text/javascript and the types of pictures in /etc/apache2/conf-enabled/expires.conf, then systemctl \
             reload apache2"
        }
        Server::Other => {
            "let the web server send `Cache-Control: max-age=604800` with static files; Petasos in front does so \
             (`browser_caching`)"
        }
    };
    let message = format!(
        "{}: {} of {count} files give browsers no lifetime of an hour, such as {}",
        fact.url,
        short.len(),
        first.path
    );
    let finding = Finding::warning("static files", message, fix);
    Some(finding.because("browsers ask for every such file again with every page, and wait for the answer"))
}

#[cfg(test)]
mod tests {
    use super::{FileFact, Lifetime, WebFact, web};
    use crate::finding::{Finding, Level};

    fn file(path: &str, coding: Option<&str>, lifetime: Lifetime) -> FileFact {
        let coding = coding.map(str::to_owned);
        FileFact { path: path.to_owned(), is_text: true, coding, bytes: 72_000, lifetime }
    }

    fn good() -> WebFact {
        WebFact {
            url: "http://127.0.0.1/".to_owned(),
            status: 200,
            server: "nginx/1.22.1".to_owned(),
            location: None,
            page: file("/", Some("gzip"), Lifetime::Unstated),
            is_kept: true,
            files: vec![file("/style.css", Some("gzip"), Lifetime::Secs(604_800))],
        }
    }

    fn warning(fact: &WebFact) -> Finding {
        let mut found = web(fact);
        found.retain(|one| one.level != Level::Ok);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn good_server_has_no_warning() {
        let found = web(&good());
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|one| one.level == Level::Ok), "{found:?}");
    }

    #[test]
    fn missing_compression_names_the_line_of_the_server() {
        let plain = WebFact { page: file("/", None, Lifetime::Unstated), ..good() };
        assert!(warning(&plain).fix.unwrap().contains("gzip on;"));
        let apache = WebFact { server: "Apache/2.4.62 (Debian)".to_owned(), ..plain };
        assert!(warning(&apache).fix.unwrap().contains("a2enmod deflate"));
        // Debian's nginx compresses pages only.
        let styles = WebFact { files: vec![file("/a.css", None, Lifetime::Secs(604_800))], ..good() };
        assert!(warning(&styles).message.contains("/a.css is sent uncompressed"));
        let short = FileFact { bytes: 100, ..file("/a.css", None, Lifetime::Secs(604_800)) };
        assert!(web(&WebFact { files: vec![short], ..good() }).iter().all(|one| one.level == Level::Ok));
    }

    #[test]
    fn closed_connections_and_short_lifetimes_are_found() {
        assert!(warning(&WebFact { is_kept: false, ..good() }).fix.unwrap().contains("keepalive_timeout"));
        for lifetime in [Lifetime::Unstated, Lifetime::Secs(60)] {
            let found = warning(&WebFact { files: vec![file("/a.css", Some("br"), lifetime)], ..good() });
            assert!(
                found.message.contains("1 of 1 files") && found.fix.unwrap().contains("`expires $lifetime;`")
            );
        }
        // Files may come from an application, which a location for their names would cut off.
        let found =
            warning(&WebFact { files: vec![file("/a.css", Some("br"), Lifetime::Unstated)], ..good() });
        assert!(!found.fix.unwrap().contains("location"));
    }

    #[test]
    fn lifetimes_of_programs_are_theirs() {
        let program = file("/load.php?modules=startup&raw=1.css", Some("br"), Lifetime::Secs(300));
        assert_eq!(web(&WebFact { files: vec![program], ..good() }).len(), 2);
    }

    #[test]
    fn page_that_was_not_served_is_not_judged() {
        let location = Some("https://www.example.org/".to_owned());
        let found = warning(&WebFact { status: 301, location, ..good() });
        assert_eq!(found.level, Level::Unseen);
        assert!(found.fix.unwrap().ends_with("--url https://www.example.org/"));
        assert_eq!(warning(&WebFact { status: 403, ..good() }).level, Level::Unseen);
    }
}
