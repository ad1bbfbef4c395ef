//! Samples the values of each minute, and gives them to the admin address and to the file.
//!
//! Invariants: nothing here runs on a worker, and nothing waits for a disk: a write that is late
//! only delays the next one. The values of a minute are differences of counters over the time that
//! has passed, so a clock that jumps changes only the number of the minute.

use crate::control::counters::Metric;
use crate::control::metrics;
use crate::memory::measures::SiteMeasures;
use crate::memory::minutes::{LastMinute, Percentiles};
use crate::memory::times::TimeFigures;
use crate::shared::Shared;
use crate::upkeep::history_writer::HistoryWriter;
use crate::upkeep::machine_watch::MachineWatch;
use crate::upkeep::weekly::Weekly;
use clock::Monotonic;
use history::{Figure, Row};
use platform::HashMap;
use semantics::{Reason, Verdict};
use std::sync::Arc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// A shorter time gives no values.
const TIME_MIN: Duration = Duration::from_secs(1);

/// Time after the end of a minute at which its values are sampled, so that a timer which is a
/// little early does not find the old minute.
const AFTER: Duration = Duration::from_millis(50);

/// Samples each minute until the drain begins.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut sampler = Sampler::new(&shared);
    let (mut writer, mut weekly) = (HistoryWriter::default(), Weekly::default());
    // The first reading is the base of the first minute.
    let watch = MachineWatch::new(shared.system.processes.clone());
    let (mut watch, _) = watch.sampled(shared.plan.memory_bytes).await;
    loop {
        let is_last = tokio::select! {
            biased;
            () = shared.drained() => true,
            () = tokio::time::sleep(until_next(shared.clock.now().as_micros())) => false,
        };
        let shared = shared.current();
        let (returned, machine) = watch.sampled(shared.plan.memory_bytes).await;
        watch = returned;
        let sample = sampler.sample(&shared, machine, is_last);
        let row = sample.map(|(row, last)| {
            shared.minutes.add(row, last);
            row
        });
        if is_last {
            // Another process may take the files over.
            writer.end(&shared, row).await;
            weekly.end(&shared, minute_of(&shared)).await;
            return shared.minutes.end();
        }
        row.into_iter().for_each(|row| writer.write(&shared, row));
        if writer.owns_file() {
            weekly.tick(&shared, minute_of(&shared));
        }
    }
}

/// The time until the sample of the minute at `wall_micros`.
fn until_next(wall_micros: u64) -> Duration {
    let minute = MINUTE.as_micros() as u64;
    Duration::from_micros(minute - wall_micros % minute) + AFTER
}

/// The counters at the end of the last minute.
#[derive(Debug)]
struct Sampler {
    minute: u64,
    at: Monotonic,
    counters: Counters,
}

/// Counters that only grow.
#[derive(Debug, Default)]
struct Counters {
    verdicts: [u64; Verdict::ALL.len()],
    bytes: u64,
    reloads: u64,
    purges: u64,
    /// The times of requests to origins, background refreshes included.
    origin: TimeFigures,
    times: HashMap<(Box<str>, Verdict), TimeFigures>,
}

impl Counters {
    fn read(shared: &Shared) -> Self {
        let sites = shared.sites.measures().all();
        let mut verdicts = [0; Verdict::ALL.len()];
        for reason in Reason::ALL {
            if let Some(sum) = verdicts.get_mut(reason.verdict() as usize) {
                *sum += sites.iter().map(|site| site.requests(*reason)).sum::<u64>();
            }
        }
        let times_of = |site: &Arc<SiteMeasures>| {
            let site = Arc::clone(site);
            Verdict::ALL
                .into_iter()
                .filter_map(move |verdict| Some(((site.label().into(), verdict), site.times(verdict)?)))
        };
        Self {
            verdicts,
            bytes: metrics::sum(shared, Metric::BytesSent),
            reloads: metrics::sum(shared, Metric::Reloads),
            purges: metrics::sum(shared, Metric::Purges),
            origin: shared.origin_work.times(),
            times: sites.iter().flat_map(times_of).collect(),
        }
    }

    /// Requests with one of these verdicts.
    fn requests(&self, verdicts: &[Verdict]) -> u64 {
        verdicts.iter().filter_map(|verdict| self.verdicts.get(*verdict as usize)).sum()
    }

    /// The times of each site and verdict since an earlier reading.
    fn times_since(&self, earlier: &Self) -> HashMap<(Box<str>, Verdict), TimeFigures> {
        let since = |(key, times): (&(Box<str>, Verdict), &TimeFigures)| {
            let earlier = earlier.times.get(key);
            let times = times.clone();
            (key.clone(), earlier.map_or_else(|| times.clone(), |earlier| times.clone().since(earlier)))
        };
        self.times.iter().map(since).filter(|(_, times)| times.count() > 0).collect()
    }
}

impl Percentiles {
    /// `None` without a time.
    fn of(times: &TimeFigures) -> Option<Self> {
        let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|quantile| times.quantile(quantile));
        Some(Self { p50: p50?, p95: p95?, p99: p99? })
    }
}

impl Sampler {
    fn new(shared: &Shared) -> Self {
        Self { minute: minute_of(shared), at: shared.clock.monotonic(), counters: Counters::read(shared) }
    }

    /// The values of the minute that has ended; `None` if none has. If `is_last`, those of the
    /// present minute so far.
    fn sample(
        &mut self,
        shared: &Shared,
        machine: api::dashboard::MachineFigures,
        is_last: bool,
    ) -> Option<(Row, LastMinute)> {
        let (minute, now) = (minute_of(shared), shared.clock.monotonic());
        let time = now.since(self.at);
        let is_over = minute != self.minute;
        if !is_over && !is_last || time < TIME_MIN {
            return None;
        }
        let counters = Counters::read(shared);
        let earlier = std::mem::replace(&mut self.counters, counters);
        (self.minute, self.at) = (minute, now);
        let times = self.counters.times_since(&earlier);
        // The first and the last minute of a process are shorter.
        let mut row =
            Row::new(minute.saturating_sub(u64::from(is_over))).lasting(time.as_secs_f64().round() as u32);
        self.set_rates(&mut row, &earlier, time);
        set_times(&mut row, &times);
        let store = shared.store.stats();
        row.set(Figure::Connections, Some(shared.connections() as f64));
        row.set(Figure::StoreBytes, Some(store.bytes as f64));
        let disk = shared.plan.disk.as_ref().map(|_| shared.persistence.figures().bytes as f64);
        row.set(Figure::DiskBytes, disk);
        row.set(Figure::Cpu, machine.cpu_percent);
        row.set(Figure::OwnCpu, machine.own_cpu_percent);
        row.set(Figure::DatabaseCpu, machine.database_cpu_percent);
        let percentiles =
            times.iter().filter_map(|(key, times)| Some((key.clone(), Percentiles::of(times)?)));
        Some((row, LastMinute { percentiles: percentiles.collect(), machine }))
    }

    fn set_rates(&self, row: &mut Row, earlier: &Counters, time: Duration) {
        let secs = time.as_secs_f64();
        let now = &self.counters;
        let since = |value: u64, earlier: u64| value.saturating_sub(earlier) as f64;
        let requests =
            |verdicts: &[Verdict]| since(now.requests(verdicts), earlier.requests(verdicts)) / secs;
        let hits = requests(&[Verdict::Hit, Verdict::Stale]);
        let (misses, passes) = (requests(&[Verdict::Miss]), requests(&[Verdict::Pass]));
        let cacheable = hits + misses + passes;
        let origin = now.origin.clone().since(&earlier.origin);
        for (figure, value) in [
            (Figure::Requests, requests(&Verdict::ALL)),
            (Figure::Hits, hits),
            (Figure::Misses, misses),
            (Figure::Passes, passes),
            (Figure::Errors, requests(&[Verdict::Failed])),
            (Figure::Bytes, since(now.bytes, earlier.bytes) / secs),
            (Figure::OriginLoad, origin.micros() as f64 / 1e6 / secs),
            (Figure::OriginRequests, origin.count() as f64 / secs),
            (Figure::Reloads, since(now.reloads, earlier.reloads)),
            (Figure::Purges, since(now.purges, earlier.purges)),
        ] {
            row.set(figure, Some(value));
        }
        row.set(Figure::HitRatio, (cacheable > 0.0).then(|| 100.0 * hits / cacheable));
        row.set(Figure::OriginP95, origin.quantile(0.95).map(millis));
    }
}

/// Sets the percentiles of all requests.
fn set_times(row: &mut Row, times: &HashMap<(Box<str>, Verdict), TimeFigures>) {
    let mut all = TimeFigures::default();
    times.values().for_each(|times| all.add(times));
    if let Some(Percentiles { p50, p95, p99 }) = Percentiles::of(&all) {
        row.set(Figure::P50, Some(millis(p50)));
        row.set(Figure::P95, Some(millis(p95)));
        row.set(Figure::P99, Some(millis(p99)));
    }
}

fn millis(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

/// The present minute, in minutes since 1970.
pub(crate) fn minute_of(shared: &Shared) -> u64 {
    shared.clock.now().as_secs() / MINUTE.as_secs()
}

#[cfg(test)]
mod tests {
    use super::{Sampler, until_next};
    use crate::control::counters::Metric;
    use crate::memory::minutes::Percentiles;
    use crate::shared::Shared;
    use crate::system::System;
    use api::dashboard::MachineFigures;
    use clock::{ManualClock, Timestamp};
    use config::EdgePlan;
    use history::Figure;
    use semantics::{Reason, Verdict};
    use std::sync::Arc;
    use std::time::Duration;

    const START: u64 = 29_000_000 * 60;

    fn edge() -> (Arc<ManualClock>, Arc<Shared>) {
        let plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(START)));
        let system = System { clock: clock.clone(), ..System::of_machine() };
        (clock, Arc::new(Shared::new(plan, None, system)))
    }

    #[test]
    fn values_are_differences_over_the_time_that_has_passed() {
        let (clock, shared) = edge();
        let site = Arc::clone(&shared.sites.iter().next().unwrap().measures);
        site.note(0, Reason::HitFresh, Duration::from_secs(9), None);
        let mut sampler = Sampler::new(&shared);
        for (reason, count) in [(Reason::HitFresh, 60), (Reason::MissAbsent, 15), (Reason::PassMethod, 5)] {
            (0..count).for_each(|_| site.note(0, reason, Duration::from_millis(2), None));
        }
        site.note(0, Reason::OriginTimeout, Duration::from_secs(20), None);
        shared.sites.measures().no_site().count(0, Reason::UnknownSite);
        shared.cells(0).add(Metric::BytesSent, 3000);
        shared.origin_work.count(0, Duration::from_millis(600));
        clock.advance(Duration::from_secs(30));
        assert!(sampler.sample(&shared, MachineFigures::default(), false).is_none(), "within the minute");
        clock.advance(Duration::from_secs(30));
        let machine = MachineFigures { cpu_percent: Some(40.0), ..MachineFigures::default() };
        let (row, last) = sampler.sample(&shared, machine, false).unwrap();
        assert_eq!(row.minute, START / 60);
        let near = |figure: Figure, expected: f64| {
            let value = row.get(figure).unwrap();
            assert!((value - expected).abs() < 1e-3 + expected / 8.0, "{}: {value}", figure.name());
        };
        for (figure, expected) in [
            (Figure::Requests, 82.0 / 60.0),
            (Figure::Hits, 1.0),
            (Figure::Misses, 0.25),
            (Figure::Errors, 1.0 / 60.0),
            (Figure::HitRatio, 75.0),
            (Figure::P50, 2.0),
            (Figure::P99, 20_000.0),
            (Figure::OriginP95, 600.0),
            (Figure::OriginLoad, 0.01),
            (Figure::OriginRequests, 1.0 / 60.0),
            (Figure::Bytes, 50.0),
            (Figure::Connections, 0.0),
            (Figure::Cpu, 40.0),
        ] {
            near(figure, expected);
        }
        assert_eq!((row.get(Figure::DiskBytes), row.get(Figure::DatabaseCpu)), (None, None));
        let Percentiles { p50, .. } = last.percentiles[&("any".into(), Verdict::Hit)];
        assert!((1750..=2250).contains(&p50), "the hit before the minute does not count: {p50}");
        assert!(!last.percentiles.contains_key(&("any".into(), Verdict::Stale)));
    }

    #[test]
    fn minute_without_requests_has_rates_and_no_times() {
        let (clock, shared) = edge();
        let mut sampler = Sampler::new(&shared);
        clock.advance(Duration::from_secs(60));
        let (row, last) = sampler.sample(&shared, MachineFigures::default(), false).unwrap();
        assert_eq!((row.get(Figure::Requests), row.get(Figure::P50)), (Some(0.0), None));
        assert_eq!((row.get(Figure::HitRatio), last.percentiles.len()), (None, 0));
    }

    #[test]
    fn first_and_last_minute_state_their_seconds() {
        let (clock, shared) = edge();
        clock.advance(Duration::from_secs(40));
        let mut sampler = Sampler::new(&shared);
        clock.advance(Duration::from_secs(20));
        let (first, _) = sampler.sample(&shared, MachineFigures::default(), false).unwrap();
        assert_eq!((first.minute, first.secs), (START / 60, 20));
        clock.advance(Duration::from_secs(15));
        shared.cells(0).add(Metric::BytesSent, 150);
        let (last, _) = sampler.sample(&shared, MachineFigures::default(), true).unwrap();
        assert_eq!((last.minute, last.secs, last.get(Figure::Bytes)), (START / 60 + 1, 15, Some(10.0)));
        assert!(sampler.sample(&shared, MachineFigures::default(), true).is_none());
    }

    #[test]
    fn clock_that_jumps_changes_only_the_number_of_the_minute() {
        let (clock, shared) = edge();
        let mut sampler = Sampler::new(&shared);
        for (wall, expected) in [(START + 86_400, START / 60 + 1439), (START - 3600, START / 60 - 61)] {
            shared.cells(0).add(Metric::BytesSent, 600);
            clock.advance(Duration::from_secs(60));
            clock.set_wall(Timestamp::from_secs(wall));
            let (row, _) = sampler.sample(&shared, MachineFigures::default(), false).unwrap();
            assert_eq!((row.minute, row.get(Figure::Bytes)), (expected, Some(10.0)));
        }
    }

    #[test]
    fn sample_follows_the_end_of_a_minute() {
        let shortly = |micros| until_next(micros).as_millis();
        assert_eq!([shortly(0), shortly(59_999_000), shortly(60_000_000)], [60_050, 51, 60_050]);
    }
}
