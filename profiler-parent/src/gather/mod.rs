//! Merges the parts of many processes: which are asked, how long each is waited for, and which data
//! is accepted. Used by captures.

pub mod json_check;
pub mod state;
pub mod verdict;
