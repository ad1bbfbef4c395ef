//! The limits of pages that visitors with the same rights share, as rows of the settings table.

use crate::row::global;
use crate::setting::{Setting, SettingKind};
use crate::table::COUNT_MAX;

pub(crate) const CONTEXT_LIMITS: &[Setting] = &[
    global(
        "limits.context_timeout",
        SettingKind::Duration,
        "1s",
        "Longest wait for the origin's answer about the rights of a visitor (`context_path`). Then the \
         request passes, and further requests of its session pass for the same time.",
    ),
    global(
        "limits.context_lifetime_max",
        SettingKind::Duration,
        "10m",
        "Longest time for which Petasos believes an answer about the rights of a visitor, or a signed \
         cookie (`logged_in = \"context\"`).",
    ),
    global(
        "limits.context_pause",
        SettingKind::Duration,
        "5s",
        "Time for which the requests of a session pass after one of them has written \
         (`logged_in = \"context\"`). The next pages may confirm the write to this visitor alone.",
    ),
    global(
        "limits.context_sessions_max",
        SettingKind::Count(1, COUNT_MAX),
        "10000",
        "Number of sessions whose rights Petasos remembers (`logged_in = \"context\"`). Those that were \
         not used for the longest time go first.",
    ),
    global(
        "limits.contexts_max",
        SettingKind::Count(1, COUNT_MAX),
        "256",
        "Number of contexts with pages, per site. The pages of the context that was not used for the \
         longest time go first.",
    ),
    global(
        "limits.context_copies_max",
        SettingKind::Count(1, COUNT_MAX),
        "64",
        "Number of copies of one URL for all contexts together. Those that were not used for the longest \
         time go first.",
    ),
    global(
        "limits.context_bytes_max",
        SettingKind::Size,
        "64MiB",
        "Memory for the pages of all contexts together, on top of `memory`. Those that were not used for \
         the longest time go first.",
    ),
];
