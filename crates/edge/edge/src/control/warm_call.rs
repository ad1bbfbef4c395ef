//! `POST /warm` at the admin address, by which an operator begins and ends filling the cache of a
//! site.
//!
//! Invariant: it needs the same permission as a purge, because it costs the origin time.

use crate::memory::warmer::WarmBegin;
use crate::shared::Shared;
use crate::upkeep::warm_run::site_name_of;
use api::warm::{WarmCall, WarmRefusal, WarmReply};
use crawl::{URLS_BYTES_MAX, WarmOrder, Warming};

/// The path of the call.
pub(crate) const PATH: &[u8] = api::warm::PATH.as_bytes();

/// Maximum size of a call's content in bytes: a list of pages in JSON.
pub(crate) const CONTENT_BYTES_MAX: usize = URLS_BYTES_MAX;

/// Maximum number of pages in a call. A run visits no more of one site.
const PAGES_MAX: usize = 50_000;

/// The largest `rate`, in pages a second, as for the setting.
const RATE_MAX: u32 = 1_000;

/// Carries out a call. Also returns it in words, for the audit log.
///
/// # Errors
/// The status and the reply of a call that was not carried out.
pub(crate) fn carry_out(shared: &Shared, content: &[u8]) -> (String, Result<WarmReply, (u16, WarmRefusal)>) {
    let call: WarmCall = match serde_json::from_slice(content) {
        Ok(call) => call,
        Err(error) => {
            let refused = refused(400, format!("The call cannot be read: {error}."));
            return ("fill the cache".to_owned(), refused);
        }
    };
    match call {
        WarmCall::Stop { url } => {
            let done = site_of(shared, &url).map(|site| WarmReply { run: shared.warmer.stop(&site), site });
            (format!("stop filling the cache of {url}"), done)
        }
        WarmCall::Start { url, sitemaps, pages, rate } => {
            let what = format!("fill the cache of {url}");
            (what, start(shared, WarmOrder { url, sitemaps, pages, rate }))
        }
    }
}

fn start(shared: &Shared, order: WarmOrder) -> Result<WarmReply, (u16, WarmRefusal)> {
    if order.rate.is_some_and(|rate| !(1..=RATE_MAX).contains(&rate)) {
        return refused(422, format!("The rate is not from 1 to {RATE_MAX} pages a second."));
    }
    if order.sitemaps.is_none() && order.pages.is_empty() {
        return refused(422, "The call names neither sitemaps nor pages.".to_owned());
    }
    if order.pages.len() > PAGES_MAX {
        return refused(422, format!("The call names more than {PAGES_MAX} pages."));
    }
    if let Err(error) = Warming::new(order.clone()) {
        return refused(422, format!("The URL cannot be used: {error}."));
    }
    let site = site_of(shared, &order.url)?;
    Ok(WarmReply { run: Some(shared.warmer.order(&site, WarmBegin::Ordered(order))), site })
}

fn site_of(shared: &Shared, url: &str) -> Result<String, (u16, WarmRefusal)> {
    match site_name_of(shared, url) {
        Some(site) => Ok(site),
        None => refused(404, format!("There is no site with pages for `{url}`.")),
    }
}

fn refused<T>(status: u16, error: String) -> Result<T, (u16, WarmRefusal)> {
    Err((status, WarmRefusal { error }))
}
