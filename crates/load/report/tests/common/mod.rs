//! Results of a seven-step ladder, made up for the tests of all reports.

use petasos_report::results::{
    BystanderRecord, CellRecord, CellRun, CountRecord, EnvironmentRecord, GeneratorRecord, GroupRecord,
    LimitingResource, Measured, MeterRecord, PageRecord, PlanRecord, ResponseTimes, Results, SCHEMA,
    StepRecord, VersionRecord, VisitOutcome,
};

/// Properties of a step: id, number, title, about, concurrency, throughput, p95 in ms, observed
/// load, processor time per page in ms, and limit.
type StepProperties =
    (&'static str, &'static str, &'static str, &'static str, u64, f64, f64, f64, f64, LimitingResource);

const STEPS: [StepProperties; 7] = [
    (
        "none",
        "1",
        "no cache",
        "Every module is read, compiled and run.",
        2,
        8.1,
        301.0,
        1.9,
        231.0,
        LimitingResource::Users,
    ),
    (
        "page-cache",
        "2",
        "page cache",
        "Finished pages are kept in the database.",
        5,
        29.6,
        211.0,
        3.1,
        64.0,
        LimitingResource::OriginCpu,
    ),
    (
        "opcode",
        "3",
        "opcode cache + page cache",
        "The compiled form of the modules is kept in memory.",
        10,
        402.0,
        34.1,
        3.6,
        4.6,
        LimitingResource::OriginCpu,
    ),
    (
        "aggressive",
        "4",
        "+ aggressive cache",
        "A cached page is looked up before modules load.",
        10,
        1210.0,
        13.2,
        3.0,
        1.4,
        LimitingResource::OriginCpu,
    ),
    (
        "objects",
        "5",
        "+ object cache",
        "Pages, variables and menus are kept in memory.",
        25,
        3050.0,
        14.8,
        4.2,
        0.51,
        LimitingResource::OriginCpu,
    ),
    (
        "petasos",
        "6",
        "Petasos",
        "Petasos answers from memory.",
        25,
        21_800.0,
        2.04,
        0.12,
        0.031,
        LimitingResource::Generator,
    ),
    (
        "petasos-100",
        "7",
        "Petasos",
        "The same with four times as many users.",
        100,
        22_900.0,
        6.9,
        0.08,
        0.030,
        LimitingResource::Generator,
    ),
];

/// A ladder with this number of rounds.
pub(crate) fn made_up(rounds: u64) -> Results {
    let mut cells = Vec::new();
    for step in &STEPS {
        cells.push(cell(step, step.0.to_owned(), step.4, false, rounds, 1.0));
        for concurrency in [1, 25].into_iter().filter(|concurrency| *concurrency != step.4) {
            let gain = if concurrency == 1 { 0.6 } else { 1.02 };
            cells.push(cell(step, format!("{}-c{concurrency}", step.0), concurrency, false, rounds, gain));
        }
        if step.0.starts_with("petasos") {
            cells.push(cell(step, format!("{}-c{}-keepalive", step.0, step.4), step.4, true, rounds, 3.1));
        }
    }
    let ids: Vec<String> = cells.iter().map(|cell| cell.id.clone()).collect();
    Results {
        schema: SCHEMA.to_owned(),
        title: "Mission Bicycles".to_owned(),
        synthetic: true,
        about: Some("A shop with about 2,000 nodes on SQLite.".to_owned()),
        page: "/".to_owned(),
        plan: PlanRecord {
            hash: "0123456789abcdef".to_owned(),
            effort: "normal".to_owned(),
            seed: 1,
            rounds,
            order: vec![ids; rounds as usize],
        },
        complete: true,
        started_at_s: 1_341_100_799,
        written_at_s: 1_341_100_960,
        environment: environment(),
        reference: Some(page()),
        steps: STEPS.iter().map(step_record).collect(),
        cells,
        loads: Vec::new(),
    }
}

fn environment() -> EnvironmentRecord {
    let limit =
        |name: &str, value: &str| probe::MachineLimit { name: name.to_owned(), value: value.to_owned() };
    EnvironmentRecord {
        machine: probe::Environment {
            cpu_model: Some("Example 2000 @ 2.0 GHz".to_owned()),
            cores: 2,
            governor: None,
            memory_bytes: Some(4 << 30),
            kernel: Some("Linux 6.1.0-18-amd64".to_owned()),
            system: Some("Debian GNU/Linux 12 (bookworm)".to_owned()),
            limits: vec![
                limit("open files", "1024 (at most 1048576)"),
                limit("cgroup cpu.max", "max 100000"),
            ],
        },
        versions: vec![VersionRecord {
            name: "petasos".to_owned(),
            version: "petasos 0.1.0 (0123456789)".to_owned(),
        }],
        generator_shares_host: true,
    }
}

fn page() -> PageRecord {
    PageRecord {
        title: Some("Mission Bicycles".to_owned()),
        length_bytes: 12_972,
        hash: "cbf29ce484222325".to_owned(),
    }
}

fn step_record(step: &StepProperties) -> StepRecord {
    StepRecord {
        id: step.0.to_owned(),
        number: step.1.to_owned(),
        title: step.2.to_owned(),
        about: step.3.to_owned(),
        cell: step.0.to_owned(),
        version: step.0.starts_with("petasos").then(|| "petasos".to_owned()),
        against: None,
        reference: None,
    }
}

fn cell(
    step: &StepProperties,
    id: String,
    concurrency: u64,
    keepalive: bool,
    rounds: u64,
    gain: f64,
) -> CellRecord {
    let port = if step.0.starts_with("petasos") { 18_081 } else { 18_080 };
    let k = if keepalive { "-k " } else { "" };
    let run = |round: u64| CellRun {
        cell: id.clone(),
        round,
        started_at_s: 1_341_100_799 + round,
        visit_s: 2.6,
        // Throughput varies by a few percent from round to round, always in the same way.
        outcome: VisitOutcome::Measured(Box::new(measured(
            step,
            concurrency,
            gain * (1.0 + 0.03 * ((round * 7 % 5) as f64 - 2.0)),
        ))),
    };
    CellRecord {
        id: id.clone(),
        step: step.0.to_owned(),
        concurrency,
        keepalive,
        ab: format!("ab {k}-t 2 -n 10000000 -c {concurrency} http://127.0.0.1:{port}/"),
        runs: (1..=rounds).map(run).collect(),
    }
}

fn measured(step: &StepProperties, concurrency: u64, gain: f64) -> Measured {
    let throughput = step.5 * gain;
    let p95 = step.6 * concurrency as f64 / step.4 as f64 / gain;
    let seconds = 2.0;
    let answers = (throughput * seconds) as u64;
    let group = |name: &str, role: &str, load: f64, share: f64, pss_bytes: u64| GroupRecord {
        name: name.to_owned(),
        role: role.to_owned(),
        load,
        cpu_s: answers as f64 * step.8 * share / 1000.0,
        cpu_per_page_ms: Some(step.8 * share),
        pss_bytes: Some(pss_bytes),
        processes: 1,
    };
    let behind = step.0.starts_with("petasos");
    Measured {
        seconds,
        answers,
        failures: if step.0 == "aggressive" {
            vec![CountRecord { name: "timeout".to_owned(), count: 1 }]
        } else {
            Vec::new()
        },
        other_length: u64::from(step.0 == "none") * 3,
        what_changed: (step.0 == "none").then(|| "a number (line 7: `4.1` and then `12.5`)".to_owned()),
        received_bytes: answers * 13_200,
        throughput_per_s: throughput,
        response: times(p95),
        generator: GeneratorRecord {
            cpu_s: 0.4,
            busy_wait_s: 0.0,
            busiest_thread: 0.3,
            trust: "clean".to_owned(),
            reasons: Vec::new(),
            account: None,
            is_real_time: true,
        },
        observed_load: Some(step.7 * gain),
        load_samples: vec![step.7 as u32; 20],
        groups: vec![
            group("site", "site", step.7, if behind { 0.3 } else { 1.0 }, 61 << 20),
            group("petasos", "accelerator", 0.4, if behind { 0.7 } else { 0.0 }, 11 << 20),
        ],
        host: probe::HostFigures {
            busy: Some(0.94),
            steal: Some(0.0),
            foreign: Some(0.01),
            load_average: Some(step.7 + 0.7),
            link: None,
        },
        verdicts: Vec::new(),
        visitors: Vec::new(),
        writes: Vec::new(),
        twin: None,
        bystander: BystanderRecord {
            loaded_ms: if behind { vec![61.0, 63.0] } else { vec![100.0 * step.7, 110.0 * step.7] },
            unanswered_ms: if step.0 == "none" { vec![700.0] } else { Vec::new() },
            failed: 0,
            idle_ms: vec![58.0, 59.0, 61.0],
        },
        meters: vec![MeterRecord {
            name: "queries".to_owned(),
            unit: "SQL queries".to_owned(),
            per_s: 40.0,
            per_page: Some(40.0 / throughput),
        }],
        page: page(),
        proofs: vec!["X-Demo-Layers: page_cache=off".to_owned()],
        bound_by: step.9,
        starred: Vec::new(),
    }
}

/// Response times around a 95th percentile.
fn times(p95: f64) -> ResponseTimes {
    ResponseTimes {
        mean_ms: p95 * 0.72,
        sd_ms: p95 * 0.18,
        min_ms: p95 * 0.31,
        p50_ms: p95 * 0.69,
        p75_ms: p95 * 0.81,
        p90_ms: p95 * 0.93,
        p95_ms: p95,
        p99_ms: p95 * 1.4,
        p999_ms: p95 * 2.2,
        max_ms: p95 * 2.9,
    }
}
