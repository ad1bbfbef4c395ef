//! The limits of the edge, each from its row in the settings table.
//!
//! Invariant: a limit left out has the default of its row. The table refuses values of
//! another kind.

use crate::levels::SettingLevels;
use crate::setting::SettingValue;
use std::time::Duration;

macro_rules! limits {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $variant:ident;)*) => {
        /// All limits of the edge. The settings table states the meaning, unit and default of each,
        /// under `limits.` and the field's name.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct EdgeLimits {
            $(#[doc = concat!("The setting `limits.", stringify!($field), "`.")] pub $field: $type,)*
        }

        impl EdgeLimits {
            pub(super) fn resolve(levels: &SettingLevels<'_>) -> Self {
                Self { $($field: match levels.required(concat!("limits.", stringify!($field))) {
                    SettingValue::$variant(value) => <$type>::try_from(value).unwrap_or(<$type>::MAX),
                    other => unreachable!("the table gives {other:?}, which is no {}", stringify!($variant)),
                },)* }
            }
        }
    };
}

limits! {
    connections_max: usize = Count;
    connections_per_address_max: usize = Count;
    admin_connections_max: usize = Count;
    request_head_bytes_max: usize = Size;
    purge_head_bytes_max: usize = Size;
    request_fields_max: usize = Count;
    request_body_bytes_max: u64 = Size;
    http2_streams_max: usize = Count;
    tls_handshake_timeout: Duration = Duration;
    request_head_timeout: Duration = Duration;
    request_body_timeout: Duration = Duration;
    request_rate_min: u64 = Size;
    request_buffer_bytes_max: u64 = Size;
    response_rate_min: u64 = Size;
    response_buffer_bytes_max: u64 = Size;
    rate_window: Duration = Duration;
    buffer_memory_percent: usize = Count;
    idle_timeout: Duration = Duration;
    write_timeout: Duration = Duration;
    tunnel_idle_timeout: Duration = Duration;
    drain_timeout: Duration = Duration;
    drain_streams: Duration = Duration;
    connect_timeout: Duration = Duration;
    first_byte_timeout: Duration = Duration;
    between_bytes_timeout: Duration = Duration;
    response_head_bytes_max: usize = Size;
    response_fields_max: usize = Count;
    fetches_max: usize = Count;
    client_fetches_max: usize = Count;
    stalled_fetches_max: usize = Count;
    queue_max: usize = Count;
    client_queue_max: usize = Count;
    queue_timeout: Duration = Duration;
    idle_connections_max: usize = Count;
    idle_connection_timeout: Duration = Duration;
    flight_wait: Duration = Duration;
    stale_wait: Duration = Duration;
    probe_pause_max: Duration = Duration;
    failure_pause: Duration = Duration;
    hit_for_miss: Duration = Duration;
    hit_for_miss_entries_max: usize = Count;
    leak_guard_every: usize = Count;
    writes_per_minute: usize = Count;
    page_writes_per_minute: usize = Count;
    self_purge_memory: Duration = Duration;
    foreign_ports_max: usize = Count;
    private_session_bytes_max: u64 = Size;
    private_bytes_max: u64 = Size;
    context_timeout: Duration = Duration;
    context_lifetime_max: Duration = Duration;
    context_pause: Duration = Duration;
    context_sessions_max: usize = Count;
    contexts_max: usize = Count;
    context_copies_max: usize = Count;
    context_bytes_max: u64 = Size;
    object_bytes_max: u64 = Size;
    decoded_bytes_max: u64 = Size;
    disk_object_bytes_max: u64 = Size;
    disk_fill_percent: usize = Count;
    disk_timeout: Duration = Duration;
    completion_timeout: Duration = Duration;
    disk_verify_rate: u64 = Size;
    access_log_lines_max: usize = Count;
    client_traces_max: u64 = Count;
}

impl Default for EdgeLimits {
    fn default() -> Self {
        Self::resolve(&SettingLevels { levels: Vec::new() })
    }
}

macro_rules! site_limits {
    ($($field:ident: $type:ty,)*) => {
        /// The limits that a site or a route states for itself. The others are those of the edge.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct SiteLimits {
            $(#[doc = concat!("The setting `limits.", stringify!($field), "`.")] pub $field: Option<$type>,)*
        }

        impl SiteLimits {
            /// The limits in force, given those of the edge.
            pub fn over(&self, edge: &EdgeLimits) -> EdgeLimits {
                EdgeLimits { $($field: self.$field.unwrap_or(edge.$field),)* ..edge.clone() }
            }

            /// The limits that `stated` states and `top` does not.
            pub(super) fn between(stated: &EdgeLimits, top: &EdgeLimits) -> Self {
                Self { $($field: (stated.$field != top.$field).then_some(stated.$field),)* }
            }

            /// The limits in words, for `petasos check --print`.
            pub(super) fn explain(&self) -> Vec<String> {
                let mut lines = Vec::new();
                $(lines.extend(self.$field.map(|value| {
                    format!(concat!(stringify!($field), " {}"), value.shown())
                }));)*
                lines
            }
        }
    };
}

site_limits! {
    request_body_bytes_max: u64,
    connect_timeout: Duration,
    first_byte_timeout: Duration,
    between_bytes_timeout: Duration,
    fetches_max: usize,
    client_fetches_max: usize,
    stalled_fetches_max: usize,
    queue_max: usize,
    client_queue_max: usize,
    queue_timeout: Duration,
    idle_connections_max: usize,
    idle_connection_timeout: Duration,
}

/// The value of a limit with its unit.
trait Shown {
    fn shown(self) -> String;
}

impl Shown for Duration {
    fn shown(self) -> String {
        document::quantity::format_duration(self)
    }
}

impl Shown for u64 {
    /// A size in bytes.
    fn shown(self) -> String {
        document::quantity::format_size(self)
    }
}

impl Shown for usize {
    fn shown(self) -> String {
        self.to_string()
    }
}
