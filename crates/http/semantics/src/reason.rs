//! Verdicts and reasons: the outcome of a request, and its one cause.
//!
//! Invariant: every reason is one row of the table below and belongs to exactly one verdict. Its
//! name is unique and stable, because `Cache-Status`, the access log, a metric label and the
//! documentation use it. This file decides nothing: the functions that decide return these values.

use std::fmt;

/// The outcome of a request at the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Answered from the store with a fresh response.
    Hit,
    /// Answered from the store with a stale response, which this request allows.
    Stale,
    /// Answered by a fetch whose response could have been shared, or by joining such a fetch.
    Miss,
    /// Forwarded for this client alone.
    Pass,
    /// A command to the edge itself, such as a purge, which was carried out.
    Done,
    /// Answered by the edge itself, as the configuration says.
    Answered,
    /// Answered by the edge itself because of the request.
    Refused,
    /// Answered by the edge itself because the origin gave no usable response.
    Failed,
}

impl Verdict {
    /// Every verdict, in the order of the documentation.
    pub const ALL: [Self; 8] = [
        Self::Hit,
        Self::Stale,
        Self::Miss,
        Self::Pass,
        Self::Done,
        Self::Answered,
        Self::Refused,
        Self::Failed,
    ];

    /// The stable name, as the access log and the metrics show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Miss => "miss",
            Self::Pass => "pass",
            Self::Done => "done",
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! reasons {
    ($($variant:ident $name:literal $verdict:ident $advice:literal;)*) => {
        /// The one cause of a verdict.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $(#[doc = concat!("`", $name, "`: ", $advice)] $variant,)*
        }

        impl Reason {
            /// Every reason, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stable name: lower-case words joined by hyphens, a valid HTTP token.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The verdict this reason belongs to.
            pub const fn verdict(self) -> Verdict {
                match self { $(Self::$variant => Verdict::$verdict,)* }
            }

            /// One sentence for an operator: the event, and advice.
            pub const fn advice(self) -> &'static str {
                match self { $(Self::$variant => $advice,)* }
            }

            /// The position in [`Reason::ALL`], for arrays of counters.
            pub const fn index(self) -> usize {
                self as usize
            }
        }
    };
}

reasons! {
    HitFresh "hit-fresh" Hit
        "A fresh stored response answered the request; nothing to do.";
    HitRevalidated "hit-revalidated" Hit
        "The origin confirmed the stored response with a 304; a longer lifetime would save this request to the origin.";
    HitPrivate "hit-private" Hit
        "The visitor's session got its own copy of the page (logged_in = \"private\"); nothing to do.";
    HitContext "hit-context" Hit
        "The visitor got a page that visitors with the same rights share (logged_in = \"context\"); nothing to do.";
    StaleClientAllows "stale-client-allows" Stale
        "The request's own max-stale accepts a response of this age; nothing to do.";
    StaleWhileRevalidate "stale-while-revalidate" Stale
        "The response's stale-while-revalidate permits its use while a background fetch replaces it; nothing to do.";
    StaleOnError "stale-on-error" Stale
        "The origin failed, so the client got a stale response; repair the origin.";
    StaleOnErrorOverride "stale-on-error-override" Stale
        "The origin failed, and the profile permits a stale response although the response itself forbids that; repair the origin.";
    StaleOriginSlow "stale-origin-slow" Stale
        "The origin was too slow or was expected to be, so the client got a stale response; find out why the origin is slow.";
    StaleOriginBusy "stale-origin-busy" Stale
        "Requests wait long in the origin's queue, so Petasos sent a stale copy at once and refreshes it in the background. Make the origin faster, raise limits.fetches_max if it can do more, or switch this off with guard.stale_when_busy.";
    StaleBreakerOpen "stale-breaker-open" Stale
        "The origin refuses connections or is silent, so the client got a stale response at once; repair the origin.";

    MissAbsent "miss-absent" Miss
        "Nothing was stored under this key; if this persists, look at the store-refused reasons and at the memory limit.";
    MissExpired "miss-expired" Miss
        "The stored response is older than its lifetime; a longer s-maxage or default TTL would keep it longer.";
    MissNoCache "miss-no-cache" Miss
        "The response says no-cache, so the origin is asked before every use; if it may be reused for a while, send s-maxage instead.";
    MissNoLifetime "miss-no-lifetime" Miss
        "The response states no lifetime, or one of zero, so the origin is asked before every use; send s-maxage, or set a default TTL.";
    MissPart "miss-part" Miss
        "Only another part of the content was stored; nothing to do unless the whole content is small enough to fetch at once.";
    MissInvalidated "miss-invalidated" Miss
        "A write has invalidated a group that the stored response belongs to; nothing to do.";
    MissVariant "miss-variant" Miss
        "Only other variants were stored; name fewer request fields in the response's Vary.";
    MissReload "miss-reload" Miss
        "The request's Cache-Control demanded a newer response than the stored one; nothing to do.";
    MissRefresh "miss-refresh" Miss
        "An authorised client ordered this page to be fetched again (X-Refresh); nothing to do.";
    MissCollapsed "miss-collapsed" Miss
        "The request shared the fetch that another request had started; nothing to do.";
    StoreRefusedMethod "store-refused-method" Miss
        "The response to this method has no content to store; the next GET fills the store.";
    StoreRefusedStatus "store-refused-status" Miss
        "Petasos does not store responses with this status; nothing to do unless the status is unexpected.";
    StoreRefusedMaintenance "store-refused-maintenance" Miss
        "The origin says that the site is closed (503), and visitors see that instead of stale pages. End the maintenance mode if it is not intended.";
    StoreRefusedRedirect "store-refused-redirect" Miss
        "The response redirects to this page with a tracking parameter, which is not part of the key; put the parameter into the link instead.";
    StoreRefusedPartial "store-refused-partial" Miss
        "The origin sent a part of the content and did not say clearly which part; find out why.";
    StoreRefusedSetCookie "store-refused-set-cookie" Miss
        "The response sets a cookie; stop the application from starting a session for anonymous visitors.";
    StoreRefusedPrivate "store-refused-private" Miss
        "The response says private; if the page is the same for every visitor, send public or s-maxage instead.";
    StoreRefusedNoStore "store-refused-no-store" Miss
        "The response says no-store, or its Cache-Control cannot be parsed to the end; if the page may be shared, correct the field.";
    StoreRefusedNoCache "store-refused-no-cache" Miss
        "The response says no-cache and has no validator for revalidation; send an ETag, or s-maxage if it may be reused for a while.";
    StoreRefusedUnmarked "store-refused-unmarked" Miss
        "The profile shares this URL only if the response says public and a lifetime, and the response does not. Send Cache-Control: public, max-age if it is the same for every visitor.";
    StoreRefusedAuthorization "store-refused-authorization" Miss
        "The request carried credentials, and the response does not say that it may be shared nevertheless; nothing to do.";
    StoreRefusedNoFreshness "store-refused-no-freshness" Miss
        "The response states no lifetime and has no validator; send s-maxage or max-age, or set a default TTL.";
    StoreRefusedExpired "store-refused-expired" Miss
        "The response was stale when it arrived and has no validator; send a lifetime above zero and compare the clocks of both machines.";
    StoreRefusedVaryStar "store-refused-vary-star" Miss
        "The response's Vary is * or cannot be parsed; name the request fields that change the response instead.";
    StoreRefusedVaryAddress "store-refused-vary-address" Miss
        "The response's Vary names the client's address, so each client has its own response. Remove the address from Vary if the page does not depend on it.";
    StoreRefusedDenied "store-refused-denied" Miss
        "The origin refused the shared fetch, which carries no client's address, so each client's request goes to the origin separately. If the page is public, let the origin accept the address client_address.";
    StoreRefusedTooLarge "store-refused-too-large" Miss
        "The body is larger than the limit for one stored response; raise the limit if responses of this size should be stored.";

    StoreRefusedTags "store-refused-tags" Miss
        "The response has more or longer tags than Petasos can keep, so a purge would miss it; send fewer tags.";

    StoreRefusedContext "store-refused-context" Miss
        "The response to a visitor with a session does not say that it depends on the visitor's rights alone. If it does, let it send Vary with the field of context_field, or that field with the context, or set context_pages.";
    StoreRefusedContextChanged "store-refused-context-changed" Miss
        "The response names another context than the one that the visitor had, so the visitor's rights have changed; nothing to do unless it happens often.";

    PassMethod "pass-method" Pass
        "Petasos answers only GET and HEAD from the store; nothing to do.";
    PassMethodOverride "pass-method-override" Pass
        "A header field of the request names another method than its own, so its response is for this client alone; nothing to do.";
    PassRequestBody "pass-request-body" Pass
        "The request has content, which is not part of the key; nothing to do unless a client sends it by mistake.";
    PassUpgrade "pass-upgrade" Pass
        "The request demands another protocol, such as WebSocket; nothing to do.";
    PassAuthorization "pass-authorization" Pass
        "The request carries credentials, so its response is for this client alone; nothing to do.";
    PassCookie "pass-cookie" Pass
        "The request has a session cookie, and the response is no static file. If the response is one nevertheless, let it say public with a lifetime, or list its path in static_paths.";
    PassPrivate "pass-private" Pass
        "The visitor's session has no usable copy of the page. If this persists, let the page say Cache-Control: private with max-age, or set private_ttl; look for no-store, Set-Cookie and Vary in the response (docs/logged-in.md).";
    PassContext "pass-context" Pass
        "No usable copy of the page is stored for visitors with these rights; the response may become one (docs/logged-in.md).";
    PassContextFailed "pass-context-failed" Pass
        "The origin gave no usable answer about the rights of the visitor (context_path). Look at its status, its Content-Type, Set-Cookie, and the field of context_field.";
    PassContextLate "pass-context-late" Pass
        "The origin's answer about the rights of the visitor (context_path) came later than limits.context_timeout. Make it faster, or raise the limit.";
    PassContextMissing "pass-context-missing" Pass
        "The request has a session cookie and lacks the signed cookie (context_cookie). Let the application set it when a visitor logs in.";
    PassContextInvalid "pass-context-invalid" Pass
        "The signed cookie (context_cookie) has another form, a wrong signature, another session, or an expiry beyond limits.context_lifetime_max. If there are many, compare the keys; otherwise somebody tries to forge it.";
    PassContextExpired "pass-context-expired" Pass
        "The signed cookie (context_cookie) has expired. Let the application renew it before that.";
    PassContextPaused "pass-context-paused" Pass
        "The visitor's session has written or changed a moment ago (limits.context_pause), so its pages may be for the visitor alone; nothing to do.";
    PassUnknownCookie "pass-unknown-cookie" Pass
        "The request carries a cookie that the profile does not know; if the cookie never changes a page, declare it as noise.";
    PassUnknownField "pass-unknown-field" Pass
        "The request has a header field that is not part of the key and might change the response. If the field never does, declare it as noise.";
    PassAccept "pass-accept" Pass
        "The request accepts a stream of events, or prefers another media type than that of the stored response. Let the origin send Vary: Accept if it negotiates types.";
    PassForeignOrigin "pass-foreign-origin" Pass
        "The request comes from a script of another site, and the response that permitted every site changed during the fetch; nothing to do.";
    PassPath "pass-path" Pass
        "The profile never shares this path; nothing to do unless the profile's rule is wrong for this path.";
    PassParameter "pass-parameter" Pass
        "The profile never shares a URL with this query parameter; nothing to do unless the profile's rule is wrong for this parameter.";
    PassUnmarked "pass-unmarked" Pass
        "The profile shares this URL only if its response says public and a lifetime, and no recent response did. Send Cache-Control: public, max-age if it is the same for every visitor.";
    PassForwardedPrefix "pass-forwarded-prefix" Pass
        "A trusted proxy removed a prefix from the request's path (X-Forwarded-Prefix), and the application writes that prefix into its links. Let the proxy forward the whole path if the pages should be shared.";
    PassForeignPort "pass-foreign-port" Pass
        "The Host field names a port that is not the site's, and limits.foreign_ports_max other foreign ports were used within the last hour. If visitors use that port, list it in the site's setting ports.";
    PassCacheOff "pass-cache-off" Pass
        "The setting cache is false for this site or route; remove it when responses may be shared again.";
    PassLeakGuard "pass-leak-guard" Pass
        "The leak guard checks this page or found that it depends on the request's cookies. Add cookies that change pages to session_cookies (`petasos why` names them).";
    PassHandedOver "pass-handed-over" Pass
        "Another process has taken over the listeners (petasos serve --upgrade), and this connection still led to the old one; nothing to do.";
    PassRequestNoStore "pass-request-no-store" Pass
        "The request forbids storing its response; nothing to do.";

    Purged "purged" Done
        "A purge request removed stored responses or marked them stale; nothing to do.";
    AcmeChallenge "acme-challenge" Done
        "An ACME authority validated a host name of `tls` by a request to this edge, and Petasos answered; nothing to do.";

    Redirected "redirected" Answered
        "A route redirects the request (redirect); nothing to do.";
    Fixed "fixed-answer" Answered
        "The configuration states the response (answer.status); nothing to do.";
    StaticFile "static-file" Answered
        "A file of a directory answered the request (files); nothing to do.";
    Maintenance "maintenance" Answered
        "The site is being maintained (maintenance). Remove the setting and reload when the work is done.";

    FileMissing "file-missing" Refused
        "The directory (files) has no such file, or hides it because of its name (a dot, files_refused) or a link out of the directory. If the file should be served, look at its name and permissions.";
    FileMethod "file-method" Refused
        "The request's method is neither GET nor HEAD, and the route has files alone. Name an origin if the address should accept forms.";
    PurgeForbidden "purge-forbidden" Refused
        "The client of this purge request is not authorised. Let it send the token or purge at the admin address. If no proxy with its address forwards visitors, list the address in purge_peers.";
    PurgeMalformed "purge-malformed" Refused
        "The purge request could not be parsed; the response says which header is wrong.";
    BadRequest "bad-request" Refused
        "The request violates the grammar of HTTP/1; correct the client.";
    AmbiguousFraming "ambiguous-framing" Refused
        "Two servers could disagree about where the request ends, and attackers use that to smuggle requests; correct the client.";
    HeadTooLarge "head-too-large" Refused
        "The request's head exceeds the limit; shorten cookies or the URL, or raise the limit.";
    BodyTooLarge "body-too-large" Refused
        "The request's content exceeds the limit; raise the limit if uploads of this size should be possible.";
    RequestTimeout "request-timeout" Refused
        "The request did not arrive completely in time; nothing to do unless there are many.";
    RequestLost "request-lost" Refused
        "Petasos could not read the request's content back from spool_directory; look at that directory's disk.";
    VisitorGone "visitor-gone" Refused
        "The client closed the connection before the request or its response was complete; nothing to do unless there are many.";
    ConnectRefused "connect-refused" Refused
        "The client uses the edge as a forward proxy; correct the client.";
    LoopDetected "loop-detected" Refused
        "The request has passed through this edge before; correct the origin's address, which leads back to the edge.";
    LastHop "last-hop" Refused
        "The request's Max-Forwards permits no further hop; nothing to do.";
    ContextClaimed "context-claimed" Refused
        "The request names a context of a visitor (context_field, context_media_type), which only Petasos may do. Somebody tries to forge it, or a proxy before Petasos sets it.";
    AmbiguousPath "ambiguous-path" Refused
        "Servers read the path of the request in different ways, and the readings belong to different routes. Correct the client; attackers use such paths to avoid rules.";
    TraceRefused "trace-refused" Refused
        "Petasos does not forward TRACE, because the response would repeat fields that may be secret; nothing to do.";
    PasswordRequired "password-required" Refused
        "The site or route asks for a password (basic_auth), and the request has none of its users; nothing to do.";
    PasswordQueueFull "password-queue-full" Refused
        "More requests with unknown passwords arrived than Petasos checks at the same time. Look in the access log for a client that guesses passwords; hashes of a lower cost are checked faster.";
    RedirectedToHttps "redirected-to-https" Refused
        "The request was plain, and its listener redirects to https (redirect_to_https); nothing to do.";
    UnknownSite "unknown-site" Refused
        "No site has this host name; add it to the names of a site.";
    Misdirected "misdirected" Refused
        "The certificate of the HTTP/2 connection is not for the host of the request; the client then opens another connection. Nothing to do.";
    ParameterFlood "parameter-flood" Refused
        "More different addresses with unknown parameters were requested than unknown_parameters_per_minute permits. Name parameters that the application reads in known_parameters, or raise the limit.";
    ClientDenied "client-denied" Refused
        "The client's address is in guard.deny; nothing to do.";
    ClientRate "client-rate" Refused
        "The client sent more requests than guard.requests_per_second permits, or went on beyond its limits and is refused for guard.ban. If the address is a proxy's, name it in trusted_proxies; if the client is welcome, name it in guard.allow.";
    ClientOriginRate "client-origin-rate" Refused
        "The client needed the origin more often than guard.origin_requests_per_second permits. If the address is a proxy's, name it in trusted_proxies; if the client is welcome, name it in guard.allow.";
    OnlyIfCached "only-if-cached" Refused
        "The request accepts only a stored response, and none may be used for it; nothing to do.";

    FilesFailed "files-failed" Failed
        "A directory with files (files) could not be read in time; Petasos logs the error. Look at the directory and its disk.";
    OriginRefusedConnection "origin-refused-connection" Failed
        "The origin refuses connections; start it, or correct its address.";
    OriginUnreachable "origin-unreachable" Failed
        "Petasos cannot reach the origin; check its address, its name and the network.";
    OriginTlsFailed "origin-tls-failed" Failed
        "Petasos can open no secure connection to the origin; the log says why. Check the origin's certificate, origin_ca, origin_name and origin_certificate.";
    OriginTimeout "origin-timeout" Failed
        "The origin did not respond in time; find out why it is slow, or raise the time limit.";
    OriginTruncated "origin-truncated" Failed
        "The origin closed the connection in the middle of its response; look at its error log.";
    OriginBadResponse "origin-bad-response" Failed
        "The origin's response violates the grammar of HTTP/1; check which other program listens at its address.";
    EsiRefused "esi-refused" Failed
        "The response declares that it is an ESI template, but exceeds a limit, is compressed or did not arrive completely; the log says which. The limits are in docs/esi.md.";
    OriginFailing "origin-failing" Failed
        "The origin just answered every request for this page with an error, so Petasos did not ask it again; repair the origin.";
    OriginBreakerOpen "origin-breaker-open" Failed
        "Petasos can open no connection to the origin and did not try for this request. Start the origin, which Petasos probes with one request at a time.";
    QueueFull "queue-full" Failed
        "The origin is busy and its queue is full; make the origin faster or raise the limits.";
    QueueTimeout "queue-timeout" Failed
        "The request waited in the origin's queue for the longest permitted time; make the origin faster or raise the limits.";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{Reason, Verdict};
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_kebab_case() {
        let names: HashSet<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        for name in names {
            assert!(
                name.split('-').all(|word| {
                    !word.is_empty()
                        && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
                }),
                "{name}"
            );
        }
    }

    #[test]
    fn name_with_a_verdict_as_prefix_has_that_verdict() {
        for reason in Reason::ALL {
            for verdict in Verdict::ALL {
                if reason.name().starts_with(&format!("{verdict}-")) {
                    assert_eq!(reason.verdict(), verdict, "{reason}");
                }
            }
        }
    }

    #[test]
    fn every_verdict_has_a_reason() {
        for verdict in Verdict::ALL {
            assert!(Reason::ALL.iter().any(|reason| reason.verdict() == verdict), "{verdict}");
        }
    }

    #[test]
    fn advice_is_whole_sentences_and_index_is_position() {
        for (position, reason) in Reason::ALL.iter().enumerate() {
            let advice = reason.advice();
            assert!(advice.ends_with('.'), "{reason}");
            // The cause, the fix, and an exception at most.
            let sentences: Vec<_> = advice.trim_end_matches('.').split(". ").collect();
            assert!(sentences.iter().all(|sentence| sentence.starts_with(char::is_uppercase)), "{reason}");
            assert!(sentences.len() <= 3, "{reason}");
            assert_eq!(reason.index(), position);
        }
    }
}
