//! Merges profiles of several sessions or machines into one profile on one time line.
//!
//! Called by `profiler merge`. The inputs are profiles in the processed format, as sessions write
//! it. The merge works on their JSON and not on what [`profiler_reader`] understands of it, so that
//! members that no reader needs are in the merged profile, too.
//!
//! ```text
//! input ─▶ first pass ─▶ meta, hosts ──▶ align ──▶ offset of each input
//!                    └─▶ shared tables ─▶ tables ─▶ new numbers of all rows
//! input ─▶ second pass ─▶ threads ───────────────────▶ output   numbers and times are changed
//!                     └─▶ counters, logs ─▶ files ──▶ output   while they are read
//! at the end: libs, shared tables, meta ────────────▶ output
//! ```
//!
//! Invariants: nothing of an input is lost; merging one profile gives its contents, and merging in
//! steps gives the contents of merging at once; memory grows with the different rows of the shared
//! tables, not with samples and markers; the output is complete or unchanged. The limits on hosts
//! and their names are in [`naming`].

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod align;
mod categories;
mod hosts;
mod input;
mod list_changes;
mod lists;
mod logs;
mod meta;
mod naming;
mod payload;
mod plan;
mod report;
mod rewrite;
mod schemas;
mod second_pass;
mod shared_rows;
mod tables;
#[cfg(test)]
mod tests;
mod threads;
mod uncertainty;
mod warnings;

use std::path::Path;

use profiler_json::JsonWriter;

use self::input::Input;
use self::lists::Lists;
use self::naming::MAX_HOSTS;
use self::plan::Plan;
pub use self::report::{HostShift, MergeCounts, MergeError, MergeInput, Merged, MergedHost};
use self::second_pass::{InputNumbers, SharedContents};
pub use self::uncertainty::Uncertainty;
use profiler_files::WorkListener;
use profiler_files::output::{BoundedWriter, ProfileFile, most_bytes};
use profiler_reader::text::Pass;

/// Merges profiles into one profile at `to`, compressed if that ends in `.gz`.
///
/// Reads each input twice, and has one of them open at a time. Memory holds the different texts,
/// functions, frames and stacks of all inputs. At most 1,000 hosts can be merged, with names of at
/// most 255 bytes.
///
/// # Errors
/// [`MergeError`]; `to` is unchanged then.
pub fn merge(inputs: &[MergeInput], shifts: &[HostShift], to: &Path) -> Result<Merged, MergeError> {
    merge_with(inputs, shifts, to, &WorkListener::default())
}

/// Like [`merge`], and reports the progress.
///
/// # Errors
/// As [`merge`].
pub fn merge_with(
    inputs: &[MergeInput],
    shifts: &[HostShift],
    to: &Path,
    listener: &WorkListener,
) -> Result<Merged, MergeError> {
    merge_in(
        &profiler_files::spill::directory(),
        inputs,
        shifts,
        to,
        listener,
    )
}

/// Like [`merge_with`], with temporary files in `directory`.
fn merge_in(
    directory: &Path,
    inputs: &[MergeInput],
    shifts: &[HostShift],
    to: &Path,
    listener: &WorkListener,
) -> Result<Merged, MergeError> {
    check_files(inputs, to)?;
    let pass = |before| Pass {
        listener: listener.clone(),
        before,
        of: 2 * inputs.len() as u64,
    };
    let mut shared = SharedContents::default();
    let (mut opened, mut numbers) = (Vec::new(), Vec::new());
    let mut hosts = 0;
    for (before, input) in (0..).zip(inputs) {
        let (mut input, tables) = Input::open(input, pass(before))?;
        hosts += input.hosts.len();
        check_hosts(hosts)?;
        numbers.push(shared.add(&mut input, tables)?);
        opened.push(input);
    }
    let plan = Plan::new(opened, shifts)?;
    let lists = Lists::in_directory(directory);
    write(plan, shared, lists, &numbers, pass, to)
}

/// Reads all inputs again, and writes the profile.
fn write(
    plan: Plan,
    mut shared: SharedContents,
    mut lists: Lists,
    numbers: &[InputNumbers],
    pass: impl Fn(u64) -> Pass,
    to: &Path,
) -> Result<Merged, MergeError> {
    let mut file = ProfileFile::create_behind(to)?;
    let mut out = JsonWriter::new(BoundedWriter::new(&mut file, most_bytes(plan.length())));
    let mut counts = MergeCounts::default();
    out.begin_object();
    out.key("threads");
    out.begin_array();
    let inputs = numbers.len();
    for (place, numbers) in numbers.iter().enumerate() {
        let before = (inputs + place) as u64;
        counts += plan.second_pass(
            place,
            numbers,
            pass(before),
            &mut shared,
            &mut lists,
            &mut out,
        )?;
        if out.is_failed() || lists.is_failed() {
            break;
        }
    }
    out.end_array();
    lists.finish(&mut out)?;
    shared.tables.write(&mut out);
    let (meta, hosts, warnings) = plan.finish(shared);
    out.key("meta");
    out.raw(&serde_json::Value::Object(meta).to_string());
    out.end_object();
    out.finish().map_err(MergeError::Write)?;
    let bytes = file.finish().map_err(MergeError::Write)?.commit()?;
    Ok(Merged {
        path: to.to_owned(),
        bytes,
        counts,
        hosts,
        warnings,
    })
}

fn check_hosts(count: usize) -> Result<(), MergeError> {
    match count > MAX_HOSTS {
        true => Err(MergeError::TooManyHosts { most: MAX_HOSTS }),
        false => Ok(()),
    }
}

/// Checks that there are files to merge, and that none is used twice.
fn check_files(inputs: &[MergeInput], to: &Path) -> Result<(), MergeError> {
    if inputs.is_empty() {
        return Err(MergeError::NoInput);
    }
    check_hosts(inputs.len())?;
    let place = |path: &Path| path.canonicalize().ok();
    let mut known = Vec::with_capacity(inputs.len());
    for input in inputs {
        let path = input.path.clone();
        let Some(file) = place(&path) else { continue };
        if place(to).as_ref() == Some(&file) {
            return Err(MergeError::OutputIsInput { path });
        }
        if known.contains(&file) {
            return Err(MergeError::DuplicateInput { path });
        }
        known.push(file);
    }
    Ok(())
}
