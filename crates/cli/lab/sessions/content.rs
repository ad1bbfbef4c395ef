//! The content of the lab's site, its database and uploaded files: saved, restored and read.
//!
//! Invariant: the content is read and replaced only while no PHP process has the database open.

use crate::rows::DatabaseRows;
use crate::site::WordPressLab;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::eventually;

/// PHP script that prints every table as JSON.
const DUMP: &str = include_str!("dump.php");
/// Statement that switches to plain permalinks, as the settings screen does.
const PLAIN: &str = "UPDATE wordpress.wp_options SET option_value = '' \
                     WHERE option_name IN ('permalink_structure', 'rewrite_rules')";

/// Saved content. It is restored when this is dropped.
pub(crate) struct SavedContent {
    socket: String,
    uploads: PathBuf,
    database: Vec<u8>,
    files: BTreeSet<PathBuf>,
}

impl SavedContent {
    /// Saves the current content.
    pub(crate) fn keep(site: &WordPressLab) -> Self {
        let uploads = site.files.join("wordpress/wp-content/uploads");
        let socket = format!("--socket={}", site.files.join("run/mariadb.sock").display());
        let mut content = Self { socket, files: files(&uploads), uploads, database: Vec::new() };
        content.wait_until_idle();
        let mut dump = content.client("mariadb-dump");
        content.database = run(dump.args(["--add-drop-database", "--databases", "wordpress"]), b"");
        content
    }

    /// Restores the content, empties the caches inside WordPress and sets the form of the
    /// permalinks.
    pub(crate) fn restore(&self, site: &WordPressLab, has_pretty_permalinks: bool) {
        self.wait_until_idle();
        self.put_back();
        if !has_pretty_permalinks {
            self.query(PLAIN);
        }
        site.empty();
    }

    /// Reads the database and the uploaded files.
    pub(crate) fn rows(&self, site: &WordPressLab) -> DatabaseRows {
        self.wait_until_idle();
        let mut php = Command::new("php8.2");
        php.arg("--").arg(site.files.join("run/mariadb.sock"));
        let tables = serde_json::from_slice(&run(&mut php, DUMP.as_bytes())).unwrap();
        let mut rows = DatabaseRows::of(&tables, &self.started());
        for path in files(&self.uploads) {
            let bytes = std::fs::read(&path).unwrap();
            rows.add_file(&path.strip_prefix(&self.uploads).unwrap().display().to_string(), &bytes);
        }
        rows
    }

    /// Time at which the content was restored, in UTC and in the database's format.
    fn started(&self) -> String {
        self.query("SELECT MAX(CREATE_TIME) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'wordpress'")
    }

    fn put_back(&self) {
        run(&mut self.client("mariadb"), &self.database);
        for path in files(&self.uploads).difference(&self.files) {
            std::fs::remove_file(path).unwrap();
        }
    }

    /// Waits until no PHP process is connected to the database. A closed browser and a killed edge
    /// may leave requests in progress.
    fn wait_until_idle(&self) {
        let count = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = 'wordpress'";
        eventually("no PHP process has the database open", || self.query(count) == "0");
    }

    fn query(&self, statement: &str) -> String {
        let mut client = self.client("mariadb");
        let statements = format!("SET time_zone = '+00:00'; {statement}");
        client.args(["--batch", "--skip-column-names", "-e", &statements]);
        String::from_utf8(run(&mut client, b"")).unwrap().trim_end().to_owned()
    }

    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(["--no-defaults", &self.socket, "--user=root"]);
        command
    }
}

impl Drop for SavedContent {
    fn drop(&mut self) {
        // A second panic while unwinding would abort the process and hide the first message.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.put_back())).is_err() {
            eprintln!("the lab's content could not be put back: the next `up` after a `down` makes it anew");
        }
    }
}

/// Runs a program to its end and returns its output.
fn run(command: &mut Command, input: &[u8]) -> Vec<u8> {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// All files below a directory.
fn files(directory: &Path) -> BTreeSet<PathBuf> {
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { BTreeSet::from([path]) }).collect()
}
