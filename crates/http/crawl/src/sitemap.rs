//! Lists of pages that a site publishes: sitemaps, indexes of sitemaps, RSS and Atom feeds, and
//! plain lists of URLs.
//!
//! Invariant: the work and the memory are bounded by [`SITEMAP_BYTES_MAX`] and
//! [`SITEMAP_ENTRIES_MAX`]. Entities of a document type are never expanded: an entry that has one
//! is dropped. A fault in the middle keeps the entries before it.

use crate::scope::URL_BYTES_MAX;
use crate::w3c_date::date;
use clock::Timestamp;
use page::{CodingError, gunzip};
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use std::borrow::Cow;

/// Bytes of one file after decompression, as in the protocol of sitemaps.
pub const SITEMAP_BYTES_MAX: usize = 50 * 1024 * 1024;

/// Entries of one file, as in the protocol of sitemaps.
pub const SITEMAP_ENTRIES_MAX: usize = 50_000;

/// Deepest nesting of elements; deeper ones are not read.
const DEPTH_MAX: usize = 64;

/// Bytes of the text of an element, with white space around it.
const TEXT_BYTES_MAX: usize = 2 * URL_BYTES_MAX;

/// The two bytes with which a gzip file begins.
const GZIP_MAGIC: &[u8] = b"\x1f\x8b";

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SitemapKind {
    /// `urlset`: its entries are pages.
    Pages,
    /// `sitemapindex`: its entries are sitemaps.
    Index,
    /// RSS: its entries are the links of the items.
    Rss,
    /// Atom: its entries are the links of the entries.
    Atom,
    /// A text with one URL in a line. Lines that begin with `#` are comments.
    Text,
}

/// A page or a sitemap that a file names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SitemapEntry {
    /// The URL as written, at most [`URL_BYTES_MAX`] bytes. It may be of any site.
    pub url: String,
    /// The priority in thousandths.
    pub priority_permille: Option<u16>,
    /// When the page was changed last.
    pub modified: Option<Timestamp>,
}

/// The contents of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sitemap {
    /// The kind of the file.
    pub kind: SitemapKind,
    /// Its entries in their order.
    pub entries: Vec<SitemapEntry>,
    /// Entries without a URL, or with an overlong URL or an unknown entity.
    pub dropped: u64,
    /// Whether a limit on bytes, entries or nesting was reached, so that entries are missing.
    pub is_cut: bool,
    /// The fault at which reading stopped.
    pub fault: Option<String>,
}

/// Why a file says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SitemapError {
    /// It is compressed and broken, or decompresses to more than [`SITEMAP_BYTES_MAX`].
    #[error(transparent)]
    Coding(#[from] CodingError),
    /// It is another kind of document.
    #[error("this is neither a sitemap nor a feed nor a list of URLs in UTF-8")]
    Unknown,
}

/// Reads a file. A gzip file is decompressed.
///
/// # Errors
/// [`SitemapError`].
pub fn read_sitemap(content: &[u8]) -> Result<Sitemap, SitemapError> {
    let content = match content.starts_with(GZIP_MAGIC) {
        true => Cow::Owned(gunzip(content, SITEMAP_BYTES_MAX)?),
        false => Cow::Borrowed(content),
    };
    let kept = content.get(..SITEMAP_BYTES_MAX).unwrap_or(&content);
    let is_cut = kept.len() < content.len();
    let text = String::from_utf8_lossy(kept);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let mut read = if text.starts_with('<') { read_xml(text)? } else { read_text(text)? };
    read.is_cut |= is_cut;
    Ok(read)
}

fn read_text(text: &str) -> Result<Sitemap, SitemapError> {
    let mut read = Sitemap::of(SitemapKind::Text);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let is_url = line.starts_with('/') || line.starts_with("http://") || line.starts_with("https://");
        let url = if is_url { line.to_owned() } else { String::new() };
        if !read.add(SitemapEntry { url, ..SitemapEntry::default() }) {
            break;
        }
    }
    // A text without any URL is something else. An empty list is a list.
    if read.entries.is_empty() && read.dropped > 0 { Err(SitemapError::Unknown) } else { Ok(read) }
}

impl Sitemap {
    fn of(kind: SitemapKind) -> Self {
        Self { kind, entries: Vec::new(), dropped: 0, is_cut: false, fault: None }
    }

    /// Adds an entry. Returns `false` if there is no room for more.
    fn add(&mut self, entry: SitemapEntry) -> bool {
        if entry.url.is_empty() || entry.url.len() > URL_BYTES_MAX {
            self.dropped += 1;
        } else if self.entries.len() >= SITEMAP_ENTRIES_MAX {
            self.is_cut = true;
            return false;
        } else {
            self.entries.push(entry);
        }
        true
    }
}

/// The elements that mean something, by their local names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    UrlSet,
    Index,
    Rss,
    Rdf,
    Feed,
    Channel,
    /// A page or sitemap: `url`, `sitemap`, `item`, `entry`.
    Entry,
    Location,
    Link,
    Modified,
    Priority,
    Other,
}

impl Tag {
    fn of(name: &str) -> Self {
        match name {
            "urlset" => Self::UrlSet,
            "sitemapindex" => Self::Index,
            "rss" => Self::Rss,
            "RDF" => Self::Rdf,
            "feed" => Self::Feed,
            "channel" => Self::Channel,
            "url" | "sitemap" | "item" | "entry" => Self::Entry,
            "loc" => Self::Location,
            "link" => Self::Link,
            "lastmod" | "pubDate" | "updated" | "date" => Self::Modified,
            "priority" => Self::Priority,
            _ => Self::Other,
        }
    }
}

fn read_xml(text: &str) -> Result<Sitemap, SitemapError> {
    let mut reader = Reader::from_str(text);
    let config = reader.config_mut();
    // Hand-made files have plain ampersands and unclosed elements. Their entries are still URLs.
    config.check_end_names = false;
    config.allow_unmatched_ends = true;
    config.allow_dangling_amp = true;
    let mut reading: Option<XmlReading> = None;
    loop {
        let event = match reader.read_event() {
            Ok(Event::Eof) => break,
            Ok(event) => event,
            Err(error) => {
                let reading = reading.as_mut().ok_or(SitemapError::Unknown)?;
                reading.read.fault = Some(format!("byte {}: {error}", reader.buffer_position()));
                break;
            }
        };
        let goes_on = match &mut reading {
            Some(reading) => reading.event(event),
            None => {
                if let Event::Start(root) | Event::Empty(root) = event {
                    reading = Some(XmlReading::begin(&root).ok_or(SitemapError::Unknown)?);
                }
                true
            }
        };
        if !goes_on {
            break;
        }
    }
    reading.map(|reading| reading.read).ok_or(SitemapError::Unknown)
}

/// The state between two events of an XML file.
struct XmlReading {
    read: Sitemap,
    /// The prefix of the root element. An element with another prefix belongs to an extension, such
    /// as `image:loc`. RDF's items have none.
    prefix: Option<String>,
    /// The open elements.
    path: Vec<Tag>,
    entry: SitemapEntry,
    /// Whether the entry has an unknown entity or an overlong text.
    is_bad: bool,
    /// The text of the innermost element that means something.
    buffer: String,
}

impl XmlReading {
    /// Begins with the root element; `None` if it is of another kind of document.
    fn begin(root: &BytesStart<'_>) -> Option<Self> {
        let tag = Tag::of(root.local_name().as_ref());
        let kind = match tag {
            Tag::UrlSet => SitemapKind::Pages,
            Tag::Index => SitemapKind::Index,
            Tag::Rss | Tag::Rdf => SitemapKind::Rss,
            Tag::Feed => SitemapKind::Atom,
            _ => return None,
        };
        let prefix = root.name().prefix().filter(|_| tag != Tag::Rdf);
        Some(Self {
            read: Sitemap::of(kind),
            prefix: prefix.map(|prefix| prefix.as_ref().to_owned()),
            path: vec![tag],
            entry: SitemapEntry::default(),
            is_bad: false,
            buffer: String::new(),
        })
    }

    /// Takes the next event. Returns `false` if nothing more is to be read.
    fn event(&mut self, event: Event<'_>) -> bool {
        match event {
            Event::Start(start) => self.open(&start),
            Event::Empty(start) => self.open(&start) && self.close(),
            Event::End(_) => self.close(),
            Event::Text(text) => self.text(&text),
            Event::CData(text) => self.text(&text),
            Event::GeneralRef(entity) => self.entity(&entity),
            _ => true,
        }
    }

    fn open(&mut self, start: &BytesStart<'_>) -> bool {
        if self.path.len() >= DEPTH_MAX {
            self.read.is_cut = true;
            return false;
        }
        let name = start.name();
        let prefix = name.prefix();
        let is_own = prefix.as_ref().map(AsRef::as_ref) == self.prefix.as_deref();
        // RSS 1.0 has its dates in the elements of Dublin Core.
        let is_date = prefix.as_ref().is_some_and(|prefix| prefix.as_ref() == "dc");
        let tag = match Tag::of(start.local_name().as_ref()) {
            Tag::Modified if is_own || is_date => Tag::Modified,
            tag if is_own => tag,
            _ => Tag::Other,
        };
        self.path.push(tag);
        self.buffer.clear();
        if self.is_at_entry() {
            (self.entry, self.is_bad) = (SitemapEntry::default(), false);
        } else if tag == Tag::Link && self.read.kind == SitemapKind::Atom && self.is_in_entry() {
            self.atom_link(start);
        }
        true
    }

    /// Whether the innermost element is an entry at a valid place.
    fn is_at_entry(&self) -> bool {
        matches!(
            self.path.as_slice(),
            [Tag::UrlSet | Tag::Index | Tag::Feed | Tag::Rdf, Tag::Entry]
                | [Tag::Rss, Tag::Channel, Tag::Entry]
        )
    }

    /// Whether the innermost element is right below an entry.
    fn is_in_entry(&self) -> bool {
        matches!(
            self.path.as_slice(),
            [Tag::UrlSet | Tag::Index | Tag::Feed | Tag::Rdf, Tag::Entry, _]
                | [Tag::Rss, Tag::Channel, Tag::Entry, _]
        )
    }

    /// The link of an Atom entry to its page: without `rel`, or with `alternate`.
    fn atom_link(&mut self, start: &BytesStart<'_>) {
        let (mut href, mut is_page) = (None, true);
        for attribute in start.attributes().with_checks(false).flatten() {
            if attribute.value.len() > TEXT_BYTES_MAX {
                continue;
            }
            let value = attribute.normalized_value(XmlVersion::Explicit1_0);
            match (attribute.key.as_ref(), value) {
                ("href", Ok(value)) => href = Some(value.trim().to_owned()),
                ("rel", Ok(value)) => is_page = value.trim() == "alternate",
                _ => {}
            }
        }
        if let (Some(href), true, true) = (href, is_page, self.entry.url.is_empty()) {
            self.entry.url = href;
        }
    }

    /// Ends the innermost element. Returns `false` if the list is full.
    fn close(&mut self) -> bool {
        let text = std::mem::take(&mut self.buffer);
        let text = text.trim();
        let mut goes_on = true;
        if self.is_at_entry() {
            let mut entry = std::mem::take(&mut self.entry);
            if std::mem::take(&mut self.is_bad) {
                entry.url.clear();
            }
            goes_on = self.read.add(entry);
        } else if self.is_in_entry() {
            match (self.path.last(), self.read.kind) {
                (Some(Tag::Location), SitemapKind::Pages | SitemapKind::Index)
                | (Some(Tag::Link), SitemapKind::Rss) => self.entry.url = text.to_owned(),
                (Some(Tag::Modified), _) => self.entry.modified = date(text).or(self.entry.modified),
                (Some(Tag::Priority), _) => self.entry.priority_permille = permille(text),
                _ => {}
            }
        }
        self.path.pop();
        goes_on
    }

    fn text(&mut self, text: &str) -> bool {
        if self.is_in_entry()
            && matches!(self.path.last(), Some(Tag::Location | Tag::Link | Tag::Modified | Tag::Priority))
        {
            let is_too_long = self.buffer.len() + text.len() > TEXT_BYTES_MAX;
            if is_too_long {
                self.is_bad = true;
            } else {
                self.buffer.push_str(text);
            }
        }
        true
    }

    /// Adds a character reference or one of the five entities of XML.
    fn entity(&mut self, entity: &BytesRef<'_>) -> bool {
        let named = || match &**entity {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => None,
        };
        match entity.resolve_char_ref().ok().flatten().or_else(named) {
            Some(character) => return self.text(character.encode_utf8(&mut [0; 4])),
            None if self.is_in_entry() && self.path.last() != Some(&Tag::Other) => self.is_bad = true,
            None => {}
        }
        true
    }
}

fn permille(text: &str) -> Option<u16> {
    let priority = text.parse::<f64>().ok().filter(|priority| (0.0..=1.0).contains(priority))?;
    Some((priority * 1_000.0).round() as u16)
}

#[cfg(test)]
mod tests {
    use super::{SITEMAP_BYTES_MAX, SITEMAP_ENTRIES_MAX, Sitemap, SitemapError, SitemapKind, read_sitemap};
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use page::CodingError;
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};
    use std::io::Write;

    fn read(text: &str) -> Sitemap {
        read_sitemap(text.as_bytes()).unwrap()
    }

    fn urls(text: &str) -> String {
        read(text).entries.iter().map(|entry| entry.url.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    const WORDPRESS: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<?xml-stylesheet type="text/xsl" href="http://h/wp-sitemap.xsl" ?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
<url><loc>http://h/</loc><lastmod>2024-05-31T10:00:00+02:00</lastmod><priority>0.8</priority>
<image:image><image:loc>http://h/a.jpg</image:loc></image:image></url>
<url><loc>
  http://h/?a=1&amp;b=&#50;
</loc></url><url><loc><![CDATA[http://h/c?d&e]]></loc><priority>7</priority></url></urlset>"#;

    #[test]
    fn sitemap_gives_pages_with_priority_and_date() {
        let read = read(WORDPRESS);
        assert_eq!(
            (read.kind, read.dropped, read.is_cut, &read.fault),
            (SitemapKind::Pages, 0, false, &None)
        );
        assert_eq!(urls(WORDPRESS), "http://h/ http://h/?a=1&b=2 http://h/c?d&e");
        let first = &read.entries[0];
        assert_eq!(first.priority_permille, Some(800));
        assert_eq!(first.modified.map(|moment| moment.as_secs()), Some(1_717_142_400));
        assert_eq!(read.entries[2].priority_permille, None, "beyond the range");
    }

    #[test]
    fn index_names_sitemaps() {
        let text = "<sitemapindex><sitemap><loc>/a.xml</loc><lastmod>2024</lastmod></sitemap>\
                    <sitemap><loc>/b.xml.gz</loc></sitemap></sitemapindex>";
        assert_eq!((read(text).kind, urls(text).as_str()), (SitemapKind::Index, "/a.xml /b.xml.gz"));
    }

    #[test]
    fn feeds_give_the_links_of_their_items() {
        let rss = "<rss version='2.0' xmlns:atom='a'><channel><link>http://h/home</link>\
                   <atom:link href='http://h/feed' rel='self'/><item><title>A &amp; B</title>\
                   <link>http://h/a</link><atom:link href='http://h/x'/><pubDate>Fri, 31 May 2024 10:00:00 +0200</pubDate>\
                   </item><item><title>without</title></item></channel></rss>";
        let found = read(rss);
        assert_eq!((found.kind, found.entries.len(), found.dropped), (SitemapKind::Rss, 1, 1));
        assert_eq!(found.entries[0].url, "http://h/a");
        assert_eq!(found.entries[0].modified.map(|moment| moment.as_secs()), Some(1_717_142_400));
        let atom = "<feed xmlns='http://www.w3.org/2005/Atom'><link href='http://h/home'/><entry>\
                    <link rel='edit' href='http://h/edit'/><link href='http://h/a?b&amp;c'/><updated>2024-05-31</updated>\
                    <link rel='alternate' href='http://h/second'/></entry></feed>";
        assert_eq!((read(atom).kind, urls(atom).as_str()), (SitemapKind::Atom, "http://h/a?b&c"));
        let rdf = "<rdf:RDF xmlns:rdf='r'><channel><link>/home</link></channel><item><link>/a</link>\
                   <dc:date>2024-05-31</dc:date></item></rdf:RDF>";
        assert_eq!(urls(rdf), "/a");
        assert!(read(rdf).entries[0].modified.is_some());
    }

    #[test]
    fn lists_and_gzip_files_are_read() {
        let list = "\u{feff}# pages\nhttp://h/a\r\n\n /b \nnonsense\n";
        assert_eq!((urls(list).as_str(), read(list).dropped), ("http://h/a /b", 1));
        assert_eq!(read("").entries.len(), 0);
        assert_eq!(read_sitemap(&gzip(WORDPRESS.as_bytes())).unwrap(), read(WORDPRESS));
        let broken = gzip(WORDPRESS.as_bytes());
        let error = read_sitemap(&broken[..broken.len() - 9]);
        assert_eq!(error, Err(SitemapError::Coding(CodingError::Broken)));
    }

    #[test]
    fn other_documents_are_no_sitemaps() {
        for text in ["<!DOCTYPE html><html><body><a href=a>", "<html>", "nothing here", "<", "<!-- -->", "{}"]
        {
            assert_eq!(read_sitemap(text.as_bytes()), Err(SitemapError::Unknown), "{text}");
        }
        let utf16: Vec<u8> = WORDPRESS.encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(read_sitemap(&utf16), Err(SitemapError::Unknown));
    }

    #[test]
    fn entities_of_a_document_type_are_never_expanded() {
        let mut bomb = "<!DOCTYPE u [<!ENTITY a0 \"ha\">".to_owned();
        for level in 1..12 {
            let inner = format!("&a{};", level - 1).repeat(10);
            bomb += &format!("<!ENTITY a{level} \"{inner}\">");
        }
        bomb += "<!ENTITY file SYSTEM \"file:///etc/passwd\">]><urlset><url><loc>http://h/&a11;</loc></url>\
                 <url><loc>http://h/&file;</loc></url><url><loc>http://h/good</loc></url></urlset>";
        assert_eq!((urls(&bomb).as_str(), read(&bomb).dropped), ("http://h/good", 2));
    }

    #[test]
    fn faults_keep_what_was_read_before() {
        for (text, expected) in [
            ("<urlset><url><loc>/a</loc></url><url><loc>/b", "/a"),
            ("<urlset><url><loc>/a?b=1&c=2</loc></url></urlset>", "/a?b=1&c=2"),
            ("<urlset><url><loc>/a</loc></url></wrong></url><url><loc>/b</loc></url>", "/a"),
            ("<urlset><url><loc>/a</loc></url><!-- open", "/a"),
            ("<urlset><url></loc></url><url><loc>/a</loc></url>", ""),
        ] {
            let found = urls(text);
            assert!(found.starts_with(expected), "{text}: {found}");
        }
        assert!(read("<urlset><url><loc>/a</loc></url><!-- open").fault.is_some());
        let invalid = read_sitemap(b"<urlset><url><loc>/\xff</loc></url></urlset>").unwrap();
        assert_eq!(invalid.entries[0].url, "/\u{fffd}");
    }

    #[test]
    fn hostile_sizes_meet_their_limits() {
        let entry = "<url><loc>/a</loc></url>";
        let many = format!("<urlset>{}</urlset>", entry.repeat(SITEMAP_ENTRIES_MAX + 10));
        assert_eq!((read(&many).entries.len(), read(&many).is_cut), (SITEMAP_ENTRIES_MAX, true));
        let deep = format!("<urlset>{entry}{}", "<a>".repeat(1_000_000));
        assert_eq!((read(&deep).entries.len(), read(&deep).is_cut), (1, true));
        let long = "x".repeat(10_000_000);
        let attribute =
            format!("<feed><entry><link href='/{long}'/></entry><entry><link href='/b'/></entry></feed>");
        assert_eq!((urls(&attribute).as_str(), read(&attribute).dropped), ("/b", 1));
        let text = format!("<urlset><url><loc>/{long}</loc></url>{entry}</urlset>");
        assert_eq!((urls(&text).as_str(), read(&text).dropped), ("/a", 1));
        let name = format!("<urlset><{long}>{entry}</{long}>{entry}</urlset>");
        assert_eq!(urls(&name), "/a");
        let bomb = gzip(&vec![b' '; SITEMAP_BYTES_MAX + 1]);
        assert!(bomb.len() < 100_000);
        assert_eq!(read_sitemap(&bomb), Err(SitemapError::Coding(CodingError::TooLong)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(content in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_sitemap(&content);
            let _ = read_sitemap(&[&b"<urlset><url><loc>"[..], &content].concat());
        }

        #[test]
        fn any_url_is_read_as_it_was_written(path in "[a-z&<>'\"?=/]{0,40}") {
            let escaped = path.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&#x22;");
            let text = format!("<urlset><url><loc>/{escaped}</loc></url></urlset>");
            prop_assert_eq!(urls(&text), format!("/{path}"));
        }

        #[test]
        fn shuffled_markup_is_read(parts in prop::collection::vec(prop::sample::select(vec![
            "<urlset>", "</urlset>", "<url>", "</url>", "<loc>", "</loc>", "<loc/>", "/a", "&amp;", "&x;", "&", "<feed>",
            "<entry>", "<link href='/b'/>", "<![CDATA[", "]]>", "<!--", "-->", "<?x ?>", "<!DOCTYPE a [", "]>",
        ]), 0..30)) {
            let _ = read_sitemap(parts.concat().as_bytes());
        }
    }
}
