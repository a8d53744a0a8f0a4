//! The rules for merging the parts of many processes: how long each child is waited for
//! ([`state`]), which data is accepted ([`json_check`]), how outcomes are reported ([`verdict`]),
//! and whether a process has died of a panic or a crash (`panic_evidence`). Used by captures, and
//! for processes that have ended.

pub(crate) mod crash_text;
pub mod json_check;
pub(crate) mod panic_evidence;
pub(crate) mod panic_text;
pub(crate) mod state;
pub(crate) mod verdict;
