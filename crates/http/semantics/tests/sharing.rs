//! Storing, lifetime, age and reuse of whole responses, compared with the slow model in
//! `support/rfc9111.rs`, for the profiles `rfc` and `default`. Also: no wrong clock lets a response
//! be used longer than it permits.

#[path = "support/rfc9111.rs"]
mod rfc9111;

use clock::{Monotonic, Timestamp};
use message::{Fields, Method, RequestHead, ResponseHead, Status, Version};
use petasos_semantics::{
    Directives, Freshness, Judgement, Moment, Reason, Reuse, Storable, format_date, judge_response, reuse,
    reuse_on_error,
};
use profiles::Policy;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use rfc9111::{CacheExchange, ExpectedReuse, RuleSet, Wish};

/// The approximate arrival time of the responses.
const NOW_SECS: i128 = 1_700_000_000;

const LIFETIMES: &[&str] =
    &["max-age=0", "max-age=10", "max-age=100", "max-age=x", "s-maxage=0", "s-maxage=50"];

const WINDOWS: &[&str] = &[
    "must-revalidate",
    "proxy-revalidate",
    "immutable",
    "stale-while-revalidate=20",
    "stale-while-revalidate=200",
    "stale-if-error=0",
    "stale-if-error=30",
    "stale-if-error=30",
];

const OTHERS: &[&str] = &[
    "no-store",
    "no-cache",
    "no-cache=\"X-A\"",
    "no-cache=\"Content-Type\"",
    "private",
    "private=\"X-A\"",
    "private=\"X-A, Content-Type\"",
    "public",
    "must-understand",
    "must-understand",
    "no-transform",
    "foo=\"max-age=1, private\"",
];

const STATUSES: &[u16] = &[
    200, 201, 203, 204, 206, 226, 299, 300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 405, 408, 410, 412,
    414, 416, 421, 425, 426, 428, 429, 431, 451, 499, 500, 501, 502, 503, 504, 511, 599, 600, 999,
];

/// Usually a lifetime, often a directive about stale use, and sometimes others.
fn directives() -> impl Strategy<Value = Vec<&'static str>> {
    let some = |pool, most| prop::collection::vec(select(pool), 0..most);
    let groups = (some(LIFETIMES, 3), some(WINDOWS, 3), prop_oneof![3 => Just(vec![]), 2 => some(OTHERS, 3)]);
    groups.prop_map(|(lifetimes, windows, others)| [lifetimes, windows, others].concat()).prop_shuffle()
}

/// Members of CDN-Cache-Control. Each name occurs once, because in a dictionary the last member of
/// a key would count.
fn targeted() -> impl Strategy<Value = Vec<&'static str>> {
    let members =
        &["max-age=70", "s-maxage=5", "no-store", "no-cache", "private", "public", "must-revalidate"];
    prop::sample::subsequence(members.to_vec(), 1..4)
}

/// A date close to the arrival of the responses.
fn about(before_secs: i128, after_secs: i128) -> impl Strategy<Value = i128> {
    (-before_secs..after_secs).prop_map(|offset| NOW_SECS + offset)
}

/// A date, or another value.
fn date_or_not(dates: impl Strategy<Value = i128>) -> impl Strategy<Value = Option<i128>> {
    prop_oneof![4 => dates.prop_map(Some), 1 => Just(None)]
}

fn exchanges() -> impl Strategy<Value = CacheExchange> {
    let usual = prop_oneof![4 => Just(200), 3 => select(STATUSES)];
    let request = (
        prop_oneof![18 => Just("GET"), 2 => Just("POST"), 1 => Just("HEAD")],
        prop::bool::weighted(0.15),
        0..9i128,
    );
    let control = (directives(), option::weighted(0.2, targeted()));
    let times = (
        option::weighted(0.3, date_or_not(about(50, 150))),
        option::weighted(0.6, about(40, 40)),
        option::weighted(0.4, date_or_not(prop_oneof![3 => about(3_000, 20), 1 => about(3_000_000, 0)])),
        option::weighted(0.3, select(&["0", "7", "90", "7, 90", "90,0", "abc", "-5"][..])),
    );
    let rest = (
        option::weighted(0.3, select(&["\"a\"", "W/\"a\"", "a"][..])),
        prop::bool::weighted(0.05),
        option::weighted(0.5, select(&["bytes 0-1/9", "bytes 0-1/1"][..])),
        prop::bool::weighted(0.7),
    );
    (request, usual, control, times, rest).prop_map(|(request, status, control, times, rest)| {
        let (method, authorized, delay_secs) = request;
        let (cache_control, cdn_cache_control) = control;
        let (expires, date, last_modified, age) = times;
        let (etag, sets_cookie, content_range, is_located_here) = rest;
        CacheExchange {
            method,
            authorized,
            status,
            cache_control,
            cdn_cache_control,
            expires,
            date,
            last_modified,
            age,
            etag,
            sets_cookie,
            content_range,
            is_located_here,
            request_time: NOW_SECS - delay_secs,
            response_time: NOW_SECS,
        }
    })
}

fn wishes() -> impl Strategy<Value = Wish> {
    let secs = |values: &'static [i128]| option::weighted(0.2, select(values));
    (
        prop::bool::weighted(0.1),
        secs(&[0, 20, 90]),
        secs(&[0, 10, 60]),
        secs(&[0, 15, 300]),
        secs(&[0, 40, 300]),
    )
        .prop_map(|(no_cache, max_age, min_fresh, max_stale, stale_if_error)| Wish {
            no_cache,
            max_age,
            min_fresh,
            max_stale,
            stale_if_error,
        })
}

fn moment(secs: i128) -> Moment {
    let secs = u64::try_from(secs).unwrap_or(0);
    Moment { wall: Timestamp::from_secs(secs), monotonic: Monotonic::from_nanos(secs * 1_000_000_000) }
}

fn date(secs: i128) -> bytes::Bytes {
    format_date(moment(secs).wall)
}

fn request_of(exchange: &CacheExchange) -> RequestHead {
    let mut fields = Fields::new();
    fields.push("Host", "example.org");
    if exchange.authorized {
        fields.push("Authorization", "Basic eDp5");
    }
    let method = Method::from_token(exchange.method.as_bytes());
    RequestHead { method, target: "/a".into(), version: Version::Http11, fields }
}

fn response_of(exchange: &CacheExchange) -> ResponseHead {
    let mut head = ResponseHead::new(Status::from_code(exchange.status).unwrap_or(Status::OK));
    let fields = &mut head.fields;
    // One line for each member, or all members in one line.
    if exchange.request_time % 2 == 0 {
        exchange.cache_control.iter().for_each(|member| fields.push("Cache-Control", *member));
    } else if !exchange.cache_control.is_empty() {
        fields.push("Cache-Control", exchange.cache_control.join(" ,"));
    }
    if let Some(targeted) = &exchange.cdn_cache_control {
        fields.push("CDN-Cache-Control", targeted.join(", "));
    }
    let mut put = |name: &'static str, secs: Option<Option<i128>>| {
        if let Some(secs) = secs {
            fields.push(name, secs.map_or_else(|| "-1".into(), date));
        }
    };
    put("Expires", exchange.expires);
    put("Date", exchange.date.map(Some));
    put("Last-Modified", exchange.last_modified);
    for (name, value) in
        [("Age", exchange.age), ("ETag", exchange.etag), ("Content-Range", exchange.content_range)]
    {
        value.into_iter().for_each(|value| fields.push(name, value));
    }
    if exchange.sets_cookie {
        fields.push("Set-Cookie", "a=b");
    }
    fields.push("Content-Location", if exchange.is_located_here { "/a" } else { "/b" });
    head
}

fn directives_of(wish: &Wish) -> Directives {
    let mut fields = Fields::new();
    if wish.no_cache {
        fields.push("Cache-Control", "no-cache");
    }
    for (name, secs) in [
        ("max-age", wish.max_age),
        ("min-fresh", wish.min_fresh),
        ("max-stale", wish.max_stale),
        ("stale-if-error", wish.stale_if_error),
    ] {
        secs.into_iter().for_each(|secs| fields.push("Cache-Control", format!("{name}={secs}")));
    }
    Directives::of_request(&fields)
}

fn judged(exchange: &CacheExchange, policy: &Policy) -> Result<Storable, Reason> {
    let asked = moment(exchange.request_time);
    let answered = moment(exchange.response_time);
    match judge_response(&request_of(exchange), &response_of(exchange), asked, answered, policy) {
        Judgement::Store(storable) => Ok(storable),
        Judgement::DoNotStore(reason) => Err(reason),
    }
}

/// The model's term for the crate's result.
fn answer_of(reuse: Option<Reuse>) -> ExpectedReuse {
    match reuse {
        Some(Reuse::Fresh { .. }) => ExpectedReuse::Fresh,
        Some(Reuse::Stale { reason: Reason::StaleWhileRevalidate, refresh: true, .. }) => {
            ExpectedReuse::StaleWhileRevalidated
        }
        Some(Reuse::Stale { reason: Reason::StaleClientAllows, refresh: false, .. }) => {
            ExpectedReuse::StaleAsTheClientAccepts
        }
        Some(Reuse::Stale { reason: Reason::StaleOnError, refresh: false, .. }) => {
            ExpectedReuse::StaleOnError
        }
        Some(Reuse::Revalidate(_)) | None => ExpectedReuse::AskTheOrigin,
        Some(Reuse::Stale { .. }) => unreachable!("no other reason is given here"),
    }
}

fn agrees(
    exchange: &CacheExchange,
    wish: &Wish,
    later_secs: i128,
    profile: RuleSet,
) -> Result<(), TestCaseError> {
    let policy = match profile {
        RuleSet::Letter => Policy::rfc(),
        RuleSet::Strict => Policy::default_profile(),
    };
    let judged = judged(exchange, &policy);
    prop_assert_eq!(judged.is_ok(), exchange.may_be_stored(profile), "{:?}: {:?}", profile, judged);
    let Ok(Storable { freshness, .. }) = judged else { return Ok(()) };
    let now_secs = exchange.response_time + later_secs;
    let now = moment(now_secs);
    prop_assert_eq!(i128::from(freshness.age(now).as_secs()), exchange.current_age(now_secs));
    let request = directives_of(wish);
    let reused = reuse(&freshness, &request, &policy, now);
    prop_assert_eq!(
        answer_of(Some(reused)),
        exchange.answer(profile, wish, now_secs),
        "{:?} {:?}",
        profile,
        freshness
    );
    let reused = reuse_on_error(&freshness, &request, &policy, now);
    prop_assert_eq!(
        answer_of(reused),
        exchange.answer_on_error(profile, wish, now_secs),
        "{:?} {:?}",
        profile,
        freshness
    );
    Ok(())
}

/// One reading of the clocks, relative to the reading before: the real seconds, the value of a
/// jumping wall clock, and how many of the real seconds the monotonic clock slept.
type ClockReading = (u64, u64, u64);

/// The clocks over time. One of them is always right: the monotonic clock while the wall clock
/// jumps, or the wall clock while the monotonic clock sleeps with the machine.
fn clocks(readings: &[ClockReading], wall_jumps: bool) -> Vec<(u64, Moment)> {
    let mut elapsed = 0;
    let mut monotonic_secs = 0;
    let moments = readings.iter().map(|&(step, wall, slept)| {
        elapsed += step;
        monotonic_secs += if wall_jumps { step } else { step.saturating_sub(slept) };
        let wall_secs = if wall_jumps { wall } else { 5_000_000 + elapsed };
        let monotonic = Monotonic::from_nanos(monotonic_secs * 1_000_000_000);
        (elapsed, Moment { wall: Timestamp::from_secs(wall_secs), monotonic })
    });
    moments.collect()
}

fn readings() -> impl Strategy<Value = Vec<ClockReading>> {
    const YEAR_SECS: u64 = 365 * 24 * 3600;
    let wall = prop_oneof![
        Just(1),
        5_000_000 - 4_000..5_000_000 + 4_000u64,
        Just(5_000_000 + YEAR_SECS),
        Just(u64::MAX / 2_000_000)
    ];
    prop::collection::vec((0..60u64, wall, 0..60u64), 3..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8_000))]

    #[test]
    fn whole_responses_agree_with_the_model(
        exchange in exchanges(),
        wish in wishes(),
        later_secs in prop_oneof![0..15i128, 0..400i128],
    ) {
        agrees(&exchange, &wish, later_secs, RuleSet::Letter)?;
        agrees(&exchange, &wish, later_secs, RuleSet::Strict)?;
    }

    /// A response that the default profile stores may be stored with the profile `rfc` too, and its
    /// lifetime is not longer. Only the default profile stores an expired one for failures.
    #[test]
    fn default_profile_stores_only_what_rfc_profile_permits(exchange in exchanges()) {
        let strict = judged(&exchange, &Policy::default_profile());
        let letter = judged(&exchange, &Policy::rfc());
        // The default profile gives 404 and 410 a lifetime if they state none, so they are
        // excluded.
        let is_expired = |storable: &Storable| {
            storable.freshness.must_be_validated(moment(exchange.response_time))
        };
        if let Ok(storable) = strict && !matches!(exchange.status, 404 | 410) && !is_expired(&storable) {
            let by_the_letter = letter.map(|storable| storable.freshness);
            prop_assert!(by_the_letter.is_ok(), "{:?}", by_the_letter);
            prop_assert!(by_the_letter.is_ok_and(|letter| storable.freshness.lifetime <= letter.lifetime));
            prop_assert!(storable.withheld.is_empty());
        }
    }

    /// The first two readings are the request and its response; the others are later requests.
    #[test]
    fn wrong_clock_never_extends_the_use_of_a_response(
        readings in readings(),
        wall_jumps in any::<bool>(),
        windows in (0..90u64, 0..60u64, 0..90u64, 0..90u64),
        age_secs in 0..30u64,
        wish in wishes(),
        by_the_letter in any::<bool>(),
    ) {
        let (lifetime_secs, revalidate_secs, error_secs, _) = windows;
        let policy = if by_the_letter { Policy::rfc() } else { Policy::default_profile() };
        let clocks = clocks(&readings, wall_jumps);
        let mut head = ResponseHead::new(Status::OK);
        let control = format!(
            "max-age={lifetime_secs}, stale-while-revalidate={revalidate_secs}, stale-if-error={error_secs}"
        );
        head.fields.push("Cache-Control", control);
        head.fields.push("Age", age_secs.to_string());
        head.fields.push("ETag", "\"a\"");
        let request = RequestHead {
            method: Method::Get, target: "/".into(), version: Version::Http11, fields: Fields::new(),
        };
        let [(_, asked), (arrived, answered), later @ ..] = &clocks[..] else {
            return Err(TestCaseError::reject("two readings at least"));
        };
        let judgement = judge_response(&request, &head, *asked, *answered, &policy);
        let Judgement::Store(Storable { freshness, .. }) = judgement else {
            return Err(TestCaseError::fail("a response with a validator is stored"));
        };
        let wanted = directives_of(&wish);
        for (elapsed, now) in later {
            let true_age = age_secs + elapsed - arrived;
            used_within(&freshness, true_age, [lifetime_secs, revalidate_secs, error_secs], &wish, reuse(&freshness, &wanted, &policy, *now))?;
            if let Some(reused) = reuse_on_error(&freshness, &wanted, &policy, *now) {
                used_within(&freshness, true_age, [lifetime_secs, revalidate_secs, error_secs], &wish, reused)?;
            }
        }
    }
}

/// Checks that a response of this true age may be used in this way.
fn used_within(
    freshness: &Freshness,
    true_age: u64,
    [lifetime_secs, revalidate_secs, error_secs]: [u64; 3],
    wish: &Wish,
    reused: Reuse,
) -> Result<(), TestCaseError> {
    let wished = |secs: Option<i128>| secs.and_then(|secs| u64::try_from(secs).ok()).unwrap_or(0);
    // The limit of a client's directive is inclusive.
    let permitted = match answer_of(Some(reused)) {
        ExpectedReuse::Fresh => lifetime_secs,
        ExpectedReuse::StaleWhileRevalidated => lifetime_secs + revalidate_secs,
        ExpectedReuse::StaleAsTheClientAccepts => lifetime_secs + wished(wish.max_stale) + 1,
        ExpectedReuse::StaleOnError => lifetime_secs + error_secs.max(wished(wish.stale_if_error) + 1),
        ExpectedReuse::AskTheOrigin => return Ok(()),
    };
    prop_assert!(true_age < permitted, "{:?} at the age of {}: {:?}", reused, true_age, freshness);
    Ok(())
}
