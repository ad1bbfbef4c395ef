//! Messages between two processes while one takes over from the other.
//!
//! ```text
//!   new process                                  old process
//!   hello ------------------------------------->
//!         <-- its listening sockets, a channel for durability, and the link for invalidations
//!   (reads certificates, binds what is missing)
//!   release ----------------------------------->
//!         <---------------------------- released (its disk directory is closed)
//!   (opens the directory)
//!   take over --------------------------------->
//!         <--------------------------- taken over (it answers nothing from its store)
//!   (accepts connections)                        (drains)
//! ```
//!
//! Invariant: after *taken over*, the old process answers a write or a purge only after the new one
//! has put its invalidations in force, or does not answer. The new one has put those before in
//! force by then. So it misses none. No disk delays that, because durability has its own channel.

use address::Address;
use net::{BindError, MessageChannel, Passed};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The version of these messages. The old process refuses a new one with another version.
pub(crate) const VERSION: u32 = 2;

/// How long a process waits for the other one. The new process reads a disk directory meanwhile,
/// the old one empties the queue of its disk.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Requests of the new process.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) enum Call {
    /// It wants to take over.
    Hello {
        /// Its [`VERSION`].
        version: u32,
    },
    /// It has read its configuration and needs the disk directory.
    Release,
    /// It is ready to serve.
    TakeOver,
}

/// Replies of the old process.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) enum Reply {
    /// A listening socket, which comes with the message.
    Socket,
    /// The channel for questions whether invalidations are durable, which comes with the message.
    /// It follows the last socket.
    Durability,
    /// The link for invalidations, which comes with the message. It comes last.
    Link,
    /// The disk directory and the static tree are closed.
    Released,
    /// From here on the old process answers no request from its store.
    TakenOver,
    /// It goes on, and the new process must end.
    Refused {
        /// The reason in words.
        why: String,
    },
}

/// The name under which a process can be found by the setting `admin`. `bound` is the address that
/// was bound for it.
///
/// # Errors
/// If its host name has no address.
pub(crate) fn channel_name(admin: &Address, bound: &Address) -> Result<String, BindError> {
    let address = if admin.port() == Some(0) { bound.clone() } else { net::resolve(admin)? };
    Ok(format!("petasos-upgrade {address}"))
}

/// Sends a message, with a descriptor if one belongs to it.
pub(crate) fn send(
    channel: &MessageChannel,
    message: &impl Serialize,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    channel.send(&serde_json::to_vec(message)?, descriptor)
}

/// Sends a message with one end of a channel.
pub(crate) fn pass_on(
    channel: &MessageChannel,
    message: &impl Serialize,
    passed: MessageChannel,
) -> io::Result<()> {
    channel.pass_on(&serde_json::to_vec(message)?, passed)
}

/// The next message of the other process, with what came with it. `None`: it has ended.
pub(crate) fn receive<T: for<'de> Deserialize<'de>>(
    channel: &MessageChannel,
) -> io::Result<Option<(T, Option<Passed>)>> {
    let Some((message, passed)) = channel.receive()? else { return Ok(None) };
    Ok(Some((serde_json::from_slice(&message)?, passed)))
}
