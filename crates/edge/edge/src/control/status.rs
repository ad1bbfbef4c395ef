//! The state of the edge, for `GET /status` and the dashboard.
//!
//! Invariant: a reading changes nothing and waits for nothing.

use crate::control::uncompressed::UncompressedPage;
use crate::fetch::breaker::state_name;
use crate::memory::detection::Detected;
use crate::request::date::http_date;
use crate::shared::Shared;
use crate::sites::Site;
use acme::CertificateReport;
use clock::Monotonic;
use origin::{CheckResult, LastCheck, Origin, Standing};
use semantics::Reason;

/// The state of the edge.
pub(crate) fn status(shared: &Shared) -> api::status::EdgeStatus {
    let store = shared.store.stats();
    api::status::EdgeStatus {
        certificates: shared.listeners.issuance.reports().iter().map(certificate_status).collect(),
        connections: shared.connections(),
        disk: disk_status(shared),
        draining: shared.is_draining(),
        requests: Reason::ALL.iter().map(|&reason| shared.sites.measures().requests(reason)).sum(),
        sites: shared.sites.iter().map(|site| site_status(shared, site)).collect(),
        store: api::status::StoreStatus {
            bytes: store.bytes,
            bytes_max: shared.store.limits().memory_bytes_max,
            evicted: store.evicted,
            objects: store.objects,
            on_disk_only: store.shelved,
            published: store.published,
        },
        uptime_secs: shared.clock.monotonic().since(shared.started).as_secs(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        warming: shared.warmer.document().runs,
        workers: shared.plan.workers,
    }
}

fn certificate_status(report: &CertificateReport) -> api::status::CertificateStatus {
    let date = |at| String::from_utf8_lossy(&http_date(at)).into_owned();
    api::status::CertificateStatus {
        expires: report.expires.map(date),
        failures: report.failures,
        last_error: report.last_error.clone(),
        names: report.names.clone(),
        next_attempt: date(report.next_attempt),
    }
}

fn site_status(shared: &Shared, site: &Site) -> api::status::SiteStatus {
    let gauges = site.origin.gauges();
    let found = site.detection.found();
    let (memory, now) = (shared.limits.self_purge_memory, shared.clock.monotonic());
    api::status::SiteStatus {
        breaker: state_name(site.origin.breaker_state()).to_owned(),
        connections_idle: gauges.idle,
        fetches_active: gauges.active,
        fetches_max: gauges.limit,
        fetches_waiting: gauges.waiting,
        names: site.plan.names.clone(),
        origin: site.plan.origin.to_string(),
        origins: site.origin.origins().map(|origin| origin_status(origin, now)).collect(),
        profile: site.plan.profile.clone(),
        purges_itself: site.writes.purges_itself(memory, now),
        recognition_confirmed: found.as_ref().map(Detected::confirmed_text),
        recognition_off: site.detection.is_off(),
        recognised_by: found.as_ref().map(Detected::evidence),
        recognised_since: found.as_ref().map(Detected::since_text),
        rules: site.policy().name.clone(),
        uncompressed: site.uncompressed.found().map(UncompressedPage::text),
    }
}

fn origin_status(origin: &Origin, now: Monotonic) -> api::status::OriginStatus {
    let (gauges, standing) = (origin.gauges(), origin.standing());
    let state = match standing {
        Standing::Well => "well",
        Standing::Failing => "failing",
        Standing::Silent => "silent",
        Standing::Unreachable => "unreachable",
    };
    let record = origin.record();
    // The record may be a second late; the state is new then.
    let since = record.standing.filter(|(known, _)| *known == standing).map(|(_, since)| since);
    api::status::OriginStatus {
        bytes_received: record.received_bytes,
        bytes_sent: record.sent_bytes,
        checks_failed: record.failed_checks,
        connect_errors: record.connect_errors,
        connections_idle: gauges.idle,
        down_secs: record.down.as_secs(),
        downs: record.downs,
        fetches_active: gauges.active,
        fetches_max: gauges.limit,
        fetches_waiting: gauges.waiting,
        last_check: record.last_check.map(|check| check_status(check, now)),
        requests: record.requests,
        response_errors: record.response_errors,
        retries: record.retries,
        server_errors: record.server_errors,
        state: state.to_owned(),
        state_secs: since.map_or(0, |since| now.since(since).as_secs()),
        url: origin.url().to_string(),
    }
}

fn check_status(check: LastCheck, now: Monotonic) -> api::status::CheckStatus {
    api::status::CheckStatus {
        ago_secs: now.since(check.at).as_secs(),
        millis: u64::try_from(check.took.as_millis()).unwrap_or(u64::MAX),
        result: match check.result {
            CheckResult::Status(code) => code.to_string(),
            CheckResult::Unreachable => "no connection".to_owned(),
            CheckResult::NoResponse => "no response".to_owned(),
            CheckResult::TimedOut => "too late".to_owned(),
        },
    }
}

/// The disk's part of the status; none without a disk.
fn disk_status(shared: &Shared) -> Option<api::status::DiskStatus> {
    let disk = shared.plan.disk.as_ref()?;
    let figures = shared.persistence.figures();
    Some(api::status::DiskStatus {
        accepted: figures.accepted,
        bytes: figures.bytes,
        bytes_max: disk.bytes_max,
        directory: disk.directory.display().to_string(),
        durable: figures.durable,
        hung: shared.persistence.is_hung(),
        objects: figures.objects,
        off: shared.persistence.is_off(),
        stuck: figures.stuck,
        synced: figures.synced,
    })
}
