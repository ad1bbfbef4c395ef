//! Judges whether a response is that of the request's route.
//!
//! Invariant: while a reload changes the routes, and on a connection to a process that has handed
//! over, a response must be right by either of them, as a whole.

use crate::content::ContentId;
use crate::event::{Asked, Stamp};
use crate::exchange::Reply;
use crate::judge::{VISITORS_FAULTS, told};
use crate::ledger::Ledger;
use crate::moment::Moment;
use crate::routing::{Expected, ExpectedAnswer, HIDDEN_FIELD, MAINTENANCE_PAGE, RouteAnswer, is_own_reason};
use crate::rules::Rule;
use crate::template::TEMPLATE_FIELD;

impl Ledger {
    /// Judges what the route of a request decides. Returns the realm of the page that must answer;
    /// `None` if no page answers, so that nothing else is to be judged.
    pub(crate) fn judge_route(&mut self, asked: &Asked, ended: Stamp, reply: &Reply) -> Option<String> {
        let stated = reply.field("X-Sim").and_then(ContentId::parse).map(|id| id.realm);
        // A 304 names no content, and is right for the one that the visitor holds.
        let held = asked.ask.held.as_ref().filter(|_| reply.status == Some(304));
        let realm = stated.as_ref().or_else(|| held.map(|held| &held.id.realm));
        let connected = asked.ask.connected.unwrap_or(asked.begun.at);
        let routings = self.rules.routings.iter().chain(self.routings_of_old_processes(connected));
        let permitted: Vec<_> = routings.map(|routing| routing.expected(&asked.ask)).collect();
        let right_for = |realm: Option<&String>| {
            permitted.iter().find(|expected| {
                expected.fits(reply.reason(), realm.map(String::as_str))
                    && wrong_field(expected, reply).is_none()
            })
        };
        let expected =
            right_for(realm).or_else(|| right_for(stated.as_ref())).or_else(|| permitted.first())?;
        let is_refused = reply.status.is_some_and(|status| VISITORS_FAULTS.contains(&status));
        let text = match &expected.answer {
            // A request that was not understood has no route.
            _ if is_refused && asked.ask.misbehaves => None,
            _ if !expected.fits(reply.reason(), None) => Some(format!("not {:?}", expected.answer)),
            answer => wrong_answer(answer, asked, reply).or_else(|| wrong_field(expected, reply)),
        };
        if let Some(text) = text {
            let text = format!("{} has another answer than its route: {text}", told(asked, reply));
            self.violate(Rule::Routing, ended.at, text);
        }
        match &expected.answer {
            ExpectedAnswer::Page(realm) => Some(realm.clone()),
            _ if is_own_reason(reply.reason()) => None,
            // The request was refused before its route was chosen.
            _ => Some(String::new()),
        }
    }

    /// Whether a route may have answered a request without an origin.
    pub(crate) fn may_answer_without_origin(&mut self, begun: Moment) -> bool {
        self.by_rules_of(begun, |ledger| {
            let mut routes = ledger.rules.routings.iter().flat_map(|routing| &routing.routes);
            routes.any(|route| !matches!(route.answer, RouteAnswer::Pages(_))) || ledger.rules.is_maintained()
        })
    }
}

/// What is wrong with an answer that needs no origin.
fn wrong_answer(expected: &ExpectedAnswer, asked: &Asked, reply: &Reply) -> Option<String> {
    let has_status = |status: u16| reply.status == Some(status);
    let has_content = |content: &str| {
        let is_empty = asked.ask.method == "HEAD";
        !reply.is_complete() || reply.body == if is_empty { "" } else { content }
    };
    let is_right = match expected {
        ExpectedAnswer::Page(_) => true,
        ExpectedAnswer::Redirect(status, url) => has_status(*status) && reply.field("Location") == Some(url),
        ExpectedAnswer::Fixed(status, content) => has_status(*status) && has_content(content),
        ExpectedAnswer::Maintenance => {
            has_status(503) && has_content(MAINTENANCE_PAGE) && reply.field("Retry-After").is_some()
        }
    };
    (!is_right).then(|| format!("{expected:?}, Location {:?}", reply.field("Location")))
}

/// The first field that is not as the route orders it.
fn wrong_field(expected: &Expected, reply: &Reply) -> Option<String> {
    let has_page = reply.status == Some(200) && reply.field("X-Sim").is_some();
    let wrong = expected.fields.iter().find(|(name, value)| reply.field(name) != value.as_deref());
    if let Some((name, value)) = wrong {
        return Some(format!("{name} is {:?}, not {value:?}", reply.field(name)));
    }
    let hides = expected.fields.iter().any(|(name, _)| *name == HIDDEN_FIELD);
    if has_page && !hides && reply.field("ETag").is_some() && reply.field(HIDDEN_FIELD).is_none() {
        return Some(format!("{HIDDEN_FIELD} is missing"));
    }
    let is_error = reply.status.is_some_and(|status| status >= 400);
    // No rule of a route lets an assembled page be stored.
    let is_assembled = reply.field(TEMPLATE_FIELD).is_some();
    let storing = reply.field("Cache-Control");
    if !is_assembled && expected.storing.is_some_and(|expected| (storing == Some(expected)) == is_error) {
        return Some(format!("Cache-Control is {storing:?}"));
    }
    let vary: Vec<_> =
        reply.fields.all("Vary").map(|line| String::from_utf8_lossy(line).to_lowercase()).collect();
    let names = |name: &str| vary.iter().flat_map(|line| line.split(',')).any(|member| member.trim() == name);
    let missing = expected.vary.iter().find(|name| !names(name));
    missing.map(|name| format!("Vary does not name {name}"))
}
