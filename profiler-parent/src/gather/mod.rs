//! One profile out of many processes: who is asked, who is waited for, what is believed.

pub mod json_check;
pub mod state;
pub mod verdict;
