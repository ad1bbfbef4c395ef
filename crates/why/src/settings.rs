//! Suggests settings of Petasos that remove an obstacle without a change of the application.
//!
//! Invariant: a setting is suggested only if `semantics` no longer reports the obstacle under it.
//! No suggestion would share a form token, or a cookie that the origin may have set because of the
//! visitor's own cookies.

use crate::fetch::FetchedResponse;
use crate::findings::SuggestedSetting;
use crate::verdict::{TTL_SUGGESTED, decide};
use message::{ResponseHead, names};
use profiles::{CookiePurpose, Pattern, Policy, cookies_set, known_cookie};
use semantics::{Reason, RequestClass, classify_request, is_for_any_cookie};

/// Suggests the settings under which a response may be shared.
#[derive(Debug)]
pub(crate) struct Advisor<'a> {
    pub(crate) plain: &'a FetchedResponse,
    /// The rules of an edge with `profile = "auto"` after this response.
    pub(crate) auto: &'a Policy,
    /// The profile that fits the site's software.
    pub(crate) profile: &'a Policy,
    /// Whether the page has a password field or a token for one visitor.
    pub(crate) is_for_one: bool,
}

impl Advisor<'_> {
    /// The setting that removes `reason`, for which this head is not stored.
    pub(crate) fn against(&self, reason: Reason, head: &ResponseHead) -> Option<SuggestedSetting> {
        match reason {
            Reason::StoreRefusedSetCookie => self.static_path(head).or_else(|| self.stripped_cookies(head)),
            Reason::StoreRefusedNoFreshness | Reason::MissNoLifetime | Reason::MissExpired => {
                self.lifetime(head)
            }
            _ => None,
        }
    }

    /// Whether the request's cookies do not matter because the response is a static file.
    ///
    /// `None`: they matter. `Some(None)`: they do not matter. `Some(Some(setting))`: they do not
    /// matter under the setting.
    pub(crate) fn against_cookies(&self) -> Option<Option<SuggestedSetting>> {
        let FetchedResponse { request, head, .. } = self.plain;
        if !matches!(classify_request(request, false, self.auto), RequestClass::LookupStatic { .. }) {
            return None;
        }
        let is_file = |policy: &Policy| is_for_any_cookie(&request.target, head.status, &head.fields, policy);
        if is_file(self.auto) {
            return Some(None);
        }
        let setting = self.declared_path()?;
        is_file(&with(self.auto, &setting)).then_some(Some(setting))
    }

    /// The policy with all of the settings applied.
    pub(crate) fn under(&self, settings: &[SuggestedSetting]) -> Policy {
        let lifetime = settings.iter().find(|setting| matches!(setting.key, "ttl" | "profile"));
        let base = lifetime.map_or_else(|| self.auto.clone(), |_| with_lifetime(self.profile));
        settings.iter().fold(base, |policy, setting| with(&policy, setting))
    }

    /// The setting that gives this head a lifetime.
    fn lifetime(&self, head: &ResponseHead) -> Option<SuggestedSetting> {
        let freshness = decide(self.plain, head, &with_lifetime(self.profile)).ok()?;
        if freshness.must_be_validated(self.plain.arrived) {
            return None;
        }
        Some(if self.profile.default_ttl.is_some() {
            SuggestedSetting { key: "profile", value: self.profile.name.clone() }
        } else {
            SuggestedSetting { key: "ttl", value: format!("{}m", TTL_SUGGESTED.as_secs() / 60) }
        })
    }

    /// The setting that declares the directory static, so that the response's cookies are ignored.
    fn static_path(&self, head: &ResponseHead) -> Option<SuggestedSetting> {
        self.declared_path().filter(|setting| self.allows_cookies(head, setting))
    }

    /// The setting that removes the response's cookies before the page is shared.
    fn stripped_cookies(&self, head: &ResponseHead) -> Option<SuggestedSetting> {
        if self.is_for_one || self.plain.request.fields.has(names::COOKIE) {
            return None;
        }
        let is_noise =
            |name: &String| self.auto.noise_cookies.iter().any(|noise| noise.matches(name.as_bytes()));
        let names: Vec<String> =
            cookies_set(&head.fields).into_iter().filter(|name| !is_noise(name)).collect();
        let is_plain = |name: &String| {
            name.bytes().all(|octet| octet.is_ascii_alphanumeric() || b"_-.".contains(&octet))
        };
        let is_token = |name: &String| {
            known_cookie(name.as_bytes()).is_some_and(|row| row.purpose == CookiePurpose::FormToken)
        };
        if names.is_empty() || !names.iter().all(is_plain) || names.iter().any(is_token) {
            return None;
        }
        let setting = SuggestedSetting { key: "stripped_cookies", value: list(&names) };
        self.allows_cookies(head, &setting).then_some(setting)
    }

    /// Whether this head's cookies are no longer the obstacle under a setting.
    fn allows_cookies(&self, head: &ResponseHead, setting: &SuggestedSetting) -> bool {
        decide(self.plain, head, &with(self.auto, setting)) != Err(Reason::StoreRefusedSetCookie)
    }

    /// The setting that declares the page's directory static, or only the page if it is at the top
    /// level. `None` if the path has characters that would need care in a pattern.
    fn declared_path(&self) -> Option<SuggestedSetting> {
        let target = std::str::from_utf8(&self.plain.request.target).ok()?;
        let path = target.split('?').next().unwrap_or_default();
        let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"/_-.".contains(&octet);
        if !path.bytes().all(is_plain) {
            return None;
        }
        let directory =
            path.rfind('/').and_then(|end| path.get(..=end)).filter(|directory| *directory != "/");
        let pattern = directory.map_or_else(|| path.to_owned(), |directory| format!("{directory}*"));
        Some(SuggestedSetting { key: "static_paths", value: list(&[pattern]) })
    }
}

/// The policy with a lifetime for responses that state none.
fn with_lifetime(profile: &Policy) -> Policy {
    Policy { default_ttl: Some(profile.default_ttl.unwrap_or(TTL_SUGGESTED)), ..profile.clone() }
}

/// The policy with the patterns of a setting added to its own.
fn with(policy: &Policy, setting: &SuggestedSetting) -> Policy {
    let mut policy = policy.clone();
    let patterns = setting.value.split('"').skip(1).step_by(2).map(Pattern::new);
    match setting.key {
        "stripped_cookies" => policy.stripped_cookies.extend(patterns),
        "static_paths" => policy.static_paths.extend(patterns),
        _ => {}
    }
    policy
}

/// A list in the syntax of the configuration file. The texts contain no character that needs
/// escaping.
fn list(texts: &[String]) -> String {
    format!("[\"{}\"]", texts.join("\", \""))
}
