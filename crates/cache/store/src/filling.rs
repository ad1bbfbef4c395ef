//! A body that one writer fills and any number of readers read, each with its own cursor.
//!
//! ```text
//!             push                                   poll_next
//!   writer ----------> [ 64 KiB | 64 KiB | loose ] <---------- readers
//!                       ^ start                  ^ end
//! ```
//!
//! A body starts out *kept*: it retains every byte, new readers may join, and `finish_with` hands
//! over the complete [`Body`]. Above its limit it becomes a *window*: bytes that every reader has
//! taken are dropped, and no new reader may join. `poll_ready` then stops the writer while the
//! slowest reader lags by the size of the window. So a body that will not be stored occupies one
//! window, however large it is. A reader with a slow client takes bytes ahead of it (`poll_ahead`),
//! as far as it has room for them elsewhere, so that it holds up no other reader.
//!
//! Invariant: every reader receives a prefix of the pushed bytes, and sees the end only if the
//! writer finished. Dropping the writer without `finish_with` aborts the body, so that no reader
//! takes a part for the whole. Wakers are registered under the lock that guards the state they wait
//! for, so no wake-up is lost.

use crate::sync::{Mutex, MutexGuard, sound};
use crate::{Body, CHUNK_BYTES};
use bytes::Bytes;
use message::Fields;
use semantics::Reason;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The body ended before it was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aborted(pub Reason);

/// The body is a window and has no reader left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abandoned;

/// A body being filled. Readers are created from it.
#[derive(Debug)]
pub struct Filling {
    state: Mutex<FillingState>,
}

/// The one writer of a [`Filling`].
#[derive(Debug)]
pub struct FillingWriter {
    filling: Arc<Filling>,
}

/// One reader of a [`Filling`].
#[derive(Debug)]
pub struct FillingReader {
    filling: Arc<Filling>,
    slot: usize,
}

#[derive(Debug)]
struct FillingState {
    /// Bytes from `start` to `end`, in order. Chunks before `loose_from` own exactly their memory.
    chunks: VecDeque<Chunk>,
    /// The index of the first chunk that is still a slice of the pushed buffer.
    loose_from: usize,
    start: u64,
    end: u64,
    /// The most bytes that may be kept, or `None` if the body is a window.
    keep_bytes_max: Option<u64>,
    readers: Vec<Option<ReaderState>>,
    had_readers: bool,
    /// No new reader may join.
    closed: bool,
    writer: Option<Waker>,
    outcome: Option<Result<(), Aborted>>,
    /// The trailer fields that followed the body.
    trailer: Option<Fields>,
}

#[derive(Debug)]
struct Chunk {
    offset: u64,
    octets: Bytes,
}

#[derive(Debug, Default)]
struct ReaderState {
    cursor: u64,
    waker: Option<Waker>,
    /// Wakes a reader that would read ahead, when the body becomes a window.
    ahead_waker: Option<Waker>,
}

impl Filling {
    /// Starts a body. It is kept while it has at most `keep_bytes_max` bytes; with zero it is a
    /// window from the start. A window holds all pushed bytes until its first reader joins.
    pub fn start(keep_bytes_max: u64) -> (FillingWriter, Arc<Self>) {
        let state = FillingState {
            chunks: VecDeque::new(),
            loose_from: 0,
            start: 0,
            end: 0,
            keep_bytes_max: (keep_bytes_max > 0).then_some(keep_bytes_max),
            readers: Vec::new(),
            had_readers: false,
            closed: false,
            writer: None,
            outcome: None,
            trailer: None,
        };
        let filling = Arc::new(Self { state: Mutex::new(state) });
        (FillingWriter { filling: Arc::clone(&filling) }, filling)
    }

    /// A new reader at the first byte. `None` once bytes may have been dropped or the writer has
    /// closed the body.
    pub fn reader(self: &Arc<Self>) -> Option<FillingReader> {
        let mut state = self.lock();
        if state.closed || state.start > 0 || (state.keep_bytes_max.is_none() && state.had_readers) {
            return None;
        }
        state.had_readers = true;
        let slot = state.readers.iter().position(Option::is_none).unwrap_or(state.readers.len());
        if slot == state.readers.len() {
            state.readers.push(None);
        }
        *state.reader_mut(slot) = Some(ReaderState::default());
        Some(FillingReader { filling: Arc::clone(self), slot })
    }

    /// The bytes held in memory now.
    pub fn held_bytes(&self) -> u64 {
        let state = self.lock();
        state.end - state.start
    }

    fn lock(&self) -> MutexGuard<'_, FillingState> {
        sound(self.state.lock())
    }

    /// Records how the body ended and wakes all readers. Only the first call has an effect on the
    /// outcome.
    fn settle(&self, outcome: Result<(), Aborted>) {
        let wakers = {
            let mut state = self.lock();
            state.outcome.get_or_insert(outcome);
            state.take_reader_wakers()
        };
        // Wakers are foreign code, so they run after the lock is released, here and below.
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl FillingWriter {
    /// Whether the body still retains all of its bytes.
    pub fn is_kept(&self) -> bool {
        self.filling.lock().keep_bytes_max.is_some()
    }

    /// Whether the body is kept now but would exceed its limit with `octets` more bytes.
    pub fn passes_limit(&self, octets: usize) -> bool {
        let state = self.filling.lock();
        state.keep_bytes_max.is_some_and(|limit| state.end + octets as u64 > limit)
    }

    /// The chunks pushed so far. Call it only while the body is kept; a window has dropped some.
    pub fn so_far(&self) -> Vec<Bytes> {
        self.filling.lock().chunks.iter().map(|chunk| chunk.octets.clone()).collect()
    }

    /// Ready when the writer may push. This is always so while the body is kept. A window is ready
    /// while it holds fewer than `window_bytes`, which the slowest reader determines.
    ///
    /// # Errors
    /// [`Abandoned`] if the body is a window whose last reader has gone.
    pub fn poll_ready(
        &mut self,
        context: &mut Context<'_>,
        window_bytes: u64,
    ) -> Poll<Result<(), Abandoned>> {
        let mut state = self.filling.lock();
        if state.keep_bytes_max.is_some() {
            return Poll::Ready(Ok(()));
        }
        if state.may_be_abandoned() && state.readers.iter().all(Option::is_none) {
            return Poll::Ready(Err(Abandoned));
        }
        if state.end - state.start < window_bytes {
            return Poll::Ready(Ok(()));
        }
        state.writer = Some(context.waker().clone());
        Poll::Pending
    }

    /// Admits no new reader from now on. A window without readers waits for its first one, and
    /// without this call it would wait for ever.
    pub fn close(&mut self) {
        let mut state = self.filling.lock();
        state.closed = true;
        state.drop_taken();
    }

    /// Turns the body into a window, because it will not be stored after all.
    pub fn stop_keeping(&mut self) {
        let wakers = {
            let mut state = self.filling.lock();
            if state.keep_bytes_max.take().is_some() {
                state.drop_taken();
            }
            state.take_reader_wakers()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Adds bytes at the end. A kept body that exceeds its limit becomes a window.
    pub fn push(&mut self, octets: Bytes) {
        if octets.is_empty() {
            return;
        }
        let wakers = {
            let mut state = self.filling.lock();
            state.append(octets);
            state.take_reader_wakers()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Completes the body with its last bytes, which may be empty, and its trailer fields.
    ///
    /// If the body was kept, `publish` receives it before any reader can take the last bytes or see
    /// the end. So a reader that has reached the end finds the body published. `publish` runs under
    /// this body's lock and must not use its readers.
    pub fn finish_with(self, last: Bytes, trailer: Option<Fields>, publish: impl FnOnce(Body)) {
        {
            let mut state = self.filling.lock();
            state.trailer = trailer;
            if !last.is_empty() {
                state.append(last);
            }
            if state.keep_bytes_max.is_some() {
                state.compact(0);
                publish(Body::of_chunks(state.chunks.iter().map(|chunk| chunk.octets.clone()).collect()));
            }
        }
        self.filling.settle(Ok(()));
    }

    /// Ends the body as incomplete, for this reason.
    pub fn abort(self, reason: Reason) {
        self.filling.settle(Err(Aborted(reason)));
    }
}

impl Drop for FillingWriter {
    fn drop(&mut self) {
        self.filling.settle(Err(Aborted(Reason::OriginTruncated)));
    }
}

impl FillingReader {
    /// The next bytes, or `None` at the end of a complete body.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Aborted>>> {
        let (result, writer) = {
            let mut state = self.filling.lock();
            let result = state.read(self.slot, context);
            (result, state.drop_taken())
        };
        if let Some(writer) = writer {
            writer.wake();
        }
        result
    }
}

impl FillingReader {
    /// As [`FillingReader::poll_next`], for a reader that would keep the bytes elsewhere because
    /// its client does not take them yet. Pending while the body is kept, because its bytes stay in
    /// memory anyway.
    pub fn poll_ahead(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Aborted>>> {
        {
            let mut state = self.filling.lock();
            if state.keep_bytes_max.is_some() {
                if let Some(reader) = state.reader_mut(self.slot) {
                    reader.ahead_waker = Some(context.waker().clone());
                }
                return Poll::Pending;
            }
        }
        self.poll_next(context)
    }

    /// The trailer fields, once the body has ended.
    pub fn trailer(&self) -> Option<Fields> {
        self.filling.lock().trailer.clone()
    }
}

impl Drop for FillingReader {
    fn drop(&mut self) {
        let writer = {
            let mut state = self.filling.lock();
            *state.reader_mut(self.slot) = None;
            // A waiting writer holds a full window. When the last reader goes, the window is
            // emptied, which wakes the writer.
            state.drop_taken()
        };
        if let Some(writer) = writer {
            writer.wake();
        }
    }
}

impl FillingState {
    fn append(&mut self, octets: Bytes) {
        let offset = self.end;
        self.end += octets.len() as u64;
        self.chunks.push_back(Chunk { offset, octets });
        match self.keep_bytes_max {
            Some(limit) if self.end > limit => {
                self.keep_bytes_max = None;
                self.drop_taken();
            }
            Some(_) => self.compact(CHUNK_BYTES),
            // A window without readers may still be filled for the disk. Nothing else would drop
            // its bytes.
            None => {
                self.drop_taken();
            }
        }
    }

    /// The place of a reader.
    #[expect(clippy::expect_used, reason = "places of readers are never removed")]
    fn reader_mut(&mut self, slot: usize) -> &mut Option<ReaderState> {
        self.readers.get_mut(slot).expect("places of readers are never removed")
    }

    /// Copies loose chunks into exact ones of [`CHUNK_BYTES`], while at least `loose_min` bytes are
    /// loose. With zero it also copies a shorter rest. Offsets do not change, so readers are not
    /// affected.
    #[expect(clippy::expect_used, reason = "the loop takes no more than the loose bytes")]
    fn compact(&mut self, loose_min: usize) {
        let loose_bytes = |state: &Self| {
            let from = state.chunks.get(state.loose_from).map_or(state.end, |chunk| chunk.offset);
            usize::try_from(state.end - from).unwrap_or(usize::MAX)
        };
        loop {
            let loose = loose_bytes(self);
            if loose == 0 || loose < loose_min {
                return;
            }
            // Not the capacity of the piece: the allocator may give it more.
            let piece_bytes = loose.min(CHUNK_BYTES);
            let mut piece = Vec::with_capacity(piece_bytes);
            let offset = self.chunks.get(self.loose_from).map_or(self.end, |chunk| chunk.offset);
            while piece.len() < piece_bytes {
                let mut chunk = self.chunks.remove(self.loose_from).expect("so many bytes are loose");
                let room = piece_bytes - piece.len();
                let taken = chunk.octets.split_to(room.min(chunk.octets.len()));
                piece.extend_from_slice(&taken);
                if !chunk.octets.is_empty() {
                    chunk.offset += taken.len() as u64;
                    self.chunks.insert(self.loose_from, chunk);
                }
            }
            self.chunks.insert(self.loose_from, Chunk { offset, octets: Bytes::from(piece) });
            self.loose_from += 1;
        }
    }

    /// The next bytes for a reader, or the end. Bytes that are missing must not read as the end,
    /// because the body would then be cut without an error.
    #[expect(clippy::expect_used, reason = "bytes stay until every reader has taken them")]
    fn read(&mut self, slot: usize, context: &Context<'_>) -> Poll<Option<Result<Bytes, Aborted>>> {
        let place = self.readers.get_mut(slot).and_then(Option::as_mut);
        let reader = place.expect("a reader has its place until it is dropped");
        if reader.cursor < self.end {
            let after = self.chunks.partition_point(|chunk| chunk.offset <= reader.cursor);
            let found = after.checked_sub(1).and_then(|index| self.chunks.get(index));
            let chunk = found.expect("bytes stay until every reader has taken them");
            let skip = usize::try_from(reader.cursor - chunk.offset).unwrap_or(usize::MAX);
            let octets = chunk.octets.slice(skip.min(chunk.octets.len())..);
            reader.cursor = chunk.offset + chunk.octets.len() as u64;
            reader.waker = None;
            return Poll::Ready(Some(Ok(octets)));
        }
        match self.outcome {
            Some(Ok(())) => Poll::Ready(None),
            Some(Err(aborted)) => Poll::Ready(Some(Err(aborted))),
            None => {
                reader.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Drops the chunks of a window that every reader has taken. Returns the writer's waker if this
    /// freed any.
    fn drop_taken(&mut self) -> Option<Waker> {
        if self.keep_bytes_max.is_some() || !self.may_be_abandoned() {
            return None;
        }
        let slowest = self.readers.iter().flatten().map(|reader| reader.cursor).min().unwrap_or(self.end);
        let before = self.start;
        while let Some(chunk) = self.chunks.front() {
            let chunk_end = chunk.offset + chunk.octets.len() as u64;
            if chunk_end > slowest {
                break;
            }
            self.start = chunk_end;
            self.chunks.pop_front();
            self.loose_from = self.loose_from.saturating_sub(1);
        }
        if self.start > before { self.writer.take() } else { None }
    }

    /// Whether a window without readers will never have one again.
    fn may_be_abandoned(&self) -> bool {
        self.had_readers || self.closed
    }

    /// The wakers of the readers that have something to do.
    fn take_reader_wakers(&mut self) -> Vec<Waker> {
        let is_window = self.keep_bytes_max.is_none();
        let ahead = |reader: &mut ReaderState| if is_window { reader.ahead_waker.take() } else { None };
        let readers = self.readers.iter_mut().flatten();
        readers.flat_map(|reader| [reader.waker.take(), ahead(reader)]).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Abandoned, Aborted, Filling, FillingReader, FillingWriter};
    use crate::{Body, CHUNK_BYTES};
    use bytes::Bytes;
    use semantics::Reason;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    #[derive(Default)]
    struct WakeCount(AtomicUsize);

    impl Wake for WakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl WakeCount {
        fn wakes(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    fn next(reader: &mut FillingReader) -> Poll<Option<Result<Bytes, Aborted>>> {
        reader.poll_next(&mut Context::from_waker(Waker::noop()))
    }

    fn finish(writer: FillingWriter) -> Option<Body> {
        let mut whole = None;
        writer.finish_with(Bytes::new(), None, |body| whole = Some(body));
        whole
    }

    fn octets(text: &'static str) -> Poll<Option<Result<Bytes, Aborted>>> {
        Poll::Ready(Some(Ok(Bytes::from_static(text.as_bytes()))))
    }

    #[test]
    fn late_readers_start_at_the_first_byte() {
        let (mut writer, filling) = Filling::start(100);
        let mut early = filling.reader().unwrap();
        assert_eq!(next(&mut early), Poll::Pending);
        writer.push("ab".into());
        assert_eq!(next(&mut early), octets("ab"));
        writer.push("cd".into());
        let mut late = filling.reader().unwrap();
        assert_eq!(next(&mut late), octets("ab"));
        assert_eq!(next(&mut late), octets("cd"));
        let body = finish(writer).unwrap();
        assert_eq!(body.chunks(), ["abcd"]);
        assert_eq!(next(&mut late), Poll::Ready(None));
        assert_eq!(next(&mut early), octets("cd"));
        assert_eq!(next(&mut early), Poll::Ready(None));
        assert_eq!(next(&mut filling.reader().unwrap()), octets("abcd"));
    }

    #[test]
    fn kept_body_becomes_exact_chunks() {
        let (mut writer, filling) = Filling::start(1 << 20);
        let whole: Vec<u8> = (0..CHUNK_BYTES * 2 + 1_000).map(|n| (n % 251) as u8).collect();
        for part in whole.chunks(1_500) {
            writer.push(Bytes::copy_from_slice(part));
        }
        assert_eq!(filling.held_bytes(), whole.len() as u64);
        let body = finish(writer).unwrap();
        let lengths: Vec<_> = body.chunks().iter().map(Bytes::len).collect();
        assert_eq!(lengths, [CHUNK_BYTES, CHUNK_BYTES, 1_000]);
        assert_eq!(body.chunks().concat(), whole);
    }

    #[test]
    fn kept_body_copies_out_of_read_buffers() {
        let (mut writer, filling) = Filling::start(1 << 20);
        let buffer = Bytes::from(vec![7; 16_384]);
        writer.push(buffer.slice(10..20));
        let body = finish(writer).unwrap();
        drop(filling);
        assert!(buffer.is_unique());
        assert_eq!(body.len(), 10);
    }

    #[test]
    fn dropping_the_writer_aborts_the_body() {
        let (mut writer, filling) = Filling::start(100);
        let mut reader = filling.reader().unwrap();
        writer.push("ab".into());
        drop(writer);
        assert_eq!(next(&mut reader), octets("ab"));
        assert_eq!(next(&mut reader), Poll::Ready(Some(Err(Aborted(Reason::OriginTruncated)))));
    }

    #[test]
    fn readers_see_the_reason_of_an_abort() {
        let (writer, filling) = Filling::start(100);
        let mut reader = filling.reader().unwrap();
        writer.abort(Reason::OriginTimeout);
        assert_eq!(next(&mut reader), Poll::Ready(Some(Err(Aborted(Reason::OriginTimeout)))));
    }

    #[test]
    fn body_above_its_limit_is_a_window_without_new_readers() {
        let (mut writer, filling) = Filling::start(3);
        let mut reader = filling.reader().unwrap();
        writer.push("abc".into());
        assert!(writer.is_kept() && filling.reader().is_some());
        writer.push("d".into());
        assert!(!writer.is_kept() && filling.reader().is_none());
        assert_eq!(next(&mut reader), octets("abc"));
        assert_eq!(filling.held_bytes(), 1);
        assert_eq!(next(&mut reader), octets("d"));
        assert_eq!(finish(writer).map(|body| body.len()), None);
        assert_eq!(next(&mut reader), Poll::Ready(None));
    }

    #[test]
    fn slow_reader_blocks_the_writer_of_a_window() {
        let (mut writer, filling) = Filling::start(0);
        let count = Arc::new(WakeCount::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        let mut reader = filling.reader().unwrap();
        assert!(filling.reader().is_none());
        writer.push("abcd".into());
        assert_eq!(writer.poll_ready(&mut context, 5), Poll::Ready(Ok(())));
        assert_eq!(writer.poll_ready(&mut context, 4), Poll::Pending);
        assert_eq!(next(&mut reader), octets("abcd"));
        assert_eq!(count.wakes(), 1);
        assert_eq!(writer.poll_ready(&mut context, 4), Poll::Ready(Ok(())));
        writer.push("efgh".into());
        assert_eq!(writer.poll_ready(&mut context, 4), Poll::Pending);
        drop(reader);
        assert_eq!(count.wakes(), 2);
        assert_eq!(writer.poll_ready(&mut context, 4), Poll::Ready(Err(Abandoned)));
    }

    #[test]
    fn reader_ahead_is_woken_by_the_turn_to_a_window() {
        for stops in [false, true] {
            let (mut writer, filling) = Filling::start(3);
            let mut reader = filling.reader().unwrap();
            let count = Arc::new(WakeCount::default());
            let waker = Waker::from(Arc::clone(&count));
            let mut context = Context::from_waker(&waker);
            writer.push("abc".into());
            assert_eq!(reader.poll_ahead(&mut context), Poll::Pending);
            assert_eq!(count.wakes(), 0);
            if stops {
                writer.stop_keeping();
            } else {
                writer.push("d".into());
            }
            assert_eq!(count.wakes(), 1, "stops: {stops}");
            assert_eq!(reader.poll_ahead(&mut context), octets("abc"));
        }
    }

    #[test]
    fn reader_ahead_is_not_woken_by_bytes_of_a_kept_body() {
        let (mut writer, filling) = Filling::start(10);
        let mut reader = filling.reader().unwrap();
        let count = Arc::new(WakeCount::default());
        let waker = Waker::from(Arc::clone(&count));
        assert_eq!(reader.poll_ahead(&mut Context::from_waker(&waker)), Poll::Pending);
        writer.push("abc".into());
        assert_eq!(count.wakes(), 0);
        assert_eq!(next(&mut reader), octets("abc"));
    }

    #[test]
    fn closed_window_without_readers_is_abandoned() {
        let (mut writer, filling) = Filling::start(0);
        let mut context = Context::from_waker(Waker::noop());
        writer.push("abcd".into());
        assert_eq!(writer.poll_ready(&mut context, 4), Poll::Pending);
        writer.close();
        assert_eq!(writer.poll_ready(&mut context, 4), Poll::Ready(Err(Abandoned)));
        assert!(filling.reader().is_none());
        assert_eq!(filling.held_bytes(), 0);
    }

    #[test]
    fn reader_that_joined_before_close_gets_all_bytes() {
        let (mut writer, filling) = Filling::start(0);
        let mut reader = filling.reader().unwrap();
        writer.push("abcd".into());
        writer.close();
        assert_eq!(next(&mut reader), octets("abcd"));
        assert_eq!(finish(writer).map(|body| body.len()), None);
        assert_eq!(next(&mut reader), Poll::Ready(None));
    }

    #[test]
    fn window_holds_no_bytes_after_its_readers_left() {
        let (mut writer, filling) = Filling::start(0);
        let reader = filling.reader().unwrap();
        writer.push("abc".into());
        assert_eq!(filling.held_bytes(), 3);
        drop(reader);
        writer.push("def".into());
        assert_eq!(filling.held_bytes(), 0);
    }

    #[test]
    fn kept_body_outlives_its_readers() {
        let (mut writer, filling) = Filling::start(10);
        drop(filling.reader());
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(writer.poll_ready(&mut context, 1), Poll::Ready(Ok(())));
        writer.push("abc".into());
        assert_eq!(finish(writer).map(|body| body.len()), Some(3));
    }

    #[test]
    fn body_is_published_before_readers_see_the_end() {
        let (writer, filling) = Filling::start(10);
        let mut reader = filling.reader().unwrap();
        let count = Arc::new(WakeCount::default());
        let waker = Waker::from(Arc::clone(&count));
        assert_eq!(reader.poll_next(&mut Context::from_waker(&waker)), Poll::Pending);
        let mut handed = None;
        writer.finish_with("abc".into(), None, |body| {
            assert_eq!(count.wakes(), 0);
            handed = Some(body);
        });
        assert_eq!(handed.unwrap().chunks(), ["abc"]);
        assert_eq!(count.wakes(), 1);
        assert_eq!(next(&mut reader), octets("abc"));
        assert_eq!(next(&mut reader), Poll::Ready(None));
    }
}
