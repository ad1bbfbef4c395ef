//! The counts that ApacheBench 2.4 would report, kept in addition to our own.
//!
//! `ab` takes whatever came before a connection ended for a whole response. It ignores the status
//! and compares lengths with the response that ended first. One failure can be in several of its
//! counters.
//!
//! Invariant: the counters follow `close_connection` and `read_connection` in `ab`'s source, for
//! servers that send no chunked responses on persistent connections.

/// Whether a run counts in the way of Petasos, of `ab`, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// Only Petasos' own counts.
    #[default]
    Ours,
    /// Petasos' own counts, and [`AbAccount`] in addition.
    BesideAb,
    /// As `ab` does: the end of a connection ends its response, and no request is sent again.
    /// [`AbAccount`] is kept.
    AsAb,
}

/// The counts that `ab` would report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AbAccount {
    /// Responses that ended in any way: *Complete requests*.
    pub complete: u64,
    /// Content bytes of the response that ended first, as they were on the wire.
    pub document_bytes: u64,
    /// Content bytes, as they were on the wire.
    pub content_bytes: u64,
    /// Responses with a head whose status does not begin with 2.
    pub non_2xx: u64,
    /// Connections that broke.
    pub receive: u64,
    /// Responses whose length differs from the first one's.
    pub length: u64,
    /// The connections of `receive` again: `ab` counts them twice.
    pub exceptions: u64,
    /// Requests without a response in time. `ab` aborts at the first one, without a report.
    pub silent: u64,
    /// Connections that could not be established. Without `-r`, `ab` aborts at the first one; with
    /// it, `ab` counts some twice.
    pub refused: u64,
    /// Responses whose connection ended regularly or stayed open.
    pub well_ended: u64,
}

/// How a response ended, in `ab`'s terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AbEnd {
    /// The status, if the head was complete.
    pub status: Option<u16>,
    /// Bytes after the head.
    pub content_bytes: u64,
    /// The connection broke.
    pub is_broken: bool,
}

impl AbAccount {
    /// Failed requests, as `ab` counts them.
    pub fn failed(&self) -> u64 {
        self.receive + self.length + self.exceptions
    }

    /// Counts the end of a response. With `-l`, `counts_lengths` is false and lengths are not
    /// compared.
    pub fn end(&mut self, end: AbEnd, counts_lengths: bool) {
        self.receive += u64::from(end.is_broken);
        self.exceptions += u64::from(end.is_broken);
        self.well_ended += u64::from(!end.is_broken);
        if self.well_ended == 1 {
            self.document_bytes = end.content_bytes;
        } else if counts_lengths && end.content_bytes != self.document_bytes {
            self.length += 1;
        }
        self.complete += 1;
        self.content_bytes += end.content_bytes;
        self.non_2xx += u64::from(end.status.is_some_and(|status| status / 100 != 2));
    }
}

#[cfg(test)]
mod tests {
    use super::{AbAccount, AbEnd};

    fn account(ends: &[(u64, bool)]) -> AbAccount {
        let mut account = AbAccount::default();
        for &(content_bytes, is_broken) in ends {
            account.end(AbEnd { status: Some(200), content_bytes, is_broken }, true);
        }
        account
    }

    #[test]
    fn responses_cut_at_the_same_length_do_not_fail() {
        let all = account(&[(5, false), (5, false)]);
        assert_eq!((all.complete, all.failed(), all.document_bytes), (2, 0, 5));
        let some = account(&[(11, false), (11, false), (5, false)]);
        assert_eq!((some.complete, some.failed(), some.length), (3, 1, 1));
    }

    #[test]
    fn broken_connection_counts_as_three_failures() {
        let account = account(&[(11, false), (11, false), (0, true)]);
        assert_eq!((account.receive, account.length, account.exceptions), (1, 1, 1));
        assert_eq!((account.complete, account.failed()), (3, 3));
    }

    #[test]
    fn break_after_the_first_response_sets_the_length() {
        let account = account(&[(11, false), (0, true), (11, false)]);
        assert_eq!((account.document_bytes, account.length), (0, 1));
    }
}
