//! Tests of the order of waking, and of changes that no receiver misses.

use super::{Closed, Receiver, Sender, channel};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

/// The numbers of the tasks that were woken, in their order.
type Woken = Arc<Mutex<Vec<usize>>>;

struct Numbered(usize, Woken);

impl Wake for Numbered {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap().push(self.0);
    }
}

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<(), Closed>> + Send + 'a>>;

/// Polls each wait once, with a waker of its number.
fn begin(waits: &mut [Waiting<'_>], order: &[usize], woken: &Woken) {
    for &number in order {
        let waker = Waker::from(Arc::new(Numbered(number, Arc::clone(woken))));
        assert!(waits[number].as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
}

fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn taken(woken: &Woken) -> Vec<usize> {
    std::mem::take(&mut woken.lock().unwrap())
}

#[test]
fn receivers_are_woken_in_the_order_of_their_waits() {
    let sender = Sender::new(0);
    let mut receivers: Vec<Receiver<u32>> = (0..100).map(|_| sender.subscribe()).collect();
    let mut waits: Vec<Waiting<'_>> =
        receivers.iter_mut().map(|receiver| Box::pin(receiver.changed()) as Waiting<'_>).collect();
    let order: Vec<usize> = (0..100).map(|place| place * 37 % 100).collect();
    let woken = Woken::default();
    begin(&mut waits, &order, &woken);
    assert!(!sender.send_if_modified(|_| false));
    assert_eq!(taken(&woken), [], "nothing has changed");
    sender.send_modify(|value| *value += 1);
    assert_eq!(taken(&woken), order);
    assert!(waits.into_iter().all(|wait| poll_once(wait) == Poll::Ready(Ok(()))));
}

#[test]
fn end_of_the_sender_wakes_in_the_same_order() {
    let (sender, first) = channel(0);
    let mut receivers = [first.clone(), first.clone(), first];
    let mut waits: Vec<Waiting<'_>> =
        receivers.iter_mut().map(|receiver| Box::pin(receiver.changed()) as Waiting<'_>).collect();
    let woken = Woken::default();
    begin(&mut waits, &[2, 0, 1], &woken);
    drop(sender);
    assert_eq!(taken(&woken), [2, 0, 1]);
    assert!(waits.into_iter().all(|wait| poll_once(wait) == Poll::Ready(Err(Closed))));
}

#[test]
fn change_between_look_and_wait_is_seen() {
    let (sender, mut receiver) = channel(1);
    assert_eq!(*receiver.borrow_and_update(), 1);
    {
        // The wait exists, but its first poll comes after the change.
        let wait = receiver.changed();
        sender.send_replace(2);
        assert_eq!(poll_once(wait), Poll::Ready(Ok(())));
    }
    assert_eq!(poll_once(receiver.changed()), Poll::Pending, "it is seen now");
    assert_eq!(sender.send_replace(3), 2);
    assert_eq!(*receiver.borrow(), 3);
    assert_eq!(poll_once(receiver.clone().changed()), Poll::Ready(Ok(())), "to look is not to see");
    assert_eq!(poll_once(sender.subscribe().changed()), Poll::Pending, "a new one has seen all");
    drop(sender);
    assert!(receiver.is_closed());
    assert_eq!(poll_once(receiver.changed()), Poll::Ready(Ok(())), "the last change comes first");
    assert_eq!(poll_once(receiver.changed()), Poll::Ready(Err(Closed)));
}

#[test]
fn value_is_awaited_until_it_is_found_or_final() {
    let (sender, mut receiver) = channel(1);
    let is_even = |value: &u32| value.is_multiple_of(2).then_some(*value);
    {
        let mut wait = pin!(receiver.wait_for(is_even));
        let mut context = Context::from_waker(Waker::noop());
        assert!(wait.as_mut().poll(&mut context).is_pending());
        sender.send_replace(3);
        assert!(wait.as_mut().poll(&mut context).is_pending());
        sender.send_replace(4);
        assert_eq!(wait.as_mut().poll(&mut context), Poll::Ready(Ok(4)));
    }
    assert_eq!(poll_once(receiver.wait_for(is_even)), Poll::Ready(Ok(4)), "it still is");
    drop(sender);
    assert_eq!(poll_once(receiver.wait_for(is_even)), Poll::Ready(Ok(4)), "and will be");
    assert_eq!(poll_once(receiver.wait_for(|value| (*value > 4).then_some(()))), Poll::Ready(Err(Closed)));
}

#[test]
fn sender_learns_of_the_last_receivers_end() {
    let sender = Sender::new(());
    assert_eq!(poll_once(sender.closed()), Poll::Ready(()), "there was none yet");
    let first = sender.subscribe();
    let second = first.clone();
    assert_eq!(sender.receiver_count(), 2);
    let woken = Woken::default();
    let waker = Waker::from(Arc::new(Numbered(7, Arc::clone(&woken))));
    let mut closed = pin!(sender.closed());
    assert!(closed.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(first);
    assert_eq!(taken(&woken), []);
    drop(second);
    assert_eq!(taken(&woken), [7]);
    assert!(closed.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
}

#[test]
fn no_change_is_missed_between_threads() {
    const CHANGES: u32 = 20_000;
    /// Ends when the value is the last one. A missed change would leave it waiting for ever.
    fn follow(mut receiver: Receiver<u32>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            while *receiver.borrow_and_update() < CHANGES {
                receiver.changed().await.unwrap();
            }
        });
    }
    let sender = Sender::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            let receiver = sender.subscribe();
            scope.spawn(|| follow(receiver));
        }
        for _ in 0..CHANGES {
            sender.send_modify(|value| *value += 1);
        }
        // The sender stays until all have seen the last value.
    });
    assert_eq!(sender.receiver_count(), 0);
}
