//! An editor of the application: looks at the start page, and saves pages by the application's own
//! forms.
//!
//! Invariant: a save whose answer proves the write counts as a purge of its page from the answer
//! on: a hard one if a standard says so, and a soft one if only the profile does.

use crate::application::{Application, SAVE_FIELD, SaveForm};
use crate::exchange::{Ending, Reply};
use crate::ledger::SharedLedger;
use crate::moment::Timeline;
use crate::read::{Reading, ask};
use crate::site::{SitePlan, lock};
use crate::visit::Manner;
use message::Method;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use world::Random;

/// The longest time that an editor waits for an answer. It is longer than the bounds of the rules.
const PATIENCE: Duration = Duration::from_secs(600);

/// Largest number of steps of a random plan.
const STEPS_MAX: u64 = 10;

/// The longest pause before a step in milliseconds.
const PAUSE_MS_MAX: u64 = 6000;

/// An action of an editor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditorAction {
    /// Requests the start page, and the page to which it redirects.
    Start,
    /// Saves the page at this path.
    Save(SaveForm, String),
}

/// A step of an editor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditorStep {
    /// The pause before it in milliseconds.
    pub pause_ms: u64,
    /// The action.
    pub action: EditorAction,
    /// Whether it is at the other host of the site.
    pub is_other_host: bool,
}

/// The plan of an editor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditorPlan {
    /// The number of the editor.
    pub number: u64,
    /// Its steps.
    pub steps: Vec<EditorStep>,
}

impl EditorPlan {
    /// A plan by chance. It is empty if the site runs on no known application.
    pub fn random(random: &mut Random, number: u64, site: &SitePlan) -> Self {
        let Some(application) = site.application else { return Self { number, steps: Vec::new() } };
        let count = random.between(1, STEPS_MAX);
        let steps = (0..count).filter_map(|_| EditorStep::random(random, application, site));
        Self { number, steps: steps.collect() }
    }
}

impl EditorStep {
    fn random(random: &mut Random, application: Application, site: &SitePlan) -> Option<Self> {
        let pause_ms = random.below(PAUSE_MS_MAX);
        let page = random.choice(&site.pages)?;
        let form = SaveForm::random(random, application);
        let action = if random.percent(30) {
            EditorAction::Start
        } else {
            EditorAction::Save(form, page.path.clone())
        };
        Some(Self { pause_ms, action, is_other_host: random.percent(20) && site.other_host.is_some() })
    }
}

impl fmt::Display for EditorPlan {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "editor {}:", self.number)?;
        self.steps.iter().try_for_each(|step| {
            let host = if step.is_other_host { " at the other host" } else { "" };
            writeln!(to, "  after {} ms {:?}{host}", step.pause_ms, step.action)
        })
    }
}

/// An editor that carries out its plan.
pub struct Editor<C> {
    /// The plan.
    pub plan: EditorPlan,
    /// The site.
    pub site: Arc<SitePlan>,
    /// Where answers are judged.
    pub ledger: SharedLedger,
    /// The simulated time.
    pub timeline: Timeline,
    /// Connects to the visitors' address. `None` means that no connection can be made.
    pub connect: C,
}

impl<S, C> Editor<C>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    C: Fn() -> Option<S> + Send,
{
    /// Carries out the plan.
    pub async fn run(self) {
        for step in &self.plan.steps {
            tokio::time::sleep(Duration::from_millis(step.pause_ms)).await;
            match &step.action {
                EditorAction::Start => self.start(step).await,
                EditorAction::Save(form, path) => self.save(step, *form, path).await,
            }
        }
    }

    /// Requests the start page without any data of a visitor.
    async fn start(&self, step: &EditorStep) {
        let host = self.site.host_name(step.is_other_host);
        let mut target = "/".to_owned();
        for _ in 0..2 {
            let coding = if step.pause_ms.is_multiple_of(2) { "gzip" } else { "identity" };
            let text = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nAccept-Encoding: {coding}\r\n\r\n");
            let begun = self.timeline.now();
            let reply = self.exchange("GET", &text).await;
            lock(&self.ledger).start_answered(begun, self.timeline.now(), &self.name(), &reply);
            match reply.field("Location") {
                Some(location) => target = location.to_owned(),
                None => return,
            }
        }
    }

    async fn save(&self, step: &EditorStep, form: SaveForm, path: &str) {
        let Some(page) = self.site.page(path) else { return };
        let host = self.site.host_name(step.is_other_host);
        let (method, target, rest) = form.request(page);
        let text = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{SAVE_FIELD}: {path}\r\n{rest}");
        let begun = self.timeline.now();
        let reply = self.exchange(method, &text).await;
        let named = self.site.named(step.is_other_host, path);
        let order = format!("{form:?} of {named} by {}", self.name());
        lock(&self.ledger).save_answered(begun, self.timeline.now(), &order, &named, form, &reply);
    }

    async fn exchange(&self, method: &str, text: &str) -> Reply {
        let Some(stream) = (self.connect)() else {
            return Reply { ending: Ending::NoConnection, ..Reply::default() };
        };
        let method = Method::from_token(method.as_bytes());
        let deadline = Instant::now() + PATIENCE;
        let reading = Reading { timeline: self.timeline, manner: Manner::Plain, deadline };
        let memory = lock(&self.ledger).memory().clone();
        ask(stream, &method, text, reading, memory).await
    }

    fn name(&self) -> String {
        format!("editor {}", self.plan.number)
    }
}
