//! The Node lab: a small content system in Express that purges Petasos at its admin address. Its
//! purpose is described in `labs/node/README.md`.
//!
//! Invariant: the packages are those of `labs/node/package-lock.json`. The content lives in the
//! server's memory, so each start begins with the same.

use super::files;
use super::stack::{ReadyCondition, Stack, StackServer, StackSite, StackStep};
use crate::place::make_own;
use anyhow::Result;

/// The stack.
pub(crate) const STACK: Stack = Stack {
    title: "Node",
    name: "node",
    host: "node.test",
    page: "/",
    log_in: "/login",
    packages: &[],
    addresses: &[
        ("node", "Node with Express"),
        ("admin", "free for Petasos' admin address: the application sends its purges there"),
    ],
    secrets: &["user_password", "secret_key"],
    templates: &[&[
        files::verbatim!("app/server.js", "node/server.js"),
        files::verbatim!("app/assets/logo.1f3a.svg", "node/assets/logo.1f3a.svg"),
        files::verbatim!("app/assets/script.77b0.js", "node/assets/script.77b0.js"),
        files::verbatim!("app/assets/style.9c2e.css", "node/assets/style.9c2e.css"),
    ]],
    is_current: |_| true,
    steps: &[
        StackStep::Make(install),
        StackStep::Write,
        StackStep::Start(StackServer {
            name: "node",
            command: "env ADDRESS={{node}} ADMIN={{admin}} PASSWORD={{user_password}} SECRET={{secret_key}} \
                      node {{site}}/app/server.js",
            ready: ReadyCondition::Pages(&["node"]),
        }),
    ],
};

/// Installs the packages as the caller, because the caller may have configured how npm fetches
/// packages. The server only reads them.
fn install(site: &StackSite<'_>) -> Result<()> {
    make_own(site.place.account, &site.at("app"))?;
    crate::node::install(&crate::repository().join("labs/node"), &site.at("app")).map(|_| ())
}
