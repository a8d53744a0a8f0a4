//! The rules for merging the parts of many processes: how long each child is waited for
//! ([`state`]), which data is accepted ([`json_check`]), and how outcomes are reported
//! ([`verdict`]). Used by captures.

pub mod json_check;
pub mod state;
pub mod verdict;
