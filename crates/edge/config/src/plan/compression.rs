//! Which coded forms the edge makes of a site's stored responses.
//!
//! Invariant: a policy that forwards everything as sent has no rules.

use crate::levels::SettingLevels;
use crate::setting::SettingValue;
use document::quantity::format_size;
use document::{Diagnostic, Place};
use profiles::{Forwarding, Policy};
use semantics::{Coding, CompressionRules, MissForm};

/// The greatest value of `compression.size_max`, in bytes. It bounds the memory of the encoder.
const BYTES_MAX: u64 = 64 << 20;

/// The rules of a site. `None`: Petasos compresses nothing.
pub(super) fn resolve(policy: &Policy, levels: &SettingLevels<'_>) -> Option<CompressionRules> {
    let is_on = levels.value("compression.enabled") == Some(SettingValue::Switch(true));
    if !is_on || policy.forwarding == Forwarding::Everything {
        return None;
    }
    let default = CompressionRules::default();
    let codings = match levels.value("compression.codings") {
        Some(SettingValue::Texts(names)) => {
            names.iter().filter_map(|name| Coding::by_name(name.as_bytes())).collect()
        }
        _ => default.codings,
    };
    let types = match levels.stated("compression.types") {
        Some(_) => levels.patterns("compression.types"),
        None => default.types,
    };
    Some(CompressionRules {
        codings,
        types,
        bytes_min: levels.size("compression.size_min").unwrap_or(default.bytes_min),
        bytes_max: levels.size("compression.size_max").unwrap_or(default.bytes_max),
        misses: if levels.text("compression.misses") == Some("gzip") {
            MissForm::Gzip
        } else {
            MissForm::Identity
        },
    })
}

/// Sizes with which nothing would be compressed, or too much memory be needed.
pub(super) fn problems(levels: &SettingLevels<'_>) -> Vec<Diagnostic> {
    let size = |key| levels.size(key).unwrap_or_default();
    let (least, most) = (size("compression.size_min"), size("compression.size_max"));
    let place = |key| levels.place(key).unwrap_or(Place::Default);
    let mut problems = Vec::new();
    if most > BYTES_MAX {
        let text = format!("`compression.size_max` is too large: {}", format_size(most));
        let problem = Diagnostic::new(text, place("compression.size_max"));
        problems.push(problem.with_help(format!("write at most {}", format_size(BYTES_MAX))));
    }
    if least > most {
        let text = format!("`compression.size_min` ({}) is above `compression.size_max`", format_size(least));
        let problem = Diagnostic::new(text, place("compression.size_min"));
        problems.push(problem.with_help("to compress nothing, write compression.enabled = false"));
    }
    problems
}
