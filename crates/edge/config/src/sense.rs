//! Values that are legal but cannot work, or that the operator should know of.
//! Errors are values with which the edge cannot work; all other cases are warnings.
//!
//! Invariant: every message names the line and the fix.

use crate::ReadFile;
use crate::levels::SettingLevels;
use crate::machine::Machine;
use crate::plan::EdgePlan;
use crate::setting::SettingValue;
use document::quantity::format_size;
use document::{Diagnostic, Place};
use std::io::ErrorKind;
use std::time::Duration;

/// Sizes with their least and greatest usable value, both in bytes.
const SIZES: [(&str, u64, u64); 5] = [
    ("memory", 1 << 20, u64::MAX),
    ("disk_size", 1 << 20, u64::MAX),
    ("limits.request_head_bytes_max", 512, 16 << 20),
    ("limits.purge_head_bytes_max", 512, 16 << 20),
    ("limits.response_head_bytes_max", 512, 16 << 20),
];

/// Timeouts that fail every request when they are zero.
const TIMES: [&str; 9] = [
    "limits.tls_handshake_timeout",
    "limits.request_head_timeout",
    "limits.request_body_timeout",
    "limits.write_timeout",
    "limits.connect_timeout",
    "limits.first_byte_timeout",
    "limits.between_bytes_timeout",
    "limits.disk_timeout",
    "limits.context_timeout",
];

/// Settings that only an access log uses.
const LINE_SETTINGS: [&str; 4] =
    ["access_log_format", "access_log_where", "access_log_every", "limits.access_log_lines_max"];

/// Settings that only the export of traces uses.
const SPAN_SETTINGS: [&str; 3] = ["trace_export_every", "trace_service", "limits.client_traces_max"];

/// The least `memory`, in bytes, for which docs/performance.md states a measured margin. With half
/// of it, the process exceeded the margin by a fifth.
const MARGIN_HOLDS_BYTES: u64 = 64 << 20;

/// Values with which the edge cannot work.
pub(crate) fn errors(top: &SettingLevels<'_>, read: &ReadFile<'_>) -> Vec<Diagnostic> {
    let sizes = SIZES.iter().filter_map(|&(key, least, most)| {
        let bytes = top.size(key)?;
        let (is, help) = match bytes {
            _ if bytes < least => ("small", format!("write at least {}", format_size(least))),
            _ if bytes > most => ("large", format!("write at most {}", format_size(most))),
            _ => return None,
        };
        let place = top.place(key)?;
        Some(
            Diagnostic::new(format!("`{key}` is too {is} to work: {}", format_size(bytes)), place)
                .with_help(help),
        )
    });
    sizes.chain(zero_times(top)).chain(unreadable_token(top, read)).collect()
}

/// Timeouts of zero.
pub(crate) fn zero_times(levels: &SettingLevels<'_>) -> Vec<Diagnostic> {
    let zero = TIMES.iter().filter_map(|key| {
        let problem = Diagnostic::new(format!("`{key}` must be longer than zero"), levels.place(key)?);
        (levels.duration(key) == Some(Duration::ZERO))
            .then(|| problem.with_help("leave it out to use the default"))
    });
    zero.collect()
}

/// Reports a token file that cannot be read or whose first line is empty. A missing file is no
/// problem if `create_token` is set.
fn unreadable_token(top: &SettingLevels<'_>, read: &ReadFile<'_>) -> Option<Diagnostic> {
    let Some(SettingValue::Text(path)) = top.stated("token_file") else { return None };
    let is_created = top.value("create_token") == Some(SettingValue::Switch(true));
    let problem = match read(path) {
        Ok(text) if text.lines().next().is_some_and(|line| !line.trim().is_empty()) => return None,
        Ok(_) => format!("the first line of the token file {path} is empty"),
        Err(error) if is_created && error.kind() == ErrorKind::NotFound => return None,
        Err(error) => format!("cannot read the token file {path}: {error}"),
    };
    let problem = Diagnostic::new(problem, top.place("token_file").unwrap_or(Place::Default));
    Some(problem.with_help(
        "write the token into its first line; if the file does not exist, set create_token = true to create it",
    ))
}

/// Warnings: values that work but may surprise the operator.
pub(crate) fn warnings(top: &SettingLevels<'_>, plan: &EdgePlan, machine: &Machine) -> Vec<Diagnostic> {
    [
        open_admin(top, plan),
        trust_of_everybody(top, plan),
        stated_by_everybody(top, plan),
        purging_proxy(top, plan),
        large_memory(top, plan, machine),
        small_memory(top, plan),
        large_object(top, plan),
        large_disk_object(top, plan),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Warnings of `petasos check` alone.
pub(crate) fn cautions(top: &SettingLevels<'_>, plan: &EdgePlan) -> Vec<Diagnostic> {
    purging_neighbour(top, plan).into_iter().chain(unlogged(top, plan)).collect()
}

/// Settings about the lines of an access log, or about spans, that nothing receives.
fn unlogged(top: &SettingLevels<'_>, plan: &EdgePlan) -> Vec<Diagnostic> {
    let unused = [
        ("access_log", plan.access_log.is_none(), "'/var/log/petasos/access.log'", &LINE_SETTINGS[..]),
        ("trace_export", plan.traces.is_none(), "'http://127.0.0.1:4318'", &SPAN_SETTINGS[..]),
    ];
    let keys = unused
        .into_iter()
        .filter(|(_, is_unused, ..)| *is_unused)
        .flat_map(|(needed, _, example, keys)| keys.iter().map(move |&key| (key, needed, example)));
    let stated = keys.filter_map(|(key, needed, example)| {
        let message = format!("`{key}` has no effect without `{needed}`");
        let help = format!("say where to write, such as {needed} = {example}");
        Some(Diagnostic::warning(message, top.place(key)?).with_help(help))
    });
    stated.collect()
}

fn open_admin(top: &SettingLevels<'_>, plan: &EdgePlan) -> Option<Diagnostic> {
    if plan.admin.is_loopback() || plan.admin_tls.is_some() {
        return None;
    }
    let place = top.place("admin")?;
    let message = format!("`admin` is open to other machines at {}, without encryption", plan.admin);
    let help = match plan.token_file {
        None => {
            "use a loopback address such as 127.0.0.1:8081; other machines are refused without a token_file"
        }
        Some(_) => {
            "use a loopback address such as 127.0.0.1:8081, or TLS by admin_certificate, unless only machines that \
             you trust can reach it"
        }
    };
    Some(Diagnostic::warning(message, place).with_help(help))
}

fn trust_of_everybody(top: &SettingLevels<'_>, plan: &EdgePlan) -> Option<Diagnostic> {
    if !plan.trusted_proxies.is_everybody() {
        return None;
    }
    let message =
        "`trusted_proxies` lets every client forge X-Forwarded-* fields, and none has a limit per address";
    let help =
        "list only the proxies in front; if their addresses change, let no other machine reach `listen`";
    Some(Diagnostic::warning(message, top.place("trusted_proxies")?).with_help(help))
}

/// Every client can state another address, and with it purge or avoid its own limits.
fn stated_by_everybody(top: &SettingLevels<'_>, plan: &EdgePlan) -> Option<Diagnostic> {
    if !plan.listeners.iter().any(|listener| listener.proxy_protocol.is_everybody()) {
        return None;
    }
    let message =
        "`proxy_protocol` lets every client state the address that it likes, also one of `purge_peers`";
    let place = top.place("proxy_protocol").unwrap_or(Place::Default);
    Some(Diagnostic::warning(message, place).with_help("list only the proxies in front"))
}

/// A proxy whose address may purge: a visitor whose request it forwards without a trace could.
fn purging_proxy(top: &SettingLevels<'_>, plan: &EdgePlan) -> Option<Diagnostic> {
    let proxies = plan.listeners.iter().map(|listener| ("proxy_protocol", &listener.proxy_protocol));
    let mut lists = std::iter::once(("trusted_proxies", &plan.trusted_proxies)).chain(proxies);
    let (key, proxy) = lists.find_map(|(key, list)| {
        let shared = list.iter().find(|proxy| plan.purge_peers.contains(proxy.first()));
        Some((key, shared?))
    })?;
    let message = format!("{proxy} is in `{key}` and in `purge_peers`: a visitor behind it could purge");
    let place = top.place("purge_peers").unwrap_or(Place::Default);
    Some(Diagnostic::warning(message, place).with_help(
        "remove it from `purge_peers`, and let the application purge with the token or at the admin address",
    ))
}

/// A loopback address that may purge although every listener is behind a server on this machine.
fn purging_neighbour(top: &SettingLevels<'_>, plan: &EdgePlan) -> Option<Diagnostic> {
    let is_behind = plan.listeners.iter().all(|listener| listener.address.is_loopback());
    let has_loopback = plan.purge_peers.iter().any(|peer| peer.first().is_loopback());
    if !is_behind || !has_loopback {
        return None;
    }
    let message = "`purge_peers` has a loopback address, and only servers on this machine reach the listeners: \
                   if one of them forwards visitors without X-Forwarded-For, they could purge";
    let place = top.place("purge_peers").unwrap_or(Place::Default);
    Some(Diagnostic::warning(message, place).with_help("let the application purge with the token"))
}

fn large_memory(top: &SettingLevels<'_>, plan: &EdgePlan, machine: &Machine) -> Option<Diagnostic> {
    if plan.memory_bytes <= machine.memory_bytes {
        return None;
    }
    let (wanted, there) = (format_size(plan.memory_bytes), format_size(machine.memory_bytes));
    let message = format!("`memory` is {wanted}, but the machine or its control group has only {there}");
    Some(
        Diagnostic::warning(message, top.place("memory")?)
            .with_help("leave `memory` out to use a quarter of the available memory"),
    )
}

fn small_memory(top: &SettingLevels<'_>, plan: &EdgePlan) -> Option<Diagnostic> {
    if plan.memory_bytes >= MARGIN_HOLDS_BYTES {
        return None;
    }
    let message = format!(
        "`memory` is {}: with less than {} the process may occupy more under load than docs/performance.md states",
        format_size(plan.memory_bytes),
        format_size(MARGIN_HOLDS_BYTES)
    );
    let help = format!("write at least {}", format_size(MARGIN_HOLDS_BYTES));
    Some(Diagnostic::warning(message, top.place("memory")?).with_help(help))
}

fn large_object(top: &SettingLevels<'_>, plan: &EdgePlan) -> Option<Diagnostic> {
    let (key, bytes) = ("limits.object_bytes_max", plan.limits.object_bytes_max);
    if bytes <= plan.memory_bytes {
        return None;
    }
    let message = format!("`{key}` is {}, more than `memory`", format_size(bytes));
    let help = format!("write at most {}", format_size(plan.memory_bytes));
    // If the object limit was left out, the small `memory` is the cause.
    let place = top.place(key).or_else(|| top.place("memory"))?;
    Some(Diagnostic::warning(message, place).with_help(help))
}

fn large_disk_object(top: &SettingLevels<'_>, plan: &EdgePlan) -> Option<Diagnostic> {
    let (key, bytes) = ("limits.disk_object_bytes_max", plan.limits.disk_object_bytes_max);
    let disk = plan.disk.as_ref().filter(|disk| disk.bytes_max < bytes)?;
    let message = format!("`{key}` is {}, more than `disk_size`", format_size(bytes));
    let help = format!("write at most {}", format_size(disk.bytes_max));
    Some(Diagnostic::warning(message, top.place(key)?).with_help(help))
}

#[cfg(test)]
mod tests {
    use crate::{EdgePlan, Machine};
    use std::io;

    fn load(text: &str) -> Result<EdgePlan, String> {
        let read = |path: &str| match path {
            "./token" => Ok("secret\n".to_owned()),
            "./empty" => Ok("\n".to_owned()),
            "./secret" => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        let text = format!("origin = 'http://127.0.0.1:9'\n{text}\n");
        crate::load("petasos.toml", &text, &Vec::new(), &Machine::of_size(3, 4 << 30), &read)
            .map_err(|problems| problems.iter().map(|problem| format!("{problem}\n\n")).collect())
    }

    #[test]
    fn settings_that_cannot_work_are_errors_with_line_and_fix() {
        for (text, words) in [
            ("purge_peers = ['fastly']", "every customer of fastly could purge"),
            ("memory = '1KiB'", "write at least 1MiB"),
            ("disk = '/d'\ndisk_size = '0B'", "`disk_size` is too small to work"),
            ("limits.request_head_bytes_max = '10B'", "write at least 512B"),
            ("limits.response_head_bytes_max = '1GiB'", "write at most 16MiB"),
            ("limits.request_fields_max = 257", "1 to 256"),
            ("limits.connect_timeout = '0s'", "must be longer than zero"),
            ("token_file = './none'", "set create_token = true"),
            ("trace_export = 'https://a.test'", "let a collector on this machine forward"),
            ("trace_export = '127.0.0.1:4318'", "not the http URL of a collector"),
            ("trace_export = 'http://a/?b'", "not the http URL of a collector"),
            ("token_file = './empty'", "the first line of the token file ./empty is empty"),
            ("token_file = './secret'\ncreate_token = true", "cannot read the token file ./secret"),
        ] {
            let fault = load(text).unwrap_err();
            assert!(fault.contains(words) && fault.contains("petasos.toml:"), "{text}: {fault}");
        }
        for good in
            ["token_file = './token'", "token_file = './none'\ncreate_token = true", "memory = '1MiB'"]
        {
            assert!(load(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn doubtful_settings_are_warnings_with_line_and_fix() {
        for (text, words) in [
            ("admin = '0.0.0.0:8081'", "other machines are refused without a token_file"),
            ("admin = '192.0.2.1:8081'\ntoken_file = './token'", "unless only machines that you trust"),
            ("trusted_proxies = ['0.0.0.0/0']", "forge X-Forwarded-* fields"),
            ("trusted_proxies = ['10.0.0.1', '::/1', '8000::/1']", "list only the proxies in front"),
            ("listen = ':80'\nproxy_protocol = ['0.0.0.0/0']", "also one of `purge_peers`"),
            (
                "listen = ':80'\npurge_peers = ['10.0.0.0/8']\nproxy_protocol = ['10.0.0.1']",
                "10.0.0.1 is in `proxy_protocol` and in `purge_peers`",
            ),
            (
                "listen = ':80'\npurge_peers = ['10.0.0.1']\ntrusted_proxies = ['10.0.0.1']",
                "10.0.0.1 is in `trusted_proxies` and in `purge_peers`",
            ),
            ("memory = '64GiB'", "has only 4GiB"),
            ("memory = '32MiB'", "more than `memory`"),
            ("memory = '32MiB'", "write at least 64MiB"),
            ("limits.object_bytes_max = '2GiB'", "write at most 1GiB"),
            (
                "disk = '/d'\ndisk_size = '1GiB'\nlimits.disk_object_bytes_max = '2GiB'",
                "more than `disk_size`",
            ),
        ] {
            let warnings = load(text).unwrap().warnings;
            let text = warnings.iter().map(ToString::to_string).collect::<String>();
            assert!(text.contains(words) && text.contains("petasos.toml:"), "{text}");
            assert!(text.starts_with("warning: "), "{text}");
        }
        let plan = load("purge_peers = ['::1']").unwrap();
        let caution = plan.cautions.iter().map(ToString::to_string).collect::<String>();
        assert!(caution.contains("only servers on this machine reach the listeners"), "{caution}");
        assert!(plan.warnings.is_empty(), "a start does not repeat it");
        let plan = load("access_log_every = 9\naccess_log_where = 'status = 500'").unwrap();
        let cautions: Vec<_> = plan.cautions.iter().map(ToString::to_string).collect();
        assert_eq!((plan.warnings.len(), cautions.len()), (0, 2), "{cautions:?}");
        assert!(
            cautions[1].contains("`access_log_every` has no effect") && cautions[1].contains("toml:2"),
            "{cautions:?}"
        );
        let plan = load("trace_service = 'a'").unwrap();
        assert!(plan.cautions[0].to_string().contains("no effect without `trace_export`"));
        let used = "access_log = '-'\naccess_log_every = 9\ntrace_export = 'http://a'\ntrace_service = 'a'";
        assert_eq!(load(used).unwrap().cautions, []);
        for quiet in [
            "",
            "memory = '64MiB'",
            "listen = ':80'\npurge_peers = ['127.0.0.1']\ntrusted_proxies = ['10.0.0.1']",
            "purge_peers = ['10.0.0.1']\nproxy_protocol = ['10.0.0.2']",
            "admin = 'localhost:8081'",
            "admin = 'unix:/run/a'",
            "admin = '0.0.0.0:8081'\nadmin_certificate = '/c.pem,/k.pem'",
            "trusted_proxies = ['10.0.0.0/8', '0.0.0.0/1']",
            "disk = '/d'\ndisk_size = '100MiB'",
        ] {
            assert_eq!(load(quiet).unwrap().warnings, [], "{quiet}");
        }
    }
}
