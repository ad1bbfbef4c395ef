//! The decisions of RFC 9110 and RFC 9111 as pure functions. They take messages and the current
//! moment, and return verdicts and reasons.
//!
//! The order in which the edge calls them:
//!
//! ```text
//! keyed_target                        the target in the cache key
//! canonical_target                    the spelling that the store hashes and purges compare
//! classify_request
//!     -> Pass(reason)                 forward passed_fields(), store nothing
//!     -> Lookup(directives)           look up looked_up_head() in the store
//!         found  -> reuse(freshness, directives)
//!             Fresh | Stale           evaluate_conditions, answer_range -> send
//!                 breaks off          completion_fields -> fetch -> completes -> send on
//!             Revalidate(reason)      fetch with confirming_fields()
//!         absent                      fetch shared_fields() with the rule known for the key
//!                                     and selecting_rule
//!     -> LookupStatic                 the same without cookies
//! LeftOut::permits                    may this response answer, although the lookup left out
//!                                     parts of the request? If not: pass
//! fetched head
//!     -> 304                          not_modified_speaks_of -> updated_head, which is judged
//!     -> is_server_error and not is_maintenance, or no response
//!                                     reuse_on_error -> send the stored response
//!     -> judge_response + VaryRule::from_response
//!         Store(storable)             store as rule.stored_key()
//!         DoNotStore(reason)
//! response to be shared               strip_noise_cookies
//! response to be sent                 downstream_head; without_gzip -> decoded_head
//! head of a passed response           invalidated_targets, written, invalidated_groups
//!                                     of a HEAD: head_says -> updated_head
//! ```
//!
//! A fetched response is stored under the union of two Vary rules: the rule known before the fetch,
//! whose fields were forwarded, and the rule that the response states. Its variant is the one that
//! this union gives for the *forwarded* fields. The response answers a client only if the client's
//! own fields select the same variant.
//!
//! Invariant: if in doubt, nothing is shared. Every decision names exactly one [`Reason`]. No
//! function here reads a clock, a socket or a file, and none keeps state. The wire format of HTTP/1
//! belongs to the crate `h1`.

mod accepted_codings;
mod answers;
mod browser_lifetime;
mod cache_groups;
mod cache_status;
mod changed;
mod coded_tags;
mod coding;
mod completion;
mod compression;
mod conditions;
mod content_range;
mod context;
mod dates;
mod devices;
mod directives;
mod downstream;
mod explain;
mod form;
mod forward;
mod freshness;
mod hints;
mod invalidation;
mod json_values;
mod judge;
mod keyed_cookies;
mod left_out;
mod lifetime;
mod moment;
mod multipart;
mod no_vary_search;
mod parameters;
mod partial;
mod preferences;
mod private;
mod range;
mod reason;
mod reference;
mod request;
mod request_fields;
mod robots;
mod route_path;
mod selecting;
mod set_cookie;
mod spelling;
mod static_files;
mod statuses;
mod strong;
pub mod structured;
mod targeted;
mod tracking;
mod validation;
mod vary;
mod writes;

pub use accepted_codings::{AcceptedCodings, Coding};
pub use answers::is_maintenance;
pub use browser_lifetime::{browser_lifetime, known_lifetime};
pub use cache_groups::{GROUP_BYTES_MAX, GROUPS_MAX, groups, invalidated_groups};
pub use cache_status::{CacheStatusFacts, cache_status_value};
pub use changed::{ChangedPages, Identity, WriteReach, identity_of};
pub use coded_tags::{as_known_to, wants_part_of_form};
pub use coding::{
    WithoutGzip, coded_head, decoded_head, is_compressible, is_gzip, is_html_type, names_coding,
    refuses_gzip, streamed_head, without_gzip,
};
pub use completion::{completes, completion_fields};
pub use compression::{CompressionRules, MissForm};
pub use conditions::{
    ConditionOutcome, concerns_conditions, evaluate_conditions, has_conditions, not_modified_fields,
};
pub use content_range::{ContentRange, joined_extent};
pub use context::{
    CONTEXT_BYTES_MAX, ContextNames, ContextPage, ContextTerms, SessionChange, SignedContext,
    answered_context, changed_sessions, claims_context, context_cookies, context_fields, judge_context,
    signed_context,
};
pub use dates::{format_date, parse_date};
pub use devices::{SHARED_MOBILE_USER_AGENT, SHARED_USER_AGENT};
pub use directives::{DELTA_SECS_MAX, DirectiveScope, Directives};
pub use downstream::downstream_head;
pub use explain::{Culprit, CulpritKind, explain_refusal, explain_request};
pub use form::FormReader;
pub use forward::{passed_fields, shared_fields, trailer_fields};
pub use freshness::{Freshness, FreshnessState, Reuse, asks_for_newer, reuse, reuse_on_error};
pub use hints::early_hints;
pub use invalidation::invalidated_targets;
pub use judge::{Judgement, Storable, judge_response};
pub use keyed_cookies::{looked_up_head, other_cookies};
pub use left_out::LeftOut;
pub use moment::Moment;
pub use multipart::{Multipart, multipart_layout};
pub use no_vary_search::NoVarySearch;
pub use parameters::{has_unknown_parameters, without_unknown_parameters};
pub use partial::{combined_head, missing_part_fields, multipart_head, part_head, unsatisfiable_head};
pub use private::{
    SessionCookies, cookie_pairs, judge_private, keyed_fields, private_request, session_cookies, sets_session,
};
pub use range::{ByteRange, RANGES_MAX, RangeAnswer, answer_range, answer_range_from_part};
pub use reason::{Reason, Verdict};
pub use reference::reasons_reference;
pub use request::{RequestClass, classify_request, is_personal};
pub use request_fields::is_void_declaration;
pub use robots::is_robot;
pub use route_path::{cookies, route_paths};
pub use selecting::{is_selecting, selecting_rule, without_origin};
pub use set_cookie::strip_noise_cookies;
pub use spelling::{canonical_host, canonical_target, percent_decoded};
pub use static_files::{is_for_any_cookie, is_static_path, recheck};
pub use statuses::is_refusal;
pub use targeted::{declares_esi, stated_directives};
pub use tracking::keyed_target;
pub use validation::{
    Doubt, HeadComparison, confirming_fields, head_confirms, head_says, is_server_error,
    not_modified_speaks_of, updated_head, validation_fields,
};
pub use vary::{VARY_NAMES_MAX, VariantKey, VaryRule};
pub use writes::{WriteEffect, WriteExchange, may_change_pages, may_need_content, may_write, written};

#[cfg(test)]
mod tests {
    /// Field lines as the tests write them: names and values.
    pub(crate) type FieldLines = [(&'static str, &'static str)];

    /// The policy of the shipped profile called `name`.
    pub(crate) fn policy_of(name: &str) -> profiles::Policy {
        profiles::Profile::shipped(name).unwrap().policy.clone()
    }
}
