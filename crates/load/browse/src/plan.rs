//! The plan of a run of page loads.
//!
//! Invariant: a plan that passes [`PagePlan::check`] can be run; an error names the wrong flag. A
//! plan is plain data: it opens no connections and resolves no names.

use address::{Address, HttpUrl, HttpUrlError};
use record::{StatusSet, Think};
use resource::PageLimits;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// The default number of connections to one host over HTTP/1: the number that browsers open.
pub const CONNECTIONS_PER_HOST_DEFAULT: usize = 6;

/// The most connections to one host that one visitor may have: far more than any browser opens.
pub const CONNECTIONS_PER_HOST_MAX: usize = 256;

/// The most visitors at a time. Each visitor that loads a page holds its parsed tree, and up to six
/// connections a host unless the plan says otherwise.
pub const VISITORS_MAX: usize = 5_000;

/// The lowest rate in pages per second, about one page a day. A far lower one would begin its
/// second page later than a clock can count.
pub const RATE_MIN: f64 = 0.00001;

/// The highest rate in pages per second.
pub const RATE_MAX: f64 = 100_000.0;

/// The default of [`PagePlan::timeout`].
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// A run of page loads. [`PagePlan::users`] visitors load the page at a time; when one has
/// finished, the next one comes.
#[derive(Clone, Debug)]
pub struct PagePlan {
    /// The page.
    pub url: Url,
    /// The address for connections to the page's host, if it differs from the host in the URL.
    pub connect_to: Option<Address>,
    /// How many visitors load a page at a time, 1 to [`VISITORS_MAX`].
    pub users: usize,
    /// Worker threads; 0 means one for each core. A run never has more threads than users.
    pub threads: usize,
    /// The number of pages after which the run ends.
    pub pages: Option<u64>,
    /// The time after which the run ends, not counting the warm-up.
    pub time: Option<Duration>,
    /// Open loop: page loads that begin per second, however slow the server is, [`RATE_MIN`] to
    /// [`RATE_MAX`]. `None` means a closed loop, in which each visitor is followed by the next.
    pub rate: Option<f64>,
    /// Think time: the pause after a page load until the next visitor comes. Only in a closed loop.
    pub think: Think,
    /// How long connections stay open after their page load, while the next visitors come.
    pub linger: Duration,
    /// Time of load before the measured part; its page loads are not counted.
    pub warmup: Duration,
    /// Ramp-up: the time from the beginning of the run, warm-up included, over which the load grows
    /// to its full size. Visitors begin evenly spread over it; a rate grows linearly.
    pub ramp: Duration,
    /// Whether the run ends when more than half of the resources that ended in the last second
    /// failed.
    pub stops_when_failing: bool,
    /// The share of returning visitors, 0 to 1.
    pub returning: f64,
    /// Seed of the random choice of returning visitors and of think times.
    pub seed: u64,
    /// Hosts other than the page's own that may be requested: `HOST` or `HOST:PORT`.
    pub allowed_hosts: Vec<String>,
    /// Header fields of every request. They replace built-in fields of the same name.
    pub headers: Vec<(String, String)>,
    /// How long one request may take, including its connection.
    pub timeout: Duration,
    /// The expected status codes of the page's document.
    pub expect_status: StatusSet,
    /// Whether servers must have valid certificates.
    pub is_verified: bool,
    /// PEM file with the certificate authorities to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The most connections of one visitor to one host at a time, 1 to
    /// [`CONNECTIONS_PER_HOST_MAX`]. Over HTTP/2 there is always one.
    pub connections_per_host_max: usize,
    /// Whether HTTP/2 is used. With TLS the server must choose it in the handshake; without TLS the
    /// server must support it from the start.
    pub is_http2: bool,
    /// Limits on the resources of one page.
    pub limits: PageLimits,
}

/// Why a plan cannot be run; the message names the flag.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PagePlanError {
    /// The text is not a URL of a page.
    #[error(transparent)]
    Url(#[from] HttpUrlError),
    /// The value of the `Host` field is not a host name.
    #[error("`{0}` in the Host field is not a host name; write HOST or HOST:PORT")]
    Host(String),
    /// The number of visitors is out of range.
    #[error("-c {0}: page mode needs 1 to {VISITORS_MAX} concurrent visitors")]
    Users(usize),
    /// The share of returning visitors is out of range.
    #[error("--returning {0}: write a share from 0% to 100%")]
    Returning(String),
    /// Nothing ends the run, or it would load nothing.
    #[error("the run has no end or loads nothing; give -n PAGES or -t TIME, above zero")]
    Stop,
    /// The rate is out of range.
    #[error("--rate {0}: page mode takes a rate from {RATE_MIN} to {RATE_MAX} pages a second")]
    Rate(f64),
    /// Think times in an open loop.
    #[error(
        "--think has no effect with --page and --rate, because pages begin at the rate; leave one of \
         the two out"
    )]
    Think,
    /// A timeout of zero.
    #[error("--timeout must be above zero")]
    Timeout,
    /// The number of connections is out of range.
    #[error("--connections-per-host {0}: write 1 to {CONNECTIONS_PER_HOST_MAX} connections")]
    ConnectionsPerHost(usize),
    /// The text is not a host.
    #[error("--allow-host `{0}`: write HOST or HOST:PORT, without scheme and path")]
    AllowedHost(String),
}

impl PagePlan {
    /// A plan for one visitor at a time for ten seconds, with a browser's defaults for everything
    /// else.
    ///
    /// # Errors
    /// [`PagePlanError::Url`].
    pub fn new(text: &str) -> Result<Self, PagePlanError> {
        Ok(Self {
            url: HttpUrl::parse(text)?.into_url(),
            connect_to: None,
            users: 1,
            threads: 0,
            pages: None,
            time: Some(Duration::from_secs(10)),
            rate: None,
            think: Think::None,
            linger: Duration::ZERO,
            warmup: Duration::ZERO,
            ramp: Duration::ZERO,
            stops_when_failing: false,
            returning: 0.0,
            seed: 1,
            allowed_hosts: Vec::new(),
            headers: Vec::new(),
            timeout: TIMEOUT_DEFAULT,
            expect_status: StatusSet::default(),
            is_verified: true,
            ca_file: None,
            connections_per_host_max: CONNECTIONS_PER_HOST_DEFAULT,
            is_http2: false,
            limits: PageLimits::DEFAULT,
        })
    }

    /// Replaces the page's host name, as a `Host` field does. Connections still go to the address
    /// of the original URL.
    ///
    /// # Errors
    /// [`PagePlanError::Host`] if `authority` is not a host.
    pub fn name_host(&mut self, authority: &str) -> Result<(), PagePlanError> {
        let refuse = || PagePlanError::Host(authority.to_owned());
        let address = address_of(&self.url).ok_or_else(refuse)?;
        let named = Url::parse(&format!("{}://{authority}/", self.url.scheme())).map_err(|_| refuse())?;
        self.url.set_host(named.host_str()).map_err(|_| refuse())?;
        self.url.set_port(named.port()).map_err(|()| refuse())?;
        self.connect_to = Some(address);
        Ok(())
    }

    /// Checks that the plan can be run.
    ///
    /// # Errors
    /// The first problem found.
    pub fn check(&self) -> Result<(), PagePlanError> {
        if !(1..=VISITORS_MAX).contains(&self.users) {
            return Err(PagePlanError::Users(self.users));
        }
        if !(0.0..=1.0).contains(&self.returning) {
            return Err(PagePlanError::Returning(format!("{}%", self.returning * 100.0)));
        }
        let ends = self.pages.is_some() || self.time.is_some();
        if !ends || self.pages == Some(0) || self.time == Some(Duration::ZERO) {
            return Err(PagePlanError::Stop);
        }
        if let Some(rate) = self.rate.filter(|rate| !(RATE_MIN..=RATE_MAX).contains(rate)) {
            return Err(PagePlanError::Rate(rate));
        }
        if self.rate.is_some() && !self.think.is_none() {
            return Err(PagePlanError::Think);
        }
        if self.timeout.is_zero() {
            return Err(PagePlanError::Timeout);
        }
        if !(1..=CONNECTIONS_PER_HOST_MAX).contains(&self.connections_per_host_max) {
            return Err(PagePlanError::ConnectionsPerHost(self.connections_per_host_max));
        }
        match self.allowed_hosts.iter().find(|host| allowed(host).is_none()) {
            Some(host) => Err(PagePlanError::AllowedHost(host.clone())),
            None => Ok(()),
        }
    }

    /// Whether a URL is on a host that may be requested: the page's own host, or one that the plan
    /// names. The page's own host must have the page's port; ports 80 and 443 are interchangeable.
    /// A host that the plan connects to elsewhere must have the page's scheme, too: its name may
    /// lead to another server, such as the live one of a site under test on a copy.
    pub fn may_ask(&self, url: &Url) -> bool {
        if !matches!(url.scheme(), "http" | "https") {
            return false;
        }
        let is_plain = |url: &Url| matches!(url.port_or_known_default(), Some(80 | 443));
        let same_port = url.port_or_known_default() == self.url.port_or_known_default();
        let is_reached = self.connect_to.is_none() || url.scheme() == self.url.scheme();
        if url.host_str() == self.url.host_str()
            && is_reached
            && (same_port || (is_plain(url) && is_plain(&self.url)))
        {
            return true;
        }
        self.allowed_hosts.iter().filter_map(|host| allowed(host)).any(|(host, port)| {
            url.host_str().is_some_and(|found| found.eq_ignore_ascii_case(&host))
                && port.is_none_or(|port| url.port_or_known_default() == Some(port))
        })
    }

    /// The address for connections to a URL.
    pub(crate) fn address(&self, url: &Url) -> Option<Address> {
        let is_own = url.host_str() == self.url.host_str() && url.scheme() == self.url.scheme();
        match &self.connect_to {
            Some(address) if is_own => Some(address.clone()),
            _ => address_of(url),
        }
    }
}

/// A host of [`PagePlan::allowed_hosts`], and its port if there is one.
fn allowed(text: &str) -> Option<(String, Option<u16>)> {
    let url = Url::parse(&format!("http://{text}/")).ok()?;
    let is_bare = url.path() == "/" && !text.contains(['/', '@', '?', '#']) && !text.is_empty();
    let port = url.port().or_else(|| text.ends_with(":80").then_some(80));
    is_bare.then(|| Some((url.host_str()?.to_owned(), port))).flatten()
}

fn address_of(url: &Url) -> Option<Address> {
    Some(Address::of_host(&url.host()?, url.port_or_known_default()?))
}

#[cfg(test)]
mod tests {
    use super::{CONNECTIONS_PER_HOST_MAX, PagePlan, PagePlanError, RATE_MAX, RATE_MIN};
    use record::Think;
    use std::time::Duration;
    use url::Url;

    fn may_ask(plan: &PagePlan, url: &str) -> bool {
        plan.may_ask(&Url::parse(url).unwrap())
    }

    #[test]
    fn only_the_pages_host_and_allowed_hosts_are_requested() {
        let mut plan = PagePlan::new("http://www.h.org/a").unwrap();
        plan.allowed_hosts = vec!["cdn.h.org".to_owned(), "other.org:8080".to_owned(), "[::1]:80".to_owned()];
        for url in [
            "http://www.h.org/",
            "https://www.H.org/x",
            "https://cdn.h.org:81/",
            "http://other.org:8080/",
            "http://[::1]/",
        ] {
            assert!(may_ask(&plan, url), "{url}");
        }
        for url in [
            "http://h.org/",
            "http://www.h.org:8080/",
            "http://other.org/",
            "http://www.h.org.evil/",
            "http://[::1]:81/",
        ] {
            assert!(!may_ask(&plan, url), "{url}");
        }
        let plan = PagePlan::new("http://127.0.0.1:8080/").unwrap();
        assert!(may_ask(&plan, "https://127.0.0.1:8080/") && !may_ask(&plan, "http://127.0.0.1/"));
        assert!(!may_ask(&plan, "ftp://127.0.0.1:8080/") && !may_ask(&plan, "ws://127.0.0.1:8080/"));
    }

    #[test]
    fn host_field_changes_the_name_but_not_the_address() {
        let mut plan = PagePlan::new("http://127.0.0.1:8080/a?b").unwrap();
        plan.name_host("wordpress.test").unwrap();
        assert_eq!(plan.url.as_str(), "http://wordpress.test/a?b");
        assert_eq!(plan.address(&plan.url).unwrap().to_string(), "127.0.0.1:8080");
        assert!(may_ask(&plan, "http://wordpress.test/x") && !may_ask(&plan, "http://127.0.0.1:8080/x"));
        assert!(!may_ask(&plan, "https://wordpress.test/"), "a redirect leads away from the address");
        plan.allowed_hosts = vec!["wordpress.test".to_owned()];
        assert!(may_ask(&plan, "https://wordpress.test/"));
        assert!(plan.name_host("a b").is_err());
    }

    #[test]
    fn plans_that_cannot_be_run_are_refused() {
        assert!(matches!(PagePlan::new("h.org"), Err(PagePlanError::Url(..))));
        assert!(matches!(PagePlan::new("ftp://h.org/"), Err(PagePlanError::Url(..))));
        assert!(matches!(PagePlan::new("http://u@h.org/"), Err(PagePlanError::Url(..))));
        let plan = || PagePlan::new("http://h.org/").unwrap();
        assert_eq!(plan().check(), Ok(()));
        assert_eq!(PagePlan { users: 0, ..plan() }.check(), Err(PagePlanError::Users(0)));
        assert!(PagePlan { returning: 1.5, ..plan() }.check().is_err());
        assert_eq!(PagePlan { time: None, ..plan() }.check(), Err(PagePlanError::Stop));
        for rate in [0.0, 1e-20, RATE_MIN / 2.0, RATE_MAX * 2.0, f64::NAN, f64::INFINITY] {
            let refused = PagePlan { rate: Some(rate), ..plan() }.check().unwrap_err().to_string();
            assert!(refused.ends_with("from 0.00001 to 100000 pages a second"), "{refused}");
        }
        assert_eq!(PagePlan { rate: Some(RATE_MIN), ..plan() }.check(), Ok(()));
        let think = Think::Constant(Duration::from_secs(1));
        assert_eq!(PagePlan { think, ..plan() }.check(), Ok(()));
        assert_eq!(PagePlan { think, rate: Some(1.0), ..plan() }.check(), Err(PagePlanError::Think));
        for connections in [0, CONNECTIONS_PER_HOST_MAX + 1] {
            let wrong = PagePlan { connections_per_host_max: connections, ..plan() };
            assert_eq!(wrong.check(), Err(PagePlanError::ConnectionsPerHost(connections)));
        }
        for host in ["", "http://x", "a/b", "a@b", "a b"] {
            assert!(PagePlan { allowed_hosts: vec![host.to_owned()], ..plan() }.check().is_err(), "{host:?}");
        }
    }
}
