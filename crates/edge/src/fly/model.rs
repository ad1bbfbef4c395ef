//! Models of flights, the publish step, invalidations and the memory of pages in vain: each scenario is played through
//! in thousands of orders in which its threads could come, and its rules must hold in every one of them.
//!
//! What is played is the product's own: the table of flights, the task of a flight from its answer to its end, bodies
//! that fill, the store, invalidation, keys. What stands in for something is small: an origin that is a script, and
//! visitors who look up, join and wait as `pipeline` and `wait` do, but read without a connection. The channel on which
//! flights announce is tokio's, which has models of its own; here its operations are one step each.
//!
//! A failing order is printed by the checker with how to play it again.
//!
//! ```text
//!   scenarios: what happens at once, and what must hold of it
//!     visitor: asks, waits, reads
//!       world: the edge, its origin, writes, and an account of them
//! ```

mod scenarios;
mod visitor;
mod world;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use std::sync::Arc;
use world::World;

/// Orders in which a scenario is played by each of the two schedulers.
const ORDERS: usize = 2_000;
/// Switches of threads that the second scheduler places with intent (Burckhardt et al. 2010).
const SWITCHES: usize = 3;
/// Where the draws of both schedulers begin.
const SEED: u64 = 20_260_720;
/// Octets of stack for a thread in a model.
const STACK_BYTES: usize = 1 << 20;

/// Plays a scenario and waits for the end of what it began.
fn explore(name: &str, scenario: impl Fn() -> Arc<World> + Send + Sync + 'static) {
    let scenario = Arc::new(scenario);
    let play = |scheduler: Box<dyn Scheduler + Send>| {
        let mut config = shuttle::Config::new();
        config.stack_size = STACK_BYTES;
        // All orderings are taken for the strongest, as the checker would say each time.
        config.silence_warnings = true;
        let scenario = Arc::clone(&scenario);
        shuttle::Runner::new(scheduler, config).run(move || scenario().settle())
    };
    let played = play(Box::new(RandomScheduler::new_from_seed(SEED, ORDERS)))
        + play(Box::new(PctScheduler::new_from_seed(SEED, SWITCHES, ORDERS)));
    println!("model: {name}: {played} orders played");
    assert_eq!(played, 2 * ORDERS, "{name}");
}
