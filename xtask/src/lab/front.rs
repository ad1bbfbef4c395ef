//! The servers in front of a content system: nginx, and Varnish in some stacks.
//!
//! Invariant: every stack starts them with the same command. Differences are in the configuration
//! files only.

use super::stack::{ReadyCondition, StackServer, StackStep};

/// Starts Varnish.
pub(crate) const START_VARNISH: StackStep = StackStep::Start(StackServer {
    name: "varnish",
    command: "varnishd -F -T none -n {{site}}/varnish -f {{site}}/conf/varnish.vcl -a {{varnish}} \
              -s malloc,128m -p http_gzip_support=off",
    ready: ReadyCondition::Pages(&["varnish"]),
});

/// Starts nginx, and waits until it answers at the addresses with these names.
pub(crate) const fn start_nginx(addresses: &'static [&'static str]) -> StackStep {
    StackStep::Start(StackServer {
        name: "nginx",
        command: "nginx -p {{site}}/tmp -c {{site}}/conf/nginx.conf",
        ready: ReadyCondition::Pages(addresses),
    })
}
