//! What ApacheBench 2.4 would have counted, kept beside our own counts.
//!
//! `ab` takes whatever came before a connection ended for a whole answer, looks at no status, and compares lengths with
//! that of the answer that ended first. One failure can be in several of its counters.
//!
//! Invariant: the counters are those of `close_connection` and `read_connection` in its source, for servers whose
//! answers are not in chunks on kept connections.

/// Whether a run counts as we do alone, or as `ab` does as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// Only as we do.
    #[default]
    Ours,
    /// As we do, with [`AbAccount`] beside it.
    BesideAb,
    /// As `ab` does: the end of a connection ends its answer, and no request is sent again. [`AbAccount`] is kept.
    AsAb,
}

/// What `ab` would have counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AbAccount {
    /// Answers that ended, however they did: *Complete requests*.
    pub complete: u64,
    /// Content octets of the answer that ended first, as they were on the wire.
    pub document_bytes: u64,
    /// Content octets as they were on the wire.
    pub content_bytes: u64,
    /// Answers with a head whose status does not begin with 2.
    pub non_2xx: u64,
    /// Connections that broke.
    pub receive: u64,
    /// Answers of another length than the first.
    pub length: u64,
    /// The second count of a connection that broke.
    pub exceptions: u64,
    /// Requests without an answer in time; `ab` ends at them, without a report.
    pub silent: u64,
    /// Connections that could not be made; `ab` ends at the first one without `-r`, and counts some twice with it.
    pub refused: u64,
    /// Answers whose connection ended in good order, or stayed.
    pub well_ended: u64,
}

/// How an answer ended, in `ab`'s terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AbEnd {
    /// The status, if the head was complete.
    pub(crate) status: Option<u16>,
    /// Octets after the head.
    pub(crate) content_bytes: u64,
    /// The connection broke.
    pub(crate) is_broken: bool,
}

impl AbAccount {
    /// Failed requests: what `ab` calls so.
    pub fn failed(&self) -> u64 {
        self.receive + self.length + self.exceptions
    }

    /// Takes note of the end of an answer; `-l` makes lengths not count.
    pub(crate) fn end(&mut self, end: AbEnd, counts_lengths: bool) {
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
    fn answers_cut_at_the_same_place_do_not_fail() {
        let all = account(&[(5, false), (5, false)]);
        assert_eq!((all.complete, all.failed(), all.document_bytes), (2, 0, 5));
        let some = account(&[(11, false), (11, false), (5, false)]);
        assert_eq!((some.complete, some.failed(), some.length), (3, 1, 1));
    }

    #[test]
    fn a_broken_connection_fails_three_times() {
        let account = account(&[(11, false), (11, false), (0, true)]);
        assert_eq!((account.receive, account.length, account.exceptions), (1, 1, 1));
        assert_eq!((account.complete, account.failed()), (3, 3));
    }

    #[test]
    fn a_break_after_the_first_answer_sets_the_length() {
        let account = account(&[(11, false), (0, true), (11, false)]);
        assert_eq!((account.document_bytes, account.length), (0, 1));
    }
}
