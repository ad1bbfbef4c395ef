//! Messages between two processes of one user on this machine, each with at most one file
//! descriptor.
//!
//! Invariants: a message arrives whole and with its descriptor, or the channel fails. A process of
//! another user can neither connect to a listener nor stand in for one: both ends check the user
//! that the kernel states (`SO_PEERCRED`, unix(7)).
//!
//! The names of listeners are in the abstract namespace of Linux, so no file is left behind, and
//! the processes need no directory in common.

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
pub struct MessageChannel(UnixStream);

/// Accepts channels under a name.
#[derive(Debug)]
pub struct MessageListener(tokio::net::UnixListener);

/// A message with the descriptor that came with it.
pub type Received = (Vec<u8>, Option<OwnedFd>);

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
    /// The system's error. `ConnectionRefused`: nobody listens. `PermissionDenied`: a process of
    /// another user does.
    pub fn connect(name: &str) -> io::Result<Self> {
        Self::of_own_user(UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?)
    }

    /// Two connected ends.
    ///
    /// # Errors
    /// The system's error, for example if there are no file descriptors left.
    pub fn pair() -> io::Result<(Self, Self)> {
        UnixStream::pair().map(|(one, other)| (Self(one), Self(other)))
    }

    fn of_own_user(stream: UnixStream) -> io::Result<Self> {
        Self::of_user(stream, rustix::process::geteuid())
    }

    fn of_user(stream: UnixStream, user: Uid) -> io::Result<Self> {
        if socket_peercred(&stream)?.uid != user {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
        }
        Ok(Self(stream))
    }

    /// The number of the process at the other end, as the kernel states it.
    ///
    /// # Errors
    /// The system's error.
    pub fn peer_process(&self) -> io::Result<u32> {
        Ok(socket_peercred(&self.0)?.pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// Limits the time of each later call. After a call that took longer the channel is unusable.
    ///
    /// # Errors
    /// If the time is zero, or the system's error.
    pub fn limit_time(&self, time: Duration) -> io::Result<()> {
        self.0.set_read_timeout(Some(time))?;
        self.0.set_write_timeout(Some(time))
    }

    /// Sends a message of at most 1 MiB.
    ///
    /// # Errors
    /// `InvalidInput` if it is longer, or the system's error.
    pub fn send(&self, message: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let length = u32::try_from(message.len()).ok().filter(|_| message.len() <= MESSAGE_BYTES_MAX);
        let header = length.ok_or(io::ErrorKind::InvalidInput)?.to_be_bytes();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptor = descriptor.as_slice();
        if !descriptor.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptor)) {
            return Err(io::Error::other("there is no room for a descriptor"));
        }
        // The descriptor travels with the first byte.
        let sent = sendmsg(&self.0, &[IoSlice::new(&header)], &mut ancillary, SendFlags::NOSIGNAL)?;
        (&self.0).write_all(header.get(sent..).unwrap_or_default())?;
        (&self.0).write_all(message)
    }

    /// Receives the next message. `None`: the other end is closed.
    ///
    /// # Errors
    /// `UnexpectedEof` if the other end closed within a message, `InvalidData` if a message is
    /// longer than 1 MiB, or the system's error.
    pub fn receive(&self) -> io::Result<Option<Received>> {
        let mut header = [0; HEADER_BYTES];
        let (received, descriptor) = self.receive_first(&mut header)?;
        if received == 0 {
            return Ok(None);
        }
        (&self.0).read_exact(header.get_mut(received..).unwrap_or_default())?;
        let bytes = u32::from_be_bytes(header) as usize;
        if bytes > MESSAGE_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut message = vec![0; bytes];
        (&self.0).read_exact(&mut message)?;
        Ok(Some((message, descriptor)))
    }

    /// Reads the beginning of a header, and the descriptor that came with it.
    fn receive_first(&self, header: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(header)];
        let received = recvmsg(&self.0, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let descriptors = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        Ok((received.bytes, descriptors.flatten().next()))
    }
}

impl From<OwnedFd> for MessageChannel {
    /// The channel of a descriptor that arrived with a message.
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor.into())
    }
}

impl AsFd for MessageChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{MESSAGE_BYTES_MAX, MessageChannel, MessageListener};
    use rustix::process::{Uid, geteuid};
    use std::io::{ErrorKind, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn messages_arrive_whole_and_with_their_descriptors() {
        let (one, other) = MessageChannel::pair().unwrap();
        let (passed, kept) = MessageChannel::pair().unwrap();
        one.send(b"", None).unwrap();
        one.send(b"with", Some(passed.as_fd())).unwrap();
        one.send(&[7; 70_000], None).unwrap();
        drop((one, passed));
        assert!(matches!(other.receive().unwrap(), Some((message, None)) if message.is_empty()));
        let (message, descriptor) = other.receive().unwrap().unwrap();
        assert_eq!(message, b"with");
        MessageChannel::from(descriptor.unwrap()).send(b"through it", None).unwrap();
        assert_eq!(kept.receive().unwrap().unwrap().0, b"through it");
        assert_eq!(other.receive().unwrap().unwrap().0, [7; 70_000]);
        assert!(other.receive().unwrap().is_none(), "the end is no error between two messages");
    }

    #[test]
    fn broken_and_excessive_messages_are_errors() {
        let (one, other) = MessageChannel::pair().unwrap();
        let refused = one.send(&vec![0; MESSAGE_BYTES_MAX + 1], None).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        (&one.0).write_all(&[0, 0, 0, 9, 1]).unwrap();
        drop(one);
        assert_eq!(other.receive().unwrap_err().kind(), ErrorKind::UnexpectedEof);
        let (one, other) = MessageChannel::pair().unwrap();
        (&one.0).write_all(&[255; 4]).unwrap();
        assert_eq!(other.receive().unwrap_err().kind(), ErrorKind::InvalidData);
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
