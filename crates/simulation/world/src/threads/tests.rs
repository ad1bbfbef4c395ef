//! Tests of simulated threads.

use super::{SimulatedThreads, ThreadSettings};
use crate::{Random, Trace, Violations};
use ::threads::{Condvar, Mutex, Simulation, run_aside, sleep, spawn};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::time::Instant;

struct Run {
    threads: SimulatedThreads,
    violations: Violations,
    trace: Trace,
}

/// Runs `life` in a fresh world of threads whose turns vary with `seed`, and cancels the remaining
/// threads.
fn simulate<T, F: Future<Output = T>>(seed: u64, life: impl FnOnce(SimulatedThreads) -> F) -> (T, Run) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let run = runtime.block_on(async {
        let (violations, trace) = (Violations::default(), Trace::new(0));
        let settings = ThreadSettings { yield_percent: 30, delay_percent: 20, delay_ms_max: 5 };
        let threads = SimulatedThreads::new(settings, Random::new(seed), violations.clone(), trace.clone());
        let simulation = Simulation::enter(Rc::new(threads.clone()));
        // An hour without a result is a lost wake-up.
        let result = tokio::time::timeout(Duration::from_secs(3600), life(threads.clone()));
        let result = result.await.expect("a wake-up is lost");
        threads.cancel_all();
        assert!(threads.names().is_empty());
        drop(simulation);
        (result, Run { threads, violations, trace })
    });
    assert!(!run.1.threads.is_inside());
    run
}

/// Threads that sleep while they hold a lock, and count under it. Returns their order.
fn contend(count: u64) -> Vec<u64> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let threads: Vec<_> = (0..count)
        .map(|number| {
            let order = Arc::clone(&order);
            let main = move || {
                for _ in 0..3 {
                    let mut order = order.lock().unwrap();
                    let before = order.len();
                    sleep(Duration::from_millis(number % 3));
                    assert_eq!(order.len(), before, "nobody else has the lock");
                    order.push(number);
                }
            };
            spawn("contender", main).unwrap()
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    Arc::try_unwrap(order).unwrap().into_inner_for_test()
}

trait IntoInner<T> {
    fn into_inner_for_test(self) -> T;
}

impl<T: Clone> IntoInner<T> for Mutex<T> {
    fn into_inner_for_test(self) -> T {
        self.lock().unwrap().clone()
    }
}

#[test]
fn lock_excludes_other_threads_while_its_holder_sleeps() {
    let (order, run) = simulate(1, |threads| threads.run("main", || contend(20)));
    assert_eq!(order.len(), 60);
    assert_eq!(run.violations.list(), Vec::<String>::new());
}

#[test]
fn same_seed_repeats_the_run_and_another_seed_changes_it() {
    let life = |seed| simulate(seed, |threads| threads.run("main", || contend(10)));
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..10 {
        let ((first, first_run), (second, second_run)) = (life(seed), life(seed));
        assert_eq!(first, second);
        assert_eq!(first_run.trace.hash(), second_run.trace.hash());
        assert_eq!(first_run.trace.count(), second_run.trace.count());
        orders.insert(first);
    }
    assert!(orders.len() > 5, "{} different orders", orders.len());
}

#[test]
fn notification_before_and_after_the_wait_arrives() {
    for seed in 0..50 {
        let life = |threads: SimulatedThreads| async move {
            let shared = Arc::new((Mutex::new(0), Condvar::new()));
            let waiters: Vec<_> = (0..5)
                .map(|number| {
                    let shared = Arc::clone(&shared);
                    threads.run("waiter", move || {
                        sleep(Duration::from_millis(number * 2));
                        let guard = shared.0.lock().unwrap();
                        let mut guard = shared.1.wait_while(guard, |tokens| *tokens == 0).unwrap();
                        *guard -= 1;
                    })
                })
                .collect();
            for _ in 0..5 {
                let shared = Arc::clone(&shared);
                threads
                    .run("notifier", move || {
                        sleep(Duration::from_millis(1));
                        *shared.0.lock().unwrap() += 1;
                        shared.1.notify_one();
                    })
                    .await;
            }
            for waiter in waiters {
                waiter.await;
            }
            *shared.0.lock().unwrap()
        };
        assert_eq!(simulate(seed, life).0, 0);
    }
}

#[test]
fn wait_with_a_time_limit_ends_with_it() {
    let life = |threads: SimulatedThreads| async move {
        let start = Instant::now();
        let waited = threads.run("waiter", || {
            let (lock, changed) = (Mutex::new(()), Condvar::new());
            let within = Duration::from_millis(70);
            let (_, is_over) = changed.wait_timeout_while(lock.lock().unwrap(), within, |()| true).unwrap();
            let (_, at_once) = changed.wait_timeout_while(lock.lock().unwrap(), within, |()| false).unwrap();
            (is_over, at_once)
        });
        assert_eq!(waited.await, (true, false));
        start.elapsed()
    };
    let (elapsed, _) = simulate(1, life);
    assert!((70..90).contains(&elapsed.as_millis()), "{elapsed:?}");
}

#[test]
fn holder_that_waits_lets_another_thread_lock() {
    let life = |threads: SimulatedThreads| async move {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let other = Arc::clone(&shared);
        let holder = threads.run("holder", move || {
            let guard = shared.0.lock().unwrap();
            let child = spawn("child", move || {
                *other.0.lock().unwrap() = true;
                other.1.notify_all();
            });
            let guard = shared.1.wait_while(guard, |is_set| !*is_set).unwrap();
            drop(guard);
            child.unwrap().join().is_ok()
        });
        holder.await
    };
    assert!(simulate(1, life).0);
}

#[test]
fn thousand_threads_take_turns() {
    let life = |threads: SimulatedThreads| async move {
        threads
            .run("main", || {
                let (sender, receiver) = mpsc::channel();
                #[expect(clippy::needless_collect, reason = "all threads start before the first is joined")]
                let threads: Vec<_> = (0..1000_u64)
                    .map(|number| {
                        let sender = sender.clone();
                        let main = move || {
                            sleep(Duration::from_millis(number % 10));
                            sender.send(number).unwrap();
                            number
                        };
                        spawn("one of many", main).unwrap()
                    })
                    .collect();
                let joined: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
                drop(sender);
                (joined, receiver.into_iter().sum())
            })
            .await
    };
    assert_eq!(simulate(1, life).0, (499_500, 499_500));
}

#[test]
fn panic_is_a_violation_and_ends_only_its_thread() {
    let life = |threads: SimulatedThreads| async move {
        threads
            .run("parent", || {
                let child = spawn("child", || {
                    sleep(Duration::from_millis(1));
                    panic!("by test");
                });
                let joined: Result<(), _> = child.unwrap().join();
                assert!(joined.is_err());
            })
            .await;
    };
    let ((), run) = simulate(1, life);
    assert_eq!(run.violations.list(), ["the thread `child` ended with a panic: by test"]);
}

#[test]
fn waiting_outside_of_threads_is_a_violation() {
    let life = |_| async {
        std::panic::catch_unwind(|| sleep(Duration::from_millis(1))).unwrap_err();
    };
    let ((), run) = simulate(1, life);
    let violations = run.violations.take();
    assert!(violations.len() == 1 && violations[0].starts_with("a task of a worker waits"), "{violations:?}");
}

#[test]
fn suspended_threads_are_unwound_at_the_end() {
    struct NoteDrop(Arc<Mutex<u32>>);
    impl Drop for NoteDrop {
        fn drop(&mut self) {
            // Waits during the unwinding end at once, or unwind the holder of the lock first.
            sleep(Duration::from_secs(1));
            *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += 1;
        }
    }
    let dropped = Arc::new(Mutex::new(0));
    let life = |threads: SimulatedThreads| {
        let dropped = Arc::clone(&dropped);
        async move {
            for number in 0..10 {
                let note = NoteDrop(Arc::clone(&dropped));
                let held = Arc::clone(&dropped);
                drop(threads.run("forever", move || {
                    let _note = note;
                    loop {
                        // A supervisor catches panics and starts anew.
                        let _ = std::panic::catch_unwind(|| {
                            let _held = (number == 9).then(|| held.lock());
                            sleep(Duration::from_secs(9999));
                        });
                        sleep(Duration::from_secs(1));
                    }
                }));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            // A thread that never had a turn.
            drop(threads.run("unborn", {
                let note = NoteDrop(dropped);
                move || drop(note)
            }));
        }
    };
    let ((), run) = simulate(1, life);
    assert_eq!(run.violations.list(), Vec::<String>::new());
    assert_eq!(*dropped.lock().unwrap_or_else(std::sync::PoisonError::into_inner), 11);
}

#[test]
fn work_aside_runs_in_a_thread_with_its_name() {
    let life = |_| async {
        let name = run_aside(|| ::threads::current_name().as_str().map(str::to_owned)).await;
        name.flatten()
    };
    assert_eq!(simulate(1, life).0.as_deref(), Some("aside"));
}

#[test]
fn cancelled_thread_that_goes_on_finds_no_poisoned_lock() {
    let (found, is_poisoned) = mpsc::channel();
    simulate(1, |_| async move {
        let lock = Arc::new(Mutex::new(()));
        let job = move || {
            let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _guard = lock.lock().unwrap();
                sleep(Duration::from_secs(1_000_000));
            }));
            // As a thread does that goes on with its next job.
            drop(held);
            found.send(lock.lock().is_err()).unwrap();
        };
        drop(spawn("worker", job).unwrap());
        tokio::time::sleep(Duration::from_secs(1)).await;
    });
    assert!(is_poisoned.try_recv().is_err(), "the thread went on with a poisoned lock");
}

#[test]
fn task_takes_a_lock_that_a_cancelled_thread_has_poisoned() {
    let (is_poisoned, run) = simulate(1, |threads| async move {
        let lock = Arc::new(Mutex::new(()));
        let held = Arc::clone(&lock);
        let holder = move || {
            let _guard = held.lock().unwrap();
            sleep(Duration::from_secs(1_000_000));
        };
        drop(spawn("holder", holder).unwrap());
        tokio::time::sleep(Duration::from_secs(1)).await;
        // As at the end of a world: its tasks are dropped after its threads, and their destructors
        // take locks.
        threads.cancel_all();
        lock.lock().is_err()
    });
    assert!(is_poisoned);
    assert_eq!(run.violations.list(), Vec::<String>::new());
}
