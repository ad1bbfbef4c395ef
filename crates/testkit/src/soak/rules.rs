//! Rules for the edge's metrics in a soak: the values that each may have.
//!
//! Invariant: each metric is in one of these lists, or has its own limit in the verdict.

/// Gauges that must be zero without visitors.
pub(super) const IDLE: [&str; 11] = [
    "petasos_connections_open",
    "petasos_origin_connections_idle",
    "petasos_origin_fetches_active",
    "petasos_origin_fetches_waiting",
    "petasos_origin_fetches_stalled",
    "petasos_flights_open",
    "petasos_filling_bytes",
    "petasos_buffered_bytes",
    "petasos_spool_bytes",
    "petasos_spool_closing",
    "petasos_lingering_bytes",
];

/// Counters and gauges that must be zero, because nothing in the script causes them.
pub(super) const ZERO: [&str; 52] = [
    "petasos_connections_refused_total",
    "petasos_connections_refused_address_total",
    "petasos_admin_connections_refused_total",
    "petasos_requests_malformed_total",
    "petasos_visitor_timeouts_total",
    "petasos_visitors_too_slow_total",
    "petasos_origin_timeouts_total",
    "petasos_origin_busy_total",
    "petasos_origin_breaker_state",
    "petasos_fetches_denied_total",
    "petasos_decodings_failed_total",
    "petasos_leak_suspicions_total",
    "petasos_leaks_prevented_total",
    "petasos_purges_forbidden_total",
    "petasos_purges_malformed_total",
    "petasos_purges_undurable_total",
    "petasos_purges_at_risk",
    "petasos_spool_errors_total",
    "petasos_disk_off",
    "petasos_disk_reads_refused_total",
    "petasos_disk_distrusted",
    "petasos_disk_torn_total",
    "petasos_disk_full_total",
    "petasos_disk_errors_total",
    "petasos_disk_hangs_total",
    "petasos_disk_stuck",
    "petasos_disk_damaged_total",
    "petasos_damaged_responses_cut_total",
    "petasos_disk_verify_damaged_total",
    "petasos_access_log_dropped_total",
    "petasos_messages_lost_total",
    "petasos_threads_lost_total",
    "petasos_damaged_responses_completed_total",
    "petasos_detections_dropped_total",
    "petasos_foreign_ports_total",
    "petasos_parameter_floods_total",
    "petasos_page_writes_postponed_total",
    "petasos_static_tree_busy_total",
    "petasos_static_tree_bytes",
    "petasos_static_tree_errors_total",
    "petasos_static_tree_full_total",
    "petasos_static_tree_no_pages_total",
    "petasos_static_tree_not_for_all_total",
    "petasos_static_tree_off",
    "petasos_static_tree_pages",
    "petasos_static_tree_paths_total",
    "petasos_static_tree_removed_total",
    "petasos_static_tree_short_lived_total",
    "petasos_static_tree_written_total",
    "petasos_streams_ended_total",
    "petasos_tunnels_total",
    "petasos_writes_left_to_purges_total",
];

/// Counters that every whole soak must increase.
pub(super) const HAPPENS: [&str; 5] = [
    "petasos_origin_fetches_total",
    "petasos_disk_written_total",
    "petasos_disk_reads_total",
    "petasos_disk_evicted_total",
    "petasos_purges_total",
];

/// Counters that a soak may increase.
pub(super) const TOLD: [&str; 4] = [
    "petasos_disk_refused_total",
    "petasos_store_evicted_total",
    "petasos_fillings_unkept_total",
    "petasos_purges_widened_total",
];

/// Counters that may increase only if the origin failed.
pub(super) const FAILING: [&str; 6] = [
    "petasos_breaker_refusals_total",
    "petasos_breaker_stale_total",
    "petasos_failure_pauses_total",
    "petasos_flight_wait_timeouts_total",
    "petasos_refill_failures_total",
    "petasos_refreshes_paused_total",
];

/// Counters and gauges of ordinary work, which indicate no error.
pub(super) const ORDINARY: [&str; 34] = [
    "petasos_background_refreshes_total",
    "petasos_bytes_received_total",
    "petasos_bytes_sent_total",
    "petasos_connections_accepted_total",
    "petasos_detection_documents_total",
    "petasos_disk_accepted_total",
    "petasos_disk_bytes",
    "petasos_disk_durable_total",
    "petasos_disk_fill_bytes",
    "petasos_disk_fills_unshared_total",
    "petasos_disk_objects",
    "petasos_disk_queue_bytes",
    "petasos_disk_verified_bytes_total",
    "petasos_flight_waits_total",
    "petasos_flights_started_total",
    "petasos_leak_checks_total",
    "petasos_popular_pages",
    "petasos_purge_comparisons_total",
    "petasos_purges_by_answers_total",
    "petasos_purges_by_writes_total",
    "petasos_purges_listed",
    "petasos_refills_postponed_total",
    "petasos_refills_total",
    "petasos_requests_streamed_total",
    "petasos_requests_total",
    "petasos_responses_decoded_total",
    "petasos_sites_recognised_total",
    "petasos_store_bytes",
    "petasos_store_bytes_max",
    "petasos_store_objects",
    "petasos_store_published_total",
    "petasos_store_shelved",
    "petasos_uncompressed_sites",
    "petasos_writes_postponed_total",
];
