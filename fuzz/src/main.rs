//! The fuzz targets of every decoder, in one program, so that it is linked once. `.ci/fuzz` builds
//! and runs it.
//!
//! The environment variable `FUZZ_TARGET` selects the target. With `FUZZ_TARGET=list`, the program
//! prints the names of all targets. An input that takes more time than its length allows is an
//! error ([`bound`]).

#![no_main]

mod bound;
mod command;
mod growth;
mod hostile;
mod targets;

use std::sync::OnceLock;

use command::{console, plain, process_row, process_table, process_tree, profile, remarks, report};
use libfuzzer_sys::fuzz_target;
use targets::{CheckInput, TARGETS};

static SELECTED: OnceLock<CheckInput> = OnceLock::new();

fuzz_target!(init: select(), |data: &[u8]| {
    if let Some(check_input) = SELECTED.get() {
        bound::check_within(data, check_input);
    }
});

/// Selects the target. Ends the process if the environment selects none.
fn select() {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let Some((_, check_input)) = TARGETS.iter().find(|(known, _)| *known == name) else {
        TARGETS.iter().for_each(|(known, _)| println!("{known}"));
        if name != "list" {
            eprintln!("FUZZ_TARGET={name:?} is not one of these targets");
        }
        std::process::exit(if name == "list" { 0 } else { 2 });
    };
    SELECTED.get_or_init(|| *check_input);
}
