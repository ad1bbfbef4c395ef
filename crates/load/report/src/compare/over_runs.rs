//! Summarises the runs of a single side: median, best and worst of each figure.
//!
//! Invariant: this module draws no conclusion. The best of many runs improves with their number, so
//! the table shows that number.

use super::{ComparedMetric, Side, Unit, summary, text};
use crate::grid::{Align, Grid, GridColumn};
use crate::run::Run;

/// Returns the table, at most `width` characters wide where possible.
pub fn over_runs(runs: &[Run], width: usize) -> String {
    let side = Side { name: String::new(), runs: runs.to_vec() };
    let mut grid = Grid::new(vec![
        GridColumn::new(&[&format!("Over {} runs", runs.len())], Align::Left),
        GridColumn::new(&["median"], Align::Right),
        GridColumn::new(&["best"], Align::Right),
        GridColumn::new(&["worst"], Align::Right),
    ]);
    for figure in summary('A', &side).figures {
        let values = [figure.median, figure.best(), figure.worst()];
        let values = values.map(|value| text::figure(Unit::Requests, figure.metric, value));
        grid.row(std::iter::once(figure.metric.name().to_owned()).chain(values).collect());
    }
    grid.text(width)
}

/// Returns the position of the run with the median throughput; of two middle runs the slower one.
/// `None` if there are no runs.
pub fn middle(runs: &[Run]) -> Option<usize> {
    let rate =
        |place: &usize| runs.get(*place).and_then(|run| ComparedMetric::Throughput.of(run)).unwrap_or(0.0);
    let mut places: Vec<usize> = (0..runs.len()).collect();
    places.sort_by(|one, other| rate(one).total_cmp(&rate(other)));
    places.get(places.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::{middle, over_runs};
    use crate::run::Run;

    fn run(good_per_s: f64, p95_us: u64) -> Run {
        let mut run = Run { good_per_s: Some(good_per_s), ..Run::of_source("petasos") };
        run.good_times.latency.p95_us = Some(p95_us);
        run
    }

    #[test]
    fn best_is_the_highest_throughput_and_the_shortest_time() {
        let runs = [run(900.0, 3_000), run(1_000.0, 2_000), run(500.0, 9_000)];
        let text = over_runs(&runs, 80);
        let row = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("|")
        };
        assert!(text.starts_with("Over 3 runs"), "{text}");
        assert_eq!(row("throughput"), "throughput|900 req/s|1,000 req/s|500 req/s");
        assert_eq!(row("p95"), "p95|3.00 ms|2.00 ms|9.00 ms");
        assert_eq!(row("mean"), "mean|-|-|-", "unknown in every run");
    }

    #[test]
    fn runs_without_good_responses_have_no_times() {
        let mut silent = run(0.0, 0);
        silent.good_times.latency.count = Some(0);
        let text = over_runs(&[silent.clone(), silent], 80);
        assert!(text.contains("0 req/s") && !text.contains(" ms"), "{text}");
    }

    #[test]
    fn middle_is_the_run_with_the_median_throughput() {
        let place = |rates: &[f64]| middle(&rates.iter().map(|rate| run(*rate, 1)).collect::<Vec<_>>());
        assert_eq!(place(&[3.0, 1.0, 2.0]), Some(2));
        assert_eq!(place(&[4.0, 1.0, 2.0, 3.0]), Some(2));
        assert_eq!(place(&[5.0]), Some(0));
        assert_eq!(place(&[]), None);
    }
}
