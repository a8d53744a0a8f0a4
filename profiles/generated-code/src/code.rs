//! The generated code of one process: what a session knows of it.

use std::sync::Arc;

use profiler_core::ids::ProcessId;
use profiler_core::internal::sys::process_id;
use profiler_core::time::UnixNs;

use crate::process_files::ProcessFiles;
use crate::sys::{self, Whereabouts};

/// The generated code of one process.
#[derive(Clone, Debug)]
pub struct GeneratedCode {
    /// The process.
    pub pid: ProcessId,
    /// Its parent process, if it may have been forked, and have executed no program since. It also
    /// runs code that its parent has generated and described.
    pub forked_from: Option<ProcessId>,
    /// What is known of its files since it connected.
    pub files: Option<Arc<ProcessFiles>>,
    /// When it ended, if it has.
    pub ended: Option<UnixNs>,
    /// Whether it may name directories and make a look-up wait.
    pub is_trusted: bool,
}

impl GeneratedCode {
    /// Where the process runs; `None` if it has ended. Without notes of a process, only this
    /// process is known to have its number.
    pub(crate) fn now(&self) -> Option<Whereabouts> {
        if self.ended.is_some() {
            return None;
        }
        let now = sys::whereabouts(self.pid)?;
        let is_same = match &self.files {
            Some(files) => files.is_same(&now),
            None => self.pid == process_id(),
        };
        is_same.then_some(now)
    }
}
