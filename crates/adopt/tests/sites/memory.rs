//! A machine whose files are in memory.

use petasos_adopt::{Adoption, Machine, Refusal, Request, TextFile, adopt};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files, directories and links of a machine.
#[derive(Default)]
pub(crate) struct Memory {
    files: BTreeMap<PathBuf, String>,
    links: BTreeMap<PathBuf, PathBuf>,
    used_ports: Vec<u16>,
}

impl Memory {
    pub(crate) fn with(mut self, path: &str, text: &str) -> Self {
        self.files.insert(PathBuf::from(path), text.to_owned());
        self
    }

    pub(crate) fn link(mut self, path: &str, to: &str) -> Self {
        self.links.insert(PathBuf::from(path), PathBuf::from(to));
        self
    }

    pub(crate) fn using(mut self, port: u16) -> Self {
        self.used_ports.push(port);
        self
    }

    pub(crate) fn adopt(&self, start: &str) -> Result<Adoption, Refusal> {
        adopt(&Request { start: PathBuf::from(start), port: None }, self)
    }

    /// The refusal of a configuration.
    pub(crate) fn refusal(&self, start: &str) -> String {
        match self.adopt(start) {
            Ok(adoption) => panic!("adopted: {}", adoption.text(Path::new("DIR"), false)),
            Err(refusal) => refusal.to_string(),
        }
    }

    fn real(&self, path: &Path) -> PathBuf {
        self.links.get(path).cloned().unwrap_or_else(|| path.to_path_buf())
    }
}

/// Whether a name matches a pattern with at most one `*`.
fn is_match(pattern: &str, name: &str) -> bool {
    pattern.split_once('*').map_or(pattern == name, |(begin, end)| {
        name.len() >= pattern.len() - 1 && name.starts_with(begin) && name.ends_with(end)
    })
}

impl Machine for Memory {
    fn read(&self, path: &Path) -> Result<TextFile, String> {
        let path = self.real(path);
        let text = self.files.get(&path).ok_or("no such file")?.clone();
        Ok(TextFile { path, text })
    }

    fn matching(&self, pattern: &str) -> Vec<PathBuf> {
        let pattern = Path::new(pattern);
        let name = pattern.file_name().unwrap().to_str().unwrap();
        let all = self.files.keys().chain(self.links.keys());
        let here = all.filter(|path| path.parent() == pattern.parent());
        let mut found: Vec<PathBuf> = here
            .filter(|path| is_match(name, path.file_name().unwrap().to_str().unwrap()))
            .cloned()
            .collect();
        found.sort();
        found
    }

    fn is_directory(&self, path: &Path) -> bool {
        let mut all = self.files.keys().chain(self.links.keys());
        !self.exists_as_file(path) && all.any(|file| file.starts_with(path))
    }

    fn exists(&self, path: &Path) -> bool {
        self.exists_as_file(path) || self.is_directory(path)
    }

    fn is_port_free(&self, port: u16) -> bool {
        !self.used_ports.contains(&port)
    }
}

impl Memory {
    fn exists_as_file(&self, path: &Path) -> bool {
        self.files.contains_key(&self.real(path))
    }
}

/// The text of a file after the adoption.
pub(crate) fn after<'a>(adoption: &'a Adoption, file: &str) -> &'a str {
    let change = adoption.changes.iter().find(|change| change.file == Path::new(file));
    &change.unwrap_or_else(|| panic!("{file} is not changed")).after
}

/// The lines that the diff of a file adds and removes, without white space at their ends.
pub(crate) fn diff(adoption: &Adoption, file: &str) -> Vec<String> {
    let change = adoption.changes.iter().find(|change| change.file == Path::new(file));
    let change = change.unwrap_or_else(|| panic!("{file} is not changed"));
    let lines = change.diff.lines().filter(|line| !line.starts_with("---") && !line.starts_with("+++"));
    let lines = lines.filter(|line| line.starts_with(['+', '-']));
    lines.map(|line| format!("{}{}", line.get(..1).unwrap(), line.get(1..).unwrap().trim())).collect()
}
