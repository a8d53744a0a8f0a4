//! Who an observed process is, as the system sees it.
//!
//! The file of a process contains its number as the process sees it. That is another number in
//! another PID namespace, and the process may have ended. So a number counts only if its process
//! maps the file. A process that has stored its end is not looked for.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use profiler_core::ids::{ProcessId, ProcessStart};
use profiler_core::internal::sys;
use profiler_observed::file::{ObservedHeader, ObservedText};
use profiler_observed::layout::Ending;
use profiler_sys::OwnDescriptor;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::module_places;
use crate::sys::{facts_of, maps_file};

/// The maximum depth of a process below this one.
const MAX_DEPTH: usize = 256;

/// A process that has made a file.
#[derive(Debug)]
pub(super) struct Arrival {
    /// Its number here if it is known, otherwise the one that it claims.
    pub(super) pid: ProcessId,
    /// When it began; 0 if it has ended, or is not found.
    pub(super) start: ProcessStart,
    pub(super) parent: Option<ProcessId>,
    /// Its name: that of its program.
    pub(super) name: String,
    /// A descriptor of the process, if it runs and is found.
    pub(super) process: Option<OwnDescriptor<OwnedFd>>,
    /// Whether it may run although it is not found: in another PID namespace, or because this
    /// process may not inspect it.
    pub(super) is_hidden: bool,
}

/// Identifies the process that has made a file. `is_known` tells whether the session reads another
/// file of a process. Makes the path of the program in `text` one without symbolic links.
///
/// # Errors
/// If the file or a descriptor of the process cannot be opened, for example because this process
/// has too many descriptors.
pub(super) fn identify(
    path: &Path,
    header: &ObservedHeader,
    text: &mut ObservedText,
    is_known: impl Fn(ProcessId) -> bool,
) -> io::Result<Arrival> {
    let claimed = ProcessId::new(header.pid);
    let has_ended = header.ending != Ending::None as u32;
    let file = File::open(path)?;
    let found = Some(file).filter(|_| !has_ended);
    let found = found.and_then(|file| find(claimed, &file, is_known));
    let facts = found.and_then(facts_of);
    text.program = module_places::without_links(&text.program, header);
    let process = match found.filter(|_| facts.is_some()) {
        Some(pid) => descriptor_of(pid)?,
        None => None,
    };
    let parent = facts
        .map(|facts| facts.parent)
        .or(Some(ProcessId::new(header.parent)));
    Ok(Arrival {
        pid: found.unwrap_or(claimed),
        start: facts.map_or(ProcessStart::new(0), |facts| facts.start),
        parent: parent.filter(|parent| parent.get() != 0),
        name: name_of_program(text),
        process,
        is_hidden: !has_ended && found.is_none() && facts_of(claimed).is_some(),
    })
}

/// The process that has made the file: the one that it claims to be, if that maps the file.
///
/// Otherwise one that has this number in a PID namespace of its own. `is_known` tells whether the
/// session reads another file of a process: a parent keeps the mappings of files that it has made
/// in reserve for its children. A sandboxed process does not show its mappings. Of the sandboxed
/// processes below this one, the one that was started last is taken, because a process makes its
/// file when it begins. Processes that are not below this one are ignored, because another user's
/// container may have a process with this number, too.
fn find(
    claimed: ProcessId,
    file: &File,
    is_known: impl Fn(ProcessId) -> bool,
) -> Option<ProcessId> {
    if maps_file(claimed, file) == Some(true) {
        return Some(claimed);
    }
    let entries = std::fs::read_dir("/proc").ok()?;
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let candidates: Vec<ProcessId> = numbers
        .map(ProcessId::new)
        .filter(|pid| !is_known(*pid) && calls_itself(*pid, claimed))
        .collect();
    let maps = |pid: &&ProcessId| maps_file(**pid, file) == Some(true);
    let is_silent = |pid: &&ProcessId| maps_file(**pid, file).is_none() && is_below(**pid);
    let started = |pid: &&ProcessId| facts_of(**pid).map(|facts| facts.start.get());
    let found = candidates.iter().find(maps);
    found
        .or_else(|| candidates.iter().filter(is_silent).max_by_key(started))
        .copied()
}

/// Whether a process has this number in the innermost PID namespace that it is in, and another one
/// here.
fn calls_itself(pid: ProcessId, claimed: ProcessId) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let innermost = numbers.and_then(|numbers| numbers.split_whitespace().last());
    pid != claimed && innermost.and_then(|number| number.parse().ok()) == Some(claimed.get())
}

/// Whether a process is below this one: this process, or one below it, has started it.
fn is_below(pid: ProcessId) -> bool {
    let parent = |pid: &ProcessId| Some(facts_of(*pid)?.parent);
    let above = std::iter::successors(Some(pid), parent).skip(1);
    above.take(MAX_DEPTH).any(|pid| pid == sys::process_id())
}

/// A descriptor of a process. `None` if the process has ended, or the system has no such
/// descriptors. An error if this process lacks descriptors at present.
pub(super) fn descriptor_of(pid: ProcessId) -> io::Result<Option<OwnDescriptor<OwnedFd>>> {
    let Some(pid) = i32::try_from(pid.get()).ok().and_then(Pid::from_raw) else {
        return Ok(None);
    };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(descriptor) => Ok(Some(OwnDescriptor::new(descriptor))),
        Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// The file name of the program.
fn name_of_program(text: &ObservedText) -> String {
    let path = String::from_utf8_lossy(&text.program).into_owned();
    let path = path.strip_suffix(" (deleted)").unwrap_or(&path);
    let name = path.rsplit('/').next().unwrap_or_default();
    if name.is_empty() {
        "process".to_owned()
    } else {
        name.to_owned()
    }
}
