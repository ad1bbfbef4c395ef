//! The operator of a soak's edge: looks at its pages and asks why.
//!
//! Invariant: each page of the admin address answers at any time.

use super::SoakState;
use super::application::SOAK_HOST;
use super::visitors::PLAIN;
use crate::Client;
use stats::Random;
use std::time::Duration;

/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(200);

/// Requests pages of the admin address until the end.
pub(super) fn look(stage: &SoakState<'_>, mut random: Random) {
    while !stage.is_over() {
        let (method, path, content) = match random.below(5) {
            0 => ("GET", "/metrics", String::new()),
            1 => ("GET", "/status", String::new()),
            2 => ("GET", "/healthz", String::new()),
            3 => ("GET", "/readyz", String::new()),
            _ => ("POST", "/why", why(&mut random)),
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{content}",
            stage.admin,
            content.len()
        );
        let answer = Client::try_connect(stage.admin).and_then(|mut client| client.try_ask(request));
        match answer {
            Some(answer) if answer.status == 200 && answer.complete => stage.count("pages for the operator"),
            Some(answer) => {
                let text = String::from_utf8_lossy(&answer.body).into_owned();
                stage.complain(&format!("{method} {path} at the admin address: {} {text}", answer.head));
            }
            None => stage.complain(&format!("{method} {path} at the admin address was not answered")),
        }
        std::thread::sleep(PAUSE);
    }
}

fn why(random: &mut Random) -> String {
    let target = format!("/plain/{}", random.below(PLAIN));
    format!("{{\"url\": \"http://{SOAK_HOST}{target}\", \"headers\": []}}")
}
