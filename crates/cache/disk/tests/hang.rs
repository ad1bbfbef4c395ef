//! A disk that stops answering: the tier turns off, only its own threads wait, and it resumes
//! later.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test ends where it fails")]

mod common;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use clock::ManualClock;
use common::{KeepList, body, read, record, settings};
use petasos_disk::{Location, OffReason, OpenedTier, Recovery, Tier, open};
use platform::{HangingDisk, SimulatedDisk};
use std::sync::mpsc;
use std::thread::JoinHandle;

/// A tier above a disk that can be frozen, with its writer on a thread.
struct FreezableTier {
    disk: HangingDisk,
    clock: Arc<ManualClock>,
    tier: Tier,
    writer: Option<JoinHandle<()>>,
    _recovery: Recovery,
}

impl FreezableTier {
    fn start() -> Self {
        let disk = HangingDisk::new(SimulatedDisk::new(1));
        let clock = Arc::new(ManualClock::default());
        let opened = open(Arc::new(disk.clone()), clock.clone(), settings());
        let OpenedTier { tier, writer, recovery } = opened.unwrap();
        let thread = std::thread::Builder::new().name("the writer".to_owned());
        let writer = thread.spawn(move || writer.run(&KeepList::default())).unwrap();
        Self { disk, clock, tier, writer: Some(writer), _recovery: recovery }
    }

    fn write(&self, number: u64) -> Option<Location> {
        let (sender, receiver) = mpsc::channel();
        let accepted = self.tier.write(record(number, 3000), move |location| sender.send(location).unwrap());
        if accepted { receiver.recv().unwrap() } else { None }
    }

    /// Freezes the disk during a write, and lets the timeout pass.
    fn hang(&self) {
        self.disk.freeze();
        assert!(self.tier.write(record(90, 3000), |_| ()));
        self.disk.await_waiting(1);
        self.tier.look_after(true);
        assert_eq!(self.tier.off(), None, "it is not late yet");
        self.clock.advance(Duration::from_secs(2));
        self.tier.look_after(true);
    }

    /// Lets the disk answer.
    fn recover(&self) {
        self.disk.thaw();
        while !self.tier.stuck().is_empty() {
            std::thread::yield_now();
        }
    }
}

impl Drop for FreezableTier {
    fn drop(&mut self) {
        self.disk.thaw();
        self.tier.close();
        self.writer.take().map(JoinHandle::join);
    }
}

#[test]
fn hung_disk_turns_the_tier_off_until_it_answers() {
    let running = FreezableTier::start();
    let location = running.write(1).unwrap();
    running.hang();
    let tier = &running.tier;
    assert_eq!(tier.off(), Some(OffReason::Hung));
    assert_eq!((tier.figures().hangs, tier.figures().stuck), (1, 1));
    assert_eq!((&tier.stuck()[0].thread[..], tier.stuck()[0].operation), ("the writer", "write"));
    assert!(!tier.write(record(2, 10), |_| ()) && tier.fill(None).is_none(), "writes and fills are refused");
    tier.remove(location);
}

#[test]
fn figures_do_not_wait_for_the_closing_of_the_old_journal() {
    let running = FreezableTier::start();
    running.disk.freeze_closing();
    let (figures, received) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // More than the journal may have, so that this thread compacts it.
            (1..60).for_each(|number| running.tier.journal_invalidation(number, &[7; 30_000]).unwrap());
        });
        running.disk.await_closing();
        scope.spawn(|| figures.send(running.tier.figures()).unwrap());
        let answer = received.recv_timeout(Duration::from_secs(10));
        running.disk.thaw();
        assert!(answer.is_ok(), "the figures wait for the disk");
    });
}

#[test]
fn tier_resumes_only_after_its_owner_has_caught_up() {
    let running = FreezableTier::start();
    let location = running.write(1).unwrap();
    running.hang();
    running.recover();
    running.tier.look_after(false);
    assert_eq!(running.tier.off(), Some(OffReason::Hung), "invalidations are still to be journaled");
    running.tier.look_after(true);
    assert_eq!(running.tier.off(), None);
    assert_eq!(read(&running.tier, location).unwrap().2, body(1, 3000));
    assert!(running.write(3).is_some());
    assert_eq!(running.tier.figures().hangs, 1);
}

#[test]
fn fill_fails_while_the_disk_hangs() {
    let running = FreezableTier::start();
    let mut fill = running.tier.fill(None).unwrap();
    fill.push(body(1, 1 << 16).into());
    running.hang();
    let context = Context::from_waker(Waker::noop());
    assert_eq!(fill.poll_ready(&context), Poll::Ready(Err(OffReason::Hung)));
}

#[test]
fn close_leaves_a_hung_writer_behind() {
    let running = FreezableTier::start();
    running.hang();
    assert!(!running.tier.close(), "the writer has not ended");
    running.recover();
    assert!(running.tier.close());
}
