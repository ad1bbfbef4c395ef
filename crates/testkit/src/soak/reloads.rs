//! Changes of the configuration and of the certificate while the edge runs, by SIGHUP and by `POST
//! /reload`.
//!
//! Invariant: after a reload, the new configuration answers. A configuration with a fault is
//! refused and changes nothing.

use super::application::SOAK_HOST;
use super::configuration::{ConfigurationFault, ROUND_TARGET, SoakConfiguration};
use super::{SoakState, lock};
use crate::{Client, Edge, Response};
use stats::Random;
use std::time::Duration;

/// Time between two changes. In a short soak, a twentieth of its length.
const PAUSE: Duration = Duration::from_secs(4);
/// Pause between two checks.
const SLICE: Duration = Duration::from_millis(20);
/// Longest time that a reload may take, on a loaded machine.
const LIMIT: Duration = Duration::from_secs(20);
/// One of this many changes has a fault, and one of this many replaces the certificate.
const ONE_IN: usize = 4;

/// Names under which reloads are counted.
pub(super) const RELOADS: &str = "reloads";
pub(super) const REFUSED: &str = "reloads refused";
pub(super) const CERTIFICATES: &str = "certificates replaced";
pub(super) const SIGNALS: &str = "signals SIGHUP";

/// Changes the configuration until the end.
pub(super) fn change(stage: &SoakState<'_>, edge: &Edge, own: &SoakConfiguration, mut random: Random) {
    let pause = PAUSE.min(stage.plan.length / 20);
    for round in 1_u64.. {
        let due = stage.health.now() + pause;
        while stage.health.now() < due {
            if stage.is_over() {
                return;
            }
            std::thread::sleep(SLICE);
        }
        // One order at a time, because the edge refuses a second one.
        let _turn = lock(&stage.orders);
        let fault = match random.below(3 * ONE_IN) {
            0 => Some(ConfigurationFault::UnknownSetting),
            1 => Some(ConfigurationFault::FixedSetting),
            2 => Some(ConfigurationFault::MissingCertificate),
            _ => None,
        };
        if fault.is_none() && random.below(ONE_IN) == 0 {
            own.certify();
            stage.count(CERTIFICATES);
        }
        let before = counts(stage);
        own.write(round, fault);
        let is_signal = random.below(2) == 0;
        if is_signal {
            edge.signal("HUP");
            stage.count(SIGNALS);
        } else {
            order(stage, fault);
        }
        if !await_counts(stage, before, fault.is_some()) {
            let way = if is_signal { "SIGHUP" } else { "POST /reload" };
            return stage.complain(&format!("no reload {LIMIT:?} after {way}, fault {fault:?}"));
        }
        match fault {
            None => check(stage, round),
            Some(fault) => {
                stage.count(REFUSED);
                stage.count(name(fault));
                // Any other order would find the faulty file.
                own.write(round, None);
                let before = counts(stage);
                order(stage, None);
                if !await_counts(stage, before, false) {
                    return stage.complain("a mended configuration was not put in force");
                }
                check(stage, round);
            }
        }
    }
}

const fn name(fault: ConfigurationFault) -> &'static str {
    match fault {
        ConfigurationFault::UnknownSetting => "faults: an unknown setting",
        ConfigurationFault::FixedSetting => "faults: a setting that needs a restart",
        ConfigurationFault::MissingCertificate => "faults: a missing certificate",
    }
}

/// Orders a reload at the admin address.
fn order(stage: &SoakState<'_>, fault: Option<ConfigurationFault>) {
    let request = format!("POST /reload HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", stage.admin);
    let answer = Client::try_connect(stage.admin).and_then(|mut client| client.try_ask(request));
    let wanted = if fault.is_some() { 422 } else { 200 };
    match answer {
        Some(Response { status, .. }) if status == wanted => {}
        Some(answer) => {
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            stage.complain(&format!(
                "a reload with the fault {fault:?} was answered {}: {text}",
                answer.status
            ));
        }
        None => stage.complain("a reload was not answered"),
    }
}

/// The numbers of reloads, done and refused, by the edge's own count.
fn counts(stage: &SoakState<'_>) -> [f64; 2] {
    let metrics = stage.metrics().unwrap_or_default();
    ["petasos_reloads_total", "petasos_reloads_refused_total"]
        .map(|name| metrics.get(name).copied().unwrap_or(f64::NAN))
}

/// Waits for one more reload. Returns whether it came, and no other.
fn await_counts(stage: &SoakState<'_>, [done, refused]: [f64; 2], is_refused: bool) -> bool {
    let wanted = if is_refused { [done, refused + 1.0] } else { [done + 1.0, refused] };
    let begun = stage.health.now();
    while counts(stage) != wanted {
        if stage.health.now() > begun + LIMIT {
            return false;
        }
        std::thread::sleep(SLICE);
    }
    true
}

/// Compares the route that answers with the round.
fn check(stage: &SoakState<'_>, round: u64) {
    stage.count(RELOADS);
    let request = format!("GET {ROUND_TARGET} HTTP/1.1\r\nHost: {SOAK_HOST}\r\nConnection: close\r\n\r\n");
    let answer = Client::try_connect(stage.address).and_then(|mut client| client.try_ask(request));
    match answer {
        Some(answer) if answer.body == round.to_string().as_bytes() => {}
        Some(answer) => {
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            stage.complain(&format!("after the reload of round {round}, the edge answers {text:?}"));
        }
        None => stage.complain("a request after a reload was not answered"),
    }
}
