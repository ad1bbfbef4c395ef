//! The plugin's zip in Chromium, by clicks in wp-admin alone, on a second WordPress that has no
//! part of Petasos: uploaded, used with an edge in front, and deleted without a trace.
//!
//! Screenshots of the plugin's screen are written to `target/tmp`.

use crate::chromium::{BrowserWindow, Chromium};
use crate::site::WordPressLab;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{Client, Edge, Response};

/// Name of the second site's directory below the lab's WordPress, and of its path.
const NAME: &str = "zip";
/// Password of its administrator.
const PASSWORD: &str = "only-on-loopback";
/// Widths and heights of the screens.
const SCREENS: [(u32, u32); 2] = [(1280, 900), (390, 844)];

/// The second WordPress. Its directory is removed when the handle is dropped.
struct SecondSite {
    directory: PathBuf,
    socket: String,
}

impl SecondSite {
    fn make(lab: &WordPressLab) -> Self {
        let source = lab.files.join("wordpress");
        let site = Self {
            directory: source.join(NAME),
            socket: lab.files.join("run/mariadb.sock").to_str().unwrap().to_owned(),
        };
        site.remove();
        let directory = site.directory.to_str().unwrap();
        assert_eq!(script(&[source.to_str().unwrap(), directory, &site.socket, PASSWORD]), "made\n");
        site
    }

    /// All traces that the plugin could leave behind, by kind and name.
    fn state(&self) -> Map<String, Value> {
        let text = script(&["--state", self.directory.to_str().unwrap(), &self.socket]);
        let state: Value = serde_json::from_str(&text).unwrap();
        let mut flat = Map::new();
        for (kind, items) in state.as_object().unwrap() {
            if let Some(items) = items.as_object() {
                flat.extend(items.iter().map(|(name, value)| (format!("{kind} {name}"), value.clone())));
            } else {
                flat.insert(kind.clone(), items.clone());
            }
        }
        flat
    }

    fn remove(&self) {
        if self.directory.exists() {
            std::fs::remove_dir_all(&self.directory).unwrap();
        }
    }

    /// Content of a file, or nothing.
    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.join(name)).unwrap_or_default()
    }
}

impl Drop for SecondSite {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Runs `second_site.php`, which must succeed.
fn script(arguments: &[&str]) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("lab/wordpress/second_site.php");
    let output = Command::new("php8.2").arg(file).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).unwrap()
}

/// Makes the zip as operators do.
fn package(directory: &Path) -> PathBuf {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let arguments = ["xtask", "package", "--wordpress", "--out"];
    let status = Command::new(env!("CARGO")).current_dir(top).args(arguments).arg(directory).status();
    assert!(status.unwrap().success(), "the zip could not be made");
    directory.join("petasos-wordpress.zip")
}

/// An administrator of the second site, behind the edge.
struct Visit<'a> {
    browser: Chromium,
    window: BrowserWindow,
    edge: &'a Edge,
}

impl<'a> Visit<'a> {
    fn log_in(edge: &'a Edge) -> Self {
        let mut browser = Chromium::start_local();
        let window = browser.window();
        let mut visit = Self { browser, window, edge };
        visit.open("wp-login.php");
        // The page moves the focus a moment later, so that typed text could miss its field.
        for (field, text) in [("#user_login", "admin"), ("#user_pass", PASSWORD)] {
            let script = format!("document.querySelector('{field}').value = '{text}'");
            visit.browser.evaluate(&visit.window, &script);
        }
        visit.click("#wp-submit");
        visit
    }

    fn open(&mut self, path: &str) {
        let url = format!("http://{}/{NAME}/{path}", self.edge.address);
        self.browser.open(&self.window, &url);
    }

    /// Opens the plugin's screen.
    fn screen(&mut self) {
        self.open("wp-admin/tools.php?page=petasos");
    }

    /// Clicks a link to another page.
    fn click(&mut self, selector: &str) {
        let script = format!("document.querySelector({}).click()", json!(selector));
        self.browser.follow(&self.window, &script);
    }

    fn text(&mut self) -> String {
        self.browser.evaluate(&self.window, "document.body.innerText").as_str().unwrap().to_owned()
    }

    fn count(&mut self, selector: &str) -> u64 {
        let script = format!("document.querySelectorAll({}).length", json!(selector));
        self.browser.evaluate(&self.window, &script).as_u64().unwrap()
    }

    fn upload(&mut self, zip: &Path) {
        self.open("wp-admin/plugin-install.php?tab=upload");
        self.browser.choose_file(&self.window, "#pluginzip", zip);
        self.click("#install-plugin-submit");
        assert!(self.text().contains("Plugin installed successfully"), "{}", self.text());
    }

    /// Deletes the plugin, which is not active.
    fn delete(&mut self) {
        self.open("wp-admin/plugins.php");
        // The browser would wait for an answer.
        self.browser.evaluate(&self.window, "window.confirm = () => true");
        self.browser.press(&self.window, "#delete-petasos");
        let gone = "!document.querySelector('#delete-petasos')";
        self.browser.until(&self.window, "the plugin is deleted", gone);
    }

    /// Installs a layer, after its question.
    fn install(&mut self, layer: &str) {
        self.screen();
        self.click(&format!("#petasos-{layer} a.button"));
        assert!(self.text().contains("Install this layer?"), "{}", self.text());
        if layer == "objects" {
            // The site has a cron job of the system, so the owner must decide for APCu.
            assert_eq!(self.count("[name=kind][value=apcu]:checked"), 0);
            self.browser.press(&self.window, "[name=kind][value=apcu]");
        }
        self.click("#petasos-do");
        assert_eq!(self.count(&format!("#petasos-{layer} .petasos-is-on")), 1, "{}", self.text());
    }

    /// Saves pictures of the page, in which nothing may be wider than the screen.
    fn shoot(&mut self) {
        for (width, height) in SCREENS {
            let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
            self.browser.command(&self.window, "Emulation.setDeviceMetricsOverride", &size);
            let scrolls = "document.documentElement.scrollWidth > innerWidth";
            assert_eq!(self.browser.evaluate(&self.window, scrolls), json!(false), "{width}");
            let picture = self.browser.picture(&self.window, width);
            let name = format!("wordpress-ladder-{width}.png");
            std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), picture).unwrap();
        }
        self.browser.command(&self.window, "Emulation.clearDeviceMetricsOverride", &json!({}));
    }
}

/// Requests a page of the second site as an anonymous visitor.
fn get(edge: &Edge, target: &str) -> Response {
    let mut client = Client::connect(edge.address);
    client.send(format!("GET /{NAME}{target} HTTP/1.1\r\nHost: {}\r\n\r\n", edge.address));
    client.read()
}

/// Requests a page until it is a hit of the edge.
fn is_stored(edge: &Edge, target: &str) -> bool {
    get(edge, target);
    get(edge, target).field("Cache-Status").unwrap().starts_with("Petasos; hit")
}

/// Purges by the bar and under Tools, and checks which pages are removed.
fn purge_by_clicks(visit: &mut Visit<'_>) {
    let edge = visit.edge;
    for (target, selector) in
        [("/?p=1", "#wp-admin-bar-petasos-page a"), ("/", "#wp-admin-bar-petasos-all a")]
    {
        assert!(is_stored(edge, target) && is_stored(edge, "/?page_id=2"), "{target}");
        visit.open(target.trim_start_matches('/'));
        visit.click(selector);
        assert!(visit.text().contains("Petasos: purged"), "{}", visit.text());
        let next = get(edge, target);
        let fields = ["Cache-Status", "X-Petasos-Pages"].map(|name| next.field(name).unwrap_or_default());
        assert!(fields[0].contains("miss") && fields[1].contains("miss"), "{selector}: {fields:?}");
        let other = get(edge, "/?page_id=2").field("Cache-Status").unwrap().contains("; hit");
        assert_eq!(other, selector.contains("page"), "{selector}: the other page");
    }
    visit.screen();
    visit.click("#petasos-purge");
    assert!(visit.text().contains("Purged from every cache."), "{}", visit.text());
}

/// Excludes a page, which is then private, and another, refused entry.
fn exclude_by_clicks(visit: &mut Visit<'_>) {
    let edge = visit.edge;
    assert!(is_stored(edge, "/?page_id=2"));
    visit.screen();
    visit.browser.type_into(&visit.window, "[name=PETASOS_EXCLUDE_PATHS]", "/zip/?page_id=2* no-path");
    visit.click("#petasos-exclude");
    assert!(visit.text().contains("Some entries were not accepted"), "{}", visit.text());
    for _ in 0..2 {
        let excluded = get(edge, "/?page_id=2");
        assert_eq!(excluded.field("Cache-Control"), Some("private, no-store"), "{}", excluded.head);
        assert_eq!(excluded.field("X-Petasos-Pages"), None, "{}", excluded.head);
    }
    assert!(is_stored(edge, "/?p=1"));
}

#[test]
fn zip_is_installed_used_and_removed_in_a_browser() {
    let lab = WordPressLab::with("");
    let site = SecondSite::make(&lab);
    let edge = Edge::start(&format!("http://{}", lab.origin), &["--profile", "wordpress"]);
    let directory = tempfile::tempdir().unwrap();
    let zip = package(directory.path());
    let mut visit = Visit::log_in(&edge);
    // WordPress itself leaves directories and options at the first upload and visit.
    visit.upload(&zip);
    visit.delete();
    visit.open("");
    let before = site.state();

    visit.upload(&zip);
    visit.click("a[href*='action=activate']");
    visit.screen();
    assert!(visit.text().contains("Not measured yet."), "{}", visit.text());
    visit.install("pages");
    visit.install("objects");
    assert!(
        site.file("wp-config.php").contains("define( 'WP_CACHE', true ); // Added by the plugin Petasos.")
    );
    assert!(site.file("wp-content/advanced-cache.php").contains("Petasos'"));

    visit.click("#petasos-find");
    assert!(visit.text().contains("An edge was found."), "{}", visit.text());
    assert_eq!(visit.count(".petasos-edge"), 0, "the owner saves the address");
    assert!(visit.count("[name=PETASOS_ADMIN][value^=http], [name=PETASOS_EDGE][value^=http]") > 0);
    visit.browser.type_into(&visit.window, "[name=PETASOS_ADMIN]", &format!("http://{}", edge.admin));
    visit.click("#petasos-edge-save");
    assert!(visit.text().contains("accepted"), "{}", visit.text());
    visit.click("#petasos-measure");
    assert_eq!(visit.count(".petasos-bar"), 8, "each layer was measured: {}", visit.text());
    visit.shoot();
    purge_by_clicks(&mut visit);
    exclude_by_clicks(&mut visit);

    visit.open("wp-admin/plugins.php");
    visit.click("#deactivate-petasos");
    for name in
        ["wp-content/advanced-cache.php", "wp-content/object-cache.php", "wp-content/petasos-settings.php"]
    {
        assert_eq!(site.file(name), "", "{name} after the deactivation");
    }
    assert!(!site.file("wp-config.php").contains("Petasos"));
    visit.delete();
    let after = site.state();
    let differs = |name: &&String| before.get(*name) != after.get(*name);
    let changed: Vec<_> = before.keys().chain(after.keys()).filter(differs).collect();
    assert!(changed.is_empty(), "differ from before: {changed:?}");
    assert_eq!(get(&edge, "/?p=1").status, 200);
}
