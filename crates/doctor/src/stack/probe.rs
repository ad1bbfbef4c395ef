//! Asks the running programs of the machine.
//!
//! Invariant: nothing changes. The web server gets a few GET requests, the database a few SHOW
//! statements and one sum, and only if it asks for no password.

use super::facts::{
    FileFact, Lifetime, LiveDatabaseFact, ObjectServerFact, WebFact, WorkerMemoryFact, WorkersFact,
};
use crate::facts::ReachFact;
use crate::probe::{in_time, reach};
use address::{Address, HttpUrl};
use bytes::Bytes;
use message::{Fields, names};
use net::TlsClient;
use page::{Loading, Memo, decoded};
use platform::SystemClock;
use resource::{PageLimits, ResourceClass};
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use why::{FetchedResponse, Fetcher, ProbeError, plain_request};

/// Files of the page that are requested.
const FILES_MAX: usize = 6;
/// The content codings of current browsers.
const BROWSER_CODINGS: &str = "gzip, deflate, br, zstd";
/// Longest lifetime in seconds; longer lifetimes count as this one.
const LIFETIME_SECS_MAX: u64 = 31_536_000;

/// The statements for a database server. None of them changes anything.
const STATEMENTS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name = 'innodb_buffer_pool_size';
    SHOW GLOBAL STATUS WHERE Variable_name IN
    ('Innodb_buffer_pool_reads', 'Innodb_buffer_pool_read_requests');
    SELECT 'data', SUM(DATA_LENGTH + INDEX_LENGTH) FROM information_schema.TABLES WHERE ENGINE = 'InnoDB'";

/// Makes MariaDB itself end a statement after this many seconds. MySQL has no such variable.
const STATEMENT_LIMIT: &str = "SET SESSION max_statement_time = 2;";

/// Addresses of servers for objects: Debian's, and the usual one.
const OBJECT_SERVERS: [(&str, &str); 4] = [
    ("Redis", "unix:/run/redis/redis-server.sock"),
    ("Redis", "127.0.0.1:6379"),
    ("memcached", "unix:/run/memcached/memcached.sock"),
    ("memcached", "127.0.0.1:11211"),
];

/// The workers of a pool of PHP-FPM that run now.
pub(super) fn php_workers(version: &str, pool: &str) -> Option<WorkersFact> {
    let (name, title) = (format!("php-fpm{version}"), format!("php-fpm: pool {pool}"));
    let entries = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let of_php = entries.filter(|entry| {
        fs::read_to_string(entry.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
            && fs::read(entry.path().join("cmdline")).is_ok_and(|found| is_title(&found, &title))
    });
    let sizes: Vec<_> = of_php
        .map(|entry| worker_memory(&fs::read_to_string(entry.path().join("smaps_rollup")).ok()?))
        .collect();
    let count = u64::try_from(sizes.len()).unwrap_or(u64::MAX);
    (count > 0).then(|| WorkersFact { count, largest: sizes.into_iter().flatten().max() })
}

/// Whether a process has this title, which zeros follow.
fn is_title(found: &[u8], title: &str) -> bool {
    found.split(|byte| *byte == 0).next() == Some(title.as_bytes())
}

/// The memory of a process by its file `smaps_rollup`, which only root may read of other users. The
/// resident memory alone would count the opcode cache once for each worker.
fn worker_memory(rollup: &str) -> Option<WorkerMemoryFact> {
    let bytes = |key: &str| {
        let line = rollup.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    };
    let private = bytes("Private_Clean:")?.checked_add(bytes("Private_Dirty:")?)?;
    Some(WorkerMemoryFact { private, shared: bytes("Rss:")?.saturating_sub(private) })
}

/// Redis and memcached at their usual addresses.
pub(super) fn object_servers() -> Vec<ObjectServerFact> {
    let reached = |address: &str| match address.parse::<Address>() {
        // A socket that does not exist is not waited for.
        Ok(Address::Unix(path)) if !path.exists() => false,
        Ok(address) => matches!(reach(&address), ReachFact::Reached(_)),
        Err(_) => false,
    };
    let at = |wanted: &str| {
        let mut own = OBJECT_SERVERS.iter().filter(|(name, _)| *name == wanted);
        own.find(|(_, address)| reached(address)).map(|(_, address)| (*address).to_owned())
    };
    ["Redis", "memcached"].map(|name| ObjectServerFact { name, address: at(name) }).into()
}

/// The statements of the database server at a socket without a password.
pub(super) fn database(socket: &Path) -> Option<LiveDatabaseFact> {
    if !socket.exists() {
        return None;
    }
    let socket = format!("--socket={}", socket.display());
    let run = |client: &str, limit: &str| {
        let mut command = Command::new(client);
        command.args(["--no-defaults", "--skip-password", "--batch", "--skip-column-names", &socket]);
        output_in_time(command.args(["--execute", &format!("{limit}{STATEMENTS}")]))
    };
    Some(live(&run("mariadb", STATEMENT_LIMIT).or_else(|| run("mysql", ""))?))
}

/// The output of a program. `None` if it fails or is not done in time, when it is killed.
fn output_in_time(command: &mut Command) -> Option<String> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let output = child.stdout.take().and_then(|mut stdout| {
        in_time(move || {
            let mut bytes = Vec::new();
            stdout.read_to_end(&mut bytes).map(|_| bytes).ok()
        })?
    });
    if output.is_none() {
        // It may have ended by itself in this moment.
        let _ = child.kill();
    }
    let is_good = child.wait().is_ok_and(|status| status.success());
    output.filter(|_| is_good).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads the client's table of names and values.
fn live(text: &str) -> LiveDatabaseFact {
    let value = |name: &str| {
        let of = |line: &str| {
            let (key, value) = line.split_once('\t')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().parse().ok())?
        };
        text.lines().find_map(of)
    };
    LiveDatabaseFact {
        buffer_bytes: value("innodb_buffer_pool_size"),
        data_bytes: value("data"),
        disk_reads: value("innodb_buffer_pool_reads"),
        requests: value("innodb_buffer_pool_read_requests"),
    }
}

/// Requests a page and some of its files.
///
/// # Errors
/// If there is no response.
pub(super) async fn web(url: &HttpUrl) -> Result<WebFact, ProbeError> {
    // A certificate says nothing about the layers, and an address of this machine has none.
    let tls = if url.is_https() { Some(TlsClient::insecure()?) } else { None };
    let fetcher = Fetcher { tls, clock: Arc::new(SystemClock::new()) };
    let response = fetch(&fetcher, url).await?;
    let mut files = Vec::new();
    for file in files_of(url, &response) {
        if let Ok(response) = fetch(&fetcher, &file).await {
            // A file that does not exist has no lifetime, and it is another fault.
            if response.head.status.code() == 200 {
                files.push(file_fact(&file, &response));
            }
        }
    }
    let fields = &response.head.fields;
    let said = |name: &str| fields.first(name).map(|value| String::from_utf8_lossy(value).into_owned());
    let closes = fields.list(names::CONNECTION).any(|option| option.eq_ignore_ascii_case(b"close"));
    Ok(WebFact {
        url: url.as_str().to_owned(),
        status: response.head.status.code(),
        server: said("Server").unwrap_or_default(),
        location: said("Location"),
        page: file_fact(url, &response),
        is_kept: !closes && response.head.version == message::Version::Http11,
        files,
    })
}

/// A request like that of a browser, which keeps the connection.
async fn fetch(fetcher: &Fetcher, url: &HttpUrl) -> Result<FetchedResponse, ProbeError> {
    let mut request = plain_request(url, &[]);
    request.fields.remove(names::CONNECTION);
    request.fields.set(names::ACCEPT_ENCODING, BROWSER_CODINGS);
    fetcher.fetch(url, request, b"").await
}

/// The first stylesheets, scripts, fonts and pictures of a page on its own host.
fn files_of(url: &HttpUrl, response: &FetchedResponse) -> Vec<HttpUrl> {
    let (limits, fields) = (PageLimits::DEFAULT, &response.head.fields);
    let is_html = fields.first(names::CONTENT_TYPE).is_some_and(|kind| kind.starts_with(b"text/html"));
    let content: Option<Bytes> = decoded(fields, &response.content, limits.decoded_bytes_max).ok();
    let Some(content) = content.filter(|_| is_html) else { return Vec::new() };
    let page = Loading::page(url.clone().into_url());
    let mut loading = Loading::new(limits);
    let wanted = loading.document(&mut Memo::default(), &page, &page.url, fields, &content);
    let is_static = |class| !matches!(class, ResourceClass::Document);
    let urls =
        wanted.iter().filter(|file| is_static(file.class)).map(|file| HttpUrl::parse(file.url.as_str()));
    let own = urls.filter_map(Result::ok).filter(|file| file.authority() == url.authority());
    own.take(FILES_MAX).collect()
}

fn file_fact(url: &HttpUrl, response: &FetchedResponse) -> FileFact {
    let fields = &response.head.fields;
    let kind = fields.first(names::CONTENT_TYPE).map_or_else(Vec::new, |kind| kind.to_ascii_lowercase());
    let is_text = kind.starts_with(b"text/")
        || [&b"javascript"[..], b"json", b"xml"]
            .iter()
            .any(|word| memchr::memmem::find(&kind, word).is_some());
    FileFact {
        path: url.path_and_query().to_owned(),
        is_text,
        coding: response.content_coding().map(|coding| String::from_utf8_lossy(coding).into_owned()),
        bytes: u64::try_from(response.content.len()).unwrap_or(u64::MAX),
        lifetime: lifetime(fields),
    }
}

/// The lifetime that a response states for browsers.
fn lifetime(fields: &Fields) -> Lifetime {
    let directives: Vec<_> = fields
        .list(names::CACHE_CONTROL)
        .map(|part| String::from_utf8_lossy(part).to_ascii_lowercase())
        .collect();
    if directives.iter().any(|directive| directive == "no-store" || directive == "no-cache") {
        return Lifetime::Secs(0);
    }
    let age = directives
        .iter()
        .find_map(|directive| directive.strip_prefix("max-age=")?.trim_matches('"').parse().ok());
    match (age, fields.first("Expires")) {
        (Some(secs), _) => Lifetime::Secs(secs),
        // nginx and Apache send both, so the exact length does not matter.
        (None, Some(date)) if Some(date) != fields.first("Date") && date.len() > 2 => {
            Lifetime::Secs(LIFETIME_SECS_MAX)
        }
        (None, Some(_)) => Lifetime::Secs(0),
        (None, None) => Lifetime::Unstated,
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Lifetime, LiveDatabaseFact, WorkerMemoryFact, is_title, lifetime, live, output_in_time, worker_memory,
    };
    use message::Fields;
    use std::process::Command;

    #[test]
    fn titles_of_other_pools_are_told_apart() {
        assert!(is_title(b"php-fpm: pool www\0\0\0", "php-fpm: pool www"));
        assert!(!is_title(b"php-fpm: pool www2\0", "php-fpm: pool www"));
        assert!(!is_title(b"", "php-fpm: pool www"));
    }

    #[test]
    fn memory_of_a_worker_is_told_apart_from_the_shared() {
        let rollup = "7f-7f ---p 00000000 00:00 0 [rollup]\nRss: 200 kB\nPss: 90 kB\nShared_Clean: 50 kB\n\
                      Shared_Dirty: 120 kB\nPrivate_Clean: 10 kB\nPrivate_Dirty: 20 kB\n";
        let expected = WorkerMemoryFact { private: 30 << 10, shared: 170 << 10 };
        assert_eq!(worker_memory(rollup), Some(expected));
        assert_eq!(worker_memory("Rss: 200 kB\n"), None);
    }

    #[test]
    fn program_that_does_not_end_is_killed() {
        let mut good = Command::new("sh");
        assert_eq!(output_in_time(good.args(["-c", "echo 1"])).as_deref(), Some("1\n"));
        let mut bad = Command::new("sh");
        assert_eq!(output_in_time(bad.args(["-c", "echo 1; exit 1"])), None);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        let mut endless = Command::new("sh");
        endless.args(["-c", &format!("echo $$ >{}; exec sleep 600", path.display())]);
        assert_eq!(output_in_time(&mut endless), None);
        let pid = std::fs::read_to_string(path).unwrap();
        assert!(!std::path::Path::new("/proc").join(pid.trim()).exists(), "the program still runs");
    }

    #[test]
    fn table_of_the_database_client_is_read() {
        let text = "innodb_buffer_pool_size\t134217728\nInnodb_buffer_pool_read_requests\t90\ndata\tNULL\n";
        let expected = LiveDatabaseFact {
            buffer_bytes: Some(128 << 20),
            data_bytes: None,
            disk_reads: None,
            requests: Some(90),
        };
        assert_eq!(live(text), expected);
    }

    #[test]
    fn lifetimes_are_those_of_browsers() {
        for (lines, expected) in [
            (&[][..], Lifetime::Unstated),
            (&[("Cache-Control", "public, max-age=604800")], Lifetime::Secs(604_800)),
            (&[("Cache-Control", "no-cache, max-age=5")], Lifetime::Secs(0)),
            (&[("Expires", "0")], Lifetime::Secs(0)),
            (&[("Expires", "Sun, 06 Nov 2044 08:49:37 GMT")], Lifetime::Secs(31_536_000)),
        ] {
            let mut fields = Fields::new();
            lines.iter().for_each(|(name, value)| fields.push(*name, *value));
            assert_eq!(lifetime(&fields), expected, "{lines:?}");
        }
    }
}
