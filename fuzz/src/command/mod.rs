//! What the command `profiler` does with a profile, for the target `growth`: the modules of the
//! command, which is a program and not a library.
//!
//! The modules name each other as in the command, below `crate`, so `main.rs` imports them.

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
