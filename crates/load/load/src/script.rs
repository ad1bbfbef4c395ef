//! The behaviour of the users of a run: which request comes next, and how a response is judged.
//!
//! Invariant: a script reads no clock and makes no connection. The worker decides when a request
//! starts, and the transport how it travels.

use crate::content::Inspection;
use crate::reader::ResponseSummary;
use crate::recorder::ResponseJudgement;
use crate::shared::LoadContext;
use stats::Random;
use std::time::Duration;

/// The behaviour of the users of one thread. Requests are indices into the run's list of requests.
pub(crate) trait Script {
    /// A user's next request.
    fn next(&mut self) -> u32;

    /// Request `number` of an open loop. Depends only on the number, not on the thread.
    fn numbered(&self, number: u64) -> u32;

    /// How long a user thinks after a response; `None` if users do not think.
    fn think(&mut self) -> Option<Duration>;

    /// How to look at the content of the response to the request being sent.
    fn inspect(&mut self, request: u32) -> Inspection;

    /// The meaning of a complete response.
    fn judge(&self, request: u32, answer: &ResponseSummary, inspection: Inspection) -> ResponseJudgement;

    /// Notes that a request got no complete response.
    fn give_up(&self, request: u32, inspection: &Inspection);
}

/// Users who request the plan's URLs in proportion to their weights. A logged-in visitor of a
/// ladder is a URL with the visitor's cookies and its own expected page.
pub(crate) struct UrlList<'a> {
    shared: &'a LoadContext<'a>,
    random: Random,
    /// Number of responses for which it was decided whether to compare the content.
    inspected: u64,
}

impl<'a> UrlList<'a> {
    /// The users of this thread.
    pub(crate) fn new(shared: &'a LoadContext<'a>, thread: usize) -> Self {
        // Neighbouring seeds are mixed, so that threads do not choose the same URLs at the same
        // time.
        let seed = Random::from_seed(shared.plan.seed.wrapping_add(thread as u64)).next_u64();
        Self { shared, random: Random::from_seed(seed), inspected: 0 }
    }
}

impl Script for UrlList<'_> {
    #[inline]
    fn next(&mut self) -> u32 {
        let routes = self.shared.routes;
        if routes.urls.len() > 1 { routes.choose(self.random.next_u64()) } else { 0 }
    }

    fn numbered(&self, number: u64) -> u32 {
        let lot = Random::from_seed(self.shared.plan.seed ^ (number << 8)).next_u64();
        self.shared.routes.choose(lot)
    }

    #[inline]
    fn think(&mut self) -> Option<Duration> {
        let think = self.shared.plan.think;
        if think.is_none() { None } else { Some(think.draw(&mut self.random)) }
    }

    #[inline]
    fn inspect(&mut self, request: u32) -> Inspection {
        self.inspected += 1;
        self.shared.contents.inspect(request, self.inspected, self.shared.expect(request))
    }

    #[inline]
    fn judge(&self, request: u32, answer: &ResponseSummary, inspection: Inspection) -> ResponseJudgement {
        self.shared.contents.judge(self.shared.expect(request), request, answer, inspection)
    }

    fn give_up(&self, request: u32, inspection: &Inspection) {
        self.shared.contents.give_up(request, inspection);
    }
}
