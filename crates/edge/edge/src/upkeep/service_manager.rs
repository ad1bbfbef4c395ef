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
    let mut micros = 0;
    sd_notify::watchdog_enabled(false, &mut micros).then(|| Duration::from_micros(micros))
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
