//! What `bench` shows on standard error while it measures: on a terminal some lines that are drawn again in place,
//! elsewhere a plain line now and then.
//!
//! Invariant: between two drawings the cursor stands where the first line begins, so that a terminal may be made
//! narrower, and wrap what is on it, without the next drawing landing elsewhere. When the run is over or is being
//! stopped, nothing of it is left on the terminal. What to show is `report::live`'s.

use load::{Control, Plan};
use platform::{Clock, Monotonic};
use report::live::{self, Glyphs, Live, SPARK_SECONDS_MAX};
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

/// Between two drawings: often enough for the eye, and nothing beside the load.
const DRAW_EVERY: Duration = Duration::from_millis(200);

/// Between two plain lines.
const LOG_EVERY: Duration = Duration::from_secs(5);

/// Where the size of a terminal is not known.
const SIZE_DEFAULT: (usize, usize) = (80, 24);

/// Follows one run.
pub(super) struct Display {
    live: Live,
    /// How many seconds of the run have been taken over.
    seconds: usize,
    surface: Surface,
    /// When something was shown last, in the time of the run's clock.
    shown_at: Option<Monotonic>,
}

/// What is written to.
enum Surface {
    /// A terminal, and whether something of ours is on it.
    Terminal { glyphs: Glyphs, is_drawn: bool },
    /// Anything else.
    Log,
}

impl Display {
    /// For a run of this plan.
    pub(super) fn of(plan: &Plan) -> Self {
        let stages = plan.stages.iter().map(|stage| stage.time).sum::<Duration>();
        let pauses = plan.cooldown * u32::try_from(plan.stages.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let of_stages = (!plan.stages.is_empty()).then_some(stages + pauses);
        let time_max = [plan.stop.time, of_stages].into_iter().flatten().min();
        let live = Live { time_max, requests_max: plan.stop.requests, ..Live::default() };
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let surface = if io::stderr().is_terminal() && !is_dumb {
            Surface::Terminal { glyphs: glyphs(), is_drawn: false }
        } else {
            Surface::Log
        };
        Self { live, seconds: 0, surface, shown_at: None }
    }

    /// Shows how far the run is, if it is time to.
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

    /// A terminal that cannot be written to is no reason to stop measuring.
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

    /// Takes what was drawn off the terminal.
    pub(super) fn clear(&mut self) {
        if let Surface::Terminal { is_drawn, .. } = &mut self.surface
            && std::mem::take(is_drawn)
        {
            let _ = io::stderr().write_all(drawing(&[]).as_bytes());
        }
    }
}

/// What puts these lines in the place of the last ones, and the cursor back to their beginning.
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

/// What the terminal can show, by what the environment says of its characters (POSIX: the first of these that is
/// there and not empty).
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
    fn the_cursor_comes_back_to_the_first_line() {
        let lines = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        assert_eq!(drawing(&lines), "\ra\x1b[K\r\nb\x1b[K\r\nc\x1b[J\r\x1b[2A");
        assert_eq!(drawing(&lines[..1]), "\ra\x1b[J\r");
        assert_eq!(drawing(&[]), "\r\x1b[J\r");
    }
}
