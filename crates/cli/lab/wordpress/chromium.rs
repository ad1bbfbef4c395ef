//! Headless Chromium under remote control: windows that share nothing, typing into forms, pressing
//! buttons.
//!
//! Commands use the DevTools protocol over two pipes: JSON objects, each ended by a zero byte. A
//! wait names its condition and never relies on a fixed time. The browser can reach only the host
//! it is given.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;

/// Longest time that a browser on two shared cores may take for one step.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two checks of a condition.
const PAUSE: Duration = Duration::from_millis(50);
/// Moves standard input and output to descriptors 3 and 4, where Chromium reads commands and writes
/// responses.
const PIPES: &str = "exec chromium \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null";

/// Prefixes of the events that are kept until they are taken: those of the network, and errors of
/// scripts and pages.
const KEPT: [&str; 4] = ["Network.", "Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"];

/// A running browser. It ends when the handle is dropped.
pub(crate) struct Chromium {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    last: u64,
    /// Events of [`KEPT`] since they were last taken, for windows that have switched them on.
    events: Vec<Value>,
    _profile: TempDir,
}

/// Session identifier of a window with separate cookies and cache.
#[derive(Clone)]
pub(crate) struct BrowserWindow(String);

impl Chromium {
    /// Starts the browser. The host `host` resolves to `address`, and no other host resolves.
    pub(crate) fn start(host: &str, address: SocketAddr) -> Self {
        Self::launch(&format!("MAP {host}:80 {address}"), &[])
    }

    /// As [`Chromium::start`], for a host with https. The browser accepts any certificate: a test
    /// verifies it by another client.
    pub(crate) fn start_secure(host: &str, address: SocketAddr) -> Self {
        Self::launch(&format!("MAP {host}:443 {address}"), &["--ignore-certificate-errors"])
    }

    /// As [`Chromium::start`], for sites at 127.0.0.1 under their port. No other host resolves.
    pub(crate) fn start_local() -> Self {
        Self::launch("EXCLUDE 127.0.0.1", &[])
    }

    fn launch(places: &str, arguments: &[&str]) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                PIPES,
                "sh",
                "--headless",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
            ])
            .args(["--no-first-run", "--disable-background-networking", "--disable-component-update"])
            .args([
                "--disable-sync",
                "--disable-extensions",
                "--disable-dev-shm-usage",
                "--window-size=1280,1000",
            ])
            .args(arguments)
            .arg(format!("--host-resolver-rules={places}, MAP * ~NOTFOUND"))
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank");
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = child.stdout.take().unwrap();
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let texts = BufReader::new(answers).split(0).map_while(Result::ok);
            let mut objects = texts.filter_map(|text| serde_json::from_slice(&text).ok());
            objects.all(|object: Value| sender.send(object).is_ok())
        });
        Self { child, commands, messages, last: 0, events: Vec::new(), _profile: profile }
    }

    /// Opens a window that shares nothing with the others.
    pub(crate) fn window(&mut self) -> BrowserWindow {
        let context = self.call("", "Target.createBrowserContext", &json!({}))["browserContextId"].clone();
        let page = json!({"url": "about:blank", "browserContextId": context});
        let target = self.call("", "Target.createTarget", &page)["targetId"].clone();
        let session = self.call("", "Target.attachToTarget", &json!({"targetId": target, "flatten": true}));
        let window = BrowserWindow(session["sessionId"].as_str().unwrap().to_owned());
        self.call(&window.0, "Page.enable", &json!({}));
        window
    }

    /// Navigates to a URL and waits until the page is loaded.
    pub(crate) fn open(&mut self, window: &BrowserWindow, url: &str) {
        self.evaluate(window, "window.isOld = true");
        let gone = self.call(&window.0, "Page.navigate", &json!({"url": url}));
        assert_eq!(gone.get("errorText"), None, "{url}: {gone}");
        self.arrive(window, url);
    }

    /// Waits until a page without the mark `isOld` is loaded.
    fn arrive(&mut self, window: &BrowserWindow, what: &str) {
        self.until(window, what, "!window.isOld && document.readyState === 'complete'");
    }

    /// Runs a script that leads to another page, and waits until that page is loaded.
    pub(crate) fn follow(&mut self, window: &BrowserWindow, script: &str) {
        self.evaluate(window, "window.isOld = true");
        self.evaluate(window, script);
        self.arrive(window, script);
    }

    /// Waits until a JavaScript condition holds in the page.
    pub(crate) fn until(&mut self, window: &BrowserWindow, what: &str, condition: &str) {
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            if self.try_evaluate(window, condition) == Some(json!(true)) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        let page = self.try_evaluate(window, "location.href + '\\n' + document.body?.innerText");
        panic!("never happened in the browser: {what}: {condition}\n{page:?}");
    }

    /// Clicks the first element that matches the selector, once it exists and is enabled.
    pub(crate) fn press(&mut self, window: &BrowserWindow, selector: &str) {
        let element = format!("document.querySelector({})", json!(selector));
        let ready =
            format!("(e => !!e && !e.disabled && e.getAttribute('aria-disabled') !== 'true')({element})");
        self.until(window, selector, &ready);
        self.evaluate(window, &format!("{element}.click()"));
    }

    /// Replaces the text of the first element that matches the selector by typing.
    pub(crate) fn type_into(&mut self, window: &BrowserWindow, selector: &str, text: &str) {
        let element = format!("document.querySelector({})", json!(selector));
        self.until(window, selector, &format!("!!{element}"));
        self.evaluate(window, &format!("{element}.focus(); document.execCommand('selectAll')"));
        self.call(&window.0, "Input.insertText", &json!({"text": text}));
        let is_there = format!("(e => (e.value ?? e.innerText).includes({}))({element})", json!(text));
        self.until(window, selector, &is_there);
    }

    /// Gives the keyboard focus to the first element that matches the selector.
    pub(crate) fn focus(&mut self, window: &BrowserWindow, selector: &str) {
        let element = format!("document.querySelector({})", json!(selector));
        self.until(window, selector, &format!("!!{element}"));
        self.evaluate(window, &format!("{element}.focus()"));
    }

    /// Chooses a file for the upload field that matches the selector.
    pub(crate) fn choose_file(&mut self, window: &BrowserWindow, selector: &str, file: &Path) {
        let element = json!({"expression": format!("document.querySelector({})", json!(selector))});
        let object = self.call(&window.0, "Runtime.evaluate", &element)["result"]["objectId"].clone();
        let choice = json!({"files": [file], "objectId": object});
        self.call(&window.0, "DOM.setFileInputFiles", &choice);
    }

    /// The names of all cookies in the window.
    pub(crate) fn cookies(&mut self, window: &BrowserWindow) -> Vec<String> {
        let kept = self.call(&window.0, "Storage.getCookies", &json!({}));
        kept["cookies"].as_array().unwrap().iter().map(|cookie| cookie["name"].to_string()).collect()
    }

    /// A picture of the whole page in PNG, `width` pixels wide.
    pub(crate) fn picture(&mut self, window: &BrowserWindow, width: u32) -> Vec<u8> {
        let height = self.evaluate(window, "document.documentElement.scrollHeight");
        let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": 1});
        let whole = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let picture = self.call(&window.0, "Page.captureScreenshot", &whole);
        base64(picture["data"].as_str().unwrap())
    }

    /// The page's markup.
    pub(crate) fn markup(&mut self, window: &BrowserWindow) -> String {
        let markup = self.evaluate(window, "document.documentElement.outerHTML");
        markup.as_str().unwrap().to_owned()
    }

    /// Evaluates a JavaScript expression.
    pub(crate) fn evaluate(&mut self, window: &BrowserWindow, expression: &str) -> Value {
        self.try_evaluate(window, expression).unwrap_or_else(|| panic!("the page cannot say: {expression}"))
    }

    /// Evaluates a JavaScript expression; `None` while the page changes, or if it throws.
    fn try_evaluate(&mut self, window: &BrowserWindow, expression: &str) -> Option<Value> {
        let question = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.try_call(&window.0, "Runtime.evaluate", &question).ok()?;
        let is_fine = answer.get("exceptionDetails").is_none();
        is_fine.then(|| answer["result"].get("value").cloned().unwrap_or(Value::Null))
    }

    /// Sends a command of a window, which must succeed, and returns its result.
    pub(crate) fn command(&mut self, window: &BrowserWindow, method: &str, parameters: &Value) -> Value {
        self.call(&window.0, method, parameters)
    }

    /// As [`Chromium::command`], but returns Chromium's error.
    pub(crate) fn try_command(
        &mut self,
        window: &BrowserWindow,
        method: &str,
        parameters: &Value,
    ) -> Result<Value, Value> {
        self.try_call(&window.0, method, parameters)
    }

    /// Takes the events of [`KEPT`] so far, in order. The window must have switched them on.
    pub(crate) fn kept_events(&mut self, window: &BrowserWindow) -> Vec<Value> {
        // Chromium sends earlier events before the response to a command, so this call collects
        // them all.
        self.evaluate(window, "0");
        std::mem::take(&mut self.events)
    }

    fn call(&mut self, session: &str, method: &str, parameters: &Value) -> Value {
        let answer = self.try_call(session, method, parameters);
        answer.unwrap_or_else(|error| panic!("{method} {parameters}: {error}"))
    }

    /// Sends a command and waits for its response. Of the events in between, only those of [`KEPT`]
    /// are kept.
    fn try_call(&mut self, session: &str, method: &str, parameters: &Value) -> Result<Value, Value> {
        self.last += 1;
        let mut command = json!({"id": self.last, "method": method, "params": parameters});
        if !session.is_empty() {
            command["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let message = self.messages.recv_timeout(PATIENCE);
            let message = message.unwrap_or_else(|error| {
                panic!(
                    "no answer from chromium to {method} ({error}): is Debian's package chromium installed?"
                )
            });
            if message["id"] == self.last {
                return message
                    .get("error")
                    .map_or_else(|| Ok(message["result"].clone()), |error| Err(error.clone()));
            }
            let is_kept = |method: &str| KEPT.iter().any(|kept| method.starts_with(kept));
            if message["method"].as_str().is_some_and(is_kept) {
                self.events.push(message);
            }
        }
    }
}

impl Drop for Chromium {
    /// Kills the browser and waits for its main process. Its other processes end when their pipe
    /// closes.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Decodes base64.
fn base64(text: &str) -> Vec<u8> {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let value = |byte: u8| digits.iter().position(|digit| *digit == byte).map(|value| value as u32);
    let values: Vec<_> = text.bytes().filter_map(value).collect();
    let bytes = |chunk: &[u32]| {
        let bits = chunk.iter().chain([&0; 3]).take(4).fold(0, |bits, value| bits << 6 | value);
        bits.to_be_bytes()[1..chunk.len()].to_vec()
    };
    values.chunks(4).flat_map(bytes).collect()
}
