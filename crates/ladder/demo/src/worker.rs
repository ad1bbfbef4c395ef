//! A worker: one database connection and one script engine. It handles one request at a time, from
//! reading and compiling the scripts to the finished response.
//!
//! The order is that of a scripted site. The core is loaded first, and looks up the page early if
//! "aggressive" is on. Without a response, the modules are loaded; they look up the page or make
//! it.

use crate::answer::Answer;
use crate::script::context::{Context, PageCache, RequestState, Shared};
use crate::script::{self, object::Object};
use crate::scripts::{Loaded, ScriptError, Scripts};
use crate::switches::Switches;
use crate::visit::Visit;
use message::{Fields, Method, Status, names};
use rhai::{Dynamic, Engine, EvalAltResult};
use rusqlite::Connection;
use std::io::{self, Write as _};
use std::sync::Arc;

/// Header field that states which layers were effective. The ladder reads it as proof.
const LAYERS: &str = "X-Demo-Layers";

/// Answers requests by running the site's scripts.
pub(crate) struct Worker {
    scripts: Arc<Scripts>,
    context: Arc<Context>,
    engine: Engine,
}

/// The result of running the scripts.
struct Outcome {
    value: Dynamic,
    /// Number of files that were compiled for the request.
    compiled: u64,
    /// Whether the response was ready before the modules were loaded.
    early: bool,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Load(#[from] ScriptError),
    #[error(transparent)]
    Run(#[from] Box<EvalAltResult>),
    #[error("the program returned no response")]
    NoResponse,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, scripts: Arc<Scripts>, connection: Connection) -> Self {
        let context = Arc::new(Context::new(shared, connection));
        let engine = script::engine(&context);
        Self { scripts, context, engine }
    }

    /// Answers one request. There is always a response, even if the scripts fail.
    pub(crate) fn answer(&self, visit: &Visit, switches: Switches) -> Answer {
        let counters = &self.context.shared.counters;
        counters.pages.add(1);
        if !matches!(visit.head.method, Method::Get | Method::Head | Method::Post) {
            let mut answer = Answer::plain(405, "This method is not supported here.\n");
            answer.fields.push("Allow", "GET, HEAD, POST");
            return answer;
        }
        self.context.begin(switches);
        let ran = self.run(visit, switches);
        let state = self.context.snapshot();
        let took_ms = self.context.elapsed().as_secs_f64() * 1_000.0;
        self.context.end();
        match ran {
            Ok((answer, layers)) => {
                match state.page_cache {
                    PageCache::Hit => counters.page_cache_hits.add(1),
                    PageCache::Miss => counters.page_cache_misses.add(1),
                    PageCache::Off | PageCache::Pass => {}
                }
                let mut answer = answer.conditional(&visit.head.fields, state.now);
                if self.context.shared.parse_time {
                    answer.note_time(took_ms);
                }
                if answer.status == Status::NOT_MODIFIED {
                    counters.not_modified.add(1);
                }
                answer.fields.push(LAYERS, layers);
                answer
            }
            Err(failure) => {
                counters.script_failures.add(1);
                let target = visit.head.target.escape_ascii();
                // A closed standard error must not end the worker.
                let _ =
                    writeln!(io::stderr(), "petasos demo site: {} {target}: {failure}", visit.head.method);
                Answer::plain(500, "This page is out of order. We have been told.\n")
            }
        }
    }

    fn run(&self, visit: &Visit, switches: Switches) -> Result<(Answer, String), Failure> {
        let outcome = self.run_program(visit.to_object(), switches)?;
        let layers = layers(switches, &self.context.snapshot(), &outcome);
        let answer = Answer::from_script(outcome.value).ok_or(Failure::NoResponse)?;
        Ok((answer, layers))
    }

    fn run_program(&self, request: Object, switches: Switches) -> Result<Outcome, Failure> {
        let counters = &self.context.shared.counters;
        self.context.set_global("request", Dynamic::from(request));
        let core = self.scripts.core(switches.opcode, &self.engine, counters)?;
        let early = self.call(&core, "bootstrap")?;
        if !early.is_unit() {
            return Ok(Outcome { value: early, compiled: core.compiled, early: true });
        }
        let whole = self.scripts.whole(&core, switches.opcode, &self.engine, counters)?;
        let value = self.call(&whole, "main")?;
        Ok(Outcome { value, compiled: core.compiled + whole.compiled, early: false })
    }

    fn call(&self, program: &Loaded, function: &str) -> Result<Dynamic, Failure> {
        Ok(script::call(&self.engine, &program.ast, function, ())?)
    }
}

/// The effect of each layer on this response:
///
/// - `page_cache`: `off`, `pass` (not looked up: the response is for one visitor, or not a page),
///   `hit` or `miss`;
/// - `opcode`: `off`, `on` (nothing had to be compiled) or `fill` (files had to be compiled
///   although the cache is on);
/// - `aggressive`: `off`, `on` (the response was ready before the modules were loaded) or `late`;
/// - `objects`: `off`, `on` (the object cache was used) or `idle`.
fn layers(switches: Switches, state: &RequestState, outcome: &Outcome) -> String {
    let page_cache = match state.page_cache {
        PageCache::Off => "off",
        PageCache::Pass => "pass",
        PageCache::Hit => "hit",
        PageCache::Miss => "miss",
    };
    let of = |on: bool, happened: bool, instead: &'static str| match (on, happened) {
        (false, _) => "off",
        (true, true) => "on",
        (true, false) => instead,
    };
    format!(
        "page_cache={page_cache} opcode={} aggressive={} objects={}",
        of(switches.opcode, outcome.compiled == 0, "fill"),
        of(switches.aggressive, outcome.early, "late"),
        of(switches.objects, state.objects_used, "idle"),
    )
}

/// Adds the fields that every response of this server has.
pub(crate) fn complete(fields: &mut Fields, now: clock::Timestamp) {
    fields.push(names::DATE, httpdate::fmt_http_date(now.to_system_time()));
    fields.push(names::SERVER, "mission-bicycles");
}
