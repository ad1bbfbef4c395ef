//! Logging in, confirming a purge, and short notices.

use crate::page::{frame, purge_fields};
use crate::{PurgeKind, Viewer, fields};
use maud::{Markup, html};

/// The page for logging in. `problem` says why an attempt failed.
pub fn login(may_log_in: bool, problem: Option<&str>) -> String {
    let content = html! {
        h1 { "Log in" }
        @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
        @if may_log_in {
            form.card method="post" action="/dashboard/login" {
                label for="token" { "Token" }
                input id="token" type="password" name=(fields::TOKEN) autocomplete="current-password" required
                    autofocus aria-describedby="token-help";
                p.note #token-help { "The first line of the file that the setting token_file names." }
                button type="submit" { "Log in" }
            }
        } @else {
            p {
                "This edge has no token, so nobody can log in from another machine. Set "
                code { "token_file" } " and reload, or open the dashboard on the edge's own machine."
            }
        }
    };
    frame("Log in", None, &content)
}

/// The page that asks whether a purge is meant. `kind` and `value` have been checked.
pub fn confirmation(kind: PurgeKind, value: &str, is_soft: bool, form_token: &str) -> String {
    let content = html! {
        h1 { "Confirm the purge" }
        p.lead {
            @if is_soft { "Mark as stale: " } @else { "Remove from the cache: " }
            strong.value { (kind.describe(value)) } "."
        }
        p.note {
            @if is_soft {
                "Visitors may get the stale pages once more while Petasos fetches new ones."
            } @else {
                "From then on, no visitor receives a removed page. The origin gets the requests for it."
            }
        }
        form.actions method="post" action="/dashboard/purge" {
            (hidden(fields::FORM_TOKEN, form_token))
            (hidden(fields::KIND, kind.name()))
            (hidden(fields::VALUE, value))
            @if is_soft { (hidden(fields::SOFT, "yes")) }
            button.danger type="submit" { "Purge" }
            a.button href="/dashboard#purge" { "Cancel" }
        }
    };
    frame("Confirm the purge", None, &content)
}

/// A page with one message, such as a refusal. With `purge`, the form of a refused purge is shown
/// again.
pub fn notice(title: &str, text: &str, purge: Option<(PurgeKind, &str, bool)>) -> String {
    let content = html! {
        h1 { (title) }
        p.problem role="alert" { (text) }
        @if let Some((kind, value, is_soft)) = purge {
            form.card method="get" action="/dashboard/purge" { (purge_fields(kind, value, is_soft)) }
        }
        p { a href="/dashboard" { "Back to the dashboard" } }
    };
    frame(title, None, &content)
}

/// The forms of the main page that change something, or the reason why there are none.
pub(crate) fn changing(viewer: &Viewer) -> Markup {
    let Some(form_token) = &viewer.form_token else {
        return html! {
            p.empty {
                "To purge and reload, "
                @if viewer.may_log_in { a href="/dashboard/login" { "log in" } "." }
                @else { "open the dashboard on the edge's own machine, or set token_file." }
            }
        };
    };
    html! {
        div.pair {
            form.card method="get" action="/dashboard/purge" {
                h3 { "Purge" }
                (purge_fields(PurgeKind::Url, "", false))
            }
            form.card method="post" action="/dashboard/reload" {
                h3 { "Reload" }
                p { "Reads the configuration again. A bad file changes nothing, and you learn why." }
                (hidden(fields::FORM_TOKEN, form_token))
                button type="submit" { "Reload the configuration" }
            }
        }
    }
}

/// A hidden field.
pub(crate) fn hidden(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}
