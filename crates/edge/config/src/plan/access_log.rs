//! The access log: its destination, and the form and selection of its lines.
//!
//! Invariant: a running edge cannot change the destination. It can change the terms.

use crate::levels::SettingLevels;
use crate::setting::SettingValue;
use address::Address;
use request_log::filter::Filter;
use std::path::PathBuf;

/// The socket for syslog messages of the programs of a machine.
const DEV_LOG: &str = "/dev/log";

/// The socket of the system's journal for entries in its native protocol.
const JOURNAL: &str = "/run/systemd/journal/socket";

/// The destination of access log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLogTarget {
    /// Standard output.
    Stdout,
    /// A file; lines are appended.
    File(PathBuf),
    /// A receiver of syslog datagrams: a Unix socket, or an address for UDP.
    Syslog(Address),
    /// The socket of a journal of systemd.
    Journald(PathBuf),
}

/// Which requests get a line, and its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTerms {
    /// The form of a line.
    pub format: LogFormat,
    /// The condition for a line. `None`: every request.
    pub filter: Option<Filter>,
    /// One of this many requests gets a line; at least 1.
    pub every: u64,
    /// Whether addresses of clients are shown without their last bits.
    pub is_anonymous: bool,
    /// Whether a shared fetch begins a trace.
    pub traces_fetches: bool,
}

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// The combined log format with fields of the edge.
    Combined,
    /// A JSON object.
    Json,
}

impl AccessLogTarget {
    /// Reads the value of `access_log`.
    ///
    /// # Errors
    /// A sentence that says how to write the value.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("the text is empty".to_owned()),
            "-" => Ok(Self::Stdout),
            "journald" => Ok(Self::Journald(JOURNAL.into())),
            "syslog" => Ok(Self::Syslog(Address::Unix(DEV_LOG.into()))),
            _ => match text.split_once(':') {
                Some(("syslog", address)) => address
                    .parse()
                    .map(Self::Syslog)
                    .map_err(|error: address::AddressError| format!("after `syslog:`: {error}")),
                Some(("journald", path)) if path.starts_with('/') => Ok(Self::Journald(path.into())),
                Some(("journald", path)) => Err(format!("after `journald:`: `{path}` is no absolute path")),
                _ => Ok(Self::File(text.into())),
            },
        }
    }
}

impl LogTerms {
    pub(super) fn resolve(top: &SettingLevels<'_>) -> Self {
        Self {
            format: match top.text("access_log_format") {
                Some("json") => LogFormat::Json,
                _ => LogFormat::Combined,
            },
            // The row accepts only expressions that can be read.
            filter: top.text("access_log_where").and_then(|text| Filter::parse(text).ok()),
            every: top.count("access_log_every").unwrap_or(1),
            is_anonymous: top.value("anonymise_addresses") == Some(SettingValue::Switch(true)),
            traces_fetches: top.value("trace_fetches") == Some(SettingValue::Switch(true)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::AccessLogTarget;

    #[test]
    fn destinations_are_told_apart() {
        let read = |text| AccessLogTarget::parse(text);
        let syslog = |address: &str| Ok(AccessLogTarget::Syslog(address.parse().unwrap()));
        assert_eq!(read("-"), Ok(AccessLogTarget::Stdout));
        let journal = |path: &str| Ok(AccessLogTarget::Journald(path.into()));
        assert_eq!(read("journald"), journal("/run/systemd/journal/socket"));
        assert_eq!(
            read("journald:/run/systemd/journal.web/socket"),
            journal("/run/systemd/journal.web/socket")
        );
        assert_eq!(read("syslog"), syslog("unix:/dev/log"));
        assert_eq!(read("syslog:192.0.2.1:514"), syslog("192.0.2.1:514"));
        assert_eq!(read("syslog:unix:/run/log"), syslog("unix:/run/log"));
        for file in ["./journald", "/var/log/syslog", "syslog.log"] {
            assert_eq!(read(file), Ok(AccessLogTarget::File(file.into())));
        }
        assert!(read("syslog:nowhere").unwrap_err().contains("after `syslog:`"));
        assert!(read("journald:web").unwrap_err().contains("no absolute path"));
        assert!(read("").is_err());
    }
}
