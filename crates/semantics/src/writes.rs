//! What a write has changed, as the profile knows the application's own pages.
//!
//! Invariant: nothing is changed by a request whose answer does not say that it succeeded; who is sent to a login has
//! written nothing. What RFC 9111 says of unsafe methods is `invalidation`'s part and holds beside this.

use crate::invalidation::resolve;
use crate::request::{cookie_names, percent_decoded};
use crate::{Changes, Policy, WriteRule};
use bytes::Bytes;
use message::{RequestHead, ResponseHead, names};

/// What a write has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Any page of the host.
    Everything,
    /// The pages with these targets.
    Pages(Vec<Bytes>),
}

/// A request that may be a write, and its answer.
#[derive(Clone, Copy, Debug)]
pub struct Exchanged<'a> {
    /// The request as the visitor sent it.
    pub request: &'a RequestHead,
    /// Its `Host` and its target in origin-form.
    pub host: &'a [u8],
    /// See `host`.
    pub target: &'a [u8],
    /// The first octets of the form in its content; empty if it has none.
    pub form: &'a [u8],
    /// The answer.
    pub answer: &'a ResponseHead,
}

/// Whether the answer to this request may turn out to be a write's: then its form is worth reading.
pub fn may_write(request: &RequestHead, policy: &Policy) -> bool {
    policy.writes.iter().any(|rule| names_method(rule, request))
}

/// What the request has changed; `None` if nothing, as far as the policy knows.
pub fn changed(exchanged: Exchanged<'_>, policy: &Policy) -> Option<Changed> {
    let Exchanged { request, target, .. } = exchanged;
    if !may_write(request, policy) {
        return None;
    }
    let path = percent_decoded(target.split(|&octet| octet == b'?').next().unwrap_or_default());
    let mut pages: Vec<Bytes> = Vec::new();
    for rule in policy.writes.iter().filter(|rule| is_met(rule, &path, exchanged)) {
        if rule.changes == Changes::Everything {
            return Some(Changed::Everything);
        }
        let matching = rule.paths.iter().find(|pattern| pattern.matches(&path));
        let base = matching.map_or(&[][..], |pattern| pattern.start_in(&path));
        pages.extend(policy.fronts.iter().map(|front| Bytes::from([base, front.as_bytes()].concat())));
    }
    (!pages.is_empty()).then_some(Changed::Pages(pages))
}

fn names_method(rule: &WriteRule, request: &RequestHead) -> bool {
    rule.methods.iter().any(|method| method.as_bytes() == request.method.as_bytes())
}

fn is_met(rule: &WriteRule, path: &[u8], exchanged: Exchanged<'_>) -> bool {
    let Exchanged { request, answer, .. } = exchanged;
    let status = answer.status.code();
    names_method(rule, request)
        && rule.statuses.contains(&status)
        && (rule.paths.is_empty() || rule.paths.iter().any(|pattern| pattern.matches(path)))
        && !rule.unless_paths.iter().any(|pattern| pattern.matches(path))
        && !rule.unless_fields.iter().any(|name| answer.fields.has(name))
        && (rule.cookies.is_empty() || has_cookie(rule, request))
        && (rule.parameters.is_empty() || has_parameter(rule, exchanged))
        && (!(300..400).contains(&status) || leads_on(rule, exchanged))
}

fn has_cookie(rule: &WriteRule, request: &RequestHead) -> bool {
    let mut names = request.fields.all(names::COOKIE).flat_map(|line| cookie_names(line));
    names.any(|name| rule.cookies.iter().any(|pattern| pattern.matches(name)))
}

/// Whether the query or the form has one of the rule's parameters.
fn has_parameter(rule: &WriteRule, exchanged: Exchanged<'_>) -> bool {
    let query = exchanged.target.iter().position(|&octet| octet == b'?');
    let query = query.and_then(|mark| exchanged.target.get(mark + 1..)).unwrap_or_default();
    let mut pairs = [query, exchanged.form].into_iter().flat_map(|text| text.split(|&octet| octet == b'&'));
    pairs.any(|pair| {
        let at = pair.iter().position(|&octet| octet == b'=').unwrap_or(pair.len());
        let (name, value) =
            (percent_decoded(pair.get(..at).unwrap_or_default()), pair.get(at + 1..).unwrap_or_default());
        let value = percent_decoded(value);
        rule.parameters.iter().any(|(known, wanted)| known.as_bytes() == name && wanted.as_bytes() == value)
    })
}

/// Whether a redirect leads where one leads that follows a write.
fn leads_on(rule: &WriteRule, exchanged: Exchanged<'_>) -> bool {
    let Some(location) = exchanged.answer.fields.only(names::LOCATION) else {
        return rule.locations.is_empty();
    };
    // The scheme is the connection's own, which is not known here; a reference names one of the two.
    let resolved = [true, false]
        .into_iter()
        .find_map(|https| resolve(https, exchanged.host, exchanged.target, location))
        .unwrap_or_else(|| location.to_vec());
    (rule.locations.is_empty() || rule.locations.iter().any(|pattern| pattern.matches(&resolved)))
        && !rule.unless_locations.iter().any(|pattern| pattern.matches(&resolved))
}

#[cfg(test)]
mod tests {
    use super::{Changed, Exchanged, changed};
    use crate::Policy;
    use message::{Fields, Method, RequestHead, ResponseHead, Status, Version};
    use profiles::Profile;

    /// `METHOD TARGET COOKIE FORM`, `STATUS NAME: VALUE`: what was changed, as a text.
    fn changes(profile: &str, request: (&str, &str, &str, &str), status: u16, field: (&str, &str)) -> String {
        let (method, target, cookie, form) = request;
        let policy: &Policy = &Profile::shipped(profile).unwrap().policy;
        let mut fields = Fields::new();
        fields.push("Cookie", format!("{cookie}=1"));
        let head = RequestHead {
            method: Method::from_token(method.as_bytes()),
            target: target.to_owned().into(),
            version: Version::Http11,
            fields,
        };
        let mut answer = ResponseHead::new(Status::from_code(status).unwrap());
        if !field.0.is_empty() {
            answer.fields.push(field.0.to_owned(), field.1.to_owned());
        }
        let (host, target, form) = (&b"a.test"[..], target.as_bytes(), form.as_bytes());
        match changed(Exchanged { request: &head, host, target, form, answer: &answer }, policy) {
            None => "nothing".to_owned(),
            Some(Changed::Everything) => "everything".to_owned(),
            Some(Changed::Pages(pages)) => {
                let pages: Vec<_> = pages.iter().map(|page| page.escape_ascii().to_string()).collect();
                pages.join(" ")
            }
        }
    }

    const EDITOR: &str = "wordpress_logged_in_0a";
    const NONE: (&str, &str) = ("", "");

    #[test]
    fn an_editor_of_wordpress_changes_everything_when_it_succeeds() {
        let back = ("Location", "http://a.test/wp-admin/post.php?post=1&action=edit&message=1");
        let login = (
            "Location",
            "http://a.test/wp-login.php?redirect_to=http%3A%2F%2Fa.test%2Fwp-admin%2Fpost.php&reauth=1",
        );
        let post = ("POST", "/wp-admin/post.php", EDITOR, "");
        assert_eq!(changes("wordpress", post, 302, back), "everything");
        assert_eq!(changes("wordpress", post, 302, ("Location", "edit.php?deleted=1")), "everything");
        assert_eq!(changes("wordpress", post, 302, login), "nothing", "not logged in after all");
        assert_eq!(changes("wordpress", post, 302, NONE), "nothing");
        assert_eq!(changes("wordpress", post, 200, NONE), "nothing", "the form again");
        assert_eq!(changes("wordpress", ("POST", "/wp-admin/post.php", "theme", ""), 302, back), "nothing");
        assert_eq!(changes("wordpress", ("GET", "/wp-admin/post.php", EDITOR, ""), 302, back), "nothing");
        let trash = ("GET", "/blog/wp-admin/post.php?post=1&action=trash&_wpnonce=0a", EDITOR, "");
        assert_eq!(changes("wordpress", trash, 302, back), "everything");
        for (method, target) in [
            ("POST", "/wp-admin/user-edit.php"),
            ("POST", "/wp-admin/profile.php"),
            ("GET", "/wp-admin/themes.php?action=activate&stylesheet=x&_wpnonce=0a"),
            ("GET", "/wp-admin/plugins.php?action=deactivate&plugin=x&_wpnonce=0a"),
        ] {
            let request = (method, target, EDITOR, "");
            assert_eq!(changes("wordpress", request, 302, back), "everything", "{target}");
            assert_eq!(changes("wordpress", request, 302, login), "nothing", "{target}");
            assert_eq!(changes("wordpress", request, 200, NONE), "nothing", "{target}");
        }
        let menu = ("POST", "/wp-admin/nav-menus.php?action=edit&menu=2", EDITOR, "action=update");
        assert_eq!(changes("wordpress", menu, 200, NONE), "everything");
        assert_eq!(changes("wordpress", menu, 403, NONE), "nothing");
        assert_eq!(
            changes("wordpress", ("GET", "/wp-admin/nav-menus.php", EDITOR, ""), 200, NONE),
            "nothing"
        );
    }

    #[test]
    fn the_block_editor_and_quick_edits_are_writes_and_keeping_drafts_is_none() {
        let rest = |method, target| ("wordpress", (method, target, EDITOR, ""));
        for (method, target, status, expected) in [
            ("POST", "/wp-json/wp/v2/posts/5?_locale=user", 200, "everything"),
            ("DELETE", "/wp-json/wp/v2/pages/5", 200, "everything"),
            ("POST", "/wp-json/wp/v2/posts", 201, "everything"),
            ("POST", "/wp-json/wp/v2/posts/5", 403, "nothing"),
            ("GET", "/wp-json/wp/v2/posts/5", 200, "nothing"),
            ("POST", "/wp-json/wp/v2/posts/5/autosaves", 200, "nothing"),
            ("POST", "/wp-json/batch/v1", 207, "everything"),
            ("POST", "/wp-json/batch/v1", 401, "nothing"),
            ("PUT", "/wp-json/wp/v2/users/me", 200, "nothing"),
            ("POST", "/wp-json/wp/v2/comments", 201, "/ /feed/ /comments/feed/"),
        ] {
            let (profile, request) = rest(method, target);
            assert_eq!(changes(profile, request, status, NONE), expected, "{method} {target} {status}");
        }
        let ajax = |form| ("POST", "/wp-admin/admin-ajax.php", EDITOR, form);
        assert_eq!(
            changes("wordpress", ajax("post_title=x&post_ID=1&action=inline%2Dsave"), 200, NONE),
            "everything"
        );
        assert_eq!(changes("wordpress", ajax("data=1&action=heartbeat"), 200, NONE), "nothing");
        assert_eq!(changes("wordpress", ajax("action=inline-save"), 400, NONE), "nothing");
    }

    #[test]
    fn a_comment_that_is_shown_changes_front_page_and_feeds() {
        let comment = ("POST", "/blog/wp-comments-post.php", "theme", "");
        let shown = ("Location", "http://a.test/blog/post/#comment-5");
        let held = ("Location", "http://a.test/blog/post/?unapproved=5&moderation-hash=0a#comment-5");
        assert_eq!(changes("wordpress", comment, 302, shown), "/blog/ /blog/feed/ /blog/comments/feed/");
        assert_eq!(changes("wordpress", comment, 302, held), "nothing");
        assert_eq!(changes("wordpress", comment, 409, NONE), "nothing");
    }

    /// Profile; method, target, cookie and form; status and field of the answer; what was changed.
    type Case = (&'static str, [&'static str; 4], u16, (&'static str, &'static str), &'static str);

    const EDITS: &[Case] = &[
        (
            "mediawiki",
            ["POST", "/index.php?title=A&action=submit", "x", ""],
            302,
            ("Location", "/wiki/A"),
            "everything",
        ),
        ("mediawiki", ["POST", "/wiki/A?action=submit", "x", ""], 200, NONE, "nothing"),
        ("mediawiki", ["POST", "/api.php", "x", "action=edit&title=A&token=%2B%5C"], 200, NONE, "everything"),
        (
            "mediawiki",
            ["POST", "/w/api.php", "x", "format=json&action=edit"],
            200,
            ("MediaWiki-API-Error", "badtoken"),
            "nothing",
        ),
        ("mediawiki", ["POST", "/api.php", "x", "action=parse"], 200, NONE, "nothing"),
        (
            "drupal",
            ["POST", "/node/5/edit", "SSESS0a", ""],
            303,
            ("Location", "http://a.test/node/5"),
            "everything",
        ),
        (
            "drupal",
            ["POST", "/de/node/add/page", "SESS0a", ""],
            302,
            ("Location", "/de/node/6"),
            "everything",
        ),
        ("drupal", ["POST", "/node/5/edit", "SSESS0a", ""], 200, NONE, "nothing"),
        (
            "drupal",
            ["POST", "/node/5/edit", "SSESS0a", ""],
            302,
            ("Location", "/user/login?destination=x"),
            "nothing",
        ),
        (
            "drupal",
            ["POST", "/comment/reply/node/5/comment", "x", ""],
            303,
            ("Location", "/node/5"),
            "/ /node /rss.xml",
        ),
        (
            "django",
            ["POST", "/admin/blog/post/5/change/", "sessionid", ""],
            302,
            ("Location", "/admin/blog/post/"),
            "everything",
        ),
        (
            "django",
            ["POST", "/admin/blog/post/5/change/", "sessionid", ""],
            302,
            ("Location", "/admin/login/?next=/admin/"),
            "nothing",
        ),
        ("django", ["POST", "/admin/login/", "sessionid", ""], 302, ("Location", "/admin/"), "nothing"),
        (
            "wagtail",
            ["POST", "/cms/pages/5/edit/", "sessionid", ""],
            302,
            ("Location", "/cms/pages/"),
            "everything",
        ),
        (
            "wagtail",
            ["POST", "/admin/pages/5/edit/", "sessionid", ""],
            302,
            ("Location", "/admin/pages/"),
            "everything",
        ),
        ("default", ["POST", "/wp-admin/post.php", EDITOR, ""], 302, ("Location", "/wp-admin/"), "nothing"),
    ];

    #[test]
    fn edits_of_other_systems() {
        for (profile, [method, target, cookie, form], status, field, expected) in EDITS {
            let told = changes(profile, (method, target, cookie, form), *status, *field);
            assert_eq!(told, *expected, "{profile} {method} {target} {form} {status} {field:?}");
        }
    }
}
