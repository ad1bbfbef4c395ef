//! `petasos top`: rates, verdicts, percentiles, pages, origin requests and clients of a running
//! edge, on the terminal.
//!
//! Invariant: the terminal is restored however the command ends: by a key, a signal, an error or a
//! panic. If the screen cannot be shown, an error names `petasos status`.
//!
//! Exit codes: 0 after a key or a signal; 2 if there is no terminal, or no edge answers.

mod model;
mod screen;

use crate::admin::AdminArgs;
use crate::follow::{StreamEvent, check_filter, follow};
use crate::snapshot::Snapshot;
use anyhow::{Context as _, ensure};
use api::log::LogLine;
use clock::Clock as _;
use model::TopModel;
use platform::SystemClock;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, IsTerminal as _};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

/// How often the screen is drawn, and keys are looked for.
const DRAW_EVERY: Duration = Duration::from_millis(250);

/// How often the edge is asked for its counters.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Largest number of events that wait for the screen.
const EVENTS_MAX: usize = 8192;

/// Show rates, verdicts, percentiles, pages, origin requests and clients of a running edge.
///
/// The command needs a terminal; `petasos status` needs none. Keys: `q` ends it, `r` forgets what
/// was seen so far.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Condition for the requests in the tables and percentiles, as for `petasos log`
    #[arg(long = "where", value_name = "CONDITION")]
    filter: Option<String>,
    #[command(flatten)]
    edge: AdminArgs,
}

/// A message of the threads to the screen.
enum News {
    Line(LogLine),
    Counters(Box<Snapshot>),
    /// The stream has ended, for this reason, and will be opened again.
    Ended(String),
    /// No edge answers any more.
    Lost(anyhow::Error),
}

/// Shows the edge until a key or a signal.
///
/// # Errors
/// If there is no terminal, or no edge answers.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(filter) = &args.filter {
        check_filter(filter)?;
    }
    ensure!(
        io::stdout().is_terminal() && io::stdin().is_terminal(),
        "`petasos top` needs a terminal; `petasos status` and `petasos log` need none"
    );
    let first = Snapshot::of(&args.edge)?;
    let stopped = Arc::<AtomicBool>::default();
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stopped)).context("cannot watch for signals")?;
    }
    let (tell, news) = sync_channel(EVENTS_MAX);
    start(args, &tell)?;
    let clock = SystemClock::new();
    let mut model = TopModel::new(args.edge.admin.to_string(), first, clock.monotonic());
    // It also restores the terminal when the program panics.
    let mut terminal =
        ratatui::try_init().context("the terminal cannot be prepared; use `petasos status`")?;
    let result = show(&mut terminal, &mut model, &news, &stopped, &clock);
    ratatui::restore();
    result.map(|()| ExitCode::SUCCESS)
}

/// Starts the threads that read the stream and ask for the counters. They end with the process.
fn start(args: &Args, tell: &SyncSender<News>) -> anyhow::Result<()> {
    let (edge, filter, told) = (args.edge.clone(), args.filter.clone(), tell.clone());
    let reading = move || {
        let result = follow(&edge, filter.as_deref(), |event| {
            let news = match event {
                StreamEvent::Line("") => return ControlFlow::Continue(()),
                StreamEvent::Line(line) => match serde_json::from_str(line) {
                    Ok(line) => News::Line(line),
                    Err(_) => return ControlFlow::Continue(()),
                },
                StreamEvent::Ended(why) => News::Ended(why),
            };
            if told.send(news).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if let Err(error) = result {
            // The screen may have ended.
            let _ = told.send(News::Lost(error));
        }
    };
    let (edge, told) = (args.edge.clone(), tell.clone());
    let asking = move || {
        loop {
            thread::sleep(ASK_EVERY);
            // The stream reports a lost edge.
            if let Ok(snapshot) = Snapshot::of(&edge)
                && told.send(News::Counters(Box::new(snapshot))).is_err()
            {
                return;
            }
        }
    };
    thread::Builder::new().name("stream".to_owned()).spawn(reading)?;
    thread::Builder::new().name("counters".to_owned()).spawn(asking)?;
    Ok(())
}

/// Draws the screen until a key or a signal ends it.
fn show(
    terminal: &mut ratatui::DefaultTerminal,
    model: &mut TopModel,
    news: &Receiver<News>,
    stopped: &AtomicBool,
    clock: &SystemClock,
) -> anyhow::Result<()> {
    while !stopped.load(Ordering::Relaxed) {
        // A bounded number, so that a flood of requests does not keep the screen from being drawn.
        for _ in 0..EVENTS_MAX {
            match news.try_recv() {
                Ok(News::Line(line)) => model.take_line(line, clock.monotonic()),
                Ok(News::Counters(snapshot)) => model.take_counters(*snapshot, clock.monotonic()),
                Ok(News::Ended(why)) => model.note(why),
                Ok(News::Lost(error)) => return Err(error),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        model.forget_old(clock.monotonic());
        terminal.draw(|frame| screen::draw(frame, model))?;
        if !event::poll(DRAW_EVERY)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                // In raw mode the terminal sends no signal.
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(()),
                KeyCode::Char('r') => model.reset(),
                _ => {}
            }
        }
    }
    Ok(())
}
