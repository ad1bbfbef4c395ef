//! Cookies of services in front of a site: load balancers and protection against robots.
//!
//! Invariant: exact names come before families. The remedies do not depend on the application.

use super::CookiePurpose::{Balancing, Protection};
use super::{KnownCookie, row};

const BALANCER: &str =
    "The load balancer sets it. Let it do so only behind a login, or balance without stickiness.";
const ROBOTS: &str = "The protection in front of the site sets it; it is not the application's.";

/// Load balancers and protection.
pub(super) const ROWS: &[KnownCookie] = &[
    row("AWSALB*", "AWS load balancer", Balancing, BALANCER, "docs.aws.amazon.com: sticky sessions"),
    row("AWSELB*", "AWS load balancer", Balancing, BALANCER, "docs.aws.amazon.com: sticky sessions"),
    row("ARRAffinity*", "Azure App Service", Balancing, BALANCER, "learn.microsoft.com: ARR affinity"),
    row(
        "ApplicationGatewayAffinity*",
        "Azure Application Gateway",
        Balancing,
        BALANCER,
        "learn.microsoft.com",
    ),
    row("GCLB", "Google Cloud load balancer", Balancing, BALANCER, "cloud.google.com: session affinity"),
    row("BIGipServer*", "F5 BIG-IP", Balancing, BALANCER, "my.f5.com: cookie persistence"),
    row("SERVERID*", "HAProxy", Balancing, BALANCER, "docs.haproxy.org: cookie"),
    row("__cfduid", "Cloudflare (until 2021)", Protection, ROBOTS, "developers.cloudflare.com: cookies"),
    row("__cf_bm", "Cloudflare", Protection, ROBOTS, "developers.cloudflare.com: cookies"),
    row("_cfuvid", "Cloudflare", Protection, ROBOTS, "developers.cloudflare.com: cookies"),
    row("cf_clearance", "Cloudflare", Protection, ROBOTS, "developers.cloudflare.com: cookies"),
    row("incap_ses_*", "Imperva", Protection, ROBOTS, "docs.imperva.com: cookies"),
    row("visid_incap_*", "Imperva", Protection, ROBOTS, "docs.imperva.com: cookies"),
    row("nlbi_*", "Imperva", Balancing, ROBOTS, "docs.imperva.com: cookies"),
    row("ak_bmsc", "Akamai", Protection, ROBOTS, "techdocs.akamai.com: bot manager"),
    row("bm_sv", "Akamai", Protection, ROBOTS, "techdocs.akamai.com: bot manager"),
    row("datadome", "DataDome", Protection, ROBOTS, "docs.datadome.co"),
];
