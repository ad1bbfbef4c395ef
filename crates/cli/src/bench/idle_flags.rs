//! Flags that have no effect in combination with the other flags given.
//!
//! Invariant: a flag without effect is refused, and the error names the change that would give it
//! one. A flag that only confirms a default, such as `--think 0`, is accepted.

use anyhow::bail;

/// A flag that may be without effect beside the others.
pub(super) struct IdleFlag {
    /// The flag, such as `--think`.
    pub(super) flag: &'static str,
    /// Whether the flag was given and has no effect.
    pub(super) is_idle: bool,
    /// Advice: the change that would give the flag an effect.
    pub(super) fix: &'static str,
}

/// Refuses the first flag without effect.
///
/// # Errors
/// If there is one; the error has the flag and the advice.
pub(super) fn refuse(rows: impl IntoIterator<Item = IdleFlag>) -> anyhow::Result<()> {
    match rows.into_iter().find(|row| row.is_idle) {
        Some(IdleFlag { flag, fix, .. }) => bail!("{flag} does nothing here: {fix}"),
        None => Ok(()),
    }
}
