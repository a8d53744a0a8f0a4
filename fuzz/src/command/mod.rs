//! The modules of the command `profiler` that work on profiles, for the target `growth`. They are
//! included by path, because the command is not a library.
//!
//! The modules refer to each other by paths below `crate`, as in the command, so `main.rs` imports
//! them.

#![allow(dead_code)] // the options and tables that no target uses

pub(crate) mod console;
pub(crate) mod diff;
#[path = "../../../profiler-cli/src/plain.rs"]
pub(crate) mod plain;
#[path = "../../../profiler-cli/src/process_row.rs"]
pub(crate) mod process_row;
#[path = "../../../profiler-cli/src/process_table.rs"]
pub(crate) mod process_table;
#[path = "../../../profiler-cli/src/process_tree.rs"]
pub(crate) mod process_tree;
#[path = "../../../profiler-cli/src/profile/mod.rs"]
pub(crate) mod profile;
#[path = "../../../profiler-cli/src/remarks.rs"]
pub(crate) mod remarks;
#[path = "../../../profiler-cli/src/report.rs"]
pub(crate) mod report;
pub(crate) mod waits;
