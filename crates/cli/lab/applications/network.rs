//! The responses that a browser window received from the network, with header fields and text, and
//! the faults of its pages.
//!
//! Invariant: a page view is complete when every request of it has ended. Responses from the
//! browser's own cache are left out, because they never reached Petasos.

use crate::chromium::{BrowserWindow, Chromium};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use testkit::eventually;

/// A response to a GET.
#[derive(Default)]
pub(crate) struct NetworkResponse {
    /// Empty until the request's event has arrived, and for methods other than GET.
    pub(crate) url: String,
    /// Whether it is a page and not a file of a page.
    pub(crate) is_page: bool,
    /// The lines of all header fields, including those of redirects that led to it.
    pub(crate) head: String,
    /// The received text; empty for pictures and fonts.
    pub(crate) body: String,
    /// The status of the response; 0 if there was none.
    pub(crate) status: u64,
    /// Chromium's name of the error, if the request failed.
    pub(crate) error: Option<String>,
    /// Whether it is the page's icon, which Chromium loads beside the page.
    pub(crate) is_icon: bool,
    is_from_browser: bool,
    /// Number of heads that Chromium has announced minus the number it has delivered.
    heads_missing: i64,
    has_ended: bool,
}

impl NetworkResponse {
    /// The value of a header field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().rev().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Starts the network events of a window.
pub(crate) fn watch(browser: &mut Chromium, window: &BrowserWindow) {
    browser.command(window, "Network.enable", &json!({}));
}

/// As [`watch`], and also starts the events of errors in pages and scripts.
pub(crate) fn watch_faults(browser: &mut Chromium, window: &BrowserWindow) {
    watch(browser, window);
    browser.command(window, "Log.enable", &json!({}));
    browser.command(window, "Runtime.enable", &json!({}));
}

/// A page view: the responses, and the messages of errors.
pub(crate) struct PageView {
    pub(crate) received: Vec<NetworkResponse>,
    /// Uncaught exceptions, and errors that scripts or Chromium wrote to the console.
    pub(crate) faults: Vec<String>,
}

/// Empties the browser cache and runs `act`, which leads to a page of `site`, a URL without path.
/// Returns the site's responses once every request has ended.
pub(crate) fn view(
    browser: &mut Chromium,
    window: &BrowserWindow,
    site: &str,
    act: impl FnOnce(&mut Chromium, &BrowserWindow),
) -> PageView {
    browser.command(window, "Network.clearBrowserCache", &json!({}));
    act(browser, window);
    let mut exchanges: BTreeMap<String, NetworkResponse> = BTreeMap::new();
    let mut faults = Vec::new();
    eventually("every request of the page has ended", || {
        for event in browser.kept_events(window) {
            faults.extend(fault(&event));
            note(&mut exchanges, &format!("{site}/"), &event);
        }
        let mut gets = exchanges.values().filter(|exchange| !exchange.url.is_empty());
        // Chromium never reports the end of some requests for a page's icon, but it does deliver
        // their heads; of others it reports the end, but not each head.
        gets.all(|exchange| {
            let has_heads = exchange.heads_missing <= 0 || exchange.is_icon;
            has_heads && (exchange.has_ended || !exchange.head.is_empty())
        })
    });
    exchanges.retain(|_, exchange| !exchange.is_from_browser && !exchange.url.is_empty());
    for (id, exchange) in &mut exchanges {
        // Redirects and failed requests have no body.
        let content = browser.try_command(window, "Network.getResponseBody", &json!({"requestId": id}));
        if let Ok(content) = content.as_ref()
            && content["base64Encoded"] == false
        {
            exchange.body = content["body"].as_str().unwrap().to_owned();
        }
    }
    PageView { received: exchanges.into_values().collect(), faults }
}

/// The message of an event that reports an error of a page.
fn fault(event: &Value) -> Option<String> {
    let told = &event["params"];
    let is_error = match event["method"].as_str()? {
        "Runtime.exceptionThrown" => true,
        "Runtime.consoleAPICalled" => told["type"] == "error" || told["type"] == "assert",
        "Log.entryAdded" => told["entry"]["level"] == "error",
        _ => false,
    };
    is_error.then(|| told.to_string())
}

fn note(exchanges: &mut BTreeMap<String, NetworkResponse>, site: &str, event: &Value) {
    let method = event["method"].as_str().unwrap();
    let told = &event["params"];
    let Some(id) = told["requestId"].as_str() else { return };
    if method == "Network.requestWillBeSent" {
        let url = told["request"]["url"].as_str().unwrap();
        if told["request"]["method"] != "GET" || !url.starts_with(site) {
            return;
        }
        let exchange = exchanges.entry(id.to_owned()).or_default();
        url.clone_into(&mut exchange.url);
        exchange.is_icon |= told["type"] == "Other";
        exchange.is_page = told["type"] == "Document";
        exchange.heads_missing += i64::from(told["redirectHasExtraInfo"] == true);
        return;
    }
    // The event with a response's fields may arrive before the event of its request.
    let exchange = match method {
        "Network.responseReceivedExtraInfo" => exchanges.entry(id.to_owned()).or_default(),
        _ => match exchanges.get_mut(id) {
            Some(exchange) => exchange,
            None => return,
        },
    };
    match method {
        "Network.responseReceived" => {
            exchange.status = told["response"]["status"].as_u64().unwrap_or_default();
            exchange.is_from_browser |= told["response"]["fromDiskCache"] == true;
            exchange.heads_missing += i64::from(told["hasExtraInfo"] == true);
        }
        "Network.responseReceivedExtraInfo" => {
            exchange.heads_missing -= 1;
            for (name, value) in told["headers"].as_object().unwrap() {
                for line in value.as_str().unwrap().lines() {
                    writeln!(exchange.head, "{name}: {line}").unwrap();
                }
            }
        }
        "Network.requestServedFromCache" => exchange.is_from_browser = true,
        "Network.loadingFinished" => exchange.has_ended = true,
        "Network.loadingFailed" => {
            exchange.has_ended = true;
            exchange.error = told["errorText"].as_str().map(str::to_owned);
        }
        _ => {}
    }
}
