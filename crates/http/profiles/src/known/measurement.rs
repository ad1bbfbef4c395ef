//! Cookies of audience measurement, and of banners that ask for consent to it.
//!
//! Invariant: exact names come before families. None of these cookies requires a page for one
//! visitor.

use super::CookiePurpose::{Analytics, Consent};
use super::{KnownCookie, row};

const ANALYTICS: &str =
    "A script in the browser sets it, and no page depends on it. A server need not set it.";
const BANNER: &str =
    "Let a script show and hide the consent banner, so that the page is the same for every visitor.";

/// Measurement and consent.
pub(super) const ROWS: &[KnownCookie] = &[
    row("_ga", "Google Analytics", Analytics, ANALYTICS, "developers.google.com: cookie usage"),
    row("_ga_*", "Google Analytics", Analytics, ANALYTICS, "developers.google.com: cookie usage"),
    row("_gid", "Google Analytics", Analytics, ANALYTICS, "developers.google.com: cookie usage"),
    row("_gcl_*", "Google Ads", Analytics, ANALYTICS, "developers.google.com: cookie usage"),
    row("_fbp", "Meta Pixel", Analytics, ANALYTICS, "developers.facebook.com: fbp and fbc"),
    row("_fbc", "Meta Pixel", Analytics, ANALYTICS, "developers.facebook.com: fbp and fbc"),
    row("_pk_*", "Matomo", Analytics, ANALYTICS, "matomo.org: cookies"),
    row("_hj*", "Hotjar", Analytics, ANALYTICS, "hotjar.com: cookies"),
    row("hubspotutk", "HubSpot", Analytics, ANALYTICS, "hubspot.com: cookies"),
    row("CookieConsent", "Cookiebot", Consent, BANNER, "cookiebot.com"),
    row("cookieyes-consent", "CookieYes", Consent, BANNER, "cookieyes.com"),
    row("cookielawinfo-*", "CookieYes (GDPR Cookie Consent)", Consent, BANNER, "cookieyes.com"),
    row("cmplz_*", "Complianz", Consent, BANNER, "complianz.io"),
    row("borlabs-cookie", "Borlabs Cookie", Consent, BANNER, "borlabs.io"),
    row("OptanonConsent", "OneTrust", Consent, BANNER, "onetrust.com"),
    row("cookie_notice_accepted", "Cookie Notice", Consent, BANNER, "wordpress.org: cookie-notice"),
    row("cookieconsent_status", "Cookie Consent", Consent, BANNER, "cookieconsent.osano.com"),
];
