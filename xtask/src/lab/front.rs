//! The servers in front of a content system: nginx, and Varnish in some stacks.
//!
//! Invariant: every stack starts them with the same command. Differences are in the configuration
//! files only.

use super::stack::{Ready, Server, Step};

/// Starts Varnish.
pub(crate) const START_VARNISH: Step = Step::Start(Server {
    name: "varnish",
    command: "varnishd -F -T none -n {{site}}/varnish -f {{site}}/conf/varnish.vcl -a {{varnish}} \
              -s malloc,128m -p http_gzip_support=off",
    ready: Ready::Pages(&["varnish"]),
});

/// Starts nginx, and waits until it answers at the addresses with these names.
pub(crate) const fn start_nginx(addresses: &'static [&'static str]) -> Step {
    Step::Start(Server {
        name: "nginx",
        command: "nginx -p {{site}}/tmp -c {{site}}/conf/nginx.conf",
        ready: Ready::Pages(addresses),
    })
}
