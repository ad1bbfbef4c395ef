//! A socket that receives each line of the access log as a datagram: of a syslog daemon, or of the
//! journal.
//!
//! Invariant: only the thread of the log waits for the socket. A receiver that was restarted is
//! found again by the next line.

use crate::control::log_output::Unwritten;
use address::Address;
use net::{Datagrams, Network};
use std::io;
use std::sync::Arc;

/// A receiver of datagrams.
pub(crate) struct LogSocket {
    address: Address,
    network: Arc<dyn Network>,
    /// `None` before the first line, and after a failure.
    open: Option<Box<dyn Datagrams>>,
}

impl LogSocket {
    /// Opens nothing yet: a receiver may start after this process.
    pub(crate) fn new(address: Address, network: Arc<dyn Network>) -> Self {
        Self { address, network, open: None }
    }

    /// Closes the socket. The next line opens it again.
    pub(crate) fn close(&mut self) {
        self.open = None;
    }

    /// Sends the lines of a batch, which end at `ends`. After a line that cannot be sent even on a
    /// new socket, the rest is not tried. A line that is too long for a datagram is left out.
    pub(crate) fn send_all(&mut self, batch: &[u8], ends: &[usize]) -> Result<(), Unwritten> {
        let (mut begin, mut unsent, mut fault) = (0, 0, None);
        for (index, &end) in ends.iter().enumerate() {
            let line = batch.get(begin..end).unwrap_or_default();
            begin = end;
            let Err(error) = self.send(line).or_else(|error| self.send_again(line, error)) else { continue };
            let is_long = is_too_long(&error);
            unsent += if is_long { 1 } else { ends.len() - index };
            fault = Some(error);
            if !is_long {
                break;
            }
        }
        fault.map_or(Ok(()), |error| Err(Unwritten { lines: Some(unsent), error }))
    }

    fn send(&mut self, line: &[u8]) -> io::Result<()> {
        let socket = match &self.open {
            Some(socket) => socket,
            None => self.open.insert(self.network.datagrams(&self.address)?),
        };
        socket.send(line)
    }

    /// Sends a line on a new socket, because the receiver may have been restarted.
    fn send_again(&mut self, line: &[u8], error: io::Error) -> io::Result<()> {
        let is_slow = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        if is_too_long(&error) || is_slow || self.open.take().is_none() {
            return Err(error);
        }
        self.send(line)
    }
}

/// Whether a line is longer than a datagram may be.
fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::LogSocket;
    use address::Address;
    use net::SystemNetwork;
    use std::os::unix::net::UnixDatagram;
    use std::path::Path;
    use std::sync::Arc;

    fn socket(path: &Path) -> LogSocket {
        LogSocket::new(Address::Unix(path.to_owned()), Arc::new(SystemNetwork))
    }

    fn sent(socket: &mut LogSocket, lines: &[&[u8]]) -> Result<(), Option<usize>> {
        let batch = lines.concat();
        let ends = lines.iter().scan(0, |end, line| {
            *end += line.len();
            Some(*end)
        });
        socket.send_all(&batch, &ends.collect::<Vec<_>>()).map_err(|unwritten| unwritten.lines)
    }

    fn next(receiver: &UnixDatagram) -> Vec<u8> {
        let mut octets = vec![0; 1024];
        let length = receiver.recv(&mut octets).unwrap();
        octets.truncate(length);
        octets
    }

    #[test]
    fn each_line_is_a_datagram_also_after_a_restart_of_the_receiver() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut socket = socket(&path);
        assert_eq!(sent(&mut socket, &[b"one", b"two"]), Err(Some(2)), "there is no receiver");
        let receiver = UnixDatagram::bind(&path).unwrap();
        assert_eq!(sent(&mut socket, &[b"three", b"four"]), Ok(()));
        assert_eq!((next(&receiver), next(&receiver)), (b"three".to_vec(), b"four".to_vec()));
        drop(receiver);
        std::fs::remove_file(&path).unwrap();
        let receiver = UnixDatagram::bind(&path).unwrap();
        assert_eq!(sent(&mut socket, &[b"five"]), Ok(()));
        assert_eq!(next(&receiver), b"five");
    }

    #[test]
    fn line_that_is_too_long_is_left_out_and_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let receiver = UnixDatagram::bind(&path).unwrap();
        let mut socket = socket(&path);
        let long = vec![b'x'; 8 << 20];
        assert_eq!(sent(&mut socket, &[&long, b"short"]), Err(Some(1)));
        assert_eq!(next(&receiver), b"short");
    }
}
