//! Recognises writes: requests that changed pages, according to the profile's rules for the
//! application's own URLs.
//!
//! Invariant: a request alone proves no write, whatever cookies, nonces and parameters it has,
//! because any client can send it. A rule applies only if the response confirms the write. RFC
//! 9111's rule for unsafe methods is in `invalidation` and holds in addition.

use crate::changed::{WriteReach, changed_by};
use crate::form::{FormReader, ParameterValue, parameter, query_parameter};
use crate::invalidation::resolve;
use crate::json_values::json_values;
use crate::request::cookie_names;
use crate::spelling::percent_decoded;
use message::{Method, RequestHead, ResponseHead, names};
use profiles::{FieldPattern, JsonFact, Policy, WriteRule};

/// Request fields that replace the method of the request line in some applications.
const OVERRIDES: [&str; 3] = ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"];

/// The parameter that does the same as the [`OVERRIDES`].
const METHOD_PARAMETER: &str = "_method";

/// The effect of a request that may be a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteEffect {
    /// The request has changed nothing, according to the policy.
    Nothing,
    /// The content of the response decides, and it has not been read yet.
    Unread,
    /// The request has changed these pages.
    Changed(WriteReach),
}

/// A request that may be a write, and its response.
#[derive(Clone, Copy, Debug)]
pub struct WriteExchange<'a> {
    /// The request as the client sent it.
    pub request: &'a RequestHead,
    /// The request's `Host`.
    pub host: &'a [u8],
    /// The request's target in origin-form.
    pub target: &'a [u8],
    /// The form in the request's content.
    pub form: &'a FormReader,
    /// Whether the request's content has been read to its end. Until then the form may be
    /// incomplete.
    pub form_is_whole: bool,
    /// The head of the response.
    pub answer: &'a ResponseHead,
    /// The beginning of the response's content, without a content coding; `None` while it has not
    /// been read.
    pub content: Option<&'a [u8]>,
}

/// Whether the response to this request may prove a write. Only then is the request's form worth
/// reading.
pub fn may_write(request: &RequestHead, policy: &Policy) -> bool {
    policy.writes.iter().any(|rule| may_have_method(rule, request))
}

/// Whether the content of the response may be needed to recognise a write.
///
/// The origin is then asked for content without a coding. A request that no rule with content can
/// match must therefore give `false`.
pub fn may_need_content(request: &RequestHead, target: &[u8], policy: &Policy) -> bool {
    let RoutedPath { path, .. } = routed(target, policy);
    policy.writes.iter().any(|rule| rule.reads_content() && may_apply(rule, request, &path))
}

/// Whether the request may change pages, as far as it shows that by itself: its method is unsafe,
/// or the profile lists writes by its method at its path.
pub fn may_change_pages(request: &RequestHead, target: &[u8], policy: &Policy) -> bool {
    let at_path = || {
        let RoutedPath { path, .. } = routed(target, policy);
        policy.writes.iter().any(|rule| may_apply(rule, request, &path))
    };
    !request.method.is_safe() || may_write(request, policy) && at_path()
}

/// Whether the rule may apply to a request, as far as its method, path and cookies show.
fn may_apply(rule: &WriteRule, request: &RequestHead, path: &[u8]) -> bool {
    may_have_method(rule, request)
        && is_of_path(rule, path)
        && (rule.cookies.is_empty() || has_cookie(rule, request))
}

/// Whether the application may act on one of the rule's methods. An override only replaces an
/// unsafe method, so a safe method must be listed itself.
fn may_have_method(rule: &WriteRule, request: &RequestHead) -> bool {
    !request.method.is_safe()
        || rule.methods.iter().any(|method| method.as_bytes() == request.method.as_bytes())
}

/// The effect of the request, according to the first rule that applies.
pub fn written(exchanged: WriteExchange<'_>, policy: &Policy) -> WriteEffect {
    if !may_write(exchanged.request, policy) {
        return WriteEffect::Nothing;
    }
    let Some(method) = effective_method(exchanged) else { return WriteEffect::Nothing };
    let RoutedPath { path, parameter } = routed(exchanged.target, policy);
    let is_met = |rule: &&WriteRule| is_met(rule, &method, &path, parameter, exchanged);
    for rule in policy.writes.iter().filter(is_met) {
        if rule.reads_content() {
            let Some(content) = exchanged.content else { return WriteEffect::Unread };
            if !is_met_by_content(rule, content) {
                continue;
            }
        }
        return WriteEffect::Changed(changed_by(rule, &path, exchanged, policy));
    }
    WriteEffect::Nothing
}

/// The path that the application acts on.
struct RoutedPath<'a> {
    /// The path after one percent-decoding.
    path: Vec<u8>,
    /// The query parameter that contained the path, if there is one.
    parameter: Option<&'a str>,
}

/// The path that the application acts on, as far as the target shows it.
fn routed<'a>(target: &[u8], policy: &'a Policy) -> RoutedPath<'a> {
    let path = path_of(target);
    for rule in &policy.routes {
        let start = path.iter().rposition(|&octet| octet == b'/').map_or(0, |slash| slash + 1);
        let (base, script) = path.split_at(start);
        let is_script = rule.scripts.iter().any(|known| known.as_bytes() == script);
        if is_script
            && let ParameterValue::Is(route) = query_parameter(query_of(target), &rule.parameter)
            && route.starts_with(b"/")
        {
            let base = base.strip_suffix(b"/").unwrap_or(base);
            let path = [base, rule.prefix.as_bytes(), &route].concat();
            return RoutedPath { path, parameter: Some(&rule.parameter) };
        }
    }
    RoutedPath { path, parameter: None }
}

/// The method that the application acts on; `None` if the request names two different ones.
fn effective_method(exchanged: WriteExchange<'_>) -> Option<Vec<u8>> {
    let WriteExchange { request, form, form_is_whole, .. } = exchanged;
    let query = query_of(exchanged.target);
    let fields = OVERRIDES.iter().flat_map(|name| request.fields.all(name)).map(|value| value.to_vec());
    let in_query = query_parameter(query, METHOD_PARAMETER);
    let in_form = parameter(&[], form, form_is_whole, METHOD_PARAMETER);
    let parameters = [in_query, in_form].into_iter().filter_map(|parameter| match parameter {
        ParameterValue::Is(value) => Some(value),
        // A form that cannot be read names no method here. Rules that require or exclude a
        // parameter do not apply to it anyway.
        ParameterValue::Absent | ParameterValue::Unknown => None,
    });
    let mut named = fields.chain(parameters).map(|value| value.trim_ascii().to_ascii_uppercase());
    let Some(first) = named.next() else { return Some(request.method.as_bytes().to_vec()) };
    // An application without method overrides acts on the request line, so the request line must be
    // of the same kind, safe or unsafe.
    let is_read = |method: &[u8]| Method::from_token(method).is_safe();
    named
        .all(|other| other == first)
        .then_some(first)
        .filter(|first| is_read(first) == request.method.is_safe())
}

fn is_met(
    rule: &WriteRule,
    method: &[u8],
    path: &[u8],
    routing: Option<&str>,
    exchanged: WriteExchange<'_>,
) -> bool {
    let WriteExchange { request, answer, .. } = exchanged;
    let status = answer.status.code();
    rule.methods.iter().any(|known| known.as_bytes() == method)
        && rule.statuses.contains(&status)
        && is_of_path(rule, path)
        && !rule.unless_fields.iter().any(|name| answer.fields.has(name))
        && rule.fields.iter().all(|field| has_field(field, answer))
        && (rule.cookies.is_empty() || has_cookie(rule, request))
        && (rule.parameters.is_empty() || has_parameter(rule, exchanged))
        && !has_unwanted_parameter(rule, routing, exchanged)
        && (!(300..400).contains(&status) || leads_on(rule, exchanged))
}

fn is_of_path(rule: &WriteRule, path: &[u8]) -> bool {
    (rule.paths.is_empty() || rule.paths.iter().any(|pattern| pattern.matches(path)))
        && !rule.unless_paths.iter().any(|pattern| pattern.matches(path))
}

fn has_field(wanted: &FieldPattern, answer: &ResponseHead) -> bool {
    answer.fields.all(&wanted.name).any(|line| wanted.matches(line))
}

fn has_cookie(rule: &WriteRule, request: &RequestHead) -> bool {
    let mut names = request.fields.all(names::COOKIE).flat_map(|line| cookie_names(line));
    names.any(|name| rule.cookies.iter().any(|pattern| pattern.matches(name)))
}

/// Whether one of the rule's parameters has the required value, as the application reads it.
fn has_parameter(rule: &WriteRule, exchanged: WriteExchange<'_>) -> bool {
    rule.parameters.iter().any(|(name, wanted)| {
        let found = parameter(query_of(exchanged.target), exchanged.form, exchanged.form_is_whole, name);
        matches!(found, ParameterValue::Is(value) if value == wanted.as_bytes())
    })
}

/// Whether the request has a parameter that excludes the rule.
///
/// `routing` is the query parameter that contained the path; it is already part of the path and
/// does not exclude the rule. The same name in the form still does, because it would name another
/// path.
fn has_unwanted_parameter(rule: &WriteRule, routing: Option<&str>, exchanged: WriteExchange<'_>) -> bool {
    rule.unless_parameters.iter().any(|name| {
        let in_form = parameter(&[], exchanged.form, exchanged.form_is_whole, name);
        let is_routing = routing == Some(name.as_str());
        in_form != ParameterValue::Absent
            || !is_routing && query_parameter(query_of(exchanged.target), name) != ParameterValue::Absent
    })
}

/// Whether the redirect leads to a place that proves the write.
fn leads_on(rule: &WriteRule, exchanged: WriteExchange<'_>) -> bool {
    let Some(location) = exchanged.answer.fields.only(names::LOCATION) else {
        return rule.locations.is_empty();
    };
    // The scheme of the connection is not known here. The reference names at most one of the two.
    let resolved = [true, false]
        .into_iter()
        .find_map(|https| resolve(https, exchanged.host, exchanged.target, location))
        .unwrap_or_else(|| behind_authority(location).to_vec());
    let path = path_of(&resolved);
    let query = query_of(&resolved);
    let asked = query_of(exchanged.target);
    // A query that the request itself contained proves nothing, because a redirect may repeat it.
    let is_fresh = |pattern: &profiles::Pattern| pattern.matches(query) && !pattern.matches(asked);
    let leads = |wanted: &profiles::LocationPattern| {
        let is_there = match &wanted.path {
            Some(pattern) => pattern.matches(&path),
            None => asked.is_empty() && is_parent(&path, &path_of(exchanged.target)),
        };
        is_there && wanted.query.as_ref().is_none_or(is_fresh)
    };
    // A redirect to the request's own target proves nothing, such as one to https.
    resolved != exchanged.target
        && (rule.locations.is_empty() || rule.locations.iter().any(leads))
        && !rule.unless_locations.iter().any(|pattern| pattern.matches(&resolved))
}

/// Whether `path` equals `child` without its last segment.
fn is_parent(path: &[u8], child: &[u8]) -> bool {
    let slash = child.iter().rposition(|&octet| octet == b'/');
    !path.is_empty() && slash.and_then(|slash| child.get(..slash)) == Some(path)
}

/// The path and query of a URL, whatever its host: an application may know itself by another name.
fn behind_authority(location: &[u8]) -> &[u8] {
    let start = location.windows(2).position(|pair| pair == b"//").map_or(0, |at| at + 2);
    let rest = location.get(start..).unwrap_or_default();
    let path = rest.iter().position(|&octet| octet == b'/').unwrap_or(rest.len());
    rest.get(path..).unwrap_or_default()
}

/// Whether the beginning of the response's content proves the write.
fn is_met_by_content(rule: &WriteRule, content: &[u8]) -> bool {
    let has = |alternatives: &[Vec<JsonFact>]| alternatives.iter().any(|facts| has_facts(facts, content));
    let has_number = || rule.changed_contents.iter().any(|number| number.find(content).is_some());
    (rule.contents.is_empty() || rule.contents.iter().any(|pattern| pattern.matches(content)))
        && (rule.changed_contents.is_empty() || has_number())
        && (rule.json.is_empty() || has(&rule.json))
        && !has(&rule.unless_json)
}

fn has_facts(facts: &[JsonFact], content: &[u8]) -> bool {
    let mut found = vec![false; facts.len()];
    json_values(content, &mut |path, value| {
        for (fact, found) in facts.iter().zip(&mut found) {
            *found |= is_at(path, &fact.path) && fact.value.matches(value);
        }
    });
    found.into_iter().all(|found| found)
}

/// Whether `path` matches `wanted`, where `*` in `wanted` matches any part.
pub(crate) fn is_at(path: &[Vec<u8>], wanted: &[String]) -> bool {
    path.len() == wanted.len()
        && path.iter().zip(wanted).all(|(part, wanted)| wanted == "*" || part == wanted.as_bytes())
}

/// The path of a target after one percent-decoding.
pub(crate) fn path_of(target: &[u8]) -> Vec<u8> {
    percent_decoded(target.split(|&octet| octet == b'?').next().unwrap_or_default())
}

/// The query of a target, without its question mark.
pub(crate) fn query_of(target: &[u8]) -> &[u8] {
    let mark = target.iter().position(|&octet| octet == b'?');
    mark.and_then(|mark| target.get(mark + 1..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{WriteEffect, WriteExchange, may_change_pages, written};
    use crate::{ChangedPages, FormReader, WriteReach};
    use message::{Fields, Method, RequestHead, ResponseHead, Status, Version};
    use profiles::{Policy, Profile};

    /// A request and response for which a rule is checked, with defaults in [`CASE`].
    struct WriteCase<'a> {
        profile: &'a str,
        request: &'a str,
        cookie: &'a str,
        form: &'a str,
        status: u16,
        fields: &'a [(&'static str, &'static str)],
        content: &'a str,
    }

    const CASE: WriteCase<'_> = WriteCase {
        profile: "wordpress",
        request: "POST /",
        cookie: "wordpress_logged_in_0a",
        form: "",
        status: 200,
        fields: &[],
        content: "",
    };

    impl WriteCase<'_> {
        fn changes(&self) -> String {
            let policy: &Policy = &Profile::shipped(self.profile).unwrap().policy;
            let (method, target) = self.request.split_once(' ').unwrap();
            let mut fields = Fields::new();
            fields.push("Cookie", format!("{}=1", self.cookie));
            let head = RequestHead {
                method: Method::from_token(method.as_bytes()),
                target: target.to_owned().into(),
                version: Version::Http11,
                fields,
            };
            let mut answer = ResponseHead::new(Status::from_code(self.status).unwrap());
            self.fields.iter().for_each(|(name, value)| answer.fields.push(*name, *value));
            let exchanged = WriteExchange {
                request: &head,
                host: b"a.test",
                target: target.as_bytes(),
                form: &FormReader::of_octets(self.form.as_bytes()),
                form_is_whole: true,
                answer: &answer,
                content: None,
            };
            let content = Some(self.content.as_bytes());
            match (written(exchanged, policy), written(WriteExchange { content, ..exchanged }, policy)) {
                (WriteEffect::Unread, WriteEffect::Nothing) => "nothing by its content".to_owned(),
                (WriteEffect::Unread, WriteEffect::Changed(changed)) => {
                    format!("{} by its content", told(changed))
                }
                (before, after) => {
                    assert_eq!(before, after);
                    match after {
                        WriteEffect::Changed(changed) => told(changed),
                        WriteEffect::Nothing => "nothing".to_owned(),
                        WriteEffect::Unread => "unread".to_owned(),
                    }
                }
            }
        }
    }

    fn told(changed: WriteReach) -> String {
        match changed {
            WriteReach::Everything => "everything".to_owned(),
            WriteReach::Pages(ChangedPages { targets, identities, lists }) => {
                let text = |bytes: &bytes::Bytes| bytes.escape_ascii().to_string();
                let posts = identities.iter().map(|identity| format!("post={}", text(identity)));
                let lists = lists.then(|| "lists".to_owned());
                let named: Vec<_> = targets.iter().map(text).chain(posts).chain(lists).collect();
                if named.is_empty() { "others later".to_owned() } else { named.join(" ") }
            }
        }
    }

    fn redirected(request: &str, location: &'static str) -> String {
        WriteCase { request, status: 302, fields: &[("Location", location)], ..CASE }.changes()
    }

    #[test]
    fn wordpress_admin_write_is_proven_by_its_redirect() {
        let back = "http://a.test/wp-admin/post.php?post=1&action=edit&message=1";
        let trash = "GET /blog/wp-admin/post.php?post=1&action=trash&_wpnonce=0a";
        let all = "everything";
        let blog = "/blog/ /blog/feed/ /blog/comments/feed/ post=1 lists";
        for (request, location, expected) in [
            ("POST /wp-admin/post.php", back, "/ /feed/ /comments/feed/ post=1 lists"),
            ("POST /wp-admin/post.php", "edit.php?deleted=1", all),
            (trash, "edit.php?trashed=1&ids=1", blog),
            (
                "GET /wp-admin/edit.php",
                "edit.php?trashed=2&ids=7,5",
                "/ /feed/ /comments/feed/ post=5 post=7 lists",
            ),
            ("GET /wp-admin/edit.php", "edit.php?trashed=2&ids=x", all),
            ("POST /wp-admin/options.php", "options-general.php?settings-updated=true", all),
            ("POST /wp-admin/user-edit.php", "user-edit.php?updated=1&user_id=2", all),
            ("POST /wp-admin/edit-tags.php", "edit-tags.php?taxonomy=category&message=3", all),
            ("GET /wp-admin/themes.php?action=activate&stylesheet=x", "themes.php?activated=true", all),
            ("GET /wp-admin/plugins.php?action=deactivate", "plugins.php?deactivate=true&paged=1", all),
            ("GET /wp-admin/comment.php?action=approvecomment&c=5", "edit-comments.php?approved=1&p=1", all),
            ("POST /wp-admin/comment.php", "edit-comments.php?p=1#comment-5", all),
        ] {
            assert_eq!(redirected(request, location), expected, "{request} {location}");
            let cookie = "theme";
            let fields: &[_] = &[("Location", location)];
            let case = WriteCase { request, cookie, status: 302, fields, ..CASE };
            assert_eq!(case.changes(), "nothing", "without a cookie: {request}");
        }
    }

    #[test]
    fn redirects_that_any_client_gets_prove_nothing() {
        for (request, location) in [
            (
                "POST /wp-admin/post.php",
                "http://a.test/wp-login.php?redirect_to=%2Fwp-admin%2Fpost.php&reauth=1",
            ),
            ("POST /wp-admin/post.php", "https://a.test/wp-admin/post.php"),
            ("POST /wp-admin/post.php?message=1", "https://a.test/wp-admin/post.php?message=1"),
            ("POST /wp-admin/post.php?message=1", "https://www.a.test/wp-admin/post.php?message=1&lang=en"),
            ("POST /wp-admin/post.php", "/account/?back=/wp-admin/post.php?message=1"),
            ("GET /wp-admin/edit.php", "/wp-admin/upgrade.php?_wp_http_referer=x&message=1"),
            ("POST /wp-login.php/wp-admin/post.php", "/wp-admin/post.php?message=1"),
            ("POST /wp-admin/post.php", ""),
        ] {
            assert_eq!(redirected(request, location), "nothing", "{request} {location}");
        }
    }

    const EDITOR: &[(&str, &str)] = &[
        ("Content-Type", "application/json; charset=UTF-8"),
        ("X-WP-Nonce", "0a"),
        ("Cache-Control", "no-cache, must-revalidate, max-age=0"),
    ];
    const BY_PASSWORD: &[(&str, &str)] = &[
        ("Content-Type", "application/json; charset=UTF-8"),
        ("Cache-Control", "no-cache, must-revalidate, max-age=0"),
        ("Expires", "Wed, 11 Jan 1984 05:00:00 GMT"),
        ("Link", "<http://a.test/wp-json/>; rel=\"https://api.w.org/\""),
    ];
    const NONCE_OF_VISITORS: &[(&str, &str)] = &[("Content-Type", "application/json"), ("X-WP-Nonce", "0a")];
    const PUBLISHED: &str = r#"{"id":5,"slug":"a","status":"publish"}"#;

    #[test]
    fn wordpress_rest_write_needs_a_response_to_an_editor() {
        for (request, status, expected) in [
            ("POST /wp-json/wp/v2/posts/5?_locale=user", 200, "everything by its content"),
            ("DELETE /wp-json/wp/v2/pages/5", 200, "everything by its content"),
            ("POST /index.php/wp-json/wp/v2/posts", 201, "everything by its content"),
            ("POST /wp-json/wp/v2/posts/5?_method=DELETE", 200, "everything by its content"),
            ("POST /wp-json/wp/v2/posts?_method=GET", 200, "nothing"),
            ("POST /wp-json/wp/v2/posts?_method=get&_method=GET", 200, "nothing"),
            ("POST /wp-json/wp/v2/posts?rest_route=/x/v1/y", 201, "nothing"),
            (
                "POST /index.php?rest_route=%2Fwp%2Fv2%2Fposts%2F5&_locale=user",
                200,
                "everything by its content",
            ),
            ("DELETE /blog/?rest_route=/wp/v2/pages/5", 200, "everything by its content"),
            ("POST /?rest_route=/wp/v2/posts/5&rest_route=/x/v1/y", 200, "nothing"),
            ("POST /?rest_route=/wp/v2/posts/5/autosaves", 200, "nothing"),
            ("POST /wp-login.php?rest_route=/wp/v2/posts/5", 200, "nothing"),
            ("POST /wp-json/wp/v2/posts/5", 403, "nothing"),
            ("GET /wp-json/wp/v2/posts/5", 200, "nothing"),
            ("GET /wp-json/wp/v2/posts/5?_method=DELETE", 200, "nothing"),
            ("POST /wp-json/wp/v2/posts/5/autosaves", 200, "nothing"),
            ("PUT /wp-json/wp/v2/users/me", 200, "nothing"),
        ] {
            for fields in [EDITOR, BY_PASSWORD] {
                let case = WriteCase { request, status, fields, content: PUBLISHED, ..CASE };
                assert_eq!(case.changes(), expected, "{request} {status}");
            }
            let case = WriteCase { request, status, fields: NONCE_OF_VISITORS, content: PUBLISHED, ..CASE };
            assert_eq!(case.changes(), "nothing", "a visitor's: {request} {status}");
        }
    }

    #[test]
    fn never_published_draft_changes_nothing() {
        let case = |content| {
            WriteCase { request: "POST /wp-json/wp/v2/posts/5", fields: EDITOR, content, ..CASE }.changes()
        };
        assert_eq!(case(r#"{"id":5,"slug":"","status":"draft"}"#), "nothing by its content");
        assert_eq!(case(r#"{"id":5,"slug":"was-public","status":"draft"}"#), "everything by its content");
        assert_eq!(
            case(r#"{"id":5,"content":{"status":"draft","slug":""},"status":"publish"}"#),
            "everything by its content"
        );
    }

    #[test]
    fn rest_write_names_its_post() {
        let case = |request, fields, content| WriteCase { request, fields, content, ..CASE }.changes();
        let fronts = "/ /feed/ /comments/feed/";
        for fields in [EDITOR, BY_PASSWORD] {
            for (request, content, expected) in [
                (
                    "POST /wp-json/wp/v2/posts/5",
                    r#"{"id":5,"slug":"a","status":"publish","type":"post","link":"http:\/\/a.test\/a\/"}"#,
                    format!("{fronts} /a/ post=5 lists by its content"),
                ),
                (
                    "DELETE /wp-json/wp/v2/pages/5",
                    r#"{"id":5,"slug":"a__trashed","status":"trash","type":"page","link":"http:\/\/a.test\/?page_id=5"}"#,
                    format!("{fronts} /?page_id=5 post=5 lists by its content"),
                ),
                (
                    "DELETE /wp-json/wp/v2/posts/5?force=true",
                    r#"{"deleted":true,"previous":{"id":5,"type":"post"}}"#,
                    format!("{fronts} post=5 lists by its content"),
                ),
                (
                    "POST /wp-json/wp/v2/comments/9",
                    r#"{"id":9,"post":5,"status":"approved","type":"comment"}"#,
                    format!("{fronts} post=5 lists by its content"),
                ),
                (
                    "POST /wp-json/wp/v2/categories/2",
                    r#"{"id":2,"link":"http:\/\/a.test\/category\/b\/","taxonomy":"category"}"#,
                    format!("{fronts} /category/b/ lists by its content"),
                ),
                (
                    "POST /wp-json/wp/v2/navigation/5",
                    r#"{"id":5,"status":"publish","type":"wp_navigation"}"#,
                    "everything by its content".to_owned(),
                ),
                (
                    "POST /wp-json/wp/v2/posts/5",
                    r#"{"id":5,"slug":"","status":"draft","type":"post"}"#,
                    "nothing by its content".to_owned(),
                ),
            ] {
                assert_eq!(case(request, fields, content), expected, "{request}");
            }
        }
    }

    #[test]
    fn shop_writes_name_their_product_or_change_everything() {
        let product =
            r#"{"id":5,"permalink":"http:\/\/a.test\/product\/b\/","status":"publish","type":"simple"}"#;
        for (request, content, expected) in [
            (
                "PUT /wp-json/wc/v3/products/5",
                product,
                "/ /feed/ /comments/feed/ /product/b/ post=5 lists by its content",
            ),
            ("PUT /wp-json/wc/v3/products/5/variations/7", product, "everything"),
            ("POST /wp-json/wc/v3/products/batch", r#"{"update":[]}"#, "everything by its content"),
            ("PUT /wp-json/wc/v3/settings/tax/woocommerce_prices", "{}", "everything"),
            ("POST /wp-json/wc/store/v1/cart/add-item", "{}", "nothing"),
            ("POST /wp-json/wc/v3/orders", product, "nothing"),
            ("DELETE /wp-json/wp/v2/users/5?force=true", r#"{"deleted":true}"#, "everything by its content"),
        ] {
            let case = |fields| WriteCase { request, fields, content, ..CASE }.changes();
            assert_eq!(
                (case(EDITOR), case(BY_PASSWORD)),
                (expected.to_owned(), expected.to_owned()),
                "{request}"
            );
            assert_eq!(case(NONCE_OF_VISITORS), "nothing", "{request}");
        }
    }

    #[test]
    fn xml_rpc_writes_return_true_or_a_number() {
        let case = |value: &str| {
            let content = format!(
                "<methodResponse>\n  <params>\n    <param>\n      <value>\n      {value}\n      </value>\n    </param>\n  \
                 </params>\n</methodResponse>\n"
            );
            let fields: &[_] = &[("Content-Type", "text/xml; charset=UTF-8")];
            WriteCase { request: "POST /xmlrpc.php", fields, content: &content, ..CASE }.changes()
        };
        assert_eq!(case("<boolean>1</boolean>"), "everything by its content");
        assert_eq!(case("<string>12</string>"), "/ /feed/ /comments/feed/ post=12 lists by its content");
        let struct_of_true =
            "<struct>\n  <member><name>a</name><value><boolean>1</boolean></value></member>\n</struct>";
        for value in [
            "<boolean>0</boolean>",
            "<string>Hello!</string>",
            "<int>5</int>",
            "<array><data>\n  <value><boolean>1</boolean></value>\n</data></array>",
            struct_of_true,
        ] {
            assert_eq!(case(value), "nothing by its content", "{value}");
        }
    }

    #[test]
    fn drupal_theme_link_redirects_to_the_list_of_themes() {
        for (request, location, expected) in [
            ("GET /admin/appearance/default?theme=b&token=x", "http://a.test/admin/appearance", "everything"),
            ("GET /de/admin/appearance/install?theme=b&token=x", "/de/admin/appearance", "everything"),
            (
                "GET /admin/appearance/default?theme=b&destination=admin/appearance",
                "/admin/appearance",
                "nothing",
            ),
            ("GET /admin/appearance/default?theme=b", "/user/login?destination=/admin/appearance", "nothing"),
            (
                "GET /admin/appearance/default?theme=b",
                "https://a.test/admin/appearance/default?theme=b",
                "nothing",
            ),
            ("GET /admin/appearance/settings?theme=b", "/admin/appearance", "nothing"),
        ] {
            let fields: &[_] = &[("Location", location)];
            let case =
                WriteCase { profile: "drupal", request, cookie: "SESS0a", status: 302, fields, ..CASE };
            assert_eq!(case.changes(), expected, "{request} {location}");
            let anonymous = WriteCase { cookie: "has_js", ..case };
            assert_eq!(anonymous.changes(), "nothing", "without a session: {request}");
        }
    }

    #[test]
    fn batch_is_a_write_if_an_inner_status_says_so() {
        let case = |content| {
            let request = "POST /wp-json/batch/v1";
            WriteCase { request, status: 207, fields: EDITOR, content, ..CASE }.changes()
        };
        assert_eq!(case(r#"{"responses":[{"body":{"status":200},"status":401}]}"#), "nothing by its content");
        assert_eq!(case(r#"{"failed":"validation","responses":[null]}"#), "nothing by its content");
        assert_eq!(
            case(r#"{"responses":[{"status":404},{"body":{},"status":201}]}"#),
            "everything by its content"
        );
    }

    #[test]
    fn ajax_action_needs_matching_form_and_response() {
        let case = |form, content| {
            WriteCase { request: "POST /wp-admin/admin-ajax.php", form, content, ..CASE }.changes()
        };
        assert_eq!(
            case("post_ID=1&action=inline%2Dsave", "\t<tr id=\"post-1\">"),
            "/ /feed/ /comments/feed/ post=1 lists by its content"
        );
        assert_eq!(case("action=inline-save", "Sorry, you are not allowed."), "nothing by its content");
        assert_eq!(case("action=trash-post", "1"), "everything by its content");
        assert_eq!(
            case("action=trash-post&id=5", "1"),
            "/ /feed/ /comments/feed/ post=5 lists by its content"
        );
        assert_eq!(case("action=trash-post", "0"), "nothing by its content");
        assert_eq!(case("action=heartbeat", "1"), "nothing");
        assert_eq!(
            case("action=customize_save", r#"{"success":true,"data":{}}"#),
            "everything by its content"
        );
        let request = "POST /wp-admin/admin-ajax.php?action=trash-post";
        assert_eq!(
            WriteCase { request, form: "+action=post_like", content: "1", ..CASE }.changes(),
            "nothing"
        );
    }

    #[test]
    fn published_comment_changes_front_pages_and_its_page() {
        let fronts = "/blog/ /blog/feed/ /blog/comments/feed/";
        let sent = "POST /blog/wp-comments-post.php";
        let expected = format!("{fronts} /blog/post/ /blog/post/feed/");
        assert_eq!(redirected(sent, "http://a.test/blog/post/#comment-5"), expected);
        assert_eq!(redirected(sent, "/blog/post/?unapproved=5&moderation-hash=0a#comment-5"), "nothing");
        assert_eq!(redirected(sent, "https://a.test/blog/wp-comments-post.php"), "nothing");
        let fields: &[_] = &[
            ("Content-Type", "application/json"),
            ("Location", "http://a.test/blog/wp-json/wp/v2/comments/5"),
        ];
        let case = |content| {
            WriteCase { request: "POST /blog/wp-json/wp/v2/comments", status: 201, fields, content, ..CASE }
                .changes()
        };
        let shown = r#"{"post":7,"link":"http:\/\/a.test\/blog\/post\/#comment-5","status":"approved"}"#;
        assert_eq!(case(shown), format!("{fronts} /blog/post/ /blog/post/feed/ post=7 by its content"));
        assert_eq!(case(r#"{"status":"hold"}"#), "nothing by its content");
    }

    #[test]
    fn mediawiki_edits_need_a_saved_revision() {
        let edit = |fields| WriteCase {
            profile: "mediawiki",
            request: "POST /wiki/A?action=submit",
            status: 302,
            fields,
            ..CASE
        };
        assert_eq!(
            edit(&[("Location", "/wiki/A"), ("Set-Cookie", "wPostEditRevision7=saved; path=/")]).changes(),
            "others later"
        );
        assert_eq!(
            edit(&[("Location", "/wiki/A"), ("Set-Cookie", "wPostEditRevision7=deleted")]).changes(),
            "nothing"
        );
        assert_eq!(edit(&[("Location", "/wiki/Any")]).changes(), "nothing");
        let api = |form, content| {
            let fields: &[_] = &[("Content-Type", "application/json; charset=utf-8")];
            WriteCase { profile: "mediawiki", request: "POST /w/api.php", form, fields, content, ..CASE }
                .changes()
        };
        let saved = r#"{"edit":{"result":"Success","newrevid":8}}"#;
        assert_eq!(api("action=edit&format=json", saved), "everything by its content");
        assert_eq!(
            api("action=edit", r#"{"edit":{"result":"Success","nochange":""}}"#),
            "nothing by its content"
        );
        assert_eq!(api("action=edit", r#"{"edit":{"result":"Failure"}}"#), "nothing by its content");
        assert_eq!(api("action=raw", saved), "nothing");
        assert_eq!(api("action=purge", r#"{"purge":[{"purged":""}]}"#), "nothing");
    }

    #[test]
    fn drupal_edit_redirects_to_the_edited_page() {
        for (request, location, expected) in [
            ("POST /node/5/edit", "http://a.test/node/5", "/ /node /rss.xml"),
            ("POST /blog/node/5/edit", "/blog/node/5", "/blog/ /blog/node /blog/rss.xml"),
            ("POST /node/5/edit?destination=node/5", "/node/5", "nothing"),
            ("POST /node/5/edit", "/search/node/x", "nothing"),
            ("POST /node/5/edit", "/node/7", "nothing"),
            ("POST /node/5/edit", "/node/5/edit", "nothing"),
            ("POST /node/5/edit", "/user/login?destination=x", "nothing"),
            ("POST /comment/reply/node/5/comment", "/node/5", "nothing"),
        ] {
            let fields: &[_] = &[("Location", location)];
            let case =
                WriteCase { profile: "drupal", request, cookie: "SESS0a", status: 302, fields, ..CASE };
            assert_eq!(case.changes(), expected, "{request} {location}");
        }
    }

    #[test]
    fn django_and_wagtail_writes_set_a_message_cookie() {
        const SAVED: &str = "messages=W1s; HttpOnly; Path=/";
        for (profile, request, location, cookie, expected) in [
            ("django", "POST /admin/blog/post/5/change/", "/admin/blog/post/", SAVED, "everything"),
            ("django", "POST /admin/blog/post/5/change/", "/admin/login/?next=/admin/", SAVED, "nothing"),
            (
                "django",
                "POST /admin/blog/post/5/change/",
                "/en/admin/blog/post/5/change/",
                "sessionid=\"\"; Max-Age=0",
                "nothing",
            ),
            ("django", "POST /admin/blog/post/5/change/", "/admin/", "messages=\"\"; Max-Age=0", "nothing"),
            ("django", "POST /admin/login/", "/admin/", SAVED, "nothing"),
            ("wagtail", "POST /cms/pages/5/edit/", "/cms/pages/", SAVED, "everything"),
            ("wagtail", "POST /admin/pages/5/edit/", "/admin/pages/", SAVED, "everything"),
            ("wagtail", "POST /cms/pages/5/edit/", "/sign-in?next=/cms/", "csrftoken=x", "nothing"),
            ("default", "POST /wp-admin/post.php", "/wp-admin/post.php?message=1", SAVED, "nothing"),
        ] {
            let fields: &[_] = &[("Location", location), ("Set-Cookie", cookie)];
            let case = WriteCase { profile, request, cookie: "sessionid", status: 302, fields, ..CASE };
            assert_eq!(case.changes(), expected, "{profile} {request} {location} {cookie}");
        }
    }

    #[test]
    fn safe_request_changes_pages_only_at_listed_paths() {
        let policy = &Profile::shipped("wordpress").unwrap().policy;
        let may = |method: Method, target: &'static str, cookie: &'static str| {
            let mut fields = Fields::new();
            fields.push("Cookie", cookie);
            let head = RequestHead { method, target: target.into(), version: Version::Http11, fields };
            may_change_pages(&head, target.as_bytes(), policy)
        };
        let session = "wordpress_logged_in_0a=1";
        assert!(may(Method::Post, "/", session) && may(Method::Delete, "/", "a=1"));
        assert!(may(Method::Get, "/blog/wp-admin/edit.php?action=trash", session));
        assert!(!may(Method::Get, "/blog/wp-admin/edit.php", "a=1"), "the rule requires a session");
        assert!(!may(Method::Get, "/", session) && !may(Method::Head, "/wp-admin/edit.php", session));
    }
}
