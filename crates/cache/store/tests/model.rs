//! The store and the filling body against simple models.

use bytes::Bytes;
use message::{Fields, ResponseHead, Status};
use petasos_store::{
    Aborted, Body, Filling, FillingReader, Key, Lookup, Object, Publication, PublishResult, SiteId, Store,
    StoreLimits,
};
use profiles::Policy;
use proptest::prelude::*;
use semantics::{Freshness, Moment, Reason, VariantKey, VaryRule};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

const HOSTS: [&str; 3] = ["a.example", "b.example", "A.example:80"];
const LANGUAGES: [&str; 3] = ["de", "en", ""];

/// One of the few keys of these tests. For every part of the key, some pair of keys differs in it.
fn key(number: usize) -> Key {
    let target = if number & 1 == 0 { "/" } else { "/x" };
    let host = HOSTS.iter().cycle().nth(number >> 3).copied().unwrap_or_default();
    Key::new(
        SiteId((number as u32 >> 1) & 1),
        number & 4 != 0,
        host.as_bytes(),
        Bytes::from_static(target.as_bytes()),
    )
}

fn fields(language: usize) -> Fields {
    let mut fields = Fields::new();
    fields.push("Accept-Language", LANGUAGES.get(language).copied().unwrap_or_default());
    fields
}

fn rule(varies: bool) -> VaryRule {
    let mut response = Fields::new();
    if varies {
        response.push("Vary", "Accept-Language");
    }
    VaryRule::from_response(&response, &Policy::default_profile()).unwrap_or_default()
}

/// An object whose body is the number of its publication.
fn object(number: usize, padding: usize) -> Arc<Object> {
    let mut body = number.to_string().into_bytes();
    body.resize(body.len() + padding, b' ');
    let freshness = Freshness::lasting(Duration::from_secs(60), Moment::default());
    Arc::new(Object::new(&ResponseHead::new(Status::OK), b"", Body::copy_of(&body), freshness))
}

fn number_of(object: &Object) -> usize {
    String::from_utf8_lossy(&object.content().collect::<Vec<_>>().concat())
        .trim()
        .parse()
        .unwrap_or(usize::MAX)
}

fn publish(
    store: &Store,
    key: &Key,
    rule: VaryRule,
    variant: VariantKey,
    object: Arc<Object>,
) -> PublishResult {
    store.publish(Publication { key, rule, variant, object, tags: &[], begun: 0 })
}

#[derive(Clone, Debug)]
enum StoreStep {
    Publish { key: usize, varies: bool, language: usize, padding: usize },
    Remove { key: usize },
    Lookup { key: usize, language: usize },
}

fn steps() -> impl Strategy<Value = Vec<StoreStep>> {
    let key = 0usize..24;
    let step = prop_oneof![
        (key.clone(), any::<bool>(), 0usize..3, 0usize..4_000).prop_map(
            |(key, varies, language, padding)| StoreStep::Publish { key, varies, language, padding }
        ),
        key.clone().prop_map(|key| StoreStep::Remove { key }),
        (key, 0usize..3).prop_map(|(key, language)| StoreStep::Lookup { key, language }),
    ];
    prop::collection::vec(step, 0..120)
}

/// The expected contents: for each key its variants, newest last.
#[derive(Default)]
struct StoreModel(HashMap<Key, Vec<(VaryRule, VariantKey, usize)>>);

impl StoreModel {
    fn publish(&mut self, key: &Key, rule: &VaryRule, variant: &VariantKey, number: usize) {
        let variants = self.0.entry(key.clone()).or_default();
        variants.retain(|(known_rule, known, _)| (known_rule, known) != (rule, variant));
        variants.push((rule.clone(), variant.clone(), number));
    }

    /// All variants that the request selects, newest first.
    fn selected(&self, key: &Key, fields: &Fields) -> Vec<usize> {
        let variants = self.0.get(key).map(Vec::as_slice).unwrap_or_default();
        let selected = variants.iter().rev().filter(|(rule, variant, _)| rule.key(fields) == *variant);
        selected.map(|(_, _, number)| *number).collect()
    }
}

/// Runs the steps on a store and the model. `complete` means that the store has room for every
/// object.
fn run(limits: StoreLimits, steps: &[StoreStep], complete: bool) -> Result<(), TestCaseError> {
    let store = Store::new(limits, 42);
    let mut model = StoreModel::default();
    for (number, step) in steps.iter().enumerate() {
        match *step {
            StoreStep::Publish { key: k, varies, language, padding } => {
                let key = key(k);
                let rule = rule(varies);
                let variant = rule.key(&fields(language));
                model.publish(&key, &rule, &variant, number);
                let published = publish(&store, &key, rule, variant, object(number, padding));
                prop_assert!(published == PublishResult::Stored || !complete);
            }
            StoreStep::Remove { key: k } => {
                let expected = model.0.remove(&key(k)).map_or(0, |variants| variants.len());
                let removed = store.remove(&key(k));
                prop_assert!(removed == expected || (!complete && removed < expected));
            }
            StoreStep::Lookup { key: k, language } => {
                let selected = model.selected(&key(k), &fields(language));
                match store.lookup(&key(k), &fields(language)) {
                    Lookup::Found { object, .. } if complete => {
                        prop_assert_eq!(Some(&number_of(&object)), selected.first());
                    }
                    Lookup::Found { object, .. } => prop_assert!(selected.contains(&number_of(&object))),
                    Lookup::NoVariant => {
                        prop_assert!(model.0.contains_key(&key(k)));
                        prop_assert!(!complete || selected.is_empty());
                    }
                    Lookup::Shelved(_) => prop_assert!(false, "there is no disk"),
                    Lookup::Absent => prop_assert!(!complete || !model.0.contains_key(&key(k))),
                }
            }
        }
        prop_assert!(store.stats().bytes <= limits.memory_bytes_max, "{:?}", store.stats());
    }
    let stats = store.stats();
    if complete {
        prop_assert_eq!(stats.objects, model.0.values().map(|variants| variants.len() as u64).sum::<u64>());
    }
    (0..24).for_each(|number| {
        store.remove(&key(number));
    });
    prop_assert_eq!(store.stats().objects, 0);
    Ok(())
}

proptest! {
    #[test]
    fn store_with_room_acts_as_a_map(steps in steps()) {
        run(StoreLimits::default(), &steps, true)?;
    }

    #[test]
    fn store_without_room_evicts_but_confuses_nothing(steps in steps(), memory in 600u64..12_000) {
        run(StoreLimits { memory_bytes_max: memory, object_bytes_max: 3_000, variants_max: 2, ..StoreLimits::default() }, &steps, false)?;
    }

    /// Every reader receives a prefix of the pushed bytes, independently of other readers, and sees
    /// the end only if the writer finished. A window holds at most its size and one push.
    #[test]
    fn filling_body_agrees_with_a_vector(
        keep in 0u64..200_000,
        steps in prop::collection::vec((0u8..6, 0usize..4, 1usize..70_000), 1..60),
        finishes in any::<bool>(),
    ) {
        const WINDOW: u64 = 10_000;
        let mut context = Context::from_waker(Waker::noop());
        let (mut writer, filling) = Filling::start(keep);
        let mut pushed: Vec<u8> = Vec::new();
        let mut readers: Vec<Option<(FillingReader, Vec<u8>)>> = (0..4).map(|_| None).collect();
        for (step, index, size) in steps {
            match step {
                0 => {
                    let joined = filling.reader();
                    prop_assert!(joined.is_some() || !writer.is_kept());
                    if let Some(reader) = joined {
                        readers[index] = Some((reader, Vec::new()));
                    }
                }
                1 => readers[index] = None,
                2 | 3 => {
                    let before = filling.held_bytes();
                    if writer.poll_ready(&mut context, WINDOW) == Poll::Ready(Ok(())) {
                        prop_assert!(writer.is_kept() || before < WINDOW);
                        let start = pushed.len();
                        pushed.extend((start..start + size).map(|n| (n % 251) as u8));
                        writer.push(Bytes::copy_from_slice(&pushed[start..]));
                    }
                }
                _ => {
                    if let Some((reader, received)) = &mut readers[index] {
                        match reader.poll_next(&mut context) {
                            Poll::Ready(Some(Ok(octets))) => received.extend_from_slice(&octets),
                            Poll::Pending => prop_assert_eq!(received.len(), pushed.len()),
                            other => prop_assert!(false, "{:?}", other),
                        }
                        prop_assert!(pushed.starts_with(received));
                    }
                }
            }
            prop_assert_eq!(writer.is_kept(), keep > 0 && pushed.len() as u64 <= keep);
        }
        let kept = writer.is_kept();
        if finishes {
            let mut whole = None;
            writer.finish_with(Bytes::new(), None, |body| whole = Some(body));
            match whole {
                Some(body) => prop_assert!(kept && body.chunks().concat() == pushed),
                None => prop_assert!(!kept),
            }
        } else {
            writer.abort(Reason::OriginTimeout);
        }
        for (reader, received) in readers.iter_mut().flatten() {
            let end = loop {
                match reader.poll_next(&mut context) {
                    Poll::Ready(Some(Ok(octets))) => received.extend_from_slice(&octets),
                    Poll::Ready(end) => break end,
                    Poll::Pending => return Err(TestCaseError::fail("a settled body never waits")),
                }
            };
            prop_assert_eq!(end, (!finishes).then_some(Err(Aborted(Reason::OriginTimeout))));
            prop_assert!(*received == pushed);
        }
    }
}

/// Wakes a thread that waits by parking. A lost wake-up hangs the test.
struct Unpark {
    thread: thread::Thread,
    woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Polls until ready, parking in between.
fn wait<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let unpark = Arc::new(Unpark { thread: thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&unpark));
    loop {
        if let Poll::Ready(value) = poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        while !unpark.woken.swap(false, Ordering::SeqCst) {
            thread::park();
        }
    }
}

/// One writer and several readers on different threads, for kept bodies and windows: no reader
/// misses a wake-up or a byte.
#[test]
fn threads_lose_no_bytes_and_no_wake_ups() {
    for keep in [0, 1_000, 1 << 20] {
        for _ in 0..20 {
            let (mut writer, filling) = Filling::start(keep);
            let readers: Vec<_> = std::iter::from_fn(|| filling.reader()).take(3).collect();
            thread::scope(|scope| {
                for mut reader in readers {
                    scope.spawn(move || {
                        let mut received = 0usize;
                        while let Some(octets) = wait(|context| reader.poll_next(context)) {
                            for octet in octets.unwrap() {
                                assert_eq!(octet, (received % 251) as u8);
                                received += 1;
                            }
                        }
                        assert_eq!(received, 60_000);
                    });
                }
                let whole: Vec<u8> = (0..60_000).map(|n: usize| (n % 251) as u8).collect();
                for part in whole.chunks(70) {
                    wait(|context| writer.poll_ready(context, 500)).unwrap();
                    writer.push(Bytes::copy_from_slice(part));
                }
                writer.finish_with(Bytes::new(), None, |_| {});
            });
        }
    }
}

/// Keys that differ in host, scheme or site never share an object, whatever the seed.
#[test]
fn different_keys_never_share_an_object() {
    for seed in 0..50 {
        let store = Store::new(StoreLimits::default(), seed);
        for number in 0..16 {
            publish(&store, &key(number), VaryRule::default(), VariantKey::default(), object(number, 0));
        }
        for number in 0..16 {
            match store.lookup(&key(number), &Fields::new()) {
                Lookup::Found { object, .. } => assert_eq!(number_of(&object), number),
                other => panic!("{other:?}"),
            }
        }
    }
}
