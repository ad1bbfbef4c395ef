//! The actors against each other, without an edge: a visitor that talks to the origin directly sees
//! no violation, and each fault gives what it says.

mod direct;
mod editing;
mod faults;
mod power;
mod purging;
mod town;
mod toy;
