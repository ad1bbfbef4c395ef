//! A site's caching rules: those of its profile, replaced or extended by the site's settings.

use crate::ReadFile;
use crate::levels::SettingLevels;
use crate::setting::{LEADER, SettingValue, is_path};
use document::{Diagnostic, NotUtf8, Place};
use profiles::{
    AUTO, BeyondLimit, ClientAddress, DEFAULT, DeviceClass, LETTER, Policy, Profile, StaleOnError,
    TargetedField, UnknownParameters,
};
use std::iter;

/// The rules of the profile that the site names: a shipped profile, or a file read with `read`.
///
/// # Errors
/// The setting that names an unusable file, and the problems of the file at their own places.
pub(crate) fn chosen(levels: &SettingLevels<'_>, read: &ReadFile<'_>) -> Result<Policy, Vec<Diagnostic>> {
    let name = levels.text("profile").unwrap_or(DEFAULT);
    let name = if name == AUTO { DEFAULT } else { name };
    if let Some(profile) = Profile::shipped(name) {
        return Ok(profile.policy.clone());
    }
    debug_assert!(is_path(name), "the table accepts nothing else");
    let at_setting = |message| Diagnostic::new(message, levels.place("profile").unwrap_or(Place::Default));
    let unusable = |problems: Vec<Diagnostic>| {
        let setting = at_setting(format!("the profile {name} cannot be used"));
        iter::once(setting).chain(problems).collect::<Vec<_>>()
    };
    let text = read(name).map_err(|error| match error.downcast::<NotUtf8>() {
        Ok(fault) => unusable(vec![fault.into_problem()]),
        Err(error) => vec![at_setting(format!("cannot read the profile {name}: {error}"))],
    })?;
    Profile::parse(name, &text, Profile::all()).map(|profile| profile.policy).map_err(unusable)
}

/// Applies the site's settings to a profile's rules. Lists of patterns are extended; all other
/// values are replaced.
pub(crate) fn widened(mut policy: Policy, levels: &SettingLevels<'_>) -> Policy {
    policy.default_ttl = levels.duration("ttl").or(policy.default_ttl);
    if let Some(SettingValue::Switch(on)) = levels.value("cache") {
        policy.caches = on;
    }
    policy.not_found_ttl = levels.duration("not_found_ttl").or(policy.not_found_ttl);
    policy.error_ttl = levels.duration("error_ttl").or(policy.error_ttl);
    policy.stale_on_error_max = levels.duration("stale_on_error_max").unwrap_or(policy.stale_on_error_max);
    if levels.text("stale_on_error") == Some("override") && policy.name != LETTER {
        policy.stale_on_error = StaleOnError::Override;
    }
    if let Some(SettingValue::Texts(names)) = levels.value("targeted_fields") {
        policy.targeted_fields = names.iter().filter_map(|name| TargetedField::by_name(name)).collect();
    }
    policy.session_cookies.extend(levels.patterns("session_cookies"));
    policy.noise_cookies.extend(levels.patterns("noise_cookies"));
    policy.tracking_parameters.extend(levels.patterns("tracking_parameters"));
    if levels.text("device_class") == Some("mobile") {
        policy.device_class = DeviceClass::Mobile;
    }
    policy.known_parameters.extend(levels.patterns("known_parameters"));
    policy.unknown_parameters = flood_limit(policy.unknown_parameters, levels);
    if let Some(SettingValue::Switch(exact)) = levels.value("exact_etags") {
        policy.exact_etags = exact;
    }
    policy.client_address = match levels.text("client_address") {
        Some(LEADER) => ClientAddress::Leader,
        Some(text) => text.parse().map_or(policy.client_address, ClientAddress::Constant),
        None => policy.client_address,
    };
    if let Some(SettingValue::Switch(on)) = levels.value("static_files") {
        policy.static_files = on;
    }
    policy.browser_caching = match levels.value("browser_caching") {
        Some(SettingValue::Switch(on)) => on,
        // A lifetime that the operator has stated is not meant to last longer in browsers.
        _ => policy.browser_caching && levels.duration("ttl").is_none(),
    };
    if let Some(longest) = levels.duration("static_ttl_max") {
        policy.static_guess_max = policy.static_guess_max.map(|_| longest);
        policy.static_recheck = policy.static_recheck.map(|time| time.min(longest));
    }
    policy.static_paths.extend(levels.patterns("static_paths"));
    policy.stripped_cookies.extend(levels.patterns("stripped_cookies"));
    policy.noise_fields.extend(levels.patterns("noise_fields"));
    policy.forwarded_fields.extend(levels.patterns("forwarded_fields"));
    policy
}

/// The limit on requests with unknown parameters: the site's settings, else the profile's value.
/// `None`: no limit.
fn flood_limit(given: Option<UnknownParameters>, levels: &SettingLevels<'_>) -> Option<UnknownParameters> {
    let stated = levels.count("unknown_parameters_per_minute");
    let stated = stated.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    let per_minute = stated.or_else(|| given.map(|given| given.per_minute))?;
    let beyond = match levels.text("beyond_unknown_parameters") {
        Some("page") => BeyondLimit::Page,
        Some(_) => BeyondLimit::Refuse,
        None => given.map_or(BeyondLimit::Refuse, |given| given.beyond),
    };
    Some(UnknownParameters { per_minute, beyond })
}
