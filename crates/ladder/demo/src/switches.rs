//! The four layers that can be switched while the site runs.
//!
//! Invariant: a request sees one consistent setting from start to end, because all four switches
//! are in one atomic word that is read once.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// The layers, each on or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Cache of whole pages for visitors without a session: in SQLite or, with `objects`, in
    /// memory.
    pub page_cache: bool,
    /// Cache of the compiled scripts, in memory.
    pub opcode: bool,
    /// Cached pages are looked up before the modules are loaded.
    pub aggressive: bool,
    /// Object cache: variables, menus, listings and filtered texts are cached in memory, and so are
    /// the pages of `page_cache`.
    pub objects: bool,
}

/// An error in a query string that sets switches.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwitchError {
    /// The name is not one of the four.
    #[error("unknown switch {0:?}; the switches are page_cache, opcode, aggressive and objects")]
    UnknownName(String),
    /// The value is neither `on` nor `off`.
    #[error("{name} takes on or off, not {value:?}")]
    UnknownValue {
        /// The name of the switch.
        name: String,
        /// The value in the query.
        value: String,
    },
}

impl Switches {
    /// The names of the switches, as in queries and in the status, and their settings.
    pub const fn named(self) -> [(&'static str, bool); 4] {
        [
            ("page_cache", self.page_cache),
            ("opcode", self.opcode),
            ("aggressive", self.aggressive),
            ("objects", self.objects),
        ]
    }

    /// These switches, changed by the `name=on|off` pairs of `query`.
    ///
    /// # Errors
    /// The first pair with an unknown name or value.
    pub fn changed(mut self, query: &str) -> Result<Self, SwitchError> {
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let switch = match name {
                "page_cache" => &mut self.page_cache,
                "opcode" => &mut self.opcode,
                "aggressive" => &mut self.aggressive,
                "objects" => &mut self.objects,
                other => return Err(SwitchError::UnknownName(other.to_owned())),
            };
            *switch = match value {
                "on" => true,
                "off" => false,
                other => {
                    return Err(SwitchError::UnknownValue { name: name.to_owned(), value: other.to_owned() });
                }
            };
        }
        Ok(self)
    }

    const fn to_bits(self) -> u8 {
        self.page_cache as u8
            | (self.opcode as u8) << 1
            | (self.aggressive as u8) << 2
            | (self.objects as u8) << 3
    }

    const fn from_bits(bits: u8) -> Self {
        Self {
            page_cache: bits & 1 != 0,
            opcode: bits & 2 != 0,
            aggressive: bits & 4 != 0,
            objects: bits & 8 != 0,
        }
    }
}

impl fmt::Display for Switches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, on)) in self.named().into_iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{name}={}", if on { "on" } else { "off" })?;
        }
        Ok(())
    }
}

/// The switches of a running site, which its threads share.
#[derive(Debug)]
pub(crate) struct SharedSwitches(AtomicU8);

impl SharedSwitches {
    pub(crate) const fn new(switches: Switches) -> Self {
        Self(AtomicU8::new(switches.to_bits()))
    }

    pub(crate) fn load(&self) -> Switches {
        Switches::from_bits(self.0.load(Ordering::SeqCst))
    }

    pub(crate) fn store(&self, switches: Switches) {
        self.0.store(switches.to_bits(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::{SharedSwitches, SwitchError, Switches};

    #[test]
    fn every_combination_round_trips_through_the_atomic() {
        for bits in 0..16 {
            let switches = Switches::from_bits(bits);
            assert_eq!(SharedSwitches::new(switches).load(), switches);
            assert_eq!(switches.to_bits(), bits);
        }
    }

    #[test]
    fn only_named_switches_change() {
        let before = Switches { opcode: true, ..Switches::default() };
        let after = before.changed("page_cache=on&objects=off").unwrap();
        assert_eq!(after, Switches { page_cache: true, opcode: true, ..Switches::default() });
        assert_eq!(after.to_string(), "page_cache=on opcode=on aggressive=off objects=off");
    }

    #[test]
    fn errors_name_the_switch_and_value() {
        let none = Switches::default();
        assert_eq!(none.changed("cache=on"), Err(SwitchError::UnknownName("cache".into())));
        let value = SwitchError::UnknownValue { name: "opcode".into(), value: "yes".into() };
        assert_eq!(none.changed("page_cache=on&opcode=yes"), Err(value));
    }
}
