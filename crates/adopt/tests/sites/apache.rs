//! Sites of Apache.

use crate::memory::{Memory, after, diff};

/// A main file like Debian's.
const MAIN: &str = "ServerRoot \"/etc/apache2\"\nIncludeOptional mods-enabled/*.load\nInclude ports.conf\n\
                    IncludeOptional sites-enabled/*.conf\n";
const PORTS: &str = "# ports\nListen 80\n\n<IfModule ssl_module>\n\tListen 443\n</IfModule>\n\n<IfModule mod_gnutls.c>\n\tListen 443\n</IfModule>\n";
const DEFAULT: &str = "<VirtualHost *:80>\n\t# The name\n\t#ServerName www.example.com\n\n\
                       \tServerAdmin webmaster@localhost\n\tDocumentRoot /var/www/html\n\n\
                       \tCustomLog ${APACHE_LOG_DIR}/access.log combined\n</VirtualHost>\n";
const DEFAULT_SSL: &str = "<VirtualHost *:443>\n\tServerAdmin webmaster@localhost\n\n\tDocumentRoot /var/www/html\n\n\
                           \tSSLEngine on\n\tSSLCertificateFile      /etc/ssl/certs/snakeoil.pem\n\
                           \tSSLCertificateKeyFile   /etc/ssl/private/snakeoil.key\n\
                           \t<FilesMatch \"\\.php$\">\n\t\tSSLOptions +StdEnvVars\n\t</FilesMatch>\n</VirtualHost>\n";

fn machine() -> Memory {
    Memory::default().with("/etc/apache2/apache2.conf", MAIN).with("/etc/apache2/ports.conf", PORTS)
}

fn with_site(text: &str) -> Memory {
    machine()
        .with("/etc/apache2/sites-available/000-default.conf", text)
        .link("/etc/apache2/sites-enabled/000-default.conf", "/etc/apache2/sites-available/000-default.conf")
}

fn with_tls(machine: Memory) -> Memory {
    machine.with(
        "/etc/apache2/mods-enabled/ssl.load",
        "LoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so\n",
    )
}

const SITE: &str = "/etc/apache2/sites-available/000-default.conf";

#[test]
fn default_site_moves_with_the_ports() {
    let adoption = with_site(DEFAULT).adopt("/etc/apache2").unwrap();
    assert_eq!(diff(&adoption, "/etc/apache2/ports.conf"), ["-Listen 80", "+Listen 127.0.0.1:8080"]);
    assert_eq!(
        diff(&adoption, SITE),
        [
            "-<VirtualHost *:80>",
            "+<VirtualHost 127.0.0.1:8080>",
            "+ServerName http://localhost:80",
            "+RemoteIPHeader X-Forwarded-For",
            "+RemoteIPInternalProxy 127.0.0.1",
        ]
    );
    assert!(adoption.configuration.contains("listen = \":80\""), "{}", adoption.configuration);
    let enabled = with_site(DEFAULT).adopt("/etc/apache2/sites-enabled/000-default.conf").unwrap();
    assert_eq!(enabled.changes, adoption.changes);
}

#[test]
fn equal_default_sites_with_and_without_tls_become_one() {
    let machine =
        with_tls(with_site(DEFAULT)).with("/etc/apache2/sites-enabled/default-ssl.conf", DEFAULT_SSL);
    let adoption = machine.adopt("/etc/apache2").unwrap();
    assert_eq!(
        diff(&adoption, "/etc/apache2/ports.conf"),
        ["-Listen 80", "+Listen 127.0.0.1:8080", "-Listen 443", "+# Listen 443"],
        "a section of a module that is not loaded stays"
    );
    assert!(after(&adoption, SITE).lines().all(|line| line.starts_with('#')));
    let tls = after(&adoption, "/etc/apache2/sites-enabled/default-ssl.conf");
    assert!(
        tls.contains("\t# SSLEngine on\n")
            && tls.contains("\tSetEnvIf X-Forwarded-Proto \"^https$\" HTTPS=on\n"),
        "{tls}"
    );
    let text = &adoption.configuration;
    assert!(text.contains("tls = [\"/etc/ssl/certs/snakeoil.pem,/etc/ssl/private/snakeoil.key\"]"), "{text}");
    assert!(text.contains("listen = \":80\"") && !text.contains("redirect_to_https"), "{text}");
}

#[test]
fn redirects_to_https_move_to_petasos() {
    let named = |text: &str| text.replace("\tServerAdmin webmaster@localhost", "\tServerName example.org");
    let certbot = "RewriteEngine on\nRewriteCond %{SERVER_NAME} =example.org\n\
                   RewriteRule ^ https://%{SERVER_NAME}%{REQUEST_URI} [END,NE,R=permanent]\n</VirtualHost>";
    for redirect in ["\tRedirect permanent / https://example.org/\n</VirtualHost>", certbot] {
        let plain = named(DEFAULT).replace("</VirtualHost>", redirect);
        let machine =
            with_tls(with_site(&plain)).with("/etc/apache2/sites-enabled/s.conf", &named(DEFAULT_SSL));
        let adoption = machine.adopt("/etc/apache2").unwrap();
        assert!(adoption.configuration.contains("redirect_to_https = true"), "{}", adoption.configuration);
        assert!(after(&adoption, SITE).lines().all(|line| line.starts_with('#')));
        let tls = after(&adoption, "/etc/apache2/sites-enabled/s.conf");
        assert!(tls.contains("\tServerName https://example.org:443\n"), "{tls}");
    }
}

#[test]
fn condition_on_tls_tests_the_forwarded_scheme() {
    let rules = "\tServerName a.example\n\tRewriteCond %{HTTPS} off\n\
                 \tRewriteRule ^/login https://%{HTTP_HOST}/login [R]\n</VirtualHost>";
    let adoption = with_site(&DEFAULT.replace("</VirtualHost>", rules)).adopt("/etc/apache2").unwrap();
    assert!(after(&adoption, SITE).contains("\tRewriteCond %{HTTP:X-Forwarded-Proto} !=https\n"));
}

#[test]
fn proxies_of_the_server_stay_trusted_in_the_host() {
    let main = format!("RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 192.0.2.1\n{MAIN}");
    let adoption = with_site(DEFAULT).with("/etc/apache2/apache2.conf", &main).adopt("/etc/apache2").unwrap();
    assert!(after(&adoption, SITE).contains("\tRemoteIPInternalProxy 127.0.0.1 192.0.2.1\n"));
    assert!(adoption.configuration.contains("trusted_proxies = [\"192.0.2.1\"]"));
}

#[test]
fn what_cannot_be_kept_is_refused_with_its_place() {
    for (text, message) in [
        ("<VirtualHost *:80>\n  ServerName www.*\n</VirtualHost>", "000-default.conf:2:14: the name `www.*`"),
        ("<VirtualHost example.org:80>\n</VirtualHost>", "the address `example.org:80` is not understood"),
        ("<VirtualHost *:80>\n", "the section <virtualhost> has no end"),
        ("<VirtualHost *:80>\nRemoteIPHeader X-Real-IP\n</VirtualHost>", "states clients in `X-Real-IP`"),
        ("<VirtualHost *:80>\nRemoteIPTrustedProxyList /l\n</VirtualHost>", "proxies in front are in a file"),
        ("<VirtualHost *:80>\nRemoteIPProxyProtocol On\n</VirtualHost>", "expects a PROXY header"),
        ("<VirtualHost *:80>\nSSLVerifyClient require\n</VirtualHost>", "verifies certificates"),
        (
            "<VirtualHost *:80>\nSSLEngine on\nSSLCertificateChainFile /c\n</VirtualHost>",
            "the chain of the certificate",
        ),
        ("<VirtualHost *:80 127.0.0.1:80>\n</VirtualHost>", "one of the machine itself"),
        (
            "<VirtualHost *:80>\n</VirtualHost>\n<VirtualHost *:80>\n</VirtualHost>",
            "every other name is also served",
        ),
        ("Include missing.conf\n", "/etc/apache2/missing.conf cannot be read"),
    ] {
        let refusal = with_site(text).refusal("/etc/apache2");
        assert!(refusal.contains(message), "{text}: {refusal}");
    }
    let private = with_site("").with("/etc/apache2/ports.conf", "Listen 127.0.0.1:80\n");
    assert!(private.refusal("/etc/apache2").contains("a proxy in front already"));
}
