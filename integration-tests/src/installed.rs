//! Tests that need programs which may not be installed.
//!
//! Such a test calls [`skip`] and passes if a program is missing. It is reported: on the standard
//! error, which `cargo test -- --nocapture` shows, and in the file that `PROFILER_SKIPPED` names, if
//! that is set; `.ci/run` prints this file. `PROFILER_REQUIRE=python,node` makes a skip for one of
//! these reasons a failure, and `PROFILER_REQUIRE=all` every skip.

use std::fs::File;
use std::io::Write;

use anyhow::ensure;

/// The variable with the programs that must be there, separated by commas.
const REQUIRED: &str = "PROFILER_REQUIRE";
/// The variable with the path of the file to which skips are appended.
const REPORT: &str = "PROFILER_SKIPPED";

/// Reports that the calling test is skipped, because this program is missing or too old.
///
/// # Errors
/// When the program is required, or the skip cannot be reported.
pub fn skip(program: &str, why: &str) -> anyhow::Result<()> {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let text = format!("{test}: SKIPPED, no {program}: {why}");
    let required = std::env::var(REQUIRED).unwrap_or_default();
    ensure!(
        !is_required(&required, program),
        "{text}, but {REQUIRED}={required}"
    );
    eprintln!("{text}");
    if let Some(path) = std::env::var_os(REPORT) {
        let mut report = File::options().append(true).create(true).open(path)?;
        report.write_all(format!("{text}\n").as_bytes())?;
    }
    Ok(())
}

/// Whether this program is in the search path. If not, reports that the calling test is skipped, or
/// that a part of it is.
///
/// # Errors
/// As [`skip`].
pub fn found_or_skip(program: &str) -> anyhow::Result<bool> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_found = std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    if !is_found {
        skip(program, "it is not in the search path")?;
    }
    Ok(is_found)
}

fn is_required(required: &str, program: &str) -> bool {
    let mut all = required.split(',').map(str::trim);
    all.any(|one| one == program || one == "all")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_required_by_its_name_or_with_all_others() {
        assert!(is_required("python, node", "node") && is_required("all", "node"));
        assert!(!is_required("", "node") && !is_required("python,nodes", "node"));
    }
}
