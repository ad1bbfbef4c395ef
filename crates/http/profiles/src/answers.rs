//! Reads the rows of a profile about responses: those shared for a short time, and those that say
//! that the site is closed.
//!
//! Invariant: a rule requires at least one response field, because a status alone does not show
//! which server made the response.

use crate::file::{BeyondWord, BriefRow, File, MaintenanceRow, UnknownParametersTable};
use crate::profile::{patterns, require_source};
use crate::{BeyondLimit, BriefRule, FieldPattern, MaintenanceRule, Policy, UnknownParameters};
use std::time::Duration;

/// Adds the rows about responses and the limit on unknown parameters.
pub(crate) fn fill_answers(policy: &mut Policy, file: &File) -> Result<(), String> {
    if let Some(table) = &file.unknown_parameters {
        policy.unknown_parameters = Some(unknown_parameters(table)?);
    }
    for row in &file.brief {
        policy.briefs.push(brief_rule(row)?);
    }
    for row in &file.maintenance {
        policy.maintenance.push(maintenance_rule(row)?);
    }
    Ok(())
}

fn brief_rule(row: &BriefRow) -> Result<BriefRule, String> {
    require_source("brief", &row.source)?;
    if row.statuses.iter().any(|status| !(300..500).contains(status)) {
        return Err("a [[brief]] is for redirects and missing pages; use statuses from 300 to 499".to_owned());
    }
    Ok(BriefRule {
        statuses: proven("brief", &row.statuses, &row.fields)?,
        lifetime: Duration::from_secs(row.lifetime_secs),
        paths: if row.paths.is_empty() { Vec::new() } else { patterns("brief", &row.paths)? },
        fields: fields(&row.fields)?,
    })
}

fn maintenance_rule(row: &MaintenanceRow) -> Result<MaintenanceRule, String> {
    require_source("maintenance", &row.source)?;
    let statuses = proven("maintenance", &row.statuses, &row.fields)?;
    Ok(MaintenanceRule { statuses, fields: fields(&row.fields)? })
}

fn unknown_parameters(table: &UnknownParametersTable) -> Result<UnknownParameters, String> {
    require_source("unknown_parameters", &table.source)?;
    let beyond = match table.beyond {
        BeyondWord::Refuse => BeyondLimit::Refuse,
        BeyondWord::Page => BeyondLimit::Page,
    };
    Ok(UnknownParameters { per_minute: table.per_minute, beyond })
}

/// Returns the statuses of a row, if it names statuses and fields.
fn proven(row: &str, statuses: &[u16], fields: &[String]) -> Result<Vec<u16>, String> {
    if statuses.is_empty() || fields.is_empty() {
        return Err(format!(
            "a [[{row}]] needs statuses, and fields that only the application sends with them"
        ));
    }
    Ok(statuses.to_vec())
}

fn fields(texts: &[String]) -> Result<Vec<FieldPattern>, String> {
    texts.iter().map(|text| FieldPattern::parse(text)).collect()
}
