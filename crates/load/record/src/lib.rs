//! The plan of a run of the load tester, its measurements, and how far its figures can be trusted:
//! values that the generators write, and that reports and ladders read.
//!
//! [`Plan`] and [`RunOutcome`] belong to runs of single requests, [`PageOutcome`] to runs of whole
//! pages. Their modules define every term and figure.
//!
//! Invariant: this crate computes from its arguments alone. It has no event loop, no TLS and no
//! HTML parser, so a crate that only shows results needs none either.

mod ab_account;
mod account;
mod check;
mod expect;
mod little;
mod outcome;
mod page_outcome;
mod page_second;
mod plan;
mod traffic;
mod verdict;
mod wire;

pub use ab_account::{AbAccount, AbEnd, Counting};
pub use account::Account;
pub use check::{
    ACCOUNT_GAP_INVALID, ACCOUNT_GAP_US_PER_ANSWER, CPU_SHARE_INVALID, CPU_SHARE_TIGHT, CheckInput,
    LAG_SHARE_TIGHT, LAG_TIGHT_US_MIN, LITTLE_ANSWERS_PER_USER_MIN, LITTLE_ELAPSED_MIN,
    LITTLE_RESIDUAL_INVALID, LOST_SHARE_INVALID, LOST_US_PER_REQUEST_MIN, NOT_STARTED_SHARE_INVALID,
    OpenLoop, RATE_REQUESTS_MIN, RATE_SHARE_INVALID, SCHEDULE_LAG_INVALID_US_MIN, SCHEDULE_LAG_SHARE_INVALID,
    SelfCheck, Trust,
};
pub use expect::{BodyPattern, Expect, Length, StatusSet, StatusSetError};
pub use little::LittlesLaw;
pub use outcome::{
    Drift, Ended, FailureKind, Failures, LateResponses, RequestsPerConnection, RunOutcome, SECONDS_MAX,
    Sample, Second, StageOutcome, StatusCounts, Times, UrlOutcome, VerdictTimes,
};
pub use page_outcome::{
    ClassOutcome, EXAMPLES_MAX, FOREIGN_HOSTS_MAX, FetchFailure, PageCheck, PageCounts, PageEnd, PageFigures,
    PageOutcome, TRACE_MAX, TracedUrl, URL_BYTES_MAX, kept_url,
};
pub use page_second::{PageSecond, SecondTimes};
pub use plan::{
    Plan, PlanError, REQUEST_HEAD_BYTES_MAX, RequestBody, SAMPLES_MAX, SOCKET_BUFFER_BYTES_MAX, Stop,
    THREADS_MAX, TIMEOUT_DEFAULT, URLS_MAX, USERS_MAX, WeightedTarget, spread,
};
pub use traffic::{
    Arrival, IN_FLIGHT_MAX_DEFAULT, RATE_MAX, RATE_MIN, Rate, STAGES_MAX, Stage, StageLoad, StageLoadError,
    Think,
};
pub use verdict::CacheVerdict;
pub use wire::{Close, Protocol, SourceNet, SourceNetError, TlsOptions};
