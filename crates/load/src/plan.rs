//! What a run is asked to do: the target, how many users, when to stop, what to send, what to expect.
//!
//! Invariant: a plan that passes [`Plan::check`] can be run; what is wrong is said with the field's name.
//! A plan is data. It opens nothing and resolves no names.

use crate::expect::Expect;
use crate::target::Target;
use bytes::Bytes;
use message::{Method, Version};
use std::time::Duration;

/// The most users a run may have. Beyond it neither ports nor descriptors of one machine suffice.
pub const USERS_MAX: usize = 200_000;

/// The most worker threads a run may have.
pub const THREADS_MAX: usize = 256;

/// The most single answers a run keeps for export.
pub const SAMPLES_MAX: u64 = 4_000_000;

/// The longest request head in bytes, so that a mistake in a script does not send megabytes of header.
pub const REQUEST_HEAD_BYTES_MAX: usize = 64 * 1024;

/// How long a request may take if the plan says nothing.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// One measured load: a closed loop of [`Plan::users`], each of which sends a request, waits for the whole
/// answer, and sends the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Where the requests go.
    pub target: Target,
    /// How many users there are, 1 to [`USERS_MAX`]. Each has at most one request in flight.
    pub users: usize,
    /// Worker threads; 0 means one for each core. Never more than there are users.
    pub threads: usize,
    /// Whether the worker threads give way: they run at a lower priority (nice [`GIVE_WAY_NICE`]), so that a server
    /// on the same host gets the processor first, as it would if the load came from another machine.
    pub gives_way: bool,
    /// When the run ends.
    pub stop: Stop,
    /// Load before the measured part; its requests are sent like the others and counted nowhere.
    pub warmup: Duration,
    /// Whether connections are kept open between a user's requests.
    pub keep_alive: bool,
    /// The version of the requests.
    pub version: Version,
    /// The method of the requests.
    pub method: Method,
    /// Header fields in the order in which they are sent. `Host`, `User-Agent`, `Accept` and `Connection`
    /// given here replace the built-in ones.
    pub headers: Vec<(String, String)>,
    /// Cookies as `name=value`, sent in one `Cookie` field.
    pub cookies: Vec<String>,
    /// Credentials as `user:password` for basic authentication (RFC 7617), sent with every request.
    pub basic_auth: Option<String>,
    /// What every request carries as content.
    pub body: Option<Body>,
    /// How long a request may take from its start to the last byte of its answer. Checked at least 16 times
    /// within that time, so a request is given up at most a sixteenth later.
    pub timeout: Duration,
    /// Which answers count as good.
    pub expect: Expect,
    /// How many single answers to keep for export, at most [`SAMPLES_MAX`]; 0 keeps none. It is the first that
    /// are kept; later ones are still counted everywhere else. Each thread may take 24 bytes for each.
    pub samples_max: u64,
}

/// How much nicer threads are that give way; 10 is a tenth of an ordinary thread's weight.
pub const GIVE_WAY_NICE: i32 = 10;

/// The content of every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// The octets.
    pub content: Bytes,
    /// The value of `Content-Type`.
    pub content_type: String,
}

/// When a run ends: at whichever limit comes first. At least one must be given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stop {
    /// After so many requests have ended, well or badly. Warm-up requests do not count.
    pub requests: Option<u64>,
    /// After so much time, not counting the warm-up. Requests in flight at that moment are not counted.
    pub time: Option<Duration>,
    /// At the first answer that breaks off ([`crate::FailureKind::Receive`]), as `ab` does without `-r`.
    pub at_first_receive_error: bool,
}

/// What is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Users out of range.
    #[error("the number of users must be 1 to {USERS_MAX}, not {0}")]
    Users(usize),
    /// Threads out of range.
    #[error("the number of threads must be at most {THREADS_MAX}, not {0}")]
    Threads(usize),
    /// Neither a number of requests nor a time.
    #[error("say when to stop: a number of requests, a time, or both")]
    NoStop,
    /// Zero requests or no time at all.
    #[error("the number of requests and the time must be above zero")]
    StopAtOnce,
    /// A timeout of zero.
    #[error("the timeout must be above zero")]
    Timeout,
    /// Too many samples asked for.
    #[error("at most {SAMPLES_MAX} single answers can be kept, not {0}")]
    Samples(u64),
    /// A header, cookie or credential with a character that would end the line.
    #[error("{place} must not contain line breaks or NUL: {text:?}")]
    LineBreak {
        /// Which part of the plan.
        place: &'static str,
        /// The text as given.
        text: String,
    },
    /// A header name that is no token (RFC 9110 section 5.1).
    #[error("{0:?} is not a header field name")]
    HeaderName(String),
    /// A method that is no token (RFC 9110 section 9.1).
    #[error("{0:?} is not a method")]
    Method(String),
    /// The request head is too long.
    #[error("the request head has {0} bytes, more than {REQUEST_HEAD_BYTES_MAX}")]
    HeadTooLong(usize),
}

impl Plan {
    /// One user with kept connections and GET, until told when to stop: set [`Plan::stop`] before running.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            users: 1,
            threads: 0,
            gives_way: false,
            stop: Stop::default(),
            warmup: Duration::ZERO,
            keep_alive: true,
            version: Version::Http11,
            method: Method::Get,
            headers: Vec::new(),
            cookies: Vec::new(),
            basic_auth: None,
            body: None,
            timeout: TIMEOUT_DEFAULT,
            expect: Expect::default(),
            samples_max: 0,
        }
    }

    /// The version of the requests as it stands in their first line.
    pub const fn protocol(&self) -> &'static str {
        match self.version {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        }
    }

    /// Looks for what cannot be run.
    ///
    /// # Errors
    /// The first thing found, in the order of the fields.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.users == 0 || self.users > USERS_MAX {
            return Err(PlanError::Users(self.users));
        }
        if self.threads > THREADS_MAX {
            return Err(PlanError::Threads(self.threads));
        }
        match (self.stop.requests, self.stop.time) {
            (None, None) => return Err(PlanError::NoStop),
            (Some(0), _) | (_, Some(Duration::ZERO)) => return Err(PlanError::StopAtOnce),
            _ => {}
        }
        if self.timeout.is_zero() {
            return Err(PlanError::Timeout);
        }
        if self.samples_max > SAMPLES_MAX {
            return Err(PlanError::Samples(self.samples_max));
        }
        self.check_request()
    }

    fn check_request(&self) -> Result<(), PlanError> {
        if !is_token(self.method.as_bytes()) {
            return Err(PlanError::Method(self.method.to_string()));
        }
        for (name, value) in &self.headers {
            if !is_token(name.as_bytes()) {
                return Err(PlanError::HeaderName(name.clone()));
            }
            check_line("a header field", value)?;
        }
        self.cookies.iter().try_for_each(|cookie| check_line("a cookie", cookie))?;
        self.basic_auth.iter().try_for_each(|credentials| check_line("the credentials", credentials))?;
        self.body.iter().try_for_each(|body| check_line("the content type", &body.content_type))
    }
}

fn check_line(place: &'static str, text: &str) -> Result<(), PlanError> {
    if text.contains(['\r', '\n', '\0']) {
        return Err(PlanError::LineBreak { place, text: text.to_owned() });
    }
    Ok(())
}

/// Whether `text` is a token (RFC 9110 section 5.6.2).
fn is_token(text: &[u8]) -> bool {
    !text.is_empty()
        && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::{Plan, PlanError, Stop, Target, USERS_MAX};
    use message::Method;
    use std::time::Duration;

    fn plan() -> Plan {
        let mut plan = Plan::new(Target::parse("http://127.0.0.1:1/").unwrap());
        plan.stop = Stop { requests: Some(1), ..Stop::default() };
        plan
    }

    /// Changes a good plan and says what is wrong with it then.
    fn broken(change: impl FnOnce(&mut Plan)) -> PlanError {
        let mut plan = plan();
        assert_eq!(plan.check(), Ok(()));
        change(&mut plan);
        plan.check().unwrap_err()
    }

    #[test]
    fn limits_are_kept() {
        assert_eq!(broken(|plan| plan.users = 0), PlanError::Users(0));
        assert_eq!(broken(|plan| plan.users = USERS_MAX + 1), PlanError::Users(USERS_MAX + 1));
        assert_eq!(broken(|plan| plan.threads = 1000), PlanError::Threads(1000));
        assert_eq!(broken(|plan| plan.stop = Stop::default()), PlanError::NoStop);
        assert_eq!(broken(|plan| plan.stop.requests = Some(0)), PlanError::StopAtOnce);
        assert_eq!(broken(|plan| plan.stop.time = Some(Duration::ZERO)), PlanError::StopAtOnce);
        assert_eq!(broken(|plan| plan.timeout = Duration::ZERO), PlanError::Timeout);
        assert_eq!(broken(|plan| plan.samples_max = u64::MAX), PlanError::Samples(u64::MAX));
    }

    #[test]
    fn nothing_in_a_plan_can_smuggle_a_line() {
        let smuggled = |error| matches!(error, PlanError::LineBreak { .. });
        assert!(smuggled(broken(|plan| plan.headers.push(("X".into(), "a\r\nY: b".into())))));
        assert!(smuggled(broken(|plan| plan.cookies.push("a=b\n".into()))));
        assert!(smuggled(broken(|plan| plan.basic_auth = Some("a:b\r".into()))));
        assert_eq!(
            broken(|plan| plan.headers.push(("X Y".into(), String::new()))),
            PlanError::HeaderName("X Y".into())
        );
        assert_eq!(broken(|plan| plan.method = Method::from_token(b"")), PlanError::Method(String::new()));
    }
}
