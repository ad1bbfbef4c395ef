//! A slow and obvious model of a cache, written from the text of RFC 9111, RFC 5861, RFC 8246 and
//! RFC 9213. It shares no code with the crate. Times are whole seconds. Where the default profile
//! differs, a comment next to the RFC's sentence says so.

/// The rules to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleSet {
    /// The profile `rfc`, which follows the RFCs.
    Letter,
    /// The profile `default`, which is stricter.
    Strict,
}

/// A request and the response to it.
#[derive(Clone, Debug)]
pub(crate) struct CacheExchange {
    pub(crate) method: &'static str,
    pub(crate) authorized: bool,
    pub(crate) status: u16,
    /// The members of the response's Cache-Control, such as `max-age=7`.
    pub(crate) cache_control: Vec<&'static str>,
    /// The members of CDN-Cache-Control, if the response has the field.
    pub(crate) cdn_cache_control: Option<Vec<&'static str>>,
    /// Seconds since the epoch. The inner `None` means a value without a valid date.
    pub(crate) expires: Option<Option<i128>>,
    pub(crate) date: Option<i128>,
    pub(crate) last_modified: Option<Option<i128>>,
    pub(crate) age: Option<&'static str>,
    pub(crate) etag: Option<&'static str>,
    pub(crate) sets_cookie: bool,
    pub(crate) content_range: Option<&'static str>,
    /// Whether Content-Location names the request's target.
    pub(crate) is_located_here: bool,
    pub(crate) request_time: i128,
    pub(crate) response_time: i128,
}

/// The wishes in a request's Cache-Control.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) no_cache: bool,
    pub(crate) max_age: Option<i128>,
    pub(crate) min_fresh: Option<i128>,
    pub(crate) max_stale: Option<i128>,
    pub(crate) stale_if_error: Option<i128>,
}

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedReuse {
    Fresh,
    StaleWhileRevalidated,
    StaleAsTheClientAccepts,
    StaleOnError,
    AskTheOrigin,
}

const DAY: i128 = 24 * 3600;

impl CacheExchange {
    /// RFC 9213 section 2.1: the targeted field, if it is present and not empty, replaces
    /// Cache-Control and Expires.
    fn directives(&self) -> &[&'static str] {
        self.cdn_cache_control.as_deref().unwrap_or(&self.cache_control)
    }

    fn says(&self, name: &str) -> bool {
        self.directives().contains(&name)
    }

    /// The shortest of several values. A value without a number is zero.
    fn seconds(&self, name: &str) -> Option<i128> {
        let arguments =
            self.directives().iter().filter_map(|member| member.strip_prefix(name)?.strip_prefix('='));
        arguments.map(|argument| argument.parse().unwrap_or(0)).min()
    }

    /// Whether the directive reaches the whole response. With the profile `rfc` a list of names
    /// narrows it (sections 5.2.2.4 and 5.2.2.7), unless it names a field that the content needs.
    fn reaches_all(&self, name: &str, profile: RuleSet) -> bool {
        let with_names = |member: &&&str| member.starts_with(&format!("{name}="));
        let mut lists = self.directives().iter().filter(with_names);
        let listed = lists.any(|list| profile == RuleSet::Strict || list.contains("Content-"));
        self.says(name) || listed
    }

    /// Section 5.2.2.3, and the status codes of RFC 9110 section 15.
    fn is_understood(&self) -> bool {
        matches!(self.status, 200 | 203 | 204 | 206 | 300..=303 | 307 | 308 | 400 | 403..=405 | 410 | 414 | 451 | 500..=504)
    }

    /// RFC 9110 section 15.1: "heuristically cacheable".
    fn is_heuristically_cacheable(&self) -> bool {
        let by_status =
            matches!(self.status, 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501);
        // Section 4.2.2: or "explicitly marked as cacheable".
        by_status || self.says("public")
    }

    /// Section 4.2.1: the explicit lifetimes.
    fn explicit_lifetime(&self) -> Option<i128> {
        if let Some(seconds) = self.seconds("s-maxage") {
            return Some(seconds);
        }
        if let Some(seconds) = self.seconds("max-age") {
            return Some(seconds);
        }
        if self.cdn_cache_control.is_some() {
            return None;
        }
        let expires = self.expires?;
        // "Its value minus the value of the Date response header field (using the time the message
        // was received if it is not present)." Section 5.3: an invalid date is in the past.
        Some(expires.map_or(0, |expires| (expires - self.date.unwrap_or(self.response_time)).max(0)))
    }

    /// The maximum lifetime that a profile grants.
    fn longest(&self, profile: RuleSet) -> i128 {
        match (profile, self.status) {
            (RuleSet::Letter, _) => i128::MAX,
            (_, 404 | 410) => 30,
            (_, 200 | 203 | 204 | 206 | 300..=303 | 307 | 308 | 405 | 414 | 451) => i128::MAX,
            _ => 5,
        }
    }

    /// Section 4.2.1, including the lifetimes that are assumed.
    fn lifetime(&self, profile: RuleSet) -> Option<i128> {
        if let Some(explicit) = self.explicit_lifetime() {
            return Some(explicit.min(self.longest(profile)));
        }
        match profile {
            RuleSet::Strict => (matches!(self.status, 404 | 410) && !self.authorized).then_some(30),
            RuleSet::Letter => {
                // Section 4.2.2: a tenth of the interval since the last change, and at most a day.
                let changed = self.last_modified??;
                let made = self.date.unwrap_or(self.response_time).min(self.response_time);
                self.is_heuristically_cacheable().then(|| ((made - changed).max(0) / 10).min(DAY))
            }
        }
    }

    /// Section 4.2.3, with its own names.
    pub(crate) fn current_age(&self, now: i128) -> i128 {
        // Section 5.1: the first member of a list counts, and a value without a number is ignored.
        let age = self.age.and_then(|age| age.split(',').next());
        let age_value = age.and_then(|age| age.parse::<u32>().ok()).map_or(0, i128::from);
        let apparent_age = self.date.map_or(0, |date| (self.response_time - date).max(0));
        let response_delay = self.response_time - self.request_time;
        let corrected_age_value = age_value + response_delay;
        let corrected_initial_age = apparent_age.max(corrected_age_value);
        let resident_time = now - self.response_time;
        corrected_initial_age + resident_time
    }

    /// Section 4.3.1: whether the stored response has a validator.
    fn has_validator(&self) -> bool {
        self.etag.is_some_and(|tag| tag.ends_with('"')) || matches!(self.last_modified, Some(Some(_)))
    }

    /// Section 3, one condition after the other.
    pub(crate) fn may_be_stored(&self, profile: RuleSet) -> bool {
        // "The request method is understood by the cache"; RFC 9110 section 9.3.3 about POST.
        let explicit = self.explicit_lifetime().is_some();
        let posted = self.method == "POST" && self.status == 200 && explicit && self.is_located_here;
        if !(self.method == "GET" || posted && profile == RuleSet::Letter) {
            return false;
        }
        // "The response status code is final". Statuses that refuse one client or depend on
        // something outside the key are excluded. The RFC permits storing 401, 403 and 451. Petasos
        // sends a constant client address and shares none of them.
        if !(200..600).contains(&self.status)
            || matches!(
                self.status,
                226 | 304 | 401 | 403 | 407 | 412 | 416 | 417 | 421 | 425 | 428 | 429 | 431 | 451 | 511
            )
        {
            return false;
        }
        if profile == RuleSet::Strict && matches!(self.status, 401 | 403 | 408 | 426) {
            return false;
        }
        // "If the response status code is 206 or 304 ..., the cache understands the response status
        // code."
        if self.status == 206 && self.content_range != Some("bytes 0-1/9") {
            return false;
        }
        // "The no-store cache directive is not present", unless must-understand accompanies it.
        let must_understand = self.says("must-understand");
        if self.says("no-store") && !(must_understand && self.is_understood()) {
            return false;
        }
        if must_understand && !self.is_understood() {
            return false;
        }
        // "The private response directive is either not present or allows a shared cache to store".
        if self.reaches_all("private", profile) {
            return false;
        }
        // Section 3.5.
        let by_the_letter = self.says("must-revalidate") || self.seconds("s-maxage").is_some();
        let permitted = self.says("public") || profile == RuleSet::Letter && by_the_letter;
        if self.authorized && !permitted {
            return false;
        }
        // Section 7.3: cookies. The profile `rfc` stores them, but only with an explicit lifetime.
        if self.sets_cookie && (profile == RuleSet::Strict || !explicit) {
            return false;
        }
        // "The response contains at least one of ...", or the operator gives it a lifetime.
        let lifetime = self.lifetime(profile);
        if lifetime.is_none() && !self.is_heuristically_cacheable() {
            return false;
        }
        // A decision of Petasos: a response that could never be used is not stored.
        let of_use_at_once = !self.reaches_all("no-cache", profile)
            && lifetime.is_some_and(|lifetime| lifetime > self.current_age(self.response_time));
        let of_use_later = (200..400).contains(&self.status) && self.status != 206 && self.has_validator();
        of_use_at_once || of_use_later || profile == RuleSet::Strict && self.is_of_use_on_errors()
    }

    /// A decision of Petasos: a response that would be fresh if its origin had not taken so long is
    /// stored for the time in which the origin fails.
    fn is_of_use_on_errors(&self) -> bool {
        let age_without_delay =
            (self.current_age(self.response_time) - (self.response_time - self.request_time)).max(0);
        !self.reaches_all("no-cache", RuleSet::Strict)
            && self.error_window() > 0
            && self.lifetime(RuleSet::Strict).is_some_and(|lifetime| lifetime > age_without_delay)
    }

    /// How long the response may be used after its lifetime while the origin fails (RFC 5861
    /// section 4).
    fn error_window(&self) -> i128 {
        let prohibited = self.must_revalidate() || self.seconds("s-maxage").is_some();
        match self.seconds("stale-if-error") {
            _ if self.status >= 500 || self.must_revalidate() => 0,
            Some(seconds) => seconds,
            None if prohibited => 0,
            // Section 4.2.4: the cache is "disconnected". The operator chooses for how long it may
            // be.
            None => DAY,
        }
    }

    /// Sections 5.2.2.2 and 5.2.2.8.
    fn must_revalidate(&self) -> bool {
        self.says("must-revalidate") || self.says("proxy-revalidate")
    }

    /// Section 4, for a request at `now` and a response that may be stored.
    pub(crate) fn answer(&self, profile: RuleSet, wish: &Wish, now: i128) -> ExpectedReuse {
        if self.reaches_all("no-cache", profile) {
            return ExpectedReuse::AskTheOrigin;
        }
        let age = self.current_age(now);
        let lifetime = self.lifetime(profile).unwrap_or(0);
        let is_fresh = lifetime > age;
        // Section 5.2.1: the client's preferences. RFC 8246: an immutable response is reloaded only
        // by no-cache.
        let mut wants_another = wish.no_cache;
        if !(self.says("immutable") && is_fresh) {
            wants_another |= wish.max_age.is_some_and(|seconds| age > seconds);
            wants_another |= wish.min_fresh.is_some_and(|seconds| lifetime - age < seconds && seconds > 0);
        }
        // The directives are advice. The default profile ignores them for the first five seconds.
        if wants_another && (profile == RuleSet::Letter || age >= 5) {
            return ExpectedReuse::AskTheOrigin;
        }
        if is_fresh {
            return ExpectedReuse::Fresh;
        }
        // Section 4.2.4. Server errors are never used stale.
        if self.status >= 500 {
            return ExpectedReuse::AskTheOrigin;
        }
        let window = self.seconds("stale-while-revalidate").unwrap_or(0).min(self.longest(profile));
        if !self.must_revalidate() && age - lifetime < window {
            return ExpectedReuse::StaleWhileRevalidated;
        }
        let prohibited = self.must_revalidate() || self.seconds("s-maxage").is_some();
        if !prohibited && wish.max_stale.is_some_and(|seconds| age - lifetime <= seconds) {
            return ExpectedReuse::StaleAsTheClientAccepts;
        }
        ExpectedReuse::AskTheOrigin
    }

    /// RFC 5861 section 4, for a request at `now` without a usable response from the origin.
    pub(crate) fn answer_on_error(&self, profile: RuleSet, wish: &Wish, now: i128) -> ExpectedReuse {
        if self.reaches_all("no-cache", profile) || wish.no_cache && profile == RuleSet::Letter {
            return ExpectedReuse::AskTheOrigin;
        }
        let age = self.current_age(now);
        let lifetime = self.lifetime(profile).unwrap_or(0);
        if lifetime > age {
            return ExpectedReuse::Fresh;
        }
        let prohibited = self.must_revalidate() || self.seconds("s-maxage").is_some();
        let window = self.error_window();
        let client_accepts = wish.stale_if_error.is_some_and(|seconds| age - lifetime <= seconds);
        if age - lifetime < window || client_accepts && !prohibited && self.status < 500 {
            return ExpectedReuse::StaleOnError;
        }
        ExpectedReuse::AskTheOrigin
    }
}
