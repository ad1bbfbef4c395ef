//! Made-up histories, right and wrong, that the oracle must tell apart.

mod assembled;
mod conduct;
mod contents;
mod handovers;
mod history;
mod purges;
mod reloads;
mod routes;
