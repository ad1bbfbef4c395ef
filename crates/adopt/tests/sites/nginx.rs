//! Sites of nginx.

use crate::memory::{Memory, after, diff};
use std::path::Path;

/// A main file like Debian's.
const MAIN: &str = "user www-data;\nevents { }\nhttp {\n\tinclude mime.types;\n\tssl_protocols TLSv1.2 TLSv1.3;\n\
                    \tinclude /etc/nginx/conf.d/*.conf;\n\tinclude /etc/nginx/sites-enabled/*;\n}\n";
/// Parameters like those of the package.
const PARAMS: &str = "fastcgi_param SERVER_PORT $server_port;\nfastcgi_param REQUEST_SCHEME $scheme;\n\
                      fastcgi_param HTTPS $https if_not_empty;\n";
/// The default site with PHP.
const DEFAULT: &str = "# The default site\nserver {\n\tlisten 80 default_server;\n\tlisten [::]:80 default_server;\n\n\
                       \troot /var/www/html;\n\tserver_name _; # all names\n\n\tlocation ~ \\.php$ {\n\
                       \t\tinclude snippets/fastcgi-php.conf;\n\t\tfastcgi_pass unix:/run/php/php-fpm.sock;\n\t}\n}\n";
/// A site as certbot leaves it.
const CERTBOT: &str = r#"server {
    server_name example.org www.example.org;
    root /srv/site;
    add_header X-Scheme $scheme;
    listen 443 ssl; # managed by Certbot
    listen [::]:443 ssl ipv6only=on; # managed by Certbot
    ssl_certificate /etc/letsencrypt/live/example.org/fullchain.pem; # managed by Certbot
    ssl_certificate_key /etc/letsencrypt/live/example.org/privkey.pem; # managed by Certbot
    include /etc/letsencrypt/options-ssl-nginx.conf; # managed by Certbot
}
server {
    if ($host = www.example.org) {
        return 301 https://$host$request_uri;
    } # managed by Certbot
    if ($host = example.org) {
        return 301 https://$host$request_uri;
    } # managed by Certbot
    listen 80;
    listen [::]:80;
    server_name example.org www.example.org;
    return 404; # managed by Certbot
}
"#;

fn machine() -> Memory {
    Memory::default()
        .with("/etc/nginx/nginx.conf", MAIN)
        .with("/etc/nginx/mime.types", "types { text/html html; }")
        .with("/etc/nginx/fastcgi.conf", PARAMS)
        .with("/etc/nginx/snippets/fastcgi-php.conf", "fastcgi_index index.php;\ninclude fastcgi.conf;\n")
        .with("/etc/letsencrypt/options-ssl-nginx.conf", "ssl_session_timeout 1440m;\n")
}

fn with_site(text: &str) -> Memory {
    machine()
        .with("/etc/nginx/sites-available/default", text)
        .link("/etc/nginx/sites-enabled/default", "/etc/nginx/sites-available/default")
}

const SITE: &str = "/etc/nginx/sites-available/default";

#[test]
fn directives_of_all_servers_tell_how_visitors_came() {
    let main = "http {\n\tinclude fastcgi.conf;\n\tinclude own.conf;\n\tlog_format x $scheme;\n\tmap $scheme $hsts { https on; }\n\
                \tserver { listen 80; server_name a.test; }\n\tserver { listen 127.0.0.1:9000; add_header X $scheme; }\n}\n";
    let own = "proxy_set_header X-Forwarded-Proto $scheme;\nfastcgi_param REQUEST_SCHEME $scheme;\n";
    let adoption = machine()
        .with("/etc/nginx/nginx.conf", main)
        .with("/etc/nginx/own.conf", own)
        .adopt("/etc/nginx")
        .unwrap();
    let text = after(&adoption, "/etc/nginx/own.conf");
    assert_eq!(text, own.replace("$scheme", "$petasos_scheme"));
    let text = after(&adoption, "/etc/nginx/nginx.conf");
    assert!(text.contains("map $petasos_scheme $hsts"), "{text}");
    assert!(text.contains("log_format x $scheme;") && text.contains("add_header X $scheme;"), "{text}");
    let added = "    fastcgi_param HTTPS $petasos_https if_not_empty;\n    fastcgi_param SERVER_PORT $petasos_port;\n}\n";
    assert!(text.ends_with(added), "{text}");
}

#[test]
fn default_site_moves_with_its_comments() {
    let adoption = with_site(DEFAULT).adopt("/etc/nginx").unwrap();
    assert_eq!(adoption.changes.len(), 1, "packaged files stay");
    assert_eq!(
        diff(&adoption, SITE),
        [
            "+# How visitors reach Petasos, which states it in X-Forwarded-Proto.",
            "+map $http_x_forwarded_proto $petasos_scheme { default $scheme; http http; https https; }",
            "+map $petasos_scheme $petasos_https { default \"\"; https on; }",
            "+map $http_x_forwarded_proto $petasos_port { default $server_port; http 80; https 443; }",
            "+",
            "-listen 80 default_server;",
            "-listen [::]:80 default_server;",
            "+listen 127.0.0.1:8080 default_server;",
            "+set_real_ip_from 127.0.0.1;",
            "+real_ip_header X-Forwarded-For;",
            "+real_ip_recursive on;",
            "+absolute_redirect off;",
            "+# listen [::]:80 default_server;",
            "+fastcgi_param HTTPS $petasos_https if_not_empty;",
            "+fastcgi_param REQUEST_SCHEME $petasos_scheme;",
            "+fastcgi_param SERVER_PORT $petasos_port;",
        ]
    );
    let expected = "[[listener]]\nlisten = \":80\"\n\n[[site]]\norigin = \"http://127.0.0.1:8080\"\n";
    assert!(adoption.configuration.ends_with(expected), "{}", adoption.configuration);
    assert_eq!(adoption, with_site(DEFAULT).adopt("/etc/nginx/nginx.conf").unwrap());
}

#[test]
fn site_of_a_link_and_its_target_lead_to_the_main_file() {
    let whole = with_site(DEFAULT).adopt("/etc/nginx").unwrap();
    for start in ["/etc/nginx/sites-enabled/default", SITE, "/etc/nginx/sites-enabled"] {
        let adoption = with_site(DEFAULT).adopt(start).unwrap();
        assert_eq!(adoption.changes, whole.changes, "{start}");
        assert!(
            adoption.notes.iter().any(|note| note.text.contains("reads /etc/nginx/nginx.conf")),
            "{start}"
        );
    }
    let idle = with_site(DEFAULT).with("/etc/nginx/sites-available/idle", "server { listen 81; }");
    assert!(idle.refusal("/etc/nginx/sites-available/idle").contains("not part of /etc/nginx/nginx.conf"));
    let alone = Memory::default().with("/srv/site", "server { listen 80; }").adopt("/srv/site").unwrap();
    assert!(after(&alone, "/srv/site").starts_with("server { listen 127.0.0.1:8080;"));
}

#[test]
fn site_of_certbot_hands_over_certificate_and_redirect() {
    let adoption = with_site(CERTBOT).adopt("/etc/nginx").unwrap();
    let text = &adoption.configuration;
    for line in [
        "tls = [\"/etc/letsencrypt/live/example.org/fullchain.pem,/etc/letsencrypt/live/example.org/privkey.pem\"]",
        "# tls = [\"example.org\", \"www.example.org\"]",
        "redirect_to_https = true",
        "listen = \":443\"",
        "names = [\"example.org\", \"www.example.org\"]",
    ] {
        assert!(text.lines().any(|own| own == line), "{line} is missing: {text}");
    }
    let after = after(&adoption, SITE);
    assert!(after.contains("    add_header X-Scheme $petasos_scheme;\n"), "{after}");
    assert!(
        after.contains("    # ssl_certificate /etc/letsencrypt/live/example.org/fullchain.pem; # managed"),
        "{after}"
    );
    assert!(after.contains("\n# server {\n#     if ($host = www.example.org) {\n"), "{after}");
    assert!(after.ends_with("#     return 404; # managed by Certbot\n# }\n"), "{after}");
    // Without the comments, one server is left.
    let live: Vec<&str> = after.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    assert_eq!(live.iter().filter(|line| line.contains("listen")).count(), 1, "{after}");
}

#[test]
fn redirect_stays_with_a_plain_site_beside_it() {
    let text = format!("{CERTBOT}server {{\n    listen 80;\n    server_name plain.example;\n}}\n");
    let adoption = with_site(&text).adopt("/etc/nginx").unwrap();
    assert!(!adoption.configuration.contains("redirect_to_https"), "{}", adoption.configuration);
    let redirect = "    if ($http_x_forwarded_proto = http) { return 301 https://$host$request_uri; }\n";
    assert_eq!(after(&adoption, SITE).matches(redirect).count(), 1);
    assert!(adoption.configuration.contains("names = [\"plain.example\"]"));
}

#[test]
fn several_sites_share_the_loopback_address() {
    let text = "server { listen 192.0.2.1:80; server_name .a.example; }\n\
                server { listen 80; server_name b.example; proxy_cache x; location / { allow 192.0.2.7; deny all; } }\n\
                server { listen 127.0.0.1:9000; server_name status; }\n";
    let adoption = with_site(text).using(8080).adopt("/etc/nginx").unwrap();
    assert_eq!(adoption.loopback, "127.0.0.1:8082", "8081 is the admin address");
    assert_eq!(adoption.listeners, ["0.0.0.0:80"]);
    let sites: Vec<&str> = adoption.configuration.lines().filter(|line| line.starts_with("names")).collect();
    assert_eq!(sites, ["names = [\"a.example\"]", "names = [\"*.a.example\"]", "names = [\"b.example\"]"]);
    let notes: Vec<&str> = adoption.notes.iter().map(|note| note.text.as_str()).collect();
    for part in ["192.0.2.1 has no listener", "`allow` counts", "second cache", "answers 421"] {
        assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:?}");
    }
    assert!(after(&adoption, SITE).contains("server { listen 127.0.0.1:9000; server_name status; }\n"));
}

#[test]
fn wordpress_is_recognised_by_its_root() {
    let site = DEFAULT.replace("/var/www/html", "/var/www/wordpress");
    let machine = with_site(&site).with("/var/www/wordpress/wp-includes/version.php", "");
    let adoption = machine.adopt("/etc/nginx").unwrap();
    assert!(adoption.configuration.ends_with("profile = \"wordpress\"\n"), "{}", adoption.configuration);
    assert!(adoption.text(Path::new("DIR"), false).contains("PETASOS_ADMIN"));
}

#[test]
fn proxy_in_front_is_trusted_by_petasos() {
    let text =
        "server {\n  listen 80;\n  set_real_ip_from 192.0.2.0/24;\n  real_ip_header X-Forwarded-For;\n}\n";
    let adoption = with_site(text).adopt("/etc/nginx").unwrap();
    assert!(adoption.configuration.contains("trusted_proxies = [\"192.0.2.0/24\"]"));
    let after = after(&adoption, SITE);
    assert_eq!(after.matches("real_ip_header").count(), 1, "{after}");
    assert_eq!(after.matches("set_real_ip_from").count(), 2, "{after}");
}

#[test]
fn what_cannot_be_kept_is_refused_with_its_place() {
    for (text, message) in [
        ("server {\n  listen 80;\n  server_name ~^www;\n}", "default:3:15: the name `~^www` is a regular"),
        ("server { listen 80 proxy_protocol; }", "default:1:10: this address expects a PROXY header"),
        ("server { listen 443 ssl; }", "has TLS without a certificate"),
        ("server { listen 80; listen 80x; }", "`listen 80x` is not understood"),
        ("server { server_name a; }", "the server has no `listen`"),
        ("server { listen 80; ssl_verify_client on; }", "verifies certificates of visitors"),
        ("server { listen 80; set_real_ip_from proxy.example; }", "`proxy.example` is no IP address"),
        ("server { listen 80; real_ip_header CF-Connecting-IP; }", "states clients in `CF-Connecting-IP`"),
        (
            "server { listen 80; server_name a; }\nserver { listen 81; server_name a; }",
            "default:2:1: a is also served by the host at /etc/nginx/sites-available/default:1:1",
        ),
        (
            "server { listen 80; root /a; server_name a; }\nserver { listen 443 ssl; server_name a; root /b; ssl_certificate /c; ssl_certificate_key /k; }",
            "has other settings here, without TLS",
        ),
        (
            "server { listen 80; listen 81 ssl; }\nserver { listen 81; server_name b; }",
            "port 81 is used with TLS",
        ),
        ("server { listen 80", "default:1:10: the directive has no `;`"),
        ("server { include missing.conf; }", "default:1:10: /etc/nginx/missing.conf cannot be read"),
        ("server { listen 127.0.0.1:80; }", "a proxy in front already"),
        ("", "no server that visitors can reach"),
    ] {
        let refusal = with_site(text).refusal("/etc/nginx");
        assert!(refusal.contains(message) && refusal.contains("; "), "{text}: {refusal}");
    }
    let circle = machine().with("/etc/nginx/conf.d/a.conf", "include conf.d/a.conf;");
    assert!(circle.refusal("/etc/nginx").contains("included more than"));
    let twice = |next: usize| format!("include conf.d/{next};\ninclude conf.d/{next};\n");
    let many = (0..25).fold(machine(), |machine, number| {
        machine.with(&format!("/etc/nginx/conf.d/{number}"), &twice(number + 1))
    });
    let many = many.with("/etc/nginx/conf.d/25", "").with("/etc/nginx/conf.d/a.conf", "include conf.d/0;");
    assert!(many.refusal("/etc/nginx").contains("included more than 10000 times"));
    assert!(Memory::default().refusal("/nothing").contains("cannot be read"));
}

#[test]
fn redirect_with_challenges_goes_and_is_noted() {
    let challenges =
        "    location /.well-known/acme-challenge/ { root /srv/acme; }\n    return 404; # managed";
    let text = CERTBOT.replace("    return 404; # managed", challenges);
    let adoption = with_site(&text).adopt("/etc/nginx").unwrap();
    assert!(adoption.configuration.contains("redirect_to_https = true"));
    assert!(adoption.notes.iter().any(|note| note.text.contains("certificates are renewed")));
}

#[test]
fn equal_servers_with_and_without_tls_become_one() {
    let tls = "listen 443 ssl; ssl_certificate /c; ssl_certificate_key /k;";
    let text = format!(
        "server {{ listen 80; server_name a; root /a; }}\nserver {{ {tls} server_name a; root /a; }}\n"
    );
    let adoption = with_site(&text).adopt("/etc/nginx").unwrap();
    assert!(after(&adoption, SITE).starts_with("# server { listen 80; server_name a; root /a; }\n"));
    assert!(!adoption.configuration.contains("redirect_to_https"));
}
