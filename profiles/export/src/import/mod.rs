//! Converts `.cpuprofile` files to recordings: a profile in the processed form with one thread.
//!
//! Called by `profiler import`, and by [`super::stack_profile`], which makes a profile of stacks in
//! the same way:
//!
//! ```text
//! file ─▶ format, older_tree ─▶ nodes ─▶ tables ─▶ processed, functions, columns ─▶ profile
//!                           └─▶ samples ─▶ timing ──────▲
//! ```

mod columns;
mod format;
mod functions;
mod older_tree;
mod origin;
mod processed;
mod tables;
mod timing;

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use profiler_files::{WorkEvent, WorkListener};
use profiler_reader::text::{Pass, text_of_pass};

use super::ExportError;
use format::Document;
pub(super) use format::{CallFrame, Node};
use origin::CPU_PROFILE;
pub(super) use origin::Origin;
pub(super) use processed::write;
pub(super) use timing::{TimedSample, Timing};

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The path of the profile.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// Number of samples.
    pub samples: u64,
    /// What the file lacks, and how it was read instead.
    pub remarks: Vec<String>,
}

/// Converts the `.cpuprofile` file `from` to a profile in the processed form at `to`, compressed if
/// that ends in `.gz`. Holds the whole file in memory.
///
/// # Errors
/// [`ExportError`]; `to` is unchanged then.
pub fn import_cpuprofile(from: &Path, to: &Path) -> Result<Imported, ExportError> {
    import_cpuprofile_with(from, to, &WorkListener::default())
}

/// Like [`import_cpuprofile`], and reports the progress.
///
/// # Errors
/// As [`import_cpuprofile`].
pub fn import_cpuprofile_with(
    from: &Path,
    to: &Path,
    listener: &WorkListener,
) -> Result<Imported, ExportError> {
    super::not_onto_itself(from, to)?;
    let not_one = |why: String| ExportError::NotACpuProfile {
        path: from.to_owned(),
        why,
    };
    let document = read(from, listener)?.map_err(|error| not_one(error.to_string()))?;
    let mut document = document.unwrapped();
    let older = document
        .head
        .as_mut()
        .map(|head| std::mem::take(&mut head.0));
    let Some(nodes) = document.nodes.take().or(older) else {
        return Err(not_one(
            "it has neither a member `nodes` nor `head`".to_owned(),
        ));
    };
    let mut remarks = Vec::new();
    let timing = Timing::of(&document, &nodes, &mut remarks);
    remarks.extend(unknown_nodes(&timing, &nodes));
    listener.send(WorkEvent::Writing);
    let name = from
        .file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let imported = write(&nodes, &timing, (&name, CPU_PROFILE), to)?;
    Ok(Imported {
        remarks,
        ..imported
    })
}

/// Reads the text, which may begin with a mark of its encoding.
fn read(
    from: &Path,
    listener: &WorkListener,
) -> Result<Result<Document, serde_json::Error>, ExportError> {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let unreadable = |source| ExportError::Read {
        path: from.to_owned(),
        source,
    };
    let file = File::open(from).map_err(unreadable)?;
    let only = Pass {
        listener: listener.clone(),
        before: 0,
        of: 1,
    };
    let mut text = text_of_pass(&file, only).map_err(unreadable)?;
    let mut begin = Vec::new();
    let mut first = text.by_ref().take(MARK.len() as u64);
    first.read_to_end(&mut begin).map_err(unreadable)?;
    let begin = begin.strip_prefix(MARK).unwrap_or(&begin);
    Ok(serde_json::from_reader(BufReader::new(begin.chain(text))))
}

/// A remark about samples whose node is not in the file.
fn unknown_nodes(timing: &Timing, nodes: &[Node]) -> Option<String> {
    let known: HashSet<u64> = nodes.iter().map(|node| node.id).collect();
    let samples = timing.samples.iter();
    let count = samples
        .filter(|sample| !known.contains(&sample.node))
        .count();
    (count > 0)
        .then(|| format!("{count} samples have no stack: the file does not have their nodes"))
}
