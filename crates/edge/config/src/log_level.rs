//! The severity of messages on standard error, and its names in the setting `log_level`.
//!
//! Invariant: every name of the setting has a level.

/// The values of the setting `log_level`, the most severe first.
pub(crate) const NAMES: &[&str] = &["error", "warn", "info", "debug"];

/// The severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// A function is off, or a part of the edge has failed.
    Error,
    /// Something needs attention.
    Warn,
    /// A change of state.
    Info,
    /// A detail for the search for a fault.
    Debug,
}

impl LogLevel {
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        match name {
            "error" => Some(Self::Error),
            "warn" => Some(Self::Warn),
            "info" => Some(Self::Info),
            "debug" => Some(Self::Debug),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LogLevel, NAMES};

    #[test]
    fn every_name_of_the_setting_has_a_level() {
        let levels: Vec<_> = NAMES.iter().filter_map(|name| LogLevel::by_name(name)).collect();
        assert_eq!(levels, [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug]);
    }
}
