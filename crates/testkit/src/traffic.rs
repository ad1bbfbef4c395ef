//! The traffic of an ordinary site. Pages are drawn by Zipf's law with exponent 1. A part of the
//! requests comes from robots; the others come from visitors with analytics cookies and campaign
//! parameters.
//!
//! Invariant: the same seed and the same pages give the same requests, independent of the
//! responses.

/// Requests per second. At this rate, 20,000 requests take five minutes.
pub const RATE: u32 = 67;

/// Share of requests from robots, in percent.
const ROBOTS_PERCENT: u64 = 5;

/// Cookies of six analytics scripts, and one unknown cookie. A number is appended to each visitor's
/// cookies.
const COOKIES: &str = "_ga=GA1.1.1; _ga_0A1B2C=GS1.1; _gid=GA1.2; _fbp=fb.1; _pk_id.1.1fff=0a; \
                       _hjSessionUser_1=x; theme_hint=7";

/// An endless sequence of requests for a list of pages.
pub struct RequestSequence {
    numbers: Numbers,
    /// The targets of the pages, the most requested first.
    pages: Vec<String>,
    /// Cumulative share of requests for the pages up to each index; the last value is 1.
    shares: Vec<f64>,
}

/// One request.
pub struct SequenceRequest {
    /// Index of the page in [`RequestSequence::pages()`].
    pub page: usize,
    /// The page's target, with campaign parameters if there are any.
    pub target: String,
    /// Header lines except `Host`.
    pub fields: Vec<String>,
}

impl RequestSequence {
    /// Traffic for pages with these targets, the most requested first.
    pub fn new(seed: u64, pages: Vec<String>) -> Self {
        let mut sum = 0.0;
        let sums: Vec<f64> = (1..=pages.len())
            .map(|rank| {
                sum += 1.0 / rank as f64;
                sum
            })
            .collect();
        Self { numbers: Numbers(seed), pages, shares: sums.iter().map(|up_to| up_to / sum).collect() }
    }

    /// As [`RequestSequence::new`], but the order of the pages is shuffled with the seed.
    pub fn shuffled(seed: u64, mut pages: Vec<String>) -> Self {
        let mut numbers = Numbers(seed);
        for last in (1..pages.len()).rev() {
            // The cast loses nothing, because the remainder is below the number of pages.
            pages.swap(last, (numbers.next() % (last as u64 + 1)) as usize);
        }
        Self { numbers, ..Self::new(seed, pages) }
    }

    /// The targets of the pages, the most requested first.
    pub fn pages(&self) -> &[String] {
        &self.pages
    }

    /// The next request.
    pub fn visit(&mut self) -> SequenceRequest {
        let page = self.page();
        if self.numbers.chance(ROBOTS_PERCENT) { self.robot(page) } else { self.visitor(page) }
    }

    /// Draws the index of a page by its share of requests.
    pub fn page(&mut self) -> usize {
        let at = self.numbers.next() as f64 / (1_u64 << 53) as f64;
        self.shares.partition_point(|up_to| *up_to < at)
    }

    /// A robot's request for a page. `page` is an index in [`RequestSequence::pages()`].
    pub fn robot(&self, page: usize) -> SequenceRequest {
        let name = "User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
        SequenceRequest { page, target: self.pages[page].clone(), fields: vec![name.to_owned()] }
    }

    /// A browser's request for a page. `page` is an index in [`RequestSequence::pages()`].
    pub fn visitor(&mut self, page: usize) -> SequenceRequest {
        let target = &self.pages[page];
        let with = |parameters: String| {
            let separator = if target.contains('?') { '&' } else { '?' };
            format!("{target}{separator}{parameters}")
        };
        let click = self.numbers.next();
        let target = match self.numbers.next() % 10 {
            0 => with(format!("utm_source=letter&utm_medium=mail&utm_campaign={click}")),
            1 => with(format!("fbclid=IwAR{click}")),
            2 => with(format!("gclid={click}&gad_source=1")),
            _ => target.clone(),
        };
        let browser = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
        let fields =
            [browser, "Accept: text/html,*/*;q=0.8", "Accept-Language: en", "Sec-Fetch-Mode: navigate"];
        let cookies = format!("Cookie: {COOKIES}{click}");
        SequenceRequest {
            page,
            target,
            fields: fields.into_iter().map(str::to_owned).chain([cookies]).collect(),
        }
    }
}

/// Generates numbers below 2^53 that are the same in each run (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// True with a probability of `percent` in a hundred.
    fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}
