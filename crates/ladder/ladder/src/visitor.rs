//! A visitor who logs in: cookies, variables kept from responses, and the requests made with both.
//!
//! Invariant: visitors share nothing. Each logs in separately, and its cookies are sent only where
//! its own responses allow it (RFC 6265).
//!
//! The responses to a log-in do not prove its success. A page must show it; see
//! [`LoggedInVisitor::check`].

use crate::client::{HttpClient, HttpRequest, HttpResponse};
use crate::template::Variables;
use crate::traffic::{PostContent, RequestTemplate, Session};
use clock::Clock;
use page::Jar;
use url::Url;

/// A site as visitors reach it.
#[derive(Clone, Debug)]
pub(crate) struct SiteAddress {
    /// Host and port to connect to.
    pub(crate) address: String,
    /// Host name of the site; `None` uses the address.
    pub(crate) host: Option<String>,
}

impl SiteAddress {
    /// Name of the site, to which cookies belong.
    pub(crate) fn site(&self) -> &str {
        self.host.as_deref().unwrap_or(&self.address)
    }

    /// Replaces the address at the start of a URL by the site's name, as a visitor's browser sees
    /// it.
    fn seen(&self, url: &str) -> Result<Url, String> {
        let at_address = format!("http://{}", self.address);
        let rest =
            url.strip_prefix(&at_address).filter(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
        let seen = rest.map_or_else(|| url.to_owned(), |rest| format!("http://{}{rest}", self.site()));
        Url::parse(&seen).map_err(|error| format!("{seen}: {error}"))
    }
}

/// A visitor who has logged in.
#[derive(Clone, Debug)]
pub(crate) struct LoggedInVisitor {
    jar: Jar,
    /// Variables of the ladder, the visitor's number, and values kept from responses.
    variables: Variables,
}

impl LoggedInVisitor {
    /// Logs in visitor `number` of a session.
    pub(crate) fn log_in(
        session: &Session,
        number: u64,
        site_address: &SiteAddress,
        variables: &Variables,
        client: HttpClient<'_>,
    ) -> Result<Self, String> {
        let variables = variables.with("visitor", number.to_string());
        let mut visitor = Self { jar: Jar::default(), variables };
        for exchange in &session.log_in {
            visitor.exchange(exchange, site_address, number, client).map_err(|reason| {
                format!("visitor {number} of session `{}` cannot log in: {reason}", session.name)
            })?;
        }
        Ok(visitor)
    }

    /// Value of the `Cookie` field for a path at a place; `None` if no cookie applies.
    pub(crate) fn cookies(
        &self,
        site_address: &SiteAddress,
        path: &str,
        clock: &dyn Clock,
    ) -> Option<String> {
        let url = site_address.seen(&format!("http://{}{path}", site_address.address)).ok()?;
        self.jar.value(&url, clock.now())
    }

    /// Sends a request, whose response must have a status of 2xx or 3xx. Stores the cookies of the
    /// response and the variables to keep.
    pub(crate) fn exchange(
        &mut self,
        exchange: &RequestTemplate,
        site_address: &SiteAddress,
        unique: u64,
        client: HttpClient<'_>,
    ) -> Result<HttpResponse, String> {
        let variables =
            self.variables.with("address", site_address.address.as_str()).with("unique", unique.to_string());
        let url = exchange.url.expand(&variables);
        let seen = site_address.seen(&url)?;
        let mut fields: Vec<(String, String)> =
            exchange.headers.iter().map(|(name, value)| (name.clone(), value.expand(&variables))).collect();
        fields.extend(self.jar.value(&seen, client.clock.now()).map(|value| ("Cookie".to_owned(), value)));
        let (method, content) = match &exchange.content {
            None => ("GET", Vec::new()),
            Some(content) => {
                let (kind, octets) = encoded(content, &variables);
                fields.push(("Content-Type".to_owned(), kind.to_owned()));
                ("POST", octets)
            }
        };
        let request = HttpRequest { method, url: &url, host: site_address.host.as_deref(), fields, content };
        let answer = client.ask_for(&request).map_err(|error| format!("{method} {url}: {error}"))?;
        self.jar.take(&seen, &answer.fields, client.clock.now());
        if !(200..400).contains(&answer.status) {
            return Err(format!("{method} {url}: the response has status {}", answer.status));
        }
        for (name, pattern) in &exchange.keep {
            let found = pattern.0.captures(&answer.content).and_then(|groups| groups.get(1));
            let found =
                found.ok_or_else(|| format!("{method} {url}: the response has no value for `{name}`"))?;
            self.variables.set(name, String::from_utf8_lossy(found.as_bytes()));
        }
        Ok(answer)
    }

    /// Checks that a page is made for this visitor. Returns a description of the page, or the
    /// reason why it is not.
    pub(crate) fn check(
        &self,
        session: &Session,
        site_address: &SiteAddress,
        path: &str,
        client: HttpClient<'_>,
    ) -> Result<String, String> {
        let url = format!("http://{}{path}", site_address.address);
        let cookies = self.cookies(site_address, path, client.clock);
        let fields = cookies.into_iter().map(|value| ("Cookie".to_owned(), value)).collect();
        let request = HttpRequest {
            method: "GET",
            url: &url,
            host: site_address.host.as_deref(),
            fields,
            content: Vec::new(),
        };
        let answer = client.ask_for(&request).map_err(|error| format!("GET {url}: {error}"))?;
        if answer.status == 200 && session.shows.0.is_match(&answer.content) {
            return Ok(format!("session {}: its own page, {} bytes", session.name, answer.content.len()));
        }
        Err(format!(
            "the page does not show that visitors of session `{}` have logged in: status {}, nothing in the page matches {}",
            session.name,
            answer.status,
            session.shows.0.as_str()
        ))
    }
}

/// Encodes the content of a request and returns it with its media type.
fn encoded(content: &PostContent, variables: &Variables) -> (&'static str, Vec<u8>) {
    match content {
        PostContent::Form(form) => {
            let mut pairs = url::form_urlencoded::Serializer::new(String::new());
            pairs.extend_pairs(form.iter().map(|(name, value)| (name, value.expand(variables))));
            ("application/x-www-form-urlencoded", pairs.finish().into_bytes())
        }
        PostContent::Json(text) => ("application/json", text.expand(variables).into_bytes()),
    }
}
