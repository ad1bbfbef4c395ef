//! Two origins of one site. One of them fails from time to time, and the edge must use the other.

use super::SoakState;
use super::application::{FailurePace, SoakOrigin, octets};
use super::connection::{Message, Visitor};
use super::health::{FailureLog, SoakFailure};
use crate::{Action, Seen, response};
use stats::Random;
use std::sync::Arc;
use std::time::Duration;

/// The host of the site.
pub(super) const PAIR_HOST: &str = "pair.test";
/// Number of targets of each kind.
const TARGETS: usize = 100;
/// Failures are longer than the edge may take to notice them.
const PACE: FailurePace = FailurePace {
    well: [Duration::from_secs(14), Duration::from_secs(4)],
    ill: [Duration::from_secs(8), Duration::from_secs(4)],
};

/// The two origins.
pub(super) struct OriginPair {
    origins: [SoakOrigin; 2],
}

impl OriginPair {
    pub(super) fn start(health: &Arc<FailureLog>, random: &mut Random) -> Self {
        let origins = [random.next_u64(), random.next_u64()];
        Self { origins: origins.map(|seed| SoakOrigin::start(health, seed, answer)) }
    }

    pub(super) fn urls(&self) -> [String; 2] {
        [self.origins[0].url(), self.origins[1].url()]
    }

    pub(super) fn forget(&self) {
        self.origins.iter().for_each(SoakOrigin::forget);
    }

    /// Lets one of the origins fail from time to time, until the end.
    pub(super) fn trouble(&self, stage: &SoakState<'_>, mut random: Random) {
        for failure in SoakFailure::ALL.into_iter().cycle() {
            let origin = &self.origins[random.below(self.origins.len())];
            if !origin.fail_once(stage, failure, &PACE, &mut random) {
                return;
            }
        }
    }
}

fn answer(seen: &Seen, _: u64) -> Vec<Action> {
    let target = seen.target();
    match target.split('/').nth(1).unwrap_or("") {
        "healthz" => response("200 OK", &["Cache-Control: no-store"], b"well"),
        "private" => response("200 OK", &["Cache-Control: private"], &octets(target)),
        _ => response("200 OK", &["Cache-Control: max-age=2"], &octets(target)),
    }
}

/// Requests a page of the site.
pub(super) fn visit(stage: &SoakState<'_>, visitor: &mut Visitor) {
    let number = visitor.random.below(TARGETS);
    let kind = ["plain", "private"][visitor.random.below(2)];
    let target = format!("/{kind}/{number}");
    let sent = stage.pair_health.now();
    let message = Message { method: "GET", host: PAIR_HOST, target: &target, ..Message::default() };
    let answer = visitor.exchange(stage, &message);
    let problem = match answer {
        Some(answer) if answer.status == 200 && answer.complete => {
            stage.count("responses of the pair");
            if answer.body != octets(&target) {
                stage.complain(&format!("{PAIR_HOST}{target} has a wrong body: {}", answer.head));
            }
            return;
        }
        Some(answer) if answer.status < 500 && answer.complete => {
            return stage.complain(&format!("{PAIR_HOST}{target}: {}", answer.head));
        }
        Some(answer) => format!("{PAIR_HOST}{target}: {}", answer.head),
        None => format!("{PAIR_HOST}{target} was not answered"),
    };
    if stage.pair_health.is_excused_beside_another(sent) {
        stage.count("failed with one of the pair");
    } else {
        stage.complain(&format!("{problem}, although one of the origins worked"));
    }
}
