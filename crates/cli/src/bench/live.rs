//! Live progress of `bench` on standard error. A terminal shows several lines that are redrawn in
//! place. Other outputs get a plain line now and then.
//!
//! Invariant: between two drawings the cursor is at the beginning of the first line. So the next
//! drawing lands in the right place even if the terminal was made narrower and wrapped the lines.
//! After the run, or once it is being stopped, the terminal shows none of the lines. `report::live`
//! makes the text of the lines.

use clock::{Clock, Monotonic};
use load::Control;
use record::Plan;
use report::live::{self, Glyphs, LiveFigures, SPARK_SECONDS_MAX};
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

/// Interval between two drawings: often enough for the eye, and a negligible cost beside the load.
const DRAW_EVERY: Duration = Duration::from_millis(200);

/// Interval between two plain lines.
const LOG_EVERY: Duration = Duration::from_secs(5);

/// Columns and rows that are assumed if the terminal does not report its size.
const SIZE_DEFAULT: (usize, usize) = (80, 24);

/// Progress display of one run.
pub(super) struct Display {
    live: LiveFigures,
    /// Number of seconds of the run that have been added to `live`.
    seconds: usize,
    surface: Surface,
    /// Time of the last drawing, on the run's monotonic clock.
    shown_at: Option<Monotonic>,
}

/// The kind of output.
enum Surface {
    /// A terminal. `is_drawn` is set while our lines are on it.
    Terminal { glyphs: Glyphs, is_drawn: bool },
    /// Anything else, such as a file.
    Log,
}

impl Display {
    /// Creates the display for a run of this plan.
    pub(super) fn of(plan: &Plan) -> Self {
        let stages = plan.stages.iter().map(|stage| stage.time).sum::<Duration>();
        let pauses = plan.cooldown * u32::try_from(plan.stages.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let of_stages = (!plan.stages.is_empty()).then_some(stages + pauses);
        let time_max = [plan.stop.time, of_stages].into_iter().flatten().min();
        let live = LiveFigures { time_max, requests_max: plan.stop.requests, ..LiveFigures::default() };
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let surface = if io::stderr().is_terminal() && !is_dumb {
            Surface::Terminal { glyphs: glyphs(), is_drawn: false }
        } else {
            Surface::Log
        };
        Self { live, seconds: 0, surface, shown_at: None }
    }

    /// Shows the progress if the interval has passed.
    pub(super) fn look(&mut self, control: &Control, clock: &dyn Clock) {
        let now = clock.monotonic();
        let every = match self.surface {
            Surface::Terminal { .. } => DRAW_EVERY,
            Surface::Log => LOG_EVERY,
        };
        if control.is_stopped() {
            self.clear();
            return;
        }
        let since = *self.shown_at.get_or_insert(now);
        if now.since(since) < every {
            return;
        }
        self.shown_at = Some(now);
        self.take_over(control, clock);
        self.show();
    }

    fn take_over(&mut self, control: &Control, clock: &dyn Clock) {
        let progress = control.progress(clock);
        (self.live.elapsed, self.live.done, self.live.failed) =
            (progress.elapsed, progress.done, progress.failed);
        let new = control.seconds_since(self.seconds);
        self.seconds += new.len();
        new.iter().for_each(|second| self.live.failures.merge(&second.failures));
        self.live.recent.extend(new);
        let too_many = self.live.recent.len().saturating_sub(SPARK_SECONDS_MAX);
        self.live.recent.drain(..too_many);
    }

    /// Draws the progress. A failed write must not stop the measurement, so it is ignored.
    fn show(&mut self) {
        match &mut self.surface {
            Surface::Terminal { glyphs, is_drawn } => {
                let (width, height) = size();
                let drawing = drawing(&live::screen(&self.live, width, height, *glyphs));
                let _ = io::stderr().write_all(drawing.as_bytes());
                *is_drawn = true;
            }
            Surface::Log => {
                if let Some(line) = live::log_line(&self.live) {
                    let _ = writeln!(io::stderr(), "{line}");
                }
            }
        }
    }

    /// Erases the drawing from the terminal.
    pub(super) fn clear(&mut self) {
        if let Surface::Terminal { is_drawn, .. } = &mut self.surface
            && std::mem::take(is_drawn)
        {
            // As in `show`, a failed write is ignored.
            let _ = io::stderr().write_all(drawing(&[]).as_bytes());
        }
    }
}

/// The escape sequences that replace the previous lines by these and return the cursor to the
/// first.
fn drawing(lines: &[String]) -> String {
    let up = lines.len().saturating_sub(1);
    let back = if up > 0 { format!("\x1b[{up}A") } else { String::new() };
    format!("\r{}\x1b[J\r{back}", lines.join("\x1b[K\r\n"))
}

fn size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => SIZE_DEFAULT,
    }
}

/// Chooses glyphs by the character set in the environment. The first variable with a non-empty
/// value counts, as POSIX defines.
fn glyphs() -> Glyphs {
    let named = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(std::env::var_os);
    let charset = named.map(|name| name.to_string_lossy().to_ascii_lowercase()).find(|name| !name.is_empty());
    let is_utf8 = charset.is_some_and(|name| name.contains("utf-8") || name.contains("utf8"));
    if is_utf8 { Glyphs::Blocks } else { Glyphs::Ascii }
}

#[cfg(test)]
mod tests {
    use super::drawing;

    #[test]
    fn drawing_returns_the_cursor_to_the_first_line() {
        let lines = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        assert_eq!(drawing(&lines), "\ra\x1b[K\r\nb\x1b[K\r\nc\x1b[J\r\x1b[2A");
        assert_eq!(drawing(&lines[..1]), "\ra\x1b[J\r");
        assert_eq!(drawing(&[]), "\r\x1b[J\r");
    }
}
