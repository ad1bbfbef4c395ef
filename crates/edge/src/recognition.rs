//! Finding out what a site runs on, and going over to the profile for that.
//!
//! Invariant: a site changes its rules once at most, and nothing that was stored, or is on its way, by the rules before
//! is used after. The rules change first and everything of the site is invalidated then: so what was judged by the old
//! ones is either gone or, as its fetch began before that, neither stored nor shared. A request that was read by the
//! old rules and would begin a fetch after it is read again.

use crate::counters::Metric;
use crate::disk_threads;
use crate::shared::Shared;
use crate::sites::Site;
use flate2::bufread::GzDecoder;
use message::{Fields, ResponseHead, names};
use semantics::Policy;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use store::{Invalidation, Mode, Selector};

/// Contents of a site that are looked at; who has said nothing by then is not asked again.
const CONTENTS_MAX: u32 = 256;

/// Octets of a content that are looked at, after a content coding was undone.
const BEGINNING_BYTES: usize = 16 * 1024;

/// Characters of a sign that are told.
const SIGN_CHARS_MAX: usize = 80;

/// The file in a disk's directory that names the profiles which were found.
const FILE: &str = "recognised";

/// What is known of what a site runs on.
#[derive(Debug, Default)]
pub(crate) struct Recognition {
    found: OnceLock<Found>,
    contents: AtomicU32,
}

#[derive(Debug)]
struct Found {
    /// The place of the rules among those of the plan.
    rules: usize,
    /// What the site was recognised by.
    sign: String,
}

impl Site {
    /// The rules in force.
    pub(crate) fn policy(&self) -> &Policy {
        let found = self.recognition.found.get().and_then(|found| self.plan.recognisable.get(found.rules));
        found.unwrap_or(&self.plan.policy)
    }

    /// The place of the rules in force among those that the site may be found to need; `None` for those it began with.
    pub(crate) fn recognised(&self) -> Option<usize> {
        self.recognition.found.get().map(|found| found.rules)
    }

    /// What the site was recognised by, if it was.
    pub(crate) fn sign(&self) -> Option<&str> {
        self.recognition.found.get().map(|found| &found.sign[..])
    }

    /// Whether its answers are still looked at.
    pub(crate) fn is_unknown(&self) -> bool {
        !self.plan.recognisable.is_empty() && self.recognition.found.get().is_none()
    }

    /// Goes over to the rules of `profile`; false if there are none, or it has gone over before.
    fn go_over(&self, profile: &str, sign: String) -> bool {
        let place = self.plan.recognisable.iter().position(|policy| policy.name == profile);
        place.is_some_and(|rules| self.recognition.found.set(Found { rules, sign }).is_ok())
    }
}

impl Shared {
    /// Looks at the fields of an answer of a site that is not known yet.
    pub(crate) fn look(self: &Arc<Self>, site: &Arc<Site>, fields: &Fields) {
        if site.is_unknown() {
            self.recognise(site, fields, &[]);
        }
    }

    /// Looks at how the content of an answer begins.
    pub(crate) fn look_into(self: &Arc<Self>, site: &Arc<Site>, head: &ResponseHead, octets: &[u8]) {
        if !site.is_unknown() || !is_html(&head.fields) {
            return;
        }
        if site.recognition.contents.fetch_add(1, Ordering::Relaxed) >= CONTENTS_MAX {
            // Never to count so far that it begins again.
            site.recognition.contents.store(CONTENTS_MAX, Ordering::Relaxed);
            return;
        }
        if let Some(beginning) = beginning(&head.fields, octets) {
            self.recognise(site, &head.fields, &beginning);
        }
    }

    fn recognise(self: &Arc<Self>, site: &Arc<Site>, fields: &Fields, beginning: &[u8]) {
        let Some(recognised) = profiles::recognised(fields, beginning) else { return };
        let sign: String = recognised.software.evidence.chars().take(SIGN_CHARS_MAX).collect();
        let (profile, system) = (&recognised.profile.name, recognised.software.name);
        if !site.go_over(profile, sign.clone()) {
            return;
        }
        let selector = Selector::Everything { site: Some(site.id) };
        self.tell(Invalidation { selector, mode: Mode::Hard });
        // What could not be shared by the old rules may be by the new ones.
        self.in_vain.forget_all();
        self.sweeper.wake();
        self.cells(0).count(Metric::SitesRecognised);
        eprintln!("petasos: {} runs on {system} ({sign}): profile {profile} from now on", site.label());
        let (shared, site) = (Arc::clone(self), Arc::clone(site));
        // Nothing waits for it.
        drop(disk_threads::begin(move || shared.note_recognised(&site)));
    }

    /// Writes down for the next process what was found. First the invalidation has to be on the disk: only then is what
    /// was stored before told from what is stored by the rules that the file names.
    fn note_recognised(&self, site: &Site) {
        self.static_tree.lose(&self.store);
        if !self.persist() {
            return;
        }
        let Some(disk) = self.plan.disk.as_ref().filter(|_| !self.persistence.is_off()) else { return };
        let lines = self.sites.iter().filter_map(|known| {
            let sign = known.sign()?;
            Some(format!("{}{} {sign}\n", line_start(known), known.policy().name))
        });
        let (path, partial) = (disk.directory.join(FILE), disk.directory.join(format!("{FILE}.new")));
        let written = std::fs::write(&partial, lines.collect::<String>());
        if let Err(error) = written.and_then(|()| std::fs::rename(&partial, &path)) {
            eprintln!(
                "petasos: what {} runs on is not remembered: {}: {error}",
                site.label(),
                path.display()
            );
        }
    }
}

/// Gives the sites the rules that the process before has found them to need. Who cannot be read is found anew.
pub(crate) fn recall<'a>(directory: &Path, within: Duration, sites: impl Iterator<Item = &'a Arc<Site>>) {
    let path = directory.join(FILE);
    let Some(Ok(text)) = disk_threads::run_here(within, move || std::fs::read_to_string(path)) else {
        return;
    };
    for site in sites {
        let start = line_start(site);
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(&start[..]));
        if let Some((profile, sign)) = lines.find_map(|line| line.split_once(' ')) {
            site.go_over(profile, sign.to_owned());
        }
    }
}

/// How a line begins that is about a site and the application behind it.
fn line_start(site: &Site) -> String {
    format!("{} {} ", site.label(), site.plan.origin)
}

fn is_html(fields: &Fields) -> bool {
    let media_type = fields.first(names::CONTENT_TYPE).and_then(|value| value.get(..9));
    media_type.is_some_and(|start| start.eq_ignore_ascii_case(b"text/html"))
}

/// The first octets of a content without its coding; `None` for a coding that is not undone here.
fn beginning(fields: &Fields, octets: &[u8]) -> Option<Vec<u8>> {
    let octets = octets.get(..BEGINNING_BYTES).unwrap_or(octets);
    let Some(coding) = fields.first(names::CONTENT_ENCODING) else { return Some(octets.to_vec()) };
    if !coding.eq_ignore_ascii_case(b"gzip") {
        return None;
    }
    let mut beginning = Vec::new();
    // It ends in the middle, which is an error behind what was read.
    let _ = GzDecoder::new(octets).take(BEGINNING_BYTES as u64).read_to_end(&mut beginning);
    Some(beginning)
}
