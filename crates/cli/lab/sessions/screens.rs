//! Screens of wp-admin other than the block editor: media, widgets, menus and templates.

use crate::session_browser::{SessionBrowser, own};
use crate::site::WordPressLab;
use serde_json::{Value, json};

/// A page that shows the lab's widgets and its main menu, because the theme does not.
const PARTS: &str = "/?lab=parts";
/// The template of single posts.
const TEMPLATE: &str = "/wp/v2/templates/twentytwentythree//single";

impl SessionBrowser {
    /// Uploads a picture with the form for browsers without scripts.
    pub(crate) fn upload(&mut self, site: &WordPressLab) {
        let directory = tempfile::tempdir().unwrap();
        let picture = directory.path().join("a-harbour.jpg");
        std::fs::copy(site.files.join("wordpress/wp-content/uploads/picture-1.jpg"), &picture).unwrap();
        self.open("/wp-admin/media-new.php?browser-uploader=1");
        self.browser.choose_file(&self.editor, "#async-upload", &picture);
        self.browser.follow(&self.editor, "document.querySelector('#html-upload').click()");
        let items = self.api_get("/wp/v2/media?search=a-harbour&context=edit");
        let source =
            items[0]["source_url"].as_str().unwrap_or_else(|| panic!("no picture in {items}")).to_owned();
        let size =
            format!("fetch({}).then(answer => answer.blob()).then(picture => picture.size)", json!(source));
        self.browser.open(&self.visitor, &crate::session_browser::url("/"));
        let size = self.browser.evaluate(&self.visitor, &size);
        assert_eq!(size, std::fs::metadata(&picture).unwrap().len(), "{source}");
    }

    /// Adds two widgets, changes one, reverses their order and removes the other.
    pub(crate) fn change_widgets(&mut self) {
        let [first, second, other] = ["Our opening hours", "Our address", "Our new opening hours"].map(own);
        self.public_misses(PARTS, &first);
        self.open("/wp-admin/widgets.php");
        let [one, two] = [&first, &second].map(|text| self.add_widget(text));
        self.place_widgets(&[&one, &two]);
        self.public_sees(PARTS, &first);
        self.public_sees(PARTS, &second);
        let change = json!({"instance": {"raw": {"content": other}}, "sidebar": "lab"});
        self.call(&json!({"path": format!("/wp/v2/widgets/{one}"), "method": "PUT", "data": change}));
        self.public_sees(PARTS, &other);
        self.place_widgets(&[&two, &one]);
        let page = self.page(&self.visitor.clone(), PARTS);
        assert!(page.find(&second) < page.find(&other), "the order of the widgets is the old one: {page}");
        self.call(&json!({"path": format!("/wp/v2/widgets/{two}?force=true"), "method": "DELETE"}));
        self.public_misses(PARTS, &second);
        self.public_sees(PARTS, &other);
    }

    /// Adds a widget with a text. Returns its identifier.
    fn add_widget(&mut self, text: &str) -> String {
        let widget = json!({"id_base": "block", "instance": {"raw": {"content": text}}, "sidebar": "lab"});
        let widget = self.call(&json!({"path": "/wp/v2/widgets", "method": "POST", "data": widget}));
        widget["id"].as_str().unwrap_or_else(|| panic!("no widget: {widget}")).to_owned()
    }

    /// Puts the widgets into the lab's sidebar, in this order.
    fn place_widgets(&mut self, order: &[&str]) {
        let places = json!({"widgets": order});
        let sidebar = self.call(&json!({"path": "/wp/v2/sidebars/lab", "method": "PUT", "data": places}));
        assert_eq!(sidebar["widgets"], json!(order));
    }

    /// Adds a link to the main menu.
    pub(crate) fn change_menu(&mut self) {
        let title = own("Timetable");
        self.public_misses(PARTS, &title);
        self.open("/wp-admin/nav-menus.php");
        let name = self.browser.evaluate(&self.editor, "document.querySelector('#menu-name').value");
        assert_eq!(name, "Main menu");
        for (field, value) in [("url", "http://ferries.test/"), ("name", &title)] {
            let fill =
                format!("document.querySelector('#custom-menu-item-{field}').value = {}", json!(value));
            self.browser.evaluate(&self.editor, &fill);
        }
        self.browser.press(&self.editor, "#submit-customlinkdiv");
        let added = format!(
            "[...document.querySelectorAll('#menu-to-edit .menu-item-title')].some(item => item.textContent === {})",
            json!(title)
        );
        self.browser.until(&self.editor, "the link is in the form", &added);
        self.browser.follow(&self.editor, "document.querySelector('#save_menu_header').click()");
        self.public_sees(PARTS, &title);
    }

    /// Changes the template of single posts, then resets it as the site editor's "Clear
    /// customizations" does.
    pub(crate) fn change_and_reset_template(&mut self, post: &str) {
        let text = own("Below every post");
        self.public_misses(post, &text);
        let template = self.api_get(&format!("{TEMPLATE}?context=edit"));
        let content =
            template["content"]["raw"].as_str().unwrap_or_else(|| panic!("no template: {template}"));
        let content = format!("{content}\n<!-- wp:paragraph -->\n<p>{text}</p>\n<!-- /wp:paragraph -->");
        self.call(&json!({"path": TEMPLATE, "method": "PUT", "data": {"content": content}}));
        self.public_sees(post, &text);
        self.call(&json!({"path": format!("{TEMPLATE}?force=true"), "method": "DELETE"}));
        self.public_misses(post, &text);
        let template = self.api_get(&format!("{TEMPLATE}?context=edit"));
        assert_eq!(
            template["source"], "theme",
            "the template is not the theme's after the reset: {template}"
        );
    }

    /// Reads from the REST API, in a page that has `wp.apiFetch`.
    fn api_get(&mut self, path: &str) -> Value {
        self.open("/wp-admin/widgets.php");
        self.call(&json!({"path": path}))
    }
}
