//! What stands before a content system: nginx, and Varnish where a stack has it.
//!
//! Invariant: each is started alike in every stack; what differs stands in its configuration. It knows no content
//! system.

use super::stack::{Ready, Server, Step};

/// Starts Varnish.
pub(crate) const START_VARNISH: Step = Step::Start(Server {
    name: "varnish",
    command: "varnishd -F -T none -n {{site}}/varnish -f {{site}}/conf/varnish.vcl -a {{varnish}} \
              -s malloc,128m -p http_gzip_support=off",
    ready: Ready::Pages(&["varnish"]),
});

/// Starts nginx, which answers at the addresses of these names.
pub(crate) const fn start_nginx(addresses: &'static [&'static str]) -> Step {
    Step::Start(Server {
        name: "nginx",
        command: "nginx -p {{site}}/tmp -c {{site}}/conf/nginx.conf",
        ready: Ready::Pages(addresses),
    })
}
