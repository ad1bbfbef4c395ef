//! Judges the plain response: whether it may be shared, the obstacles, and the settings that remove
//! them.
//!
//! Invariant: `semantics` makes the decisions, called as the edge calls it. To find the obstacles
//! behind the first one, the same response is judged again with one obstacle removed.

use crate::fetch::FetchedResponse;
use crate::findings::{Cacheable, CookieSet, Obstacle, ObstacleCulprit, PageVerdict, SuggestedSetting};
use crate::remedy::{PASSWORD_REMEDY, general_remedy, has_password_field, known_value, lifetime_advice};
use crate::settings::Advisor;
use bytes::Bytes;
use difference::text_of;
use message::{Fields, RequestHead, ResponseHead, names};
use profiles::{DocumentHead, Policy, Profile, ResponseEvidence, Software, cookies_set, known_cookie};
use semantics::{
    CulpritKind, Freshness, Judgement, Reason, RequestClass, VaryRule, classify_request, explain_refusal,
    explain_request, judge_response,
};
use std::time::Duration;

/// The suggested lifetime where an application states none.
pub(crate) const TTL_SUGGESTED: Duration = Duration::from_secs(300);

/// Upper bound of the obstacles that are searched. There are fewer kinds.
const OBSTACLES_MAX: usize = 8;

/// The result of the judgement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PageJudgement {
    pub(crate) verdict: PageVerdict,
    pub(crate) obstacles: Vec<Obstacle>,
    pub(crate) settings: Vec<SuggestedSetting>,
    pub(crate) cookies: Vec<CookieSet>,
}

/// Judges the plain response of a site that runs on `software`. `has_token`: the page contains a
/// token for one visitor.
pub(crate) fn judge(
    plain: &FetchedResponse,
    head: &DocumentHead,
    software: &[Software],
    has_token: bool,
) -> PageJudgement {
    let auto = chosen(plain, head);
    let profile = profile_for(software, &auto);
    let asks_for_password = has_password_field(&plain.content);
    let advisor =
        Advisor { plain, auto: &auto, profile: &profile, is_for_one: has_token || asks_for_password };
    let mut settings = Vec::new();
    let mut obstacles: Vec<Obstacle> = Vec::new();
    if let Some(mut obstacle) = request_obstacle(&plain.request, &profile) {
        match advisor.against_cookies() {
            // The response is a static file, so the request's cookies do not matter.
            Some(None) => {}
            against => {
                obstacle.solved_by_setting = against.is_some();
                settings.extend(against.flatten());
                obstacles.push(obstacle);
            }
        }
    }
    for (reason, head) in refusals(plain, &auto) {
        let setting = advisor.against(reason, &head);
        obstacles.push(obstacle(reason, &head, &auto, software, setting.is_some()));
        settings.extend(setting);
    }
    settings.dedup();
    if asks_for_password {
        for obstacle in &mut obstacles {
            obstacle.remedy = PASSWORD_REMEDY.to_owned();
            obstacle.source = None;
        }
    }
    let passes =
        obstacles.iter().any(|obstacle| obstacle.reason.starts_with("pass-") && !obstacle.solved_by_setting);
    let settings_suffice =
        !settings.is_empty() && obstacles.iter().all(|obstacle| obstacle.solved_by_setting);
    let under_settings = decide(plain, &plain.head, &advisor.under(&settings));
    let under_settings = under_settings.ok().filter(|freshness| !freshness.must_be_validated(plain.arrived));
    let needs_settings_only = settings_suffice && under_settings.is_some();
    let freshness = if needs_settings_only { under_settings } else { decide(plain, &plain.head, &auto).ok() };
    let waits = freshness.is_some_and(|freshness| freshness.must_be_validated(plain.arrived));
    let cacheable = match freshness {
        _ if passes => Cacheable::No,
        Some(_) if needs_settings_only => Cacheable::WithSettings,
        Some(_) if waits => Cacheable::Revalidated,
        Some(_) => Cacheable::Yes,
        None => Cacheable::No,
    };
    let first = obstacles.first();
    let verdict = PageVerdict {
        cacheable,
        profile: auto.name,
        reason: first.map(|obstacle| obstacle.reason),
        advice: first.map(|obstacle| obstacle.advice),
        lifetime_secs: freshness.map(|freshness| freshness.lifetime.as_secs()),
        ttl_secs: freshness.map(|freshness| freshness.ttl_secs(plain.arrived)),
        stale_while_revalidate_secs: freshness.map(|freshness| freshness.while_revalidate.as_secs()),
        stale_if_error_secs: freshness.map(|freshness| freshness.if_error.as_secs()),
    };
    let cookies = cookies_set(&plain.head.fields).into_iter().map(|name| cookie(name, plain, &profile));
    PageJudgement { verdict, settings, cookies: cookies.collect(), obstacles }
}

/// The rules of an edge with `profile = "auto"` after it has seen this response.
fn chosen(plain: &FetchedResponse, head: &DocumentHead) -> Policy {
    let shown = ResponseEvidence {
        method: &plain.request.method,
        target: &plain.request.target,
        status: plain.head.status,
        fields: &plain.head.fields,
        head: Some(head),
        is_start: plain.request.target == "/" && !plain.request.fields.has(names::COOKIE),
    };
    shown.recognised().map_or_else(Policy::default_profile, |recognised| recognised.profile.policy.clone())
}

/// The rules of the profile for the site's software, which may be a guess; otherwise `auto`.
fn profile_for(software: &[Software], auto: &Policy) -> Policy {
    let fits = |profile: &&Profile| software.iter().any(|software| profile.is_for(software.name));
    Profile::all().iter().find(fits).map_or_else(|| auto.clone(), |profile| profile.policy.clone())
}

/// The freshness with which this head would be stored, or the reason why it would not be.
pub(crate) fn decide(
    plain: &FetchedResponse,
    head: &ResponseHead,
    policy: &Policy,
) -> Result<Freshness, Reason> {
    match judge_response(&plain.request, head, plain.sent, plain.arrived, policy) {
        Judgement::Store(storable) => {
            VaryRule::from_response(&head.fields, policy).map(|_| storable.freshness)
        }
        Judgement::DoNotStore(reason) => Err(reason),
    }
}

/// All reasons against storing the response, the weightiest first. Each comes with the head in
/// which it is the first reason.
///
/// The last reason may be that a stored response would have to be validated before each use.
fn refusals(plain: &FetchedResponse, policy: &Policy) -> Vec<(Reason, ResponseHead)> {
    let mut found: Vec<(Reason, ResponseHead)> = Vec::new();
    let mut head = plain.head.clone();
    for _ in 0..OBSTACLES_MAX {
        let reason = match decide(plain, &head, policy) {
            Ok(freshness) if !freshness.must_be_validated(plain.arrived) => break,
            Ok(freshness) => freshness.validation_reason(),
            Err(reason) => reason,
        };
        found.push((reason, head.clone()));
        if !clear(&mut head, reason) {
            break;
        }
    }
    found
}

/// Removes the cause of a reason from a head. Returns false if it cannot, or if it was already
/// removed.
fn clear(head: &mut ResponseHead, reason: Reason) -> bool {
    match reason {
        Reason::StoreRefusedSetCookie => head.fields.remove(names::SET_COOKIE),
        Reason::StoreRefusedVaryStar | Reason::StoreRefusedVaryAddress => head.fields.remove(names::VARY),
        Reason::StoreRefusedPrivate
        | Reason::StoreRefusedNoStore
        | Reason::StoreRefusedNoCache
        | Reason::StoreRefusedNoFreshness
        | Reason::StoreRefusedExpired
        | Reason::StoreRefusedAuthorization
        | Reason::MissNoCache
        | Reason::MissNoLifetime
        | Reason::MissExpired => {
            for name in
                [names::EXPIRES, names::AGE, names::DATE, names::CDN_CACHE_CONTROL, names::SURROGATE_CONTROL]
            {
                head.fields.remove(name);
            }
            let shareable = format!("public, s-maxage={}", TTL_SUGGESTED.as_secs());
            let before = head.fields.only(names::CACHE_CONTROL).is_some_and(|value| *value == shareable);
            head.fields.set(names::CACHE_CONTROL, shareable);
            !before
        }
        _ => false,
    }
}

/// The obstacle if a request like the plain one would not be looked up at all.
fn request_obstacle(request: &RequestHead, profile: &Policy) -> Option<Obstacle> {
    let (reason, culprit) = explain_request(request, false, profile)?;
    let culprit = culprit.map(|culprit| {
        let name = text_of(&culprit.name);
        let is_cookie = culprit.kind == CulpritKind::Cookie;
        let row = if is_cookie { known_cookie(name.as_bytes()) } else { None };
        let software = row.map(|row| row.software);
        ObstacleCulprit { kind: culprit.kind.name(), name, value: None, software }
    });
    Some(Obstacle {
        reason: reason.name(),
        advice: reason.advice(),
        culprit,
        remedy: String::new(),
        source: None,
        solved_by_setting: false,
    })
}

fn obstacle(
    reason: Reason,
    head: &ResponseHead,
    policy: &Policy,
    software: &[Software],
    solved_by_setting: bool,
) -> Obstacle {
    let culprit = culprit(reason, head, policy);
    let cookie = culprit
        .as_ref()
        .filter(|culprit| culprit.kind == "cookie")
        .and_then(|culprit| known_cookie(culprit.name.as_bytes()));
    let (remedy, source) = if let Some(row) = cookie {
        (row.remedy.to_owned(), Some(row.source))
    } else if let Some(row) = known_value(reason, &head.fields) {
        (row.remedy.to_owned(), Some(row.source))
    } else {
        match lifetime_advice(software.iter().map(|software| software.name)) {
            Some(row) if speaks_of_lifetime(reason) => (row.remedy.to_owned(), Some(row.source)),
            _ => (general_remedy(reason).to_owned(), None),
        }
    };
    Obstacle { reason: reason.name(), advice: reason.advice(), culprit, remedy, source, solved_by_setting }
}

/// Whether the reason concerns the time for which a response may be shared.
const fn speaks_of_lifetime(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::StoreRefusedNoFreshness
            | Reason::StoreRefusedExpired
            | Reason::StoreRefusedPrivate
            | Reason::StoreRefusedNoStore
            | Reason::StoreRefusedNoCache
            | Reason::MissExpired
            | Reason::MissNoCache
            | Reason::MissNoLifetime
    )
}

/// The part of the response that causes the reason, with its value. A cookie's value is left out,
/// because it may be secret.
fn culprit(reason: Reason, head: &ResponseHead, policy: &Policy) -> Option<ObstacleCulprit> {
    let found = explain_refusal(reason, &head.fields, policy)?;
    let name = text_of(&found.name);
    if found.kind == CulpritKind::Cookie {
        let software = known_cookie(name.as_bytes()).map(|row| row.software);
        return Some(ObstacleCulprit { kind: found.kind.name(), name, value: None, software });
    }
    let value = head.fields.first(&name).map(|value| text_of(value));
    let software = known_value(reason, &head.fields).filter(|row| row.field.eq_ignore_ascii_case(&name));
    Some(ObstacleCulprit { kind: found.kind.name(), name, value, software: software.map(|row| row.software) })
}

/// Describes a cookie that the response sets, and the effect of a request that carries it.
fn cookie(name: String, plain: &FetchedResponse, profile: &Policy) -> CookieSet {
    let row = known_cookie(name.as_bytes());
    let mut fields = Fields::new();
    fields.push(names::COOKIE, format!("{name}=1"));
    // Use the path `/`, because the page's own path may make the request pass.
    let request = RequestHead { target: Bytes::from_static(b"/"), fields, ..plain.request.clone() };
    let request = match classify_request(&request, false, profile) {
        RequestClass::Lookup(_) => "looked-up",
        // `/` is not the path of a static file.
        RequestClass::LookupStatic { otherwise: reason, .. } | RequestClass::Pass(reason) => reason.name(),
    };
    CookieSet {
        software: row.map(|row| row.software),
        purpose: row.map(|row| row.purpose.name()),
        name,
        request,
    }
}
