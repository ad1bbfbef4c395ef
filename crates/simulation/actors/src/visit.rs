//! One planned request of a visitor.
//!
//! Invariant: a visit follows from its own random numbers and the site. Removing another visit or
//! another page from a plan does not change it.

use crate::content::{ContentId, NONE, slice};
use crate::exchange::RangeSpec;
use crate::ordered::OrderedPurge;
use crate::origin::UPLOAD_FIELD;
use crate::page::PagePlan;
use crate::site::{NICK_COOKIE, Recognised, SitePlan, USER_COOKIE};
use bytes::BytesMut;
use std::fmt;
use std::fmt::Write as _;
use std::time::Duration;
use world::Random;

/// The values of `Accept-Encoding`.
const CODINGS: [Option<&str>; 7] = [
    None,
    Some("identity"),
    Some("gzip"),
    Some("br, gzip;q=0.5"),
    Some("gzip, deflate, br, zstd"),
    Some("zstd, br;q=0, gzip"),
    Some("gzip;q=0, zstd;q=0.1"),
];

/// Lines of requests: directives, credentials, and fields that no profile knows.
const EXTRAS: [&str; 9] = [
    ONLY_IF_CACHED,
    "Cache-Control: max-age=3",
    "Cache-Control: min-fresh=2",
    "Cache-Control: no-store",
    "Pragma: no-cache",
    "Authorization: Basic dTpw",
    "X-Of-A-Script: 1",
    FORGED,
    "X-Requested-With: XMLHttpRequest",
];

/// A line by which only the edge may choose among pages.
const FORGED: &str = "X-Sim-Realm: forged";

/// The line of a request that takes stored responses only.
pub(crate) const ONLY_IF_CACHED: &str = "Cache-Control: only-if-cached";

/// The ports by which visitors reach the site behind a port mapping.
const PORTS: [u16; 3] = [8081, 8082, 8083];

/// The method of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitMethod {
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// POST, which edits the page.
    Post,
}

impl VisitMethod {
    /// The method's token.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
        }
    }
}

/// The condition of a visit. It needs a copy that the visitor holds; without one there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// None.
    None,
    /// `If-None-Match`.
    Etag,
    /// `If-Modified-Since`.
    Date,
}

/// How a visitor sends its request and reads the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// At once.
    Plain,
    /// Waits between two reads.
    SlowRead {
        /// The pause in milliseconds.
        pause_ms: u64,
    },
    /// Closes the connection after this many bytes of the response.
    Abort {
        /// Bytes of head and body; 0 closes right after the request.
        after_bytes: usize,
    },
    /// Sends the head in pieces.
    HeadInPieces {
        /// Number of pieces.
        pieces: usize,
        /// The pause between two of them in milliseconds.
        pause_ms: u64,
    },
    /// Sends half of the head, and closes the connection after a silence.
    HalfHead {
        /// The silence in milliseconds.
        hold_ms: u64,
    },
}

/// The body of a POST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Its length in bytes.
    pub bytes: usize,
    /// Whether it is chunked.
    pub is_chunked: bool,
    /// The pause between its pieces in milliseconds.
    pub pause_ms: u64,
    /// Whether the connection is closed in its middle.
    pub is_aborted: bool,
    /// Whether the head says `Expect: 100-continue`.
    pub expects: bool,
}

impl Upload {
    /// The time that its pauses take.
    pub(crate) fn pauses(self) -> Duration {
        Duration::from_millis(4 * self.pause_ms)
    }
}

/// One planned request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Its number in the plan.
    pub number: u64,
    /// The pause before it in milliseconds.
    pub think_ms: u64,
    /// Its method.
    pub method: VisitMethod,
    /// Its target.
    pub target: String,
    /// `Accept-Language`.
    pub language: Option<&'static str>,
    /// Whether it sends the user's cookie, if the visitor is a user.
    pub has_cookie: bool,
    /// Whether it sends a cookie that changes nothing.
    pub has_noise: bool,
    /// Whether it sends the cookie by which careless pages greet the visitor.
    pub has_nick: bool,
    /// Whether it is a reload (`Cache-Control: no-cache`).
    pub is_reload: bool,
    /// Its condition.
    pub condition: Condition,
    /// The parts that it asks for.
    pub ranges: Vec<RangeSpec>,
    /// Whether the parts have `If-Range`, if the visitor holds a copy.
    pub has_if_range: bool,
    /// The body of a POST.
    pub upload: Option<Upload>,
    /// The purge that the response to a POST orders.
    pub orders: Option<OrderedPurge>,
    /// Its manner.
    pub manner: Manner,
    /// Whether it is sent together with the visit before it.
    pub is_pipelined: bool,
    /// Whether it needs a connection of its own.
    pub is_fresh: bool,
    /// Whether it is at the other host of the site.
    pub is_other_host: bool,
    /// `Accept-Encoding`.
    pub coding: Option<&'static str>,
    /// A further line of the head, whose field the origin does not read or never receives.
    pub extra: Option<&'static str>,
    /// The port in `Host`, as behind a port mapping.
    pub port: Option<u16>,
}

/// A step of sending a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Bytes(Vec<u8>),
    Pause(Duration),
    /// The visitor closes the connection.
    GiveUp,
}

impl Visit {
    /// A visit by chance; `None` if the site has no pages.
    pub fn random(random: &mut Random, number: u64, site: &SitePlan) -> Option<Self> {
        let page = random_page(random, site)?;
        let think_ms = match random.below(10) {
            0 => 0,
            1..8 => random.between(1, 3000),
            _ => random.between(3000, 40_000),
        };
        let method = match random.below(100) {
            0..82 => VisitMethod::Get,
            82..92 => VisitMethod::Head,
            _ => VisitMethod::Post,
        };
        let is_post = method == VisitMethod::Post;
        let query = match random.below(100) {
            0..7 if !is_post => format!("?page={}", random.between(1, 3)),
            7..14 if !is_post && !site.keeps_tracking => format!("?utm_source={}", random.between(1, 9)),
            _ => String::new(),
        };
        let language = random.choice(&[None, Some("de"), Some("en"), Some("fr")]).copied().flatten();
        let condition = match random.below(10) {
            0 | 1 => Condition::Etag,
            2 => Condition::Date,
            _ => Condition::None,
        };
        let ranges = if random.percent(15) && !is_post { random_ranges(random, page) } else { Vec::new() };
        let manner = random_manner(random, is_post);
        let is_plain = manner == Manner::Plain && !is_post;
        Some(Self {
            number,
            think_ms,
            method,
            target: format!("{}{query}", page.path),
            language,
            has_cookie: random.percent(45),
            has_noise: random.percent(15),
            is_reload: random.percent(3),
            condition: if is_post { Condition::None } else { condition },
            has_if_range: random.percent(40),
            ranges,
            upload: is_post.then(|| random_upload(random)),
            manner,
            is_pipelined: random.percent(15) && is_plain,
            is_fresh: random.percent(20) || is_post,
            orders: OrderedPurge::random(random, site).filter(|_| is_post && random.percent(50)),
            is_other_host: random.percent(30) && site.other_host.is_some(),
            coding: random.choice(&CODINGS).copied().flatten(),
            has_nick: random.percent(20) && site.greets,
            extra: random.choice(&EXTRAS).copied().filter(|extra| {
                let is_sent = !is_post && random.percent(12);
                is_sent && (site.is_forged || *extra != FORGED)
            }),
            port: random.choice(&PORTS).copied().filter(|_| !is_post && site.has_ports && random.percent(20)),
        })
    }

    /// Whether the visitor breaks the protocol, gives up or is so slow that the edge may refuse it.
    pub fn misbehaves(&self) -> bool {
        let is_rude = match self.manner {
            Manner::Abort { .. } | Manner::HalfHead { .. } => true,
            Manner::SlowRead { pause_ms } | Manner::HeadInPieces { pause_ms, .. } => pause_ms > 1000,
            Manner::Plain => false,
        };
        is_rude || self.upload.is_some_and(|upload| upload.is_aborted || upload.pause_ms > 1000)
    }

    /// The head of the request. `fields` are the lines that depend on the visitor's copies.
    pub(crate) fn head(&self, host: &str, visitor: Recognised<'_>, fields: &str) -> String {
        let Recognised { user, nick } = visitor;
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {host}\r\n", self.method.token(), self.target);
        let cookies = [
            user.map(|user| format!("{USER_COOKIE}={user}")),
            self.has_noise.then(|| "_ga=1".into()),
            nick.map(|nick| format!("{NICK_COOKIE}={nick}")),
        ];
        let cookies: Vec<_> = cookies.into_iter().flatten().collect();
        // Writing to a String cannot fail.
        if !cookies.is_empty() {
            let _ = write!(head, "Cookie: {}\r\n", cookies.join("; "));
        }
        if let Some(language) = self.language {
            let _ = write!(head, "Accept-Language: {language}\r\n");
        }
        if let Some(coding) = self.coding {
            let _ = write!(head, "Accept-Encoding: {coding}\r\n");
        }
        if let Some(extra) = self.extra {
            let _ = write!(head, "{extra}\r\n");
        }
        if self.is_reload {
            head.push_str("Cache-Control: no-cache\r\n");
        }
        if !self.ranges.is_empty() {
            let ranges: Vec<_> = self.ranges.iter().map(ToString::to_string).collect();
            let _ = write!(head, "Range: bytes={}\r\n", ranges.join(","));
        }
        head.push_str(fields);
        if let Some(orders) = &self.orders {
            head.push_str(&orders.line());
        }
        if let Some(upload) = self.upload {
            let _ = write!(head, "{UPLOAD_FIELD}: {} {}\r\n", self.upload_id(), upload.bytes);
            if upload.expects {
                head.push_str("Expect: 100-continue\r\n");
            }
            if upload.is_chunked {
                head.push_str("Transfer-Encoding: chunked\r\n");
            } else {
                let _ = write!(head, "Content-Length: {}\r\n", upload.bytes);
            }
        }
        head.push_str("\r\n");
        head
    }

    pub(crate) fn upload_id(&self) -> ContentId {
        let path = self.target.split('?').next().unwrap_or_default().to_owned();
        let (user, language, realm) = ("upload".into(), NONE.into(), NONE.into());
        ContentId { target: path, version: self.number, user, language, realm }
    }

    /// The steps in which the request is sent.
    pub(crate) fn steps(&self, head: &str) -> Vec<Step> {
        let head = head.as_bytes();
        let mut steps = match self.manner {
            Manner::HeadInPieces { pieces, pause_ms } => {
                let size = head.len().div_ceil(pieces.max(1));
                let pause = Step::Pause(Duration::from_millis(pause_ms));
                let pieces = head.chunks(size).map(|piece| Step::Bytes(piece.to_vec()));
                pieces.flat_map(|piece| [piece, pause.clone()]).collect()
            }
            Manner::HalfHead { hold_ms } => {
                let half = head.get(..head.len() / 2).unwrap_or_default();
                let pause = Step::Pause(Duration::from_millis(hold_ms));
                return vec![Step::Bytes(half.to_vec()), pause, Step::GiveUp];
            }
            Manner::Plain | Manner::SlowRead { .. } | Manner::Abort { .. } => {
                vec![Step::Bytes(head.to_vec())]
            }
        };
        if let Some(upload) = self.upload {
            self.upload_steps(upload, &mut steps);
        }
        if self.manner == (Manner::Abort { after_bytes: 0 }) {
            steps.push(Step::GiveUp);
        }
        steps
    }

    fn upload_steps(&self, upload: Upload, steps: &mut Vec<Step>) {
        let body = slice(&self.upload_id(), 0, upload.bytes);
        let kept = if upload.is_aborted { upload.bytes / 2 } else { upload.bytes };
        let pause = Step::Pause(Duration::from_millis(upload.pause_ms));
        if upload.expects {
            steps.push(Step::Pause(Duration::from_millis(200)));
        }
        for piece in body.get(..kept).unwrap_or_default().chunks((upload.bytes / 4).max(1)) {
            if upload.is_chunked {
                let mut chunk = BytesMut::new();
                h1::write_chunk(&mut chunk, piece);
                steps.push(Step::Bytes(chunk.to_vec()));
            } else {
                steps.push(Step::Bytes(piece.to_vec()));
            }
            if upload.pause_ms > 0 {
                steps.push(pause.clone());
            }
        }
        if upload.is_aborted {
            steps.push(Step::GiveUp);
        } else if upload.is_chunked {
            steps.push(Step::Bytes(b"0\r\n\r\n".to_vec()));
        }
    }
}

/// A page of the site. The first pages are the popular ones.
fn random_page<'a>(random: &mut Random, site: &'a SitePlan) -> Option<&'a PagePlan> {
    let popular = site.pages.get(..site.pages.len().min(3)).unwrap_or_default();
    let is_popular = random.percent(60);
    random.choice(if is_popular { popular } else { &site.pages })
}

fn random_ranges(random: &mut Random, page: &PagePlan) -> Vec<RangeSpec> {
    let bytes = page.bytes as u64 + 50;
    let mut one = || match random.below(8) {
        7 => RangeSpec::From((bytes + 200) as usize),
        0 => RangeSpec::Last(random.between(1, bytes) as usize),
        1 => RangeSpec::From(random.below(bytes + 100) as usize),
        _ => {
            let first = random.below(bytes);
            RangeSpec::FromTo(first as usize, (first + random.below(bytes)) as usize)
        }
    };
    let first = one();
    let second = one();
    if random.percent(25) { vec![first, second] } else { vec![first] }
}

fn random_manner(random: &mut Random, is_post: bool) -> Manner {
    match random.below(100) {
        0..6 => Manner::SlowRead { pause_ms: random.between(1, 2000) },
        6..12 => {
            let small = random.percent(50);
            Manner::Abort { after_bytes: random.below(if small { 600 } else { 100_000 }) as usize }
        }
        12..18 => {
            let pieces = random.between(2, 5) as usize;
            Manner::HeadInPieces { pieces, pause_ms: random.between(0, 700) }
        }
        18..21 if !is_post => Manner::HalfHead { hold_ms: random.between(100, 90_000) },
        _ => Manner::Plain,
    }
}

fn random_upload(random: &mut Random) -> Upload {
    let bytes_max = if random.percent(30) { 100_000 } else { 500 };
    Upload {
        bytes: random.below(bytes_max) as usize,
        is_chunked: random.percent(30),
        pause_ms: if random.percent(30) { random.between(1, 2500) } else { 0 },
        is_aborted: random.percent(12),
        expects: random.percent(10),
    }
}

impl fmt::Display for Visit {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, think_ms, method, target, .. } = self;
        write!(to, "visit {number}: after {think_ms} ms, {} {target}", method.token())?;
        if let Some(language) = self.language {
            write!(to, " in {language}")?;
        }
        if let Some(coding) = self.coding {
            write!(to, " accepting {coding}")?;
        }
        if let Some(extra) = self.extra {
            write!(to, " with {extra}")?;
        }
        if let Some(port) = self.port {
            write!(to, " at port {port}")?;
        }
        let flags = [
            (self.has_cookie, "with the user's cookie"),
            (self.has_noise, "with another cookie"),
            (self.has_nick, "with a name to be greeted by"),
            (self.is_other_host, "at the other host"),
            (self.is_reload, "reload"),
            (self.is_pipelined, "pipelined"),
            (self.is_fresh, "on a new connection"),
        ];
        for (_, flag) in flags.iter().filter(|(is_set, _)| *is_set) {
            write!(to, ", {flag}")?;
        }
        if self.condition != Condition::None {
            write!(to, ", condition {:?}", self.condition)?;
        }
        if !self.ranges.is_empty() {
            let ranges: Vec<_> = self.ranges.iter().map(ToString::to_string).collect();
            write!(
                to,
                ", range {}{}",
                ranges.join(","),
                if self.has_if_range { " with If-Range" } else { "" }
            )?;
        }
        if let Some(upload) = self.upload {
            write!(to, ", {upload:?}")?;
        }
        if let Some(orders) = &self.orders {
            write!(to, ", orders {orders}")?;
        }
        if self.manner == Manner::Plain { Ok(()) } else { write!(to, ", {:?}", self.manner) }
    }
}
