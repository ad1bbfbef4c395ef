//! What a run of page loads is asked to do.
//!
//! Invariant: a plan that passes [`PagePlan::check`] can be run; what is wrong is said with the flag's name. A plan is
//! data: it opens nothing and resolves no names.

use load::{StatusSet, Think};
use net::Address;
use page::Limits;
use std::path::PathBuf;
use std::time::Duration;
use url::{Host, Url};

/// Connections that a browser opens to one host over HTTP/1.
pub const CONNECTIONS_PER_HOST_DEFAULT: usize = 6;

/// The most connections to one host that one visitor may have: far more than any browser opens.
pub const CONNECTIONS_PER_HOST_MAX: usize = 256;

/// The most visitors at a time: each has a tree of the page in hand and up to six connections a host,
/// unless the plan says otherwise.
pub const VISITORS_MAX: usize = 5_000;

/// How long a request may take if the plan says nothing.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// A run of page loads: [`PagePlan::users`] visitors, each of whom loads the page, and then the next visitor comes.
#[derive(Clone, Debug)]
pub struct PagePlan {
    /// The page.
    pub url: Url,
    /// Where connections for the page's host go, if its name says something else.
    pub connect_to: Option<Address>,
    /// How many visitors load a page at a time, 1 to [`VISITORS_MAX`].
    pub users: usize,
    /// Worker threads; 0 means one for each core. Never more than there are users.
    pub threads: usize,
    /// The number of pages after which the run ends.
    pub pages: Option<u64>,
    /// The time after which the run ends.
    pub time: Option<Duration>,
    /// Pages a second that begin however slow the server is; `None`: a visitor begins when the one before has ended.
    pub rate: Option<f64>,
    /// How long a visitor's place stays empty after a page, until the next visitor comes. In a closed loop only.
    pub think: Think,
    /// How long connections stay open after their page, while the next visitors come.
    pub linger: Duration,
    /// Loads before the measured part; they are counted nowhere.
    pub warmup: Duration,
    /// The time over which the load grows to its full size, from the beginning on, the warm-up's or the measured
    /// part's: visitors begin evenly spread over it, a rate grows evenly.
    pub ramp: Duration,
    /// Whether the run ends when more than half of what it asked for in the last second did not arrive.
    pub stops_when_failing: bool,
    /// The share of visitors who have been here before, 0 to 1.
    pub returning: f64,
    /// Where the choice of who returns begins.
    pub seed: u64,
    /// Hosts beside the page's own that may be asked: `HOST` or `HOST:PORT`.
    pub allowed_hosts: Vec<String>,
    /// Fields of every request, in place of the built-in ones of their names.
    pub headers: Vec<(String, String)>,
    /// How long one request may take, its connection included.
    pub timeout: Duration,
    /// Which answers to the page itself are good.
    pub expect_status: StatusSet,
    /// Whether servers must prove who they are.
    pub is_verified: bool,
    /// A file of authorities (PEM) to verify servers by, in place of the system's.
    pub ca_file: Option<PathBuf>,
    /// Connections to one host that one visitor has at a time, 1 to [`CONNECTIONS_PER_HOST_MAX`]. Over HTTP/2 it is
    /// one.
    pub connections_per_host_max: usize,
    /// Whether HTTP/2 is spoken: over TLS the server must choose it, without TLS it must know it.
    pub is_http2: bool,
    /// What a page may ask.
    pub limits: Limits,
}

/// Why a plan cannot be run; the message names the flag.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PagePlanError {
    /// It is no URL of a page.
    #[error("`{0}` is no URL of a page ({1}); write for example http://127.0.0.1:8080/")]
    Url(String, String),
    /// The number of users.
    #[error("-c {0}: page mode has 1 to {VISITORS_MAX} visitors at a time")]
    Users(usize),
    /// The share of returning visitors.
    #[error("--returning {0}: write a share from 0% to 100%")]
    Returning(String),
    /// Nothing would end the run, or nothing would be loaded.
    #[error("the run has no end: give -n PAGES or -t TIME, above zero")]
    Stop,
    /// The rate.
    #[error("--rate {0}: page mode takes a rate above 0 and up to 100000 pages a second")]
    Rate(f64),
    /// Thinking where nobody waits for it.
    #[error(
        "--think does not go with --page and --rate: pages begin at the rate, however long visitors think; leave one \
         of the two out"
    )]
    Think,
    /// No request may take no time.
    #[error("--timeout must be above zero")]
    Timeout,
    /// The number of connections.
    #[error("--connections-per-host {0}: write 1 to {CONNECTIONS_PER_HOST_MAX} connections")]
    ConnectionsPerHost(usize),
    /// A host that is none.
    #[error("--allow-host `{0}`: write HOST or HOST:PORT, without scheme and path")]
    AllowedHost(String),
}

impl PagePlan {
    /// One visitor at a time for ten seconds, everything else as browsers have it.
    ///
    /// # Errors
    /// [`PagePlanError::Url`].
    pub fn new(text: &str) -> Result<Self, PagePlanError> {
        let refuse = |reason: &str| PagePlanError::Url(text.to_owned(), reason.to_owned());
        let mut url = Url::parse(text).map_err(|error| refuse(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refuse("only http:// and https:// are loaded"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refuse("it names a user; say it with -H 'Authorization: ...'"));
        }
        url.set_fragment(None);
        let expect_status = "2xx".parse().map_err(|_| refuse("no status"))?;
        Ok(Self {
            url,
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
            expect_status,
            is_verified: true,
            ca_file: None,
            connections_per_host_max: CONNECTIONS_PER_HOST_DEFAULT,
            is_http2: false,
            limits: Limits::DEFAULT,
        })
    }

    /// Gives the page's host another name than that of the address it is reached by, as a `Host` field does.
    ///
    /// # Errors
    /// [`PagePlanError::Url`] if it is no host.
    pub fn name_host(&mut self, authority: &str) -> Result<(), PagePlanError> {
        let refuse = || PagePlanError::Url(authority.to_owned(), "the Host field names no host".to_owned());
        let address = address_of(&self.url).ok_or_else(refuse)?;
        let named = Url::parse(&format!("{}://{authority}/", self.url.scheme())).map_err(|_| refuse())?;
        self.url.set_host(named.host_str()).map_err(|_| refuse())?;
        self.url.set_port(named.port()).map_err(|()| refuse())?;
        self.connect_to = Some(address);
        Ok(())
    }

    /// Whether the plan can be run.
    ///
    /// # Errors
    /// What is wrong, by the flag's name.
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
        if let Some(rate) = self.rate.filter(|rate| !(*rate > 0.0 && *rate <= 100_000.0)) {
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

    /// Whether a URL is on a host that may be asked: the page's own (with its port, or with the ports of http and https
    /// if it has one of those), or one that is named.
    pub fn may_ask(&self, url: &Url) -> bool {
        let is_plain = |url: &Url| matches!(url.port_or_known_default(), Some(80 | 443));
        let same_port = url.port_or_known_default() == self.url.port_or_known_default();
        if url.host_str() == self.url.host_str() && (same_port || (is_plain(url) && is_plain(&self.url))) {
            return true;
        }
        self.allowed_hosts.iter().filter_map(|host| allowed(host)).any(|(host, port)| {
            url.host_str().is_some_and(|found| found.eq_ignore_ascii_case(&host))
                && port.is_none_or(|port| url.port_or_known_default() == Some(port))
        })
    }

    /// Where connections for a URL go.
    pub(crate) fn address(&self, url: &Url) -> Option<Address> {
        let is_own = url.host_str() == self.url.host_str() && url.scheme() == self.url.scheme();
        match &self.connect_to {
            Some(address) if is_own => Some(address.clone()),
            _ => address_of(url),
        }
    }
}

/// A host that may be asked, and its port if one was given.
fn allowed(text: &str) -> Option<(String, Option<u16>)> {
    let url = Url::parse(&format!("http://{text}/")).ok()?;
    let is_bare = url.path() == "/" && !text.contains(['/', '@', '?', '#']) && !text.is_empty();
    let port = url.port().or_else(|| text.ends_with(":80").then_some(80));
    is_bare.then(|| Some((url.host_str()?.to_owned(), port))).flatten()
}

fn address_of(url: &Url) -> Option<Address> {
    let port = url.port_or_known_default()?;
    Some(match url.host()? {
        Host::Domain(name) => Address::Host { name: name.to_owned(), port },
        Host::Ipv4(ip) => Address::Ip((ip, port).into()),
        Host::Ipv6(ip) => Address::Ip((ip, port).into()),
    })
}

#[cfg(test)]
mod tests {
    use super::{CONNECTIONS_PER_HOST_MAX, PagePlan, PagePlanError};
    use load::Think;
    use std::time::Duration;
    use url::Url;

    fn may_ask(plan: &PagePlan, url: &str) -> bool {
        plan.may_ask(&Url::parse(url).unwrap())
    }

    #[test]
    fn only_the_pages_host_and_those_named_are_asked() {
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
    }

    #[test]
    fn a_host_field_names_the_site_and_leaves_the_address() {
        let mut plan = PagePlan::new("http://127.0.0.1:8080/a?b").unwrap();
        plan.name_host("wordpress.test").unwrap();
        assert_eq!(plan.url.as_str(), "http://wordpress.test/a?b");
        assert_eq!(plan.address(&plan.url).unwrap().to_string(), "127.0.0.1:8080");
        assert!(may_ask(&plan, "http://wordpress.test/x") && !may_ask(&plan, "http://127.0.0.1:8080/x"));
        assert!(plan.name_host("a b").is_err());
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        assert!(matches!(PagePlan::new("h.org"), Err(PagePlanError::Url(..))));
        assert!(matches!(PagePlan::new("ftp://h.org/"), Err(PagePlanError::Url(..))));
        assert!(matches!(PagePlan::new("http://u@h.org/"), Err(PagePlanError::Url(..))));
        let plan = || PagePlan::new("http://h.org/").unwrap();
        assert_eq!(plan().check(), Ok(()));
        assert_eq!(PagePlan { users: 0, ..plan() }.check(), Err(PagePlanError::Users(0)));
        assert!(PagePlan { returning: 1.5, ..plan() }.check().is_err());
        assert_eq!(PagePlan { time: None, ..plan() }.check(), Err(PagePlanError::Stop));
        assert!(PagePlan { rate: Some(0.0), ..plan() }.check().is_err());
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
