//! `https`: the negotiated parameters, and the options that restrict them.

use crate::beside::{ours, page, theirs};
use crate::lines::{compare_at, report};
use testkit::{Certificate, TlsFront};

#[test]
fn both_programs_negotiate_the_same_tls_parameters() {
    let origin = page();
    let front = TlsFront::start(origin.address(), Certificate::Good);
    let by_name = format!("https://localhost:{}/page", front.address.port());
    let by_address = format!("https://{}/page", front.address);
    for arguments in [
        &["-n", "8", "-c", "2"][..],
        &["-n", "8", "-k"],
        &["-f", "TLS1.2"],
        &["-f", "TLS1.3"],
        &["-f", "all", "-I"],
        &["-f", "TLS1.2", "-Z", "ECDHE-ECDSA-AES128-GCM-SHA256"],
        &["-f", "tls1.2", "-Z", "ECDHE-RSA-AES128-GCM-SHA256:CHACHA20+ECDSA"],
        &["-f", "TLS1.2", "-Z", "HIGH:!aNULL:!AES256"],
        &["-f", "TLS1.3", "-Z", "TLS_CHACHA20_POLY1305_SHA256"],
        &["-H", "Host: other.test"],
    ] {
        compare_at(&by_name, arguments);
        compare_at(&by_address, arguments);
    }
    // TLS to the proxy itself, whose request has the absolute URL.
    compare_at("https://site.invalid/page", &["-n", "4", "-X", &front.address.to_string()]);
    assert_eq!(origin.seen().last().unwrap().target(), "https://site.invalid/page");
    let lines = report(&ours(&["-H", "Host: other.test", &by_name]).stdout).join("\n");
    let expected = "\nSSL/TLS Protocol:       TLSv1.3,TLS_AES_256_GCM_SHA384,256,256\n\
                    Server Temp Key:        X25519 253 bits\nTLS Server Name:        other.test\n";
    assert!(lines.contains(expected), "{lines}");
    assert!(!ours(&["-I", &by_name]).stdout.contains("TLS Server Name"));
}

#[test]
fn client_certificate_is_sent_as_by_ab() {
    let origin = page();
    let front = TlsFront::start_for_known_clients(origin.address());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("me.pem");
    std::fs::write(&file, &front.identity_pem).unwrap();
    let url = format!("https://localhost:{}/", front.address.port());
    compare_at(&url, &["-n", "4", "-E", file.to_str().unwrap()]);
    assert_eq!(origin.seen().len(), 8);
    // With TLS 1.3, the client has already sent its request when the server rejects it.
    for (version, code) in [("TLS1.2", 2), ("TLS1.3", 1)] {
        let refused = ours(&["-n", "4", "-f", version, &url]);
        assert_eq!((refused.code, origin.seen().len()), (Some(code), 8), "{}", refused.stderr);
    }
}

#[test]
fn unsupported_tls_options_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let empty = empty.to_str().unwrap();
    let url = "https://127.0.0.1:1/";
    for (arguments, says) in [
        (["-Z", "NONE-SUCH", url], "`NONE-SUCH` is no cipher suite that is available; available are TLS_AES"),
        (["-E", "/nonexistent/me.pem", url], "/nonexistent/me.pem: "),
        (["-E", empty, url], "it must hold the client's certificate and its private key as PEM"),
    ] {
        assert_ne!(theirs(&arguments).code, Some(0), "{arguments:?}");
        let output = ours(&arguments);
        assert!(output.code == Some(2) && output.stderr.contains(says), "{arguments:?}: {}", output.stderr);
    }
    let output = ours(&["-f", "TLS1.3", "-Z", "ECDHE", url]);
    assert!(output.stderr.contains("belongs to TLSv1.3"), "{}", output.stderr);
    // The real `ab` uses another protocol without a message.
    let origin = page();
    let url = format!("{}/", origin.url());
    for protocol in ["SSL3", "TLS1", "TLS1.1", "nonsense"] {
        let output = ours(&["-f", protocol, &url]);
        assert!(output.stderr.contains("TLS1.2, TLS1.3 and ALL are"), "{}", output.stderr);
        assert_eq!((output.code, theirs(&["-f", protocol, &url]).code), (Some(2), Some(0)), "{protocol}");
    }
}
