//! Adopting configurations as Debian, certbot and operators write them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]

mod apache;
mod memory;
mod nginx;
