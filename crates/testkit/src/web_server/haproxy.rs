//! HAProxy in front of one server, which forwards connections or requests.

use super::Running;
use crate::HeldPort;
use std::net::SocketAddr;
use std::process::Command;
use tempfile::TempDir;

/// A running HAProxy; it stops when dropped.
pub struct HaProxy {
    _running: Running,
    /// Where it listens.
    pub address: SocketAddr,
    _port: HeldPort,
    _directory: TempDir,
}

impl HaProxy {
    /// Starts HAProxy before `server` in this mode, `tcp` or `http`, and waits until it accepts connections.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(mode: &str, server: SocketAddr) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = HeldPort::take();
        let address = port.address();
        let path = directory.path().join("configuration");
        let configuration = format!(
            "global\nmaxconn 100\ndefaults\nmode {mode}\ntimeout connect 20s\ntimeout client 20s\n\
             timeout server 20s\nlisten front\nbind {address}\nserver edge {server}\n"
        );
        std::fs::write(&path, configuration).unwrap();
        let mut command = Command::new("/usr/sbin/haproxy");
        command.arg("-db").arg("-f").arg(path);
        Self {
            _running: Running::spawn(command, "haproxy", address),
            address,
            _port: port,
            _directory: directory,
        }
    }
}
