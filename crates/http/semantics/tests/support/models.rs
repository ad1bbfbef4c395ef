//! Slow and readable models of the parsers' rules, written from the texts of the RFCs and drafts.

use petasos_semantics::structured::{MemberValue, parse_dictionary};
use url::form_urlencoded;

/// RFC 9110 section 14.1.2: the bytes that a `Range` value requests of a representation of
/// `complete` bytes. `None` if the value is not a valid set of byte ranges. Returned with the
/// number of ranges and the sum of their lengths in bytes.
pub(crate) fn wanted_octets(value: &str, complete: u64) -> Option<(Vec<bool>, usize, u64)> {
    let set =
        value.get(..6).filter(|unit| unit.eq_ignore_ascii_case("bytes=")).and_then(|_| value.get(6..))?;
    let mut wanted = vec![false; usize::try_from(complete).unwrap()];
    let mut count = 0;
    let mut sum = 0;
    for spec in set.split(',').map(str::trim_ascii).filter(|spec| !spec.is_empty()) {
        let (first, last) = spec.split_once('-')?;
        let is_wanted: Box<dyn Fn(u128) -> bool> = if first.is_empty() {
            let count = number(last)?;
            Box::new(move |octet| octet + count >= u128::from(complete))
        } else if last.is_empty() {
            let first = number(first)?;
            Box::new(move |octet| octet >= first)
        } else {
            let first = number(first)?;
            let last = number(last)?;
            if last < first {
                return None;
            }
            Box::new(move |octet| first <= octet && octet <= last)
        };
        count += 1;
        for (octet, wanted) in (0..).zip(&mut wanted) {
            if is_wanted(octet) {
                *wanted = true;
                sum += 1;
            }
        }
    }
    (count > 0).then_some((wanted, count, sum))
}

/// Parses digits. All numbers beyond the largest position are equal.
fn number(digits: &str) -> Option<u128> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u128::MAX).min(u128::from(u64::MAX)))
}

/// A rule of `No-Vary-Search` in the terms of the drafts.
#[derive(Debug)]
pub(crate) struct SearchVariance {
    /// `None` is the wildcard.
    no_vary_params: Option<Vec<String>>,
    /// `None` is the wildcard.
    vary_params: Option<Vec<String>>,
    vary_on_key_order: bool,
}

impl SearchVariance {
    /// Parses a value as the drafts say; `None` for the default, under which all query strings
    /// differ.
    pub(crate) fn of(value: &[u8]) -> Option<Self> {
        let members = parse_dictionary(value)?;
        let member =
            |name: &str| members.iter().find(|(key, _)| key == name.as_bytes()).map(|(_, value)| value);
        let mut variance =
            Self { no_vary_params: Some(Vec::new()), vary_params: None, vary_on_key_order: true };
        if let Some(key_order) = member("key-order") {
            let MemberValue::Boolean(key_order) = key_order else { return None };
            variance.vary_on_key_order = !key_order;
        }
        if let Some(params) = member("params") {
            match params {
                MemberValue::Boolean(false) => {}
                MemberValue::Boolean(true) => {
                    variance.no_vary_params = None;
                    variance.vary_params = Some(Vec::new());
                }
                MemberValue::InnerList(items) => variance.no_vary_params = Some(keys(items)?),
                _ => return None,
            }
        }
        if let Some(except) = member("except") {
            if !matches!(member("params"), None | Some(MemberValue::Boolean(true))) {
                return None;
            }
            let MemberValue::InnerList(items) = except else { return None };
            variance.no_vary_params = None;
            variance.vary_params = Some(keys(items)?);
        }
        let is_default =
            variance.vary_on_key_order && variance.no_vary_params.as_ref().is_some_and(Vec::is_empty);
        (!is_default).then_some(variance)
    }

    /// Whether the drafts call two targets equivalent.
    pub(crate) fn equivalent(&self, one: &[u8], other: &[u8]) -> bool {
        let ((one_path, one), (other_path, other)) = (split_query(one), split_query(other));
        one_path == other_path && self.significant(one) == self.significant(other)
    }

    fn significant(&self, query: &[u8]) -> Vec<(String, String)> {
        let mut pairs: Vec<_> = form_urlencoded::parse(query).into_owned().collect();
        if let Some(ignored) = &self.no_vary_params {
            pairs.retain(|(key, _)| !ignored.contains(key));
        } else if let Some(counted) = &self.vary_params {
            pairs.retain(|(key, _)| counted.contains(key));
        }
        if !self.vary_on_key_order {
            pairs.sort_by_key(|(key, _)| key.encode_utf16().collect::<Vec<_>>());
        }
        pairs
    }
}

fn split_query(target: &[u8]) -> (&[u8], &[u8]) {
    let mut halves = target.splitn(2, |&byte| byte == b'?');
    (halves.next().unwrap_or_default(), halves.next().unwrap_or_default())
}

fn keys(items: &[MemberValue]) -> Option<Vec<String>> {
    items
        .iter()
        .map(|item| match item {
            MemberValue::String(key) => Some(decoded_key(key)),
            _ => None,
        })
        .collect()
}

/// Decodes a key as the parser of query strings does. Separators in it are escaped first, so that
/// it stays one key.
fn decoded_key(key: &[u8]) -> String {
    let escaped = String::from_utf8_lossy(key).replace('&', "%26").replace('=', "%3D");
    form_urlencoded::parse(escaped.as_bytes()).next().map(|(key, _)| key.into_owned()).unwrap_or_default()
}

/// The three forms of RFC 9110 section 5.6.7 for a moment before the year 10000.
pub(crate) struct DateForms {
    pub(crate) year: u64,
    pub(crate) imf_fixdate: String,
    pub(crate) rfc850: String,
    pub(crate) asctime: String,
}

impl DateForms {
    /// Counts years and months one by one.
    pub(crate) fn of(secs: u64) -> Self {
        const WEEKDAYS: [&str; 7] =
            ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
        const MONTHS: [(&str, u64); 12] = [
            ("Jan", 31),
            ("Feb", 28),
            ("Mar", 31),
            ("Apr", 30),
            ("May", 31),
            ("Jun", 30),
            ("Jul", 31),
            ("Aug", 31),
            ("Sep", 30),
            ("Oct", 31),
            ("Nov", 30),
            ("Dec", 31),
        ];
        let mut days = secs / 86_400;
        let weekday = WEEKDAYS[usize::try_from(days % 7).unwrap()];
        let leap_days = |year: u64| {
            u64::from(year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)))
        };
        let mut year = 1970;
        while days >= 365 + leap_days(year) {
            days -= 365 + leap_days(year);
            year += 1;
        }
        let mut months =
            MONTHS.iter().map(|&(name, days)| (name, days + if name == "Feb" { leap_days(year) } else { 0 }));
        let mut month = months.next().unwrap();
        while days >= month.1 {
            days -= month.1;
            month = months.next().unwrap();
        }
        let day = days + 1;
        let month = month.0;
        let short = &weekday[..3];
        let time = format!("{:02}:{:02}:{:02}", secs / 3600 % 24, secs / 60 % 60, secs % 60);
        Self {
            year,
            imf_fixdate: format!("{short}, {day:02} {month} {year:04} {time} GMT"),
            rfc850: format!("{weekday}, {day:02}-{month}-{:02} {time} GMT", year % 100),
            asctime: format!("{short} {month} {day:2} {time} {year:04}"),
        }
    }
}
