//! A request of a session that may write.
//!
//! Invariant: from the begin of the request to its end the session has no copy of a page, and gets
//! and gives no page of its context.

use crate::memory::context_sessions::{ContextSessionLimits, PauseCause};
use crate::memory::private_copies::{Digest, WritingSession};
use crate::shared::Shared;
use message::Fields;
use profiles::Policy;
use semantics::{cookie_pairs, session_cookies};
use std::sync::Arc;

/// The session of a request that may write, until the request has ended.
pub(crate) struct SessionWrite {
    private: WritingSession,
    _context: ContextWrite,
}

impl SessionWrite {
    /// The write of a session with the cookies of `fields`.
    pub(crate) fn begin(shared: &Arc<Shared>, fields: &Fields, policy: &Policy) -> Self {
        Self {
            private: WritingSession::begin(&shared.private_copies, cookie_pairs(fields)),
            _context: ContextWrite::begin(shared, fields, policy),
        }
    }

    /// Ends the copies of the session, because the request has written.
    pub(crate) fn end(&self) {
        self.private.end();
    }
}

/// A session that writes, until this is dropped.
struct ContextWrite {
    shared: Arc<Shared>,
    cookies: Vec<Digest>,
}

impl ContextWrite {
    /// The write of a session with these cookies.
    fn begin(shared: &Arc<Shared>, fields: &Fields, policy: &Policy) -> Self {
        let cookies = session_cookies(fields, policy).session;
        let cookies = cookies.iter().map(|cookie| shared.private_copies.digest([*cookie])).collect();
        let writing = Self { shared: Arc::clone(shared), cookies };
        writing.pause(PauseCause::WriteBegun);
        writing
    }

    fn pause(&self, cause: PauseCause) {
        let limits = ContextSessionLimits::of(&self.shared.limits);
        self.shared.context_sessions.pause(&self.cookies, cause, limits);
    }
}

impl Drop for ContextWrite {
    fn drop(&mut self) {
        self.pause(PauseCause::WriteEnded);
    }
}
