//! Reads the rows of a profile about responses: those shared for a short time, and those that say
//! that the site is closed.
//!
//! Invariant: a rule requires at least one response field, because a status alone does not show
//! which server made the response.

use crate::file::{BeyondWord, BriefRow, Fault, MaintenanceRow, UnknownParametersTable};
use crate::profile::{each, listed, require_source};
use crate::{BeyondLimit, BriefRule, FieldPattern, MaintenanceRule, Policy, UnknownParameters};
use std::time::Duration;

/// Adds a row about responses that are shared for a short time.
pub(crate) fn fill_brief(policy: &mut Policy, row: &BriefRow) -> Result<(), Fault> {
    require_source("brief", &row.source)?;
    if let Some(place) = row.statuses.iter().position(|status| !(300..500).contains(status)) {
        let message = "a [[brief]] is for redirects and missing pages; use statuses from 300 to 499";
        return Err(Fault::at("statuses", place, message));
    }
    policy.briefs.push(BriefRule {
        statuses: proven("brief", &row.statuses, &row.fields)?,
        lifetime: Duration::from_secs(row.lifetime_secs),
        paths: listed("brief", "paths", &row.paths)?,
        fields: fields(&row.fields)?,
    });
    Ok(())
}

/// Adds a row about responses that say that the site is closed.
pub(crate) fn fill_maintenance(policy: &mut Policy, row: &MaintenanceRow) -> Result<(), Fault> {
    require_source("maintenance", &row.source)?;
    let statuses = proven("maintenance", &row.statuses, &row.fields)?;
    policy.maintenance.push(MaintenanceRule { statuses, fields: fields(&row.fields)? });
    Ok(())
}

/// Sets the limit on unknown parameters.
pub(crate) fn fill_unknown_parameters(
    policy: &mut Policy,
    table: &UnknownParametersTable,
) -> Result<(), Fault> {
    require_source("unknown_parameters", &table.source)?;
    let beyond = match table.beyond {
        BeyondWord::Refuse => BeyondLimit::Refuse,
        BeyondWord::Page => BeyondLimit::Page,
    };
    policy.unknown_parameters = Some(UnknownParameters { per_minute: table.per_minute, beyond });
    Ok(())
}

/// Returns the statuses of a row, if it names statuses and fields.
fn proven(row: &str, statuses: &[u16], fields: &[String]) -> Result<Vec<u16>, Fault> {
    if statuses.is_empty() || fields.is_empty() {
        let key = if statuses.is_empty() { "statuses" } else { "fields" };
        let message =
            format!("a [[{row}]] needs statuses, and fields that only the application sends with them");
        return Err(Fault::new(key, message));
    }
    Ok(statuses.to_vec())
}

fn fields(texts: &[String]) -> Result<Vec<FieldPattern>, Fault> {
    each("fields", texts, |text| FieldPattern::parse(text))
}
