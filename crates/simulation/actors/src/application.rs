//! The application that the site runs on: the signs by which its responses show it, and the answers
//! of its own forms.
//!
//! Invariant: a save is answered with the proof of a write that the application gives, and only
//! after its page was edited. The edge may believe each sign.

use crate::answer::Answer;
use crate::content::{self, ContentId, NONE};
use crate::page::{Framing, PageKind, PagePlan};
use message::Fields;
use world::Random;

/// The field that names the path of the page that a save edits.
pub(crate) const SAVE_FIELD: &str = "X-Sim-Save";

/// The path to which the start page of a wiki redirects.
const WIKI_START: &str = "/start/";

/// The head of a wiki's document: two signs that no visitor can write.
const WIKI_DOCUMENT: &str = "<!DOCTYPE html>\n<html><head><title>Main page</title>\n\
    <meta name=\"generator\" content=\"MediaWiki 1.39.5\">\n\
    <script src=\"/load.php?lang=en&amp;modules=startup&amp;only=scripts\"></script>\n\
    </head><body>Welcome</body></html>\n";

/// The system that the site runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Application {
    /// WordPress: a field of each page shows it.
    WordPress,
    /// MediaWiki: the document of the start page shows it.
    MediaWiki,
    /// Drupal: a field of each page shows it.
    Drupal,
}

/// A form of the application by which an editor saves a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SaveForm {
    /// A call of the REST API, answered with JSON that names the page.
    Rest,
    /// A form whose redirect names the post, but no page.
    Screen,
    /// A form with its action in the content, and a redirect to the page.
    Form,
    /// A form with its action in the query, and a redirect to the page.
    Query,
    /// The form of a page of Drupal, with a redirect to the page.
    Node,
    /// A link that changes the theme.
    Theme,
}

impl Application {
    /// All applications.
    pub const ALL: [Self; 3] = [Self::WordPress, Self::MediaWiki, Self::Drupal];

    /// An application by chance, or none.
    pub fn random(random: &mut Random) -> Option<Self> {
        let application = random.choice(&Self::ALL).copied()?;
        random.percent(55).then_some(application)
    }

    /// The name of the profile for this application.
    pub const fn profile(self) -> &'static str {
        match self {
            Self::WordPress => "wordpress",
            Self::MediaWiki => "mediawiki",
            Self::Drupal => "drupal",
        }
    }

    /// The forms by which an editor saves a page.
    pub const fn forms(self) -> &'static [SaveForm] {
        match self {
            Self::WordPress => &[SaveForm::Rest, SaveForm::Rest, SaveForm::Screen],
            Self::MediaWiki => &[SaveForm::Form, SaveForm::Query],
            Self::Drupal => &[SaveForm::Node, SaveForm::Node, SaveForm::Theme],
        }
    }

    /// Adds the signs of the application to the fields of a page.
    pub(crate) fn sign(self, fields: &mut Fields, host: &str, page: &PagePlan) {
        if matches!(page.kind, PageKind::Static | PageKind::Redirect) {
            return;
        }
        match self {
            Self::WordPress => {
                fields.push("Link", format!("<http://{host}/wp-json/>; rel=\"https://api.w.org/\""));
                if is_post(page) {
                    fields.push("Link", format!("<http://{host}/?p={}>; rel=shortlink", page.number));
                }
            }
            Self::Drupal => fields.push("X-Generator", "Drupal 10 (https://www.drupal.org)"),
            Self::MediaWiki => {}
        }
    }

    /// The answer to a request for the start page; `None` for any other target.
    pub(crate) fn start(self, target: &str, accepts_gzip: bool) -> Option<Answer> {
        let mut fields = Fields::new();
        fields.push("Cache-Control", "max-age=5");
        let answer =
            |status, fields, body| Some(Answer { status, fields, body, framing: Framing::Length, id: None });
        match (self, target) {
            (Self::MediaWiki, "/") => {
                fields.push("Location", WIKI_START);
                answer(301, fields, Vec::new())
            }
            (Self::MediaWiki, WIKI_START) => {
                fields.push("Content-Type", "text/html; charset=UTF-8");
                fields.push("Vary", "Accept-Encoding");
                if !accepts_gzip {
                    return answer(200, fields, WIKI_DOCUMENT.as_bytes().to_vec());
                }
                fields.push("Content-Encoding", "gzip");
                answer(200, fields, content::gzip(WIKI_DOCUMENT.as_bytes()))
            }
            (_, "/") => {
                fields.push("Content-Type", "text/html; charset=UTF-8");
                answer(200, fields, b"<!DOCTYPE html>\n<title>Start</title>\n".to_vec())
            }
            _ => None,
        }
    }
}

/// Whether the page is a post of its own. All others are lists, which every post may change.
const fn is_post(page: &PagePlan) -> bool {
    !page.number.is_multiple_of(3)
}

impl SaveForm {
    /// The form of a random save.
    pub(crate) fn random(random: &mut Random, application: Application) -> Self {
        *random.choice(application.forms()).unwrap_or(&Self::Rest)
    }

    /// Whether the redirect or the content of the answer names the page itself, so that each cache
    /// must not use a stored copy any more (RFC 9111 section 4.4).
    pub(crate) const fn is_standard(self) -> bool {
        matches!(self, Self::Form | Self::Query | Self::Node)
    }

    /// Whether the answer names the page, or the save changes all pages. Otherwise only the
    /// application's own marks of its pages tell which page is meant.
    pub(crate) const fn names_page(self) -> bool {
        !matches!(self, Self::Screen)
    }

    /// Method, target, and further fields and content of the request that saves `page`.
    pub(crate) fn request(self, page: &PagePlan) -> (&'static str, String, String) {
        let number = page.number;
        let with = |fields: &str, media_type: &str, content: &str| {
            let bytes = content.len();
            format!("{fields}Content-Type: {media_type}\r\nContent-Length: {bytes}\r\n\r\n{content}")
        };
        let form = "application/x-www-form-urlencoded";
        match self {
            Self::Rest => {
                let fields =
                    with("Cookie: wordpress_logged_in_1=editor\r\n", "application/json", "{\"title\":\"x\"}");
                ("POST", format!("/wp-json/wp/v2/posts/{number}"), fields)
            }
            Self::Screen => {
                let content = format!("action=editpost&post_ID={number}&content=x");
                let fields = with("Cookie: wordpress_logged_in_1=editor\r\n", form, &content);
                ("POST", "/wp-admin/post.php".to_owned(), fields)
            }
            Self::Form => {
                let fields = with("Cookie: wiki_session=editor\r\n", form, "wpTextbox1=x&action=submit");
                ("POST", "/edit.php".to_owned(), fields)
            }
            Self::Query => {
                let fields = with("Cookie: wiki_session=editor\r\n", form, "wpTextbox1=x");
                ("POST", "/edit.php?action=submit".to_owned(), fields)
            }
            Self::Node => {
                let fields = with("Cookie: SESS1=editor\r\n", form, "title=x");
                ("POST", format!("/node/{number}/edit"), fields)
            }
            Self::Theme => {
                let target = format!("/admin/appearance/default?theme=t{number}&token=x");
                ("GET", target, "Cookie: SESS1=editor\r\n\r\n".to_owned())
            }
        }
    }

    /// The form of a request to the origin with this method and target.
    pub(crate) fn of(target: &str) -> Option<Self> {
        match target {
            "/wp-admin/post.php" => Some(Self::Screen),
            "/edit.php" => Some(Self::Form),
            "/edit.php?action=submit" => Some(Self::Query),
            _ if target.starts_with("/wp-json/") => Some(Self::Rest),
            _ if target.starts_with("/node/") => Some(Self::Node),
            _ if target.starts_with("/admin/appearance/") => Some(Self::Theme),
            _ => None,
        }
    }

    /// The answer to a save that has made the version of `id`.
    pub(crate) fn answer(self, host: &str, page: &PagePlan, id: &ContentId) -> Answer {
        let id = ContentId { user: NONE.into(), language: NONE.into(), ..id.clone() };
        let (number, path) = (page.number, &page.path);
        let mut fields = Fields::new();
        fields.push("X-Sim", id.to_string());
        fields.push("Cache-Control", "no-cache, must-revalidate, max-age=0");
        let mut redirect = |location: String| {
            fields.push("Location", location);
            (302, Vec::new())
        };
        let (status, body) = match self {
            Self::Rest => {
                fields.push("Content-Type", "application/json; charset=UTF-8");
                fields.push("X-WP-Nonce", "5f2a1c");
                let link = format!("http://{host}{path}");
                let text =
                    format!("{{\"id\":{number},\"slug\":\"p\",\"type\":\"post\",\"link\":\"{link}\"}}");
                (200, text.into_bytes())
            }
            Self::Screen => {
                redirect(format!("http://{host}/wp-admin/post.php?post={number}&action=edit&message=1"))
            }
            Self::Form | Self::Query => {
                let made = redirect(format!("http://{host}{path}"));
                fields.push("Set-Cookie", format!("wikiPostEditRevision{number}=saved%3A1; Path=/"));
                made
            }
            Self::Node => redirect(format!("http://{host}{path}")),
            Self::Theme => redirect(format!("http://{host}/admin/appearance")),
        };
        Answer { status, fields, body, framing: Framing::Length, id: None }
    }
}

#[cfg(test)]
mod tests {
    use super::{Application, SaveForm};
    use crate::content::ContentId;
    use crate::page::PagePlan;
    use bytes::BytesMut;
    use h1::{Limits, Strictness, parse_request};
    use message::{ResponseHead, Status};
    use profiles::Profile;
    use semantics::{FormReader, WriteEffect, WriteExchange, written};
    use world::Random;

    /// What the profile of the application reads from a save.
    fn effect(application: Application, form: SaveForm, is_read: bool) -> WriteEffect {
        let page = PagePlan::random(&mut Random::new(1), 4, 1);
        let id = ContentId {
            target: page.path.clone(),
            version: 2,
            user: "-".into(),
            language: "-".into(),
            realm: "-".into(),
        };
        let (method, target, rest) = form.request(&page);
        assert_eq!(SaveForm::of(&target), Some(form));
        let text = format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{rest}");
        let mut octets = BytesMut::from(text.as_bytes());
        let request = parse_request(&mut octets, &Limits::DEFAULT, Strictness::Strict).unwrap().unwrap();
        let made = form.answer("a.test", &page, &id);
        let mut answer = ResponseHead::new(Status::from_code(made.status).unwrap());
        answer.fields = made.fields;
        let exchanged = WriteExchange {
            request: &request.head,
            host: b"a.test",
            target: target.as_bytes(),
            form: &FormReader::of_octets(&octets),
            form_is_whole: true,
            answer: &answer,
            content: is_read.then_some(&made.body[..]),
        };
        written(exchanged, &Profile::shipped(application.profile()).unwrap().policy)
    }

    #[test]
    fn profile_believes_each_save_that_no_standard_proves() {
        for application in Application::ALL {
            for form in application.forms() {
                let effect = effect(application, *form, true);
                // The redirect of a page with an alias proves nothing to Drupal's profile.
                let is_believed = matches!(effect, WriteEffect::Changed(_)) || *form == SaveForm::Node;
                assert!(is_believed, "{form:?}: {effect:?}");
            }
        }
        assert_eq!(effect(Application::WordPress, SaveForm::Rest, false), WriteEffect::Unread);
    }
}
