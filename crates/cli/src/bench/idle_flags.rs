//! Flags that have no effect beside the other flags given.
//!
//! Invariant: a flag that does nothing is refused, with what would give it an effect. A flag that only says what holds
//! anyway, such as `--think 0`, is accepted.

use anyhow::bail;

/// A flag that was given, or not, and has no effect beside the others.
pub(super) struct Idle {
    /// The flag.
    pub(super) flag: &'static str,
    /// Whether it was given and does nothing.
    pub(super) is_idle: bool,
    /// What would give it an effect.
    pub(super) fix: &'static str,
}

/// Refuses the first flag that does nothing.
///
/// # Errors
/// With the flag and the fix.
pub(super) fn refuse(rows: impl IntoIterator<Item = Idle>) -> anyhow::Result<()> {
    match rows.into_iter().find(|row| row.is_idle) {
        Some(Idle { flag, fix, .. }) => bail!("{flag} does nothing here: {fix}"),
        None => Ok(()),
    }
}
