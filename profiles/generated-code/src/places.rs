//! The directories in which the files of a process may be.
//!
//! Made once per look-up, on the thread of the look-up. The documentation of the crate has the
//! rules. Invariants: a directory that is reached through `/proc/PID` is that of the process,
//! although the system reuses process numbers; for a process that is not trusted, only this
//! process's own directory for temporary files is opened.

use std::io;
use std::sync::Arc;

use crate::code::GeneratedCode;
use crate::file_kind::FileKind;
use crate::process_files::ProcessFiles;
use crate::sys::{self, CodeDirectory, NamespacePid, Whereabouts};
use crate::trust::FileTerms;

/// A directory, with the files that may be in it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) directory: Arc<CodeDirectory>,
    pub(crate) kinds: &'static [FileKind],
    pub(crate) own_pid: NamespacePid,
    pub(crate) terms: FileTerms,
    pub(crate) is_trusted: bool,
}

/// The directories of a process.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// The most likely first.
    pub(crate) all: Vec<Place>,
    /// Whether it is known where the process runs or ran.
    is_noted: bool,
    /// The first reason for which a directory could not be opened.
    failure: Option<io::Error>,
}

impl Places {
    /// Finds the directories of a process.
    pub(crate) fn of(code: &GeneratedCode) -> Self {
        let mut places = Self {
            is_noted: code.files.is_some(),
            ..Self::default()
        };
        let now = code.now();
        if let Some(now) = &now {
            places.add_running(code, now);
        }
        if let Some(files) = &code.files {
            places.add_noted(code, files, now.is_some());
            if let Some(now) = now {
                files.refresh(now);
            }
        }
        places
    }

    /// Why no directory can be reached, in words. `None` if one can, and for a process that has
    /// never connected.
    pub(crate) fn unreachable(&self) -> Option<String> {
        let why = || match &self.failure {
            Some(error) => error.to_string(),
            None => "they have a root directory or mounts of their own".to_owned(),
        };
        (self.is_noted && self.all.is_empty()).then(why)
    }

    /// Adds the directories of a process that runs.
    fn add_running(&mut self, code: &GeneratedCode, now: &Whereabouts) {
        if !code.is_trusted {
            self.add_paths(code, now, false);
            return;
        }
        let temporary = sys::temporary_directory_of(code.pid);
        let jitdump = FileKind::Jitdump.name(now.own_pid);
        let mapped = sys::directory_of_mapped(code.pid, &jitdump);
        // They are the directories of this process only if it still has the number.
        if code.now().is_some() {
            self.add(code, now, &FileKind::ALL, temporary);
            if let Some(mapped) = mapped.transpose() {
                self.add(code, now, &[FileKind::Jitdump], mapped);
            }
        }
    }

    /// Adds the directories that are known from before.
    fn add_noted(&mut self, code: &GeneratedCode, files: &ProcessFiles, is_running: bool) {
        for known in files.known() {
            if let Some(kept) = files.temporary() {
                self.add_open(code, &known, &FileKind::ALL, kept);
            }
            self.add_paths(code, &known, !is_running);
        }
    }

    /// Adds the directories that are reached by the same paths as in the process.
    fn add_paths(&mut self, code: &GeneratedCode, of: &Whereabouts, with_working: bool) {
        if !of.shares_paths {
            return;
        }
        self.add(code, of, &FileKind::ALL, sys::own_temporary_directory());
        let working = of.directory.as_deref();
        if let Some(path) = working.filter(|_| with_working && code.is_trusted) {
            self.add(code, of, &[FileKind::Jitdump], sys::directory_at(path));
        }
    }

    fn add(
        &mut self,
        code: &GeneratedCode,
        of: &Whereabouts,
        kinds: &'static [FileKind],
        directory: io::Result<CodeDirectory>,
    ) {
        match directory {
            Ok(directory) => self.add_open(code, of, kinds, Arc::new(directory)),
            Err(error) => {
                self.failure.get_or_insert(error);
            }
        }
    }

    /// Adds a directory, unless it is known.
    fn add_open(
        &mut self,
        code: &GeneratedCode,
        of: &Whereabouts,
        kinds: &'static [FileKind],
        directory: Arc<CodeDirectory>,
    ) {
        let is_known = |place: &Place| {
            let has_kinds = kinds.iter().all(|kind| place.kinds.contains(kind));
            let is_of_same = place.own_pid == of.own_pid && place.terms.user == of.user;
            has_kinds && is_of_same && place.directory.is_same(&directory)
        };
        if self.all.iter().any(is_known) {
            return;
        }
        let terms = FileTerms {
            user: of.user,
            started: sys::unix_start(of.start),
            ended: code.ended,
        };
        self.all.push(Place {
            directory,
            kinds,
            own_pid: of.own_pid,
            terms,
            is_trusted: code.is_trusted,
        });
    }
}
