//! PHP for a stack: PHP-FPM with and without opcode cache, and a command for scripts.
//!
//! Invariant: the two FPM masters differ only in the opcode cache. This module has no code for a
//! particular content system.

use super::stack::{ReadyCondition, StackServer, StackSite, StackStep};
use std::process::Command;

/// Starts PHP-FPM without opcode cache.
pub(crate) const START_PLAIN: StackStep = StackStep::Start(StackServer {
    name: "php-plain",
    command: "php-fpm8.2 --nodaemonize --fpm-config {{site}}/conf/php-plain.conf --php-ini {{site}}/conf/php.ini \
              --define opcache.enable=0",
    ready: ReadyCondition::Socket("php-plain.sock"),
});
/// Starts PHP-FPM with opcode cache.
pub(crate) const START_OPCODE: StackStep = StackStep::Start(StackServer {
    name: "php-opcode",
    command: "php-fpm8.2 --nodaemonize --fpm-config {{site}}/conf/php-opcode.conf --php-ini {{site}}/conf/php.ini \
              --define opcache.enable=1",
    ready: ReadyCondition::Socket("php-opcode.sock"),
});

/// A command for a PHP script that installs a site or fills it with content. It may use more
/// memory than a page, and the mail that it sends is discarded.
pub(crate) fn script(site: &StackSite<'_>) -> Command {
    let mut command = site.place.account.step("php8.2");
    command.args(["-d", "memory_limit=512M", "-d", "display_errors=stderr", "-d", "sendmail_path=/bin/true"]);
    command
}
