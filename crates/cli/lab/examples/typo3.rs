//! `examples/typo3` in front of a stub that sends the responses and purges of TYPO3 with the
//! extension `varnish`.

use crate::stand::{Setup, Stand};
use crate::stub::{Stub, System};

/// Sources: RequestHandler.php of TYPO3's frontend, opsone-ch/typo3-varnish.
const TYPO3: System = System {
    article: "/news/first",
    login: "/typo3/login",
    session: "be_typo_user",
    public: &[
        "Cache-Control: max-age=86400",
        "Pragma: public",
        "ETag: \"d41d8cd98f00b204e9800998ecf8427e\"",
        "TYPO3-Pid: 1",
        "TYPO3-Sitename: 8c1d0f1a",
    ],
    private: &["Cache-Control: private, no-store"],
    files: ["/_assets/5d3f/Css/site.css", "/fileadmin/door.svg"],
    purge: "BAN / HTTP/1.1\r\nHost: 127.0.0.1\r\nVarnish-Ban-TYPO3-Pid: 1\r\nVarnish-Ban-TYPO3-Sitename: 8c1d0f1a\r\n",
};

#[test]
fn typo3_example_serves_a_stub() {
    let stub = Stub::start(TYPO3);
    let origin = stub.origin.url();
    let mut stand = Stand::start(&Setup {
        name: "typo3",
        host: "www.typo3.test",
        plain: None,
        admin: None,
        has_disk: true,
        replacements: &[("http://127.0.0.1:8000", &origin)],
    });
    stand.serves(&stub);
    let answer = stand.get("/");
    assert_eq!(answer.field("X-Frame-Options"), Some("SAMEORIGIN"), "{}", answer.head);
    assert_eq!(stand.get("/typo3/install.php").status, 403);
    assert_eq!(stand.get("/typo3//install.php").status, 400);
    stand.is_upload("/fileadmin/door.svg", 600);
    let style = stand.get("/_assets/5d3f/Css/site.css");
    assert_eq!(style.field("Cache-Control"), Some("public, max-age=2592000"), "{}", style.head);
}
