//! HAProxy as a reverse proxy in front of one server.

use super::ServerProcess;
use crate::HeldPort;
use std::net::SocketAddr;
use std::process::Command;
use tempfile::TempDir;

/// A running HAProxy. It is killed when this is dropped.
pub struct HaProxy {
    _running: ServerProcess,
    /// The address where it listens.
    pub address: SocketAddr,
    _port: HeldPort,
    _directory: TempDir,
}

impl HaProxy {
    /// Starts HAProxy in front of `server`, and waits until it accepts connections. `mode` is `tcp`
    /// (forwards connections) or `http` (forwards requests).
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
            _running: ServerProcess::spawn(command, "haproxy", address),
            address,
            _port: port,
            _directory: directory,
        }
    }
}
