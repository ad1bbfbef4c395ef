//! A site with a mobile theme: two variants of each page, whatever the browsers call themselves.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]
#![allow(dead_code, reason = "each test file uses its part of the support")]

mod support;

use semantics::{DeviceClass, Policy};
use support::{Stage, reason};
use testkit::response;

const PHONE: &str = "User-Agent: Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Mobile/15E148";
const OTHER_PHONE: &str = "User-Agent: Mozilla/5.0 (Linux; Android 14; Pixel 8) Mobile Safari/537.36";
const DESKTOP: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Firefox/140.0";

/// WordPress with a theme that asks wp_is_mobile.
fn themed(class: DeviceClass, vary: &'static [&'static str]) -> Stage {
    Stage::with(
        move |plan| {
            let policy = Policy { device_class: class, ..Policy::wordpress() };
            plan.sites.iter_mut().for_each(|site| site.policy = policy.clone());
        },
        move |seen| {
            let is_mobile = seen.field("User-Agent").unwrap_or_default().contains("Mobile");
            response("200 OK", vary, if is_mobile { b"small" } else { b"large" })
        },
    )
}

#[test]
fn phones_and_desktops_get_their_own_page() {
    for vary in [&[][..], &["Vary: User-Agent"]] {
        let stage = themed(DeviceClass::Mobile, vary);
        for _ in 0..3 {
            for (agent, expected) in [(PHONE, "small"), (DESKTOP, "large"), (OTHER_PHONE, "small")] {
                assert_eq!(stage.get("/", &[agent]).text(), expected, "{agent} {vary:?}");
            }
            assert_eq!(stage.get("/", &[]).text(), "large");
        }
        assert_eq!(stage.origin.seen().len(), 2, "one fetch for each class: {vary:?}");
        assert!(stage.origin.seen().iter().all(|seen| seen.field("User-Agent").unwrap().contains("Petasos")));
        stage.ask("PURGE", "/", &[]);
        for agent in [PHONE, DESKTOP] {
            assert!(reason(&stage.get("/", &[agent])).starts_with("miss"), "a purge means both");
        }
    }
}
