//! The profile's rules for special kinds of responses: those that are shared briefly, and those
//! that show that the site is closed.
//!
//! Invariant: a rule applies only to a response with every field that it asks for. A response that
//! another server made on behalf of the application is therefore not taken for the application's
//! own.

use crate::spelling::percent_decoded;
use message::{RequestHead, ResponseHead};
use profiles::{BriefRule, FieldPattern, MaintenanceRule, Policy};
use std::time::Duration;

/// How long the response is shared although its cache directives forbid that; `None` if no rule of
/// the policy applies.
pub(crate) fn brief_lifetime(
    request: &RequestHead,
    response: &ResponseHead,
    policy: &Policy,
) -> Option<Duration> {
    let is_met = |rule: &&BriefRule| {
        rule.statuses.contains(&response.status.code())
            && has_fields(&rule.fields, response)
            && (rule.paths.is_empty() || is_of_path(rule, &request.target))
    };
    policy.briefs.iter().find(is_met).map(|rule| rule.lifetime)
}

/// Whether the response says that the site is closed for maintenance. This response is meant for
/// visitors, so no stale page may replace it.
pub fn is_maintenance(response: &ResponseHead, policy: &Policy) -> bool {
    let is_met = |rule: &MaintenanceRule| {
        rule.statuses.contains(&response.status.code()) && has_fields(&rule.fields, response)
    };
    policy.maintenance.iter().any(is_met)
}

fn is_of_path(rule: &BriefRule, target: &[u8]) -> bool {
    let path = percent_decoded(target.split(|&byte| byte == b'?').next().unwrap_or_default());
    rule.paths.iter().any(|pattern| pattern.matches(&path))
}

fn has_fields(wanted: &[FieldPattern], response: &ResponseHead) -> bool {
    wanted.iter().all(|field| response.fields.all(&field.name).any(|line| field.matches(line)))
}

#[cfg(test)]
mod tests {
    use super::is_maintenance;
    use crate::tests::FieldLines;
    use crate::{Judgement, Moment, Reason, judge_response};
    use message::{Fields, Method, RequestHead, ResponseHead, Status, Version};
    use profiles::Policy;

    const EXPIRES: (&str, &str) = ("Expires", "Wed, 11 Jan 1984 05:00:00 GMT");
    const OLD: (&str, &str) = ("Cache-Control", "no-cache, must-revalidate, max-age=0");
    const NEW: (&str, &str) = ("Cache-Control", "no-cache, must-revalidate, max-age=0, no-store, private");
    const BY_WORDPRESS: (&str, &str) = ("X-Redirect-By", "WordPress");

    fn response(status: u16, fields: &FieldLines) -> ResponseHead {
        let mut head = ResponseHead::new(Status::from_code(status).unwrap());
        fields.iter().for_each(|(name, value)| head.fields.push(*name, *value));
        head
    }

    /// How many seconds the response is shared, or why it is not. Asserts that it is never used
    /// stale.
    fn shared(
        target: &'static str,
        status: u16,
        fields: &FieldLines,
        policy: &Policy,
    ) -> Result<u64, Reason> {
        let request = RequestHead {
            method: Method::Get,
            target: target.into(),
            version: Version::Http11,
            fields: Fields::new(),
        };
        let now = Moment::default();
        match judge_response(&request, &response(status, fields), now, now, policy) {
            Judgement::Store(storable) => {
                let freshness = storable.freshness;
                assert!(!freshness.validate_always && !freshness.may_be_stale);
                assert!(freshness.while_revalidate.is_zero() && freshness.if_error.is_zero());
                Ok(freshness.lifetime.as_secs())
            }
            Judgement::DoNotStore(reason) => Err(reason),
        }
    }

    #[test]
    fn wordpress_404_and_guessed_redirect_are_shared_briefly() {
        let policy = Policy::wordpress();
        for control in [OLD, NEW] {
            assert_eq!(shared("/.env", 404, &[control, EXPIRES], &policy), Ok(30), "{control:?}");
            assert_eq!(shared("/old", 301, &[control, EXPIRES, BY_WORDPRESS], &policy), Ok(30));
        }
        assert_eq!(shared("/favicon.ico", 302, &[BY_WORDPRESS], &policy), Ok(60));
        assert_eq!(shared("/blog/favicon.ico?v=2", 302, &[BY_WORDPRESS], &policy), Ok(60));
    }

    #[test]
    fn responses_like_a_wordpress_404_are_not_shared() {
        let policy = Policy::wordpress();
        let private = ("Cache-Control", "private, no-store");
        let cookie = ("Set-Cookie", "a=b");
        for (target, status, fields) in [
            ("/a", 404, &[OLD][..]),
            ("/a", 404, &[private, EXPIRES]),
            ("/a", 404, &[OLD, EXPIRES, cookie]),
            ("/a", 404, &[OLD, EXPIRES, ("CDN-Cache-Control", "no-store")]),
            ("/a", 200, &[OLD, EXPIRES]),
            ("/a", 403, &[OLD, EXPIRES]),
            ("/a", 301, &[OLD, EXPIRES]),
            ("/a", 302, &[BY_WORDPRESS]),
            ("/favicon.ico", 302, &[]),
            ("/favicon.ico", 302, &[BY_WORDPRESS, cookie]),
        ] {
            assert!(shared(target, status, fields, &policy).is_err(), "{target} {status} {fields:?}");
        }
        assert!(shared("/a", 404, &[OLD, EXPIRES], &Policy::default_profile()).is_err());
    }

    #[test]
    fn site_not_found_ttl_shortens_the_brief_lifetime() {
        let at = |secs| Policy {
            not_found_ttl: Some(std::time::Duration::from_secs(secs)),
            ..Policy::wordpress()
        };
        assert_eq!(shared("/a", 404, &[OLD, EXPIRES], &at(5)), Ok(5));
        assert!(shared("/a", 404, &[OLD, EXPIRES], &at(0)).is_err(), "switched off");
    }

    #[test]
    fn only_the_applications_own_page_closes_a_site() {
        let wordpress = Policy::wordpress();
        let drupal = crate::tests::policy_of("drupal");
        let joomla = crate::tests::policy_of("joomla");
        let (retry, link) =
            (("Retry-After", "600"), ("Link", "<http://a/wp-json/>; rel=\"https://api.w.org/\""));
        for (status, fields, policy, expected) in [
            (503, &[retry, EXPIRES][..], &wordpress, true),
            (503, &[retry, link], &wordpress, true),
            (503, &[retry], &wordpress, false),
            (503, &[EXPIRES], &wordpress, false),
            (503, &[retry, ("Expires", "Sat, 26 Jul 1997 05:00:00 GMT")], &wordpress, false),
            (500, &[retry, EXPIRES], &wordpress, false),
            (503, &[retry, EXPIRES], &Policy::default_profile(), false),
            (503, &[("Expires", "Sun, 19 Nov 1978 05:00:00 GMT")], &drupal, true),
            (503, &[("Expires", "Fri, 16 Jan 2015 07:50:00 GMT")], &drupal, true),
            (503, &[retry], &drupal, false),
            (503, &[("Expires", "Wed, 17 Aug 2005 00:00:00 GMT")], &joomla, true),
            (503, &[retry], &joomla, false),
        ] {
            assert_eq!(is_maintenance(&response(status, fields), policy), expected, "{status} {fields:?}");
        }
    }
}
