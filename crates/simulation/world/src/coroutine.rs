//! Coroutines with separate stacks, on which simulated threads run.
//!
//! Invariant: a coroutine runs only inside of [`Coroutine::resume`] and [`Coroutine::cancel`], and
//! on the system thread that started it. The stacks of ended coroutines are used again.

use generator::{Generator, Gn};
use std::any::Any;
use std::cell::RefCell;
use std::ptr::NonNull;

/// The size of a stack, as the standard library gives it to a thread. The system provides only the
/// pages that are used.
const STACK_BYTES: usize = 2 * 1024 * 1024;

/// The largest number of unused stacks that a system thread keeps.
const FREE_MAX: usize = 128;

thread_local! {
    static FREE: RefCell<Vec<Generator<'static, (), ()>>> = const { RefCell::new(Vec::new()) };
}

/// Code that can be suspended at any depth of its calls.
pub(crate) struct Coroutine {
    generator: Generator<'static, (), ()>,
}

/// The state of a coroutine that was resumed.
pub(crate) enum Resumed {
    /// It has suspended itself.
    Suspended,
    /// It has ended, with the value of its panic if it panicked.
    Ended(Option<Box<dyn Any + Send>>),
}

impl Coroutine {
    /// A coroutine that runs `main` when it is resumed.
    pub(crate) fn new(main: Box<dyn FnOnce() + Send>) -> Self {
        let free = FREE.with_borrow_mut(Vec::pop);
        let generator = match free {
            Some(mut generator) => {
                generator.init_code(main);
                generator
            }
            None => {
                let mut generator = Gn::<()>::new_opt(STACK_BYTES / size_of::<usize>(), main);
                // A generator with local data is suspended by `co_yield_with`, and keeps its panic
                // instead of passing it on. The data itself is never used.
                generator.set_local_data(NonNull::dangling().as_ptr());
                generator
            }
        };
        Self { generator }
    }

    /// Runs it until it suspends itself or ends.
    pub(crate) fn resume(&mut self) -> Resumed {
        self.generator.resume();
        if self.generator.is_done() {
            return Resumed::Ended(self.generator.get_panic_data());
        }
        Resumed::Suspended
    }

    /// Unwinds its stack. Code that catches the panic and suspends itself again panics again.
    pub(crate) fn cancel(&mut self) {
        self.generator.cancel();
    }

    /// Keeps the stack of an ended coroutine for the next one.
    pub(crate) fn recycle(self) {
        if self.generator.is_done() {
            FREE.with_borrow_mut(|free| {
                if free.len() < FREE_MAX {
                    free.push(self.generator);
                }
            });
        }
    }
}

/// Suspends the running coroutine until it is resumed.
///
/// # Panics
/// If the coroutine is cancelled. The panic unwinds its stack and is not reported.
pub(crate) fn suspend() {
    generator::co_yield_with(());
}

/// Unwinds the running coroutine, which was cancelled.
#[expect(clippy::panic, reason = "this panic is how the generator unwinds a stack; it catches it")]
pub(crate) fn unwind() -> ! {
    std::panic::panic_any(generator::Error::Cancel)
}
