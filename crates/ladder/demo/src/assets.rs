//! The site's style sheet, script and pictures. They are compiled into the program, have an entity
//! tag, and any cache may store them for a day.

use crate::answer::Answer;
use crate::secret;
use crate::visit::Visit;
use bytes::Bytes;
use clock::Timestamp;
use message::{Fields, Method, Status, names};

struct Asset {
    path: &'static str,
    kind: &'static str,
    content: &'static [u8],
}

macro_rules! assets {
    ($($name:literal $kind:literal,)*) => {
        &[$(Asset {
            path: concat!("/assets/", $name),
            kind: $kind,
            content: include_bytes!(concat!("../site/assets/", $name)),
        },)*]
    };
}

const ASSETS: &[Asset] = assets! {
    "favicon.png" "image/png",
    "logo.svg" "image/svg+xml",
    "mission.css" "text/css; charset=utf-8",
    "mission.js" "text/javascript; charset=utf-8",
    "img/bag.svg" "image/svg+xml",
    "img/bell.svg" "image/svg+xml",
    "img/bike-cargo.svg" "image/svg+xml",
    "img/bike-city.svg" "image/svg+xml",
    "img/bike-folding.svg" "image/svg+xml",
    "img/bike-mountain.svg" "image/svg+xml",
    "img/bike-road.svg" "image/svg+xml",
    "img/bike-touring.svg" "image/svg+xml",
    "img/brake.svg" "image/svg+xml",
    "img/cassette.svg" "image/svg+xml",
    "img/chain.svg" "image/svg+xml",
    "img/crank.svg" "image/svg+xml",
    "img/derailleur.svg" "image/svg+xml",
    "img/disc.svg" "image/svg+xml",
    "img/fork.svg" "image/svg+xml",
    "img/frame.svg" "image/svg+xml",
    "img/glove.svg" "image/svg+xml",
    "img/grip.svg" "image/svg+xml",
    "img/handlebar.svg" "image/svg+xml",
    "img/helmet.svg" "image/svg+xml",
    "img/jacket.svg" "image/svg+xml",
    "img/lever.svg" "image/svg+xml",
    "img/light.svg" "image/svg+xml",
    "img/lock.svg" "image/svg+xml",
    "img/oil.svg" "image/svg+xml",
    "img/pedal.svg" "image/svg+xml",
    "img/pump.svg" "image/svg+xml",
    "img/rack.svg" "image/svg+xml",
    "img/saddle.svg" "image/svg+xml",
    "img/shoe.svg" "image/svg+xml",
    "img/tool.svg" "image/svg+xml",
    "img/tyre.svg" "image/svg+xml",
    "img/wheel.svg" "image/svg+xml",
};

/// Answers a request below `/assets/`.
pub(crate) fn answer(visit: &Visit) -> Answer {
    let Some(asset) = ASSETS.iter().find(|asset| asset.path.as_bytes() == visit.path()) else {
        return Answer::plain(404, "There is no such file.\n");
    };
    if !matches!(visit.head.method, Method::Get | Method::Head) {
        let mut answer = Answer::plain(405, "Files can be read.\n");
        answer.fields.push("Allow", "GET, HEAD");
        return answer;
    }
    let mut fields = Fields::new();
    fields.push(names::CONTENT_TYPE, asset.kind);
    fields.push(names::CACHE_CONTROL, "public, max-age=86400");
    fields.push(names::ETAG, format!("\"{}\"", secret::fingerprint(asset.content)));
    fields.push("X-Content-Type-Options", "nosniff");
    let answer = Answer { status: Status::OK, fields, body: Bytes::from_static(asset.content) };
    // Assets have no Last-Modified, so the time is not used.
    answer.conditional(&visit.head.fields, Timestamp::default())
}
