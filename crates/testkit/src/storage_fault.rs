//! Faults of storage that tests produce, named by the system's error numbers.
//!
//! Invariant: a test that names a fault proves and prints that it has met this one. Where the fault
//! cannot be produced, the test fails and does not test another one.

use rustix::io::Errno;
use std::io;

/// A fault of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageFault {
    /// ENOSPC: the file system is full.
    Enospc,
    /// EFBIG: the file would exceed the process's limit of file sizes.
    Efbig,
    /// EIO: the device fails.
    Eio,
    /// EROFS: the file system has become read-only.
    Erofs,
}

impl StorageFault {
    const fn errno(self) -> Errno {
        match self {
            Self::Enospc => Errno::NOSPC,
            Self::Efbig => Errno::FBIG,
            Self::Eio => Errno::IO,
            Self::Erofs => Errno::ROFS,
        }
    }

    /// The name of the error number.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enospc => "ENOSPC",
            Self::Efbig => "EFBIG",
            Self::Eio => "EIO",
            Self::Erofs => "EROFS",
        }
    }

    /// Checks that an operation has failed with this fault, and prints the fault.
    ///
    /// # Panics
    /// If the operation has succeeded or failed with another error.
    pub fn check<T>(self, outcome: io::Result<T>) {
        match outcome {
            Ok(_) => panic!("the fault was meant to be {}, but a write has succeeded", self.name()),
            Err(error) if error.raw_os_error() == Some(self.errno().raw_os_error()) => {
                self.announce(&error.to_string());
            }
            Err(error) => panic!("the fault was meant to be {}, but it is: {error}", self.name()),
        }
    }

    /// Checks that a message names this fault, as the system or the error's kind does, and prints
    /// the fault.
    ///
    /// # Panics
    /// If the message does not name this fault.
    pub fn check_message(self, message: &str) {
        let error = io::Error::from(self.errno());
        let text = error.to_string();
        let of_system = text.split(" (").next().unwrap_or_default();
        // Several errors, such as EIO, have no separate kind.
        let has_kind = matches!(self, Self::Enospc | Self::Efbig | Self::Erofs);
        let is_named = message.contains(of_system) || has_kind && message.contains(&error.kind().to_string());
        assert!(is_named, "the fault was meant to be {}, but it is: {message}", self.name());
        self.announce(message.trim_end());
    }

    /// Prints the fault with the evidence for it.
    #[allow(clippy::print_stdout, reason = "the test's own output says which fault it has tested")]
    pub fn announce(self, evidence: &str) {
        println!("fault: {}: {evidence}", self.name());
    }
}

#[cfg(test)]
mod tests {
    use super::StorageFault;
    use std::io;

    #[test]
    fn fault_is_found_in_both_kinds_of_messages() {
        StorageFault::Enospc.check_message("/a/mark: cannot write: No space left on device (os error 28)");
        StorageFault::Efbig.check_message("cannot write the journal: file too large");
        StorageFault::Eio.check::<()>(Err(io::Error::from_raw_os_error(5)));
    }

    #[test]
    #[should_panic(expected = "the fault was meant to be ENOSPC, but it is: File too large")]
    fn another_fault_fails_the_test() {
        StorageFault::Enospc.check::<()>(Err(io::Error::from_raw_os_error(27)));
    }

    #[test]
    #[should_panic(expected = "the fault was meant to be ENOSPC, but it is: cannot write: File too large")]
    fn message_about_another_fault_fails_the_test() {
        StorageFault::Enospc.check_message("cannot write: File too large (os error 27)");
    }
}
