//! Messages between two processes of one user on this machine, each with at most one file
//! descriptor. In a simulation both ends are in one process, and pass on channels only.
//!
//! Invariants: a message arrives whole and with its descriptor, or the channel fails. A process of
//! another user can neither connect to a listener nor impersonate one: both ends check the user
//! that the kernel states (`SO_PEERCRED`, unix(7)).
//!
//! The names of listeners are in the abstract namespace of Linux, so no file is left behind, and
//! the processes need no directory in common.

use crate::memory_channel::MemoryChannel;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::Uid;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// Maximum length of a message in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Length in bytes of the header, which states the length of its message.
const HEADER_BYTES: usize = 4;

/// One end of a connection that carries messages. Its calls block.
#[derive(Debug)]
pub struct MessageChannel(Transport);

#[derive(Debug)]
enum Transport {
    Socket(UnixStream),
    Memory(MemoryChannel),
}

/// Accepts channels under a name.
#[derive(Debug)]
pub struct MessageListener(tokio::net::UnixListener);

/// The attachments of a message.
#[derive(Debug)]
pub enum Passed {
    /// A descriptor of a socket.
    Descriptor(OwnedFd),
    /// A channel of a simulation, which has no descriptor.
    Channel(MessageChannel),
}

/// A message with the descriptor or channel that came with it.
pub type Received = (Vec<u8>, Option<Passed>);

impl MessageListener {
    /// Listens under this name, within the context of a tokio runtime.
    ///
    /// # Errors
    /// The system's error, for example if another process listens under the name.
    pub fn bind(name: &str) -> io::Result<Self> {
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
        listener.set_nonblocking(true)?;
        tokio::net::UnixListener::from_std(listener).map(Self)
    }

    /// Waits for the next channel to a process of the same user. Others are refused.
    ///
    /// # Errors
    /// The system's error, for example if there are no file descriptors left.
    pub async fn accept(&self) -> io::Result<MessageChannel> {
        loop {
            let stream = self.0.accept().await?.0.into_std()?;
            stream.set_nonblocking(false)?;
            if let Ok(channel) = MessageChannel::of_own_user(stream) {
                return Ok(channel);
            }
        }
    }
}

impl MessageChannel {
    /// Connects to the listener with this name.
    ///
    /// # Errors
    /// The system's error. `ConnectionRefused`: no process listens. `PermissionDenied`: a process
    /// of another user does.
    pub fn connect(name: &str) -> io::Result<Self> {
        Self::of_own_user(UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?)
    }

    /// Two connected ends.
    ///
    /// # Errors
    /// The system's error, for example if there are no file descriptors left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let socket = |stream| Self(Transport::Socket(stream));
        UnixStream::pair().map(|(one, other)| (socket(one), socket(other)))
    }

    /// Two connected ends within one process, for simulations.
    pub fn simulated_pair() -> (Self, Self) {
        let (one, other) = MemoryChannel::pair();
        (Self(Transport::Memory(one)), Self(Transport::Memory(other)))
    }

    /// Two connected ends; this channel can pass on one of them.
    ///
    /// # Errors
    /// As [`MessageChannel::pair`].
    pub fn pair_to_pass_on(&self) -> io::Result<(Self, Self)> {
        match &self.0 {
            Transport::Socket(_) => Self::pair(),
            Transport::Memory(_) => Ok(Self::simulated_pair()),
        }
    }

    fn of_own_user(stream: UnixStream) -> io::Result<Self> {
        Self::of_user(stream, rustix::process::geteuid())
    }

    fn of_user(stream: UnixStream, user: Uid) -> io::Result<Self> {
        if socket_peercred(&stream)?.uid != user {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
        }
        Ok(Self(Transport::Socket(stream)))
    }

    fn socket(&self) -> io::Result<&UnixStream> {
        match &self.0 {
            Transport::Socket(socket) => Ok(socket),
            Transport::Memory(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The number of the process at the other end, as the kernel states it.
    ///
    /// # Errors
    /// The system's error. `Unsupported` in a simulation.
    pub fn peer_process(&self) -> io::Result<u32> {
        Ok(socket_peercred(self.socket()?)?.pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// Limits the time of each later call. After a call that took longer the channel is unusable.
    ///
    /// # Errors
    /// If the time is zero, or the system's error.
    pub fn limit_time(&self, time: Duration) -> io::Result<()> {
        match &self.0 {
            Transport::Socket(socket) => {
                socket.set_read_timeout(Some(time))?;
                socket.set_write_timeout(Some(time))
            }
            Transport::Memory(channel) => {
                channel.limit_time(time);
                Ok(())
            }
        }
    }

    /// Sends a message of at most 1 MiB.
    ///
    /// # Errors
    /// `InvalidInput` if it is longer, or the system's error. `Unsupported` for a descriptor in a
    /// simulation.
    pub fn send(&self, message: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        match (&self.0, descriptor) {
            (Transport::Socket(socket), _) => send_at(socket, message, descriptor),
            (Transport::Memory(channel), None) => channel.send(message, None),
            (Transport::Memory(_), Some(_)) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Sends a message with a channel of [`MessageChannel::pair_to_pass_on`], which is closed here.
    ///
    /// # Errors
    /// As [`MessageChannel::send`].
    pub fn pass_on(&self, message: &[u8], passed: Self) -> io::Result<()> {
        match &self.0 {
            Transport::Socket(socket) => send_at(socket, message, Some(passed.socket()?.as_fd())),
            Transport::Memory(channel) => channel.send(message, Some(passed)),
        }
    }

    /// Receives the next message. `None`: the other end is closed.
    ///
    /// # Errors
    /// `UnexpectedEof` if the other end closed within a message, `InvalidData` if a message is
    /// longer than 1 MiB, or the system's error.
    pub fn receive(&self) -> io::Result<Option<Received>> {
        match &self.0 {
            Transport::Socket(socket) => receive_at(socket),
            Transport::Memory(channel) => channel.receive(),
        }
    }
}

impl Passed {
    /// The channel that came with a message.
    pub fn into_channel(self) -> MessageChannel {
        match self {
            Self::Descriptor(descriptor) => MessageChannel(Transport::Socket(descriptor.into())),
            Self::Channel(channel) => channel,
        }
    }
}

/// Sends a message through a socket, with a descriptor if there is one.
fn send_at(mut socket: &UnixStream, message: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let length = u32::try_from(message.len()).ok().filter(|_| message.len() <= MESSAGE_BYTES_MAX);
    let header = length.ok_or(io::ErrorKind::InvalidInput)?.to_be_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptor = descriptor.as_slice();
    if !descriptor.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptor)) {
        return Err(io::Error::other("there is no room for a descriptor"));
    }
    // The descriptor travels with the first byte.
    let sent = sendmsg(socket, &[IoSlice::new(&header)], &mut ancillary, SendFlags::NOSIGNAL)?;
    socket.write_all(header.get(sent..).unwrap_or_default())?;
    socket.write_all(message)
}

/// Receives the next message of a socket. `None`: its other end is closed.
fn receive_at(mut socket: &UnixStream) -> io::Result<Option<Received>> {
    let mut header = [0; HEADER_BYTES];
    let (received, descriptor) = receive_first(socket, &mut header)?;
    if received == 0 {
        return Ok(None);
    }
    socket.read_exact(header.get_mut(received..).unwrap_or_default())?;
    let bytes = u32::from_be_bytes(header) as usize;
    if bytes > MESSAGE_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = vec![0; bytes];
    socket.read_exact(&mut message)?;
    Ok(Some((message, descriptor.map(Passed::Descriptor))))
}

/// Reads the beginning of a header, and the descriptor that came with it.
fn receive_first(socket: &UnixStream, header: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(header)];
    let received = recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((received.bytes, descriptors.flatten().next()))
}

#[cfg(test)]
mod tests {
    use super::{MESSAGE_BYTES_MAX, MessageChannel, MessageListener};
    use rustix::process::{Uid, geteuid};
    use std::io::{ErrorKind, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn messages_arrive_whole_and_with_their_descriptors() {
        let (one, other) = MessageChannel::pair().unwrap();
        let (passed, kept) = MessageChannel::pair().unwrap();
        one.send(b"", None).unwrap();
        one.pass_on(b"with", passed).unwrap();
        one.send(&[7; 70_000], None).unwrap();
        drop(one);
        assert!(matches!(other.receive().unwrap(), Some((message, None)) if message.is_empty()));
        let (message, passed) = other.receive().unwrap().unwrap();
        assert_eq!(message, b"with");
        passed.unwrap().into_channel().send(b"through it", None).unwrap();
        assert_eq!(kept.receive().unwrap().unwrap().0, b"through it");
        assert_eq!(other.receive().unwrap().unwrap().0, [7; 70_000]);
        assert!(other.receive().unwrap().is_none(), "the end is no error between two messages");
    }

    #[test]
    fn broken_and_excessive_messages_are_errors() {
        let (one, other) = MessageChannel::pair().unwrap();
        let refused = one.send(&vec![0; MESSAGE_BYTES_MAX + 1], None).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        one.socket().unwrap().write_all(&[0, 0, 0, 9, 1]).unwrap();
        drop(one);
        assert_eq!(other.receive().unwrap_err().kind(), ErrorKind::UnexpectedEof);
        let (one, other) = MessageChannel::pair().unwrap();
        one.socket().unwrap().write_all(&[255; 4]).unwrap();
        assert_eq!(other.receive().unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn simulated_channel_passes_on_channels_in_order() {
        let (one, other) = MessageChannel::simulated_pair();
        one.limit_time(Duration::from_millis(1)).unwrap();
        assert_eq!(one.receive().unwrap_err().kind(), ErrorKind::WouldBlock);
        let (passed, kept) = one.pair_to_pass_on().unwrap();
        one.send(b"first", None).unwrap();
        one.pass_on(b"with", passed).unwrap();
        assert_eq!(
            one.send(b"", Some(std::io::stdout().as_fd())).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        drop(one);
        assert!(matches!(other.receive().unwrap(), Some((message, None)) if message == b"first"));
        let (_, passed) = other.receive().unwrap().unwrap();
        assert!(other.receive().unwrap().is_none() && other.send(b"", None).is_err());
        let passed = passed.unwrap().into_channel();
        passed.send(b"through it", None).unwrap();
        assert_eq!(kept.receive().unwrap().unwrap().0, b"through it");
        kept.send(b"unread", None).unwrap();
        drop(passed);
        assert!(kept.receive().unwrap().is_none());
    }

    #[test]
    fn process_of_another_user_is_refused() {
        let (one, _other) = UnixStream::pair().unwrap();
        let another = Uid::from_raw(geteuid().as_raw() + 1);
        assert_eq!(MessageChannel::of_user(one, another).unwrap_err().kind(), ErrorKind::PermissionDenied);
    }

    #[tokio::test]
    async fn listener_is_found_by_its_name_until_it_ends() {
        let name = format!("petasos-test-{}", std::process::id());
        let connect = || MessageChannel::connect(&name);
        assert_eq!(connect().unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let listener = MessageListener::bind(&name).unwrap();
        assert_eq!(MessageListener::bind(&name).unwrap_err().kind(), ErrorKind::AddrInUse);
        let client = connect().unwrap();
        let server = listener.accept().await.unwrap();
        assert_eq!(server.peer_process().unwrap(), std::process::id());
        client.send(b"hello", None).unwrap();
        assert_eq!(server.receive().unwrap().unwrap().0, b"hello");
        drop(listener);
        assert_eq!(connect().unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
}
