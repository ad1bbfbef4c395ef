//! The configuration of a soak's edge, which reloads change, and the files that it names.
//!
//! Invariant: configurations that differ only in their round differ in settings that a reload can
//! change. All are good, unless a fault is asked for.

use super::application::{SOAK_HOST, octets};
use super::pair::PAIR_HOST;
use super::{DISK_BYTES, MEMORY_BYTES};
use crate::{Authority, HeldPort, KeyKind, Trust};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Files of the directory that a route serves.
pub(super) const FILES: usize = 20;
/// The path of the route whose response is the round.
pub(super) const ROUND_TARGET: &str = "/round";
/// A change of the rules of a site, after which the site begins empty, in one of this many rounds.
const ROUNDS_PER_EMPTYING: u64 = 5;
/// Clients in this network are denied.
pub(super) const DENIED: [u8; 4] = [127, 9, 1, 1];

/// Why the edge must refuse a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConfigurationFault {
    /// A setting that does not exist.
    UnknownSetting,
    /// A change of a setting that a running edge cannot change.
    FixedSetting,
    /// A missing certificate.
    MissingCertificate,
}

/// The files of the edge and their contents.
pub(super) struct SoakConfiguration {
    directory: PathBuf,
    origin: String,
    pair: [String; 2],
    authority: Authority,
    /// Reserves the port of the listener with TLS.
    port: HeldPort,
}

impl SoakConfiguration {
    /// Writes all files into the directory.
    pub(super) fn new(directory: &Path, origin: String, pair: [String; 2]) -> Self {
        let authority = Authority::new("an authority for a soak");
        let own = Self { directory: directory.to_owned(), origin, pair, authority, port: HeldPort::take() };
        for name in ["spool", "files"] {
            std::fs::create_dir(own.path(name)).unwrap();
        }
        for number in 0..FILES {
            let target = format!("/files/{number}.bin");
            std::fs::write(own.directory.join(target.trim_start_matches('/')), octets(&target)).unwrap();
        }
        own.certify();
        own.write(0, None);
        own
    }

    /// The settings of clients that trust the listener with TLS.
    pub(super) fn trust(&self) -> Trust {
        Trust::of(&self.authority.pem())
    }

    /// The address of the listener with TLS.
    pub(super) fn secured(&self) -> SocketAddr {
        self.port.address()
    }

    /// The configuration file.
    pub(super) fn file(&self) -> PathBuf {
        self.directory.join("petasos.toml")
    }

    /// Replaces the certificate. Certificate and key are in one file, so that no reader sees one
    /// without the other.
    pub(super) fn certify(&self) {
        let names = ["a.test", "b.test", SOAK_HOST, PAIR_HOST];
        let files = self.authority.issue(&names, KeyKind::Ecdsa, (2000, 2100));
        self.replace("site.pem", &(files.certificate + &files.key));
    }

    /// Replaces the configuration.
    pub(super) fn write(&self, round: u64, fault: Option<ConfigurationFault>) {
        self.replace("petasos.toml", &self.text(round, fault));
    }

    fn replace(&self, name: &str, text: &str) {
        let new = self.directory.join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.directory.join(name)).unwrap();
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    // All visitors but those of the guards share one address, and some write more often than an
    // editor, so the limits for these are raised. The limit for the disk is raised too, because
    // other programs may slow the disk down. The site with two origins never changes, because a
    // changed site loses the record of its failing origins.
    fn text(&self, round: u64, fault: Option<ConfigurationFault>) -> String {
        let unknown = if fault == Some(ConfigurationFault::UnknownSetting) { "no_setting = 1\n" } else { "" };
        let workers = if fault == Some(ConfigurationFault::FixedSetting) { 3 } else { 2 };
        let certificate = if fault == Some(ConfigurationFault::MissingCertificate) { "none" } else { "site" };
        let [disk, spool, log, files, certificate] =
            ["disk", "spool", "access.log", "files", &format!("{certificate}.pem")]
                .map(|name| self.path(name));
        let [origin, first, second] = [&self.origin, &self.pair[0], &self.pair[1]];
        let secured = self.secured();
        let emptied = round / ROUNDS_PER_EMPTYING;
        let [hsts, queue, refills] = [100 + round, 512 + round, 5 + round % 5];
        let is_refilling = round.is_multiple_of(3);
        let denied = DENIED.map(|part| part.to_string()).join(".");
        format!(
            "{unknown}workers = {workers}\nmemory = '{MEMORY_BYTES}B'\ndisk = '{disk}'\n\
             disk_size = '{DISK_BYTES}B'\nspool_directory = '{spool}'\naccess_log = '{log}'\n\
             access_log_format = 'json'\npurge_peers = ['127.0.0.1']\n\n\
             [limits]\nobject_bytes_max = '64KiB'\nclient_fetches_max = 64\n\
             page_writes_per_minute = 1000000\nbuffer_memory_percent = 2\ndisk_timeout = '1m'\n\
             idle_connection_timeout = '1s'\nrequest_head_timeout = '1m'\n\n\
             [guard]\nallow = ['127.0.0.1']\ndeny = ['{denied}']\nrequests_per_second = 40\n\
             requests_burst = 60\norigin_requests_per_second = 10\norigin_burst = 20\nban = '2s'\n\n\
             [refill]\nenabled = {is_refilling}\nrate = {refills}\n\n\
             [[listener]]\nlisten = '127.0.0.1:0'\nhttp2_cleartext = true\n\n\
             [[listener]]\nlisten = '{secured}'\ntls = ['{certificate}']\n\n\
             [[site]]\nnames = ['a.test', 'b.test', '{SOAK_HOST}']\norigin = '{origin}'\n\
             profile = 'default'\nhsts = '{hsts}s'\nnoise_fields = ['X-Noise-{emptied}']\n\
             unknown_parameters_per_minute = 2\nlimits.client_queue_max = {queue}\n\n\
             [[site.route]]\npath = ['{ROUND_TARGET}']\nanswer = {{ status = 200, content = '{round}' }}\n\n\
             [[site.route]]\npath = ['/files/*']\nfiles = '{files}'\nfiles_strip = '/files'\n\n\
             [[site]]\nnames = ['{PAIR_HOST}']\norigin = ['{first}', '{second}']\nprofile = 'default'\n\
             origin_check = '/healthz'\norigin_check_interval = '1s'\n\n\
             [[site]]\nnames = ['round-{round}.test']\nanswer = {{ status = 200 }}\n"
        )
    }
}
