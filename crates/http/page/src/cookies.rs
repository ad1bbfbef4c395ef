//! The cookie jar of one visitor (RFC 6265).
//!
//! Invariant: a cookie is sent only to the host that set it or below the domain in its `Domain`
//! attribute. It is sent only on its path and until it expires. A `Secure` cookie is sent only over
//! TLS.
//!
//! There is no list of public suffixes. Instead, a `Domain` attribute that differs from the host
//! must contain a dot and be a parent domain of the host. `HttpOnly` and `SameSite` are ignored:
//! scripts do not run, and every request belongs to the page.

use clock::Timestamp;
use message::{Fields, names};
use semantics::parse_date;
use std::time::Duration;
use url::{Host, Url};

/// Cookies that one jar holds; a further cookie evicts the oldest.
pub const COOKIES_MAX: usize = 300;

/// Bytes of one cookie's name and value together (RFC 6265 section 6.1). Longer cookies are
/// ignored.
pub const COOKIE_BYTES_MAX: usize = 4096;

/// A visitor's cookies, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Jar {
    cookies: Vec<Cookie>,
}

#[derive(Clone, Debug)]
struct Cookie {
    name: String,
    value: String,
    domain: String,
    is_host_only: bool,
    path: String,
    is_secure: bool,
    expires: Option<Timestamp>,
}

impl Jar {
    /// Applies the `Set-Cookie` header fields of a response from `url` (RFC 6265 sections 5.2 and
    /// 5.3).
    pub fn take(&mut self, url: &Url, fields: &Fields, now: Timestamp) {
        for value in fields.all(names::SET_COOKIE) {
            if let Some(cookie) = std::str::from_utf8(value).ok().and_then(|text| parse(text, url, now)) {
                self.put(cookie, now);
            }
        }
    }

    /// Returns the value of the `Cookie` header field for a request to `url` (RFC 6265 section
    /// 5.4), or `None` if no cookie matches.
    pub fn value(&self, url: &Url, now: Timestamp) -> Option<String> {
        let host = host_of(url)?;
        let mut found: Vec<&Cookie> =
            self.cookies.iter().filter(|cookie| cookie.is_for(url, &host, now)).collect();
        // Longer paths come first. The sort is stable, so among equal lengths older cookies come
        // first.
        found.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let pairs: Vec<String> = found
            .iter()
            .map(|cookie| {
                if cookie.name.is_empty() {
                    cookie.value.clone()
                } else {
                    format!("{}={}", cookie.name, cookie.value)
                }
            })
            .collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }

    /// Number of cookies, including expired ones.
    pub fn len(&self) -> usize {
        self.cookies.len()
    }

    /// Whether the jar is empty.
    pub fn is_empty(&self) -> bool {
        self.cookies.is_empty()
    }

    fn put(&mut self, cookie: Cookie, now: Timestamp) {
        let same = |other: &Cookie| {
            other.name == cookie.name && other.domain == cookie.domain && other.path == cookie.path
        };
        let is_over = cookie.expires.is_some_and(|expires| expires <= now);
        match self.cookies.iter().position(same) {
            Some(at) if is_over => {
                self.cookies.remove(at);
            }
            Some(at) => {
                if let Some(slot) = self.cookies.get_mut(at) {
                    *slot = cookie;
                }
            }
            None if is_over => {}
            None => {
                if self.cookies.len() >= COOKIES_MAX {
                    self.cookies.remove(0);
                }
                self.cookies.push(cookie);
            }
        }
    }
}

impl Cookie {
    fn is_for(&self, url: &Url, host: &str, now: Timestamp) -> bool {
        let domain = if self.is_host_only { self.domain == host } else { domain_matches(host, &self.domain) };
        domain
            && path_matches(url.path(), &self.path)
            && (!self.is_secure || url.scheme() == "https")
            && self.expires.is_none_or(|expires| expires > now)
    }
}

fn parse(text: &str, url: &Url, now: Timestamp) -> Option<Cookie> {
    let mut parts = text.split(';');
    let pair = parts.next()?;
    let (name, value) = pair.split_once('=').unwrap_or(("", pair));
    let name = name.trim();
    let value = value.trim();
    let is_kept = (!name.is_empty() || !value.is_empty())
        && name.len() + value.len() <= COOKIE_BYTES_MAX
        && !text.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t');
    if !is_kept {
        return None;
    }
    let host = host_of(url)?;
    let mut cookie = Cookie {
        name: name.to_owned(),
        value: value.to_owned(),
        domain: host.clone(),
        is_host_only: true,
        path: default_path(url.path()).to_owned(),
        is_secure: false,
        expires: None,
    };
    let mut max_age = None;
    let mut has_path = false;
    for part in parts {
        let (attribute, value) = part.split_once('=').unwrap_or((part, ""));
        let value = value.trim();
        match attribute.trim().to_ascii_lowercase().as_str() {
            "expires" => cookie.expires = parse_date(value.as_bytes()).or(cookie.expires),
            "max-age" => max_age = seconds(value).or(max_age),
            "domain" if !value.is_empty() => {
                let domain = value.trim_start_matches('.').to_ascii_lowercase();
                let is_own = domain == host;
                let is_above = domain.contains('.') && domain_matches(&host, &domain);
                if !is_own && !is_above {
                    return None;
                }
                cookie.is_host_only = is_own && matches!(url.host(), Some(Host::Ipv4(_) | Host::Ipv6(_)));
                cookie.domain = domain;
            }
            "path" => {
                has_path = value.starts_with('/');
                cookie.path = if has_path { value.to_owned() } else { default_path(url.path()).to_owned() };
            }
            "secure" => cookie.is_secure = true,
            _ => {}
        }
    }
    if let Some(max_age) = max_age {
        let age = u64::try_from(max_age).unwrap_or_default();
        // Longer `Max-Age` values are cut at 400 days.
        let ends = now.plus(Duration::from_secs(age.min(400 * 24 * 3600)));
        cookie.expires = Some(if max_age <= 0 { Timestamp::from_secs(0) } else { ends });
    }
    // The prefixes `__Host-` and `__Secure-` promise attributes that the cookie must have.
    let is_prefix_kept = match (name.starts_with("__Secure-"), name.starts_with("__Host-")) {
        (_, true) => cookie.is_secure && cookie.domain == host && has_path && cookie.path == "/",
        (true, _) => cookie.is_secure,
        _ => true,
    };
    (is_prefix_kept && (!cookie.is_secure || url.scheme() == "https")).then_some(cookie)
}

fn seconds(value: &str) -> Option<i64> {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let too_long = if digits.len() < value.len() { i64::MIN } else { i64::MAX };
    is_number.then(|| value.parse().unwrap_or(too_long))
}

fn host_of(url: &Url) -> Option<String> {
    url.host_str().map(str::to_ascii_lowercase)
}

/// Whether `host` is `domain` or below it (RFC 6265 section 5.1.3). An IP address matches only
/// itself.
fn domain_matches(host: &str, domain: &str) -> bool {
    host == domain
        || (host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
            && host.parse::<std::net::IpAddr>().is_err())
}

/// The path of a cookie without a `Path` attribute (RFC 6265 section 5.1.4).
fn default_path(path: &str) -> &str {
    match path.rfind('/') {
        Some(at) if at > 0 => path.get(..at).unwrap_or("/"),
        _ => "/",
    }
}

/// Whether a request path is the cookie's path or below it (RFC 6265 section 5.1.4).
fn path_matches(path: &str, cookie: &str) -> bool {
    path.strip_prefix(cookie)
        .is_some_and(|rest| rest.is_empty() || cookie.ends_with('/') || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::{COOKIES_MAX, Jar};
    use clock::Timestamp;
    use message::Fields;
    use url::Url;

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

    fn jar(from: &str, cookies: &[&'static str]) -> Jar {
        let mut jar = Jar::default();
        let mut fields = Fields::new();
        cookies.iter().for_each(|&cookie| fields.push("Set-Cookie", cookie));
        jar.take(&Url::parse(from).unwrap(), &fields, NOW);
        jar
    }

    fn sent(jar: &Jar, to: &str) -> String {
        jar.value(&Url::parse(to).unwrap(), NOW).unwrap_or_default()
    }

    #[test]
    fn cookies_are_sent_to_matching_hosts_and_paths() {
        let jar = jar("http://www.h.org/a/b", &["x=1", "y=2; Domain=h.org; Path=/", "z = 3 ;Path=/a"]);
        assert_eq!(sent(&jar, "http://www.h.org/a/c"), "x=1; z=3; y=2");
        assert_eq!(sent(&jar, "http://other.h.org/"), "y=2");
        assert_eq!(sent(&jar, "http://www.h.org/ab"), "y=2");
        assert_eq!(sent(&jar, "http://wwwh.org/"), "");
        assert_eq!(sent(&jar, "http://h.org.evil/"), "");
    }

    #[test]
    fn cookies_for_foreign_domains_or_without_tls_are_ignored() {
        for cookie in [
            "a=1; Domain=org",
            "a=1; Domain=other.org",
            "a=1; Secure",
            "__Host-a=1; Path=/",
            "",
            "=",
            "a=1\x01",
        ] {
            let cookie: &'static str = cookie;
            assert!(jar("http://www.h.org/", &[cookie]).is_empty(), "{cookie:?}");
        }
        assert_eq!(jar("https://www.h.org/", &["__Host-a=1; Path=/; Secure"]).len(), 1);
        assert!(jar("http://127.0.0.1/", &["a=1; Domain=0.0.1"]).is_empty());
        assert_eq!(
            sent(&jar("http://127.0.0.1/", &["a=1; Domain=127.0.0.1"]), "http://127.0.0.1:8080/"),
            "a=1"
        );
    }

    #[test]
    fn expired_cookies_and_secure_cookies_over_http_are_not_sent() {
        let jar = jar(
            "https://h.org/",
            &[
                "a=1; Secure",
                "b=2; Max-Age=10",
                "c=3; Max-Age=0",
                "d=4; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
                "e=5; Max-Age=-1; Expires=Fri, 31 Dec 9999 23:59:59 GMT",
            ],
        );
        assert_eq!(sent(&jar, "https://h.org/"), "a=1; b=2");
        assert_eq!(sent(&jar, "http://h.org/"), "b=2");
        let later = NOW.plus(std::time::Duration::from_secs(10));
        assert_eq!(jar.value(&Url::parse("http://h.org/").unwrap(), later), None);
    }

    #[test]
    fn new_value_replaces_a_cookie_and_past_expiry_removes_it() {
        let mut jar = jar("http://h.org/", &["a=1", "b=2", "a=3"]);
        assert_eq!(sent(&jar, "http://h.org/"), "a=3; b=2");
        let mut fields = Fields::new();
        fields.push("Set-Cookie", "a=; Max-Age=0");
        jar.take(&Url::parse("http://h.org/").unwrap(), &fields, NOW);
        assert_eq!(sent(&jar, "http://h.org/"), "b=2");
    }

    #[test]
    fn full_jar_evicts_the_oldest_cookie() {
        let mut jar = Jar::default();
        for number in 0..COOKIES_MAX + 5 {
            let mut fields = Fields::new();
            fields.push("Set-Cookie", format!("c{number}=1"));
            jar.take(&Url::parse("http://h.org/").unwrap(), &fields, NOW);
        }
        assert_eq!(jar.len(), COOKIES_MAX);
        assert!(sent(&jar, "http://h.org/").starts_with("c5=1;"));
    }
}
