//! What a service manager such as systemd learns of the edge (`sd_notify(3)`).
//!
//! Invariants: without a service manager nothing is sent. A message that cannot be sent changes
//! nothing. The watchdog is fed only while every worker makes progress.

use crate::shared::Shared;
use sd_notify::NotifyState;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often a worker shows that it makes progress, as a part of the watchdog's time.
const BEATS: u32 = 4;

/// The edge accepts connections.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The edge reads its configuration again; [`ready`] follows.
pub(crate) fn reloading() {
    // The manager compares the time with that of its order (`Type=notify-reload`).
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// The process with this number serves in place of this one.
pub(crate) fn main_process(process: u32) {
    tell(&[NotifyState::MainPid(process)]);
}

/// The edge drains.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState<'_>]) {
    // The variable stays, because removing it is not safe beside other threads.
    let _ = sd_notify::notify(false, states);
}

/// The time within which the watchdog must be fed; `None` without a watchdog.
fn watchdog() -> Option<Duration> {
    let variable = |name| std::env::var(name).ok();
    let (micros, process) = (variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"));
    watchdog_of(micros.as_deref(), process.as_deref(), std::process::id())
}

/// The watchdog's time from the values of two variables, for the process `own`. Without the number
/// of a process, the watchdog is for any (`sd_watchdog_enabled(3)`): a process that takes over has
/// none, because its number was not known when the service started.
fn watchdog_of(micros: Option<&str>, process: Option<&str>, own: u32) -> Option<Duration> {
    let is_ours = process.is_none_or(|process| process.parse() == Ok(own));
    let micros: u64 = micros?.parse().ok()?;
    (is_ours && micros > 0).then(|| Duration::from_micros(micros))
}

/// Shows that the worker with this number makes progress, if there is a watchdog.
pub(crate) async fn beat(shared: Arc<Shared>, index: usize) {
    let Some(time) = watchdog() else { return shared.drained().await };
    loop {
        tokio::time::sleep(time / BEATS).await;
        if let Some(beats) = shared.beats.get(index) {
            beats.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Feeds the watchdog, if there is one, until the drain.
pub(crate) async fn feed(shared: Arc<Shared>) {
    let Some(time) = watchdog() else { return shared.drained().await };
    let beats = || shared.beats.iter().map(|beats| beats.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let mut before = beats();
    loop {
        tell(&[NotifyState::Watchdog]);
        tokio::time::sleep(time / 2).await;
        loop {
            let now = beats();
            if now.iter().zip(&before).all(|(now, before)| now > before) {
                before = now;
                break;
            }
            tokio::time::sleep(time / 8).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::watchdog_of;
    use std::time::Duration;

    #[test]
    fn watchdog_without_a_process_is_for_any() {
        let time = Some(Duration::from_secs(2));
        for (micros, process, expected) in [
            (Some("2000000"), Some("7"), time),
            (Some("2000000"), None, time),
            (Some("2000000"), Some("8"), None),
            (Some("2000000"), Some("seven"), None),
            (Some("0"), None, None),
            (Some("soon"), None, None),
            (None, Some("7"), None),
        ] {
            assert_eq!(watchdog_of(micros, process, 7), expected, "{micros:?} {process:?}");
        }
    }
}
