//! Models of fetches, the publish step, invalidations and the hit-for-miss table. Each scenario is
//! run under thousands of thread schedules, and its rules must hold in every one of them.
//!
//! The models run the product's own code: fetches from their response to their end, the fetch
//! table, filling bodies, the store, invalidation and keys. Few parts are replaced. The origin is a
//! script. Visitors look up, join and wait as `pipeline` and `wait` do, but read without a
//! connection. The channel on which fetches announce their state is tokio's, which has models
//! itself; here each of its operations is one step.
//!
//! When a schedule fails, the checker prints it and how to replay it.
//!
//! ```text
//!   scenarios: the concurrent actions, and the rules that must hold
//!     visitor: requests, waits, reads
//!       world: the edge, its origin, writes, and the expected results
//! ```

mod scenarios;
mod visitor;
mod world;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use std::sync::Arc;
use world::ModelWorld;

/// Number of schedules per scenario for each of the two schedulers.
const ORDERS: usize = 2_000;
/// Number of context switches that the second scheduler places deliberately (Burckhardt et al.
/// 2010).
const SWITCHES: usize = 3;
/// Seed of both schedulers.
const SEED: u64 = 20_260_720;
/// Stack size of a thread in a model, in bytes.
const STACK_BYTES: usize = 1 << 20;

/// Runs a scenario under all schedules, and waits for the end of everything that it started.
#[allow(clippy::print_stdout, reason = "the number of schedules is the figure of the model")]
fn explore(name: &str, scenario: impl Fn() -> Arc<ModelWorld> + Send + Sync + 'static) {
    let scenario = Arc::new(scenario);
    let play = |scheduler: Box<dyn Scheduler + Send>| {
        let mut config = shuttle::Config::new();
        config.stack_size = STACK_BYTES;
        // The checker treats all atomic orderings as sequentially consistent, and would warn about
        // that each time.
        config.silence_warnings = true;
        let scenario = Arc::clone(&scenario);
        shuttle::Runner::new(scheduler, config).run(move || scenario().settle())
    };
    let played = play(Box::new(RandomScheduler::new_from_seed(SEED, ORDERS)))
        + play(Box::new(PctScheduler::new_from_seed(SEED, SWITCHES, ORDERS)));
    println!("model: {name}: {played} orders played");
    assert_eq!(played, 2 * ORDERS, "{name}");
}
