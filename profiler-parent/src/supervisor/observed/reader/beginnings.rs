//! The beginning of the observation of a program: the reader meets its file.
//!
//! Part of the [`ObservedReader`]. A program that calls the profiler within its first moments is
//! never observed: its own recorder records it. So a file is read only when its program has run for
//! [`YOUNG_LOOKS`] passes, has ended, or has filled half of its ring, and when a capture waits.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::internal::observed::{
    LoadedFile, ObservedClock, ObservedPlace, ObservedProcess, PoolProcess, PoolWriter,
};
use profiler_core::internal::pool;
use profiler_core::time::Timestamp;
use profiler_generated_code::ProcessFiles;
use profiler_observed::file::{ObservedFile, ObservedFileError, ObservedHeader, ObservedText};
use profiler_observed::layout::{Ending, FIRST_RING_PAGES};
use profiler_sys::OwnFile;
use rustix::io::Errno;

use super::super::ObservedEvent;
use super::super::arrivals::{Arrival, identify};
use super::super::mapped_files::mapped_files;
use super::super::module_places::{self, REMOVED};
use super::super::program::ObservedProgram;
use super::super::program_file::ProgramFile;
use super::super::reading::Reading;
use super::super::remarks::HIDDEN;
use super::{ObservedReader, SHORT_NS};
use crate::controller::{Event, Refusal};
use crate::process_table::{Remains, TrackedProcess, UnprofiledProcess};
use crate::supervisor::SupervisorEvent;
use crate::supervisor::outer::Recorded;
use crate::supervisor::spawn::{ask_to_join, make_pool};

/// The passes in which a new file is only looked at.
const YOUNG_LOOKS: u32 = 2;

/// What became of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// It is read, or never will be.
    Done,
    /// It is to be looked at again in the next pass.
    Young,
    /// It is to be tried again later.
    Later,
    /// No program has it yet.
    Unfinished,
}

/// The pool of a program.
pub(super) struct ProgramPlace {
    key: PoolId,
    pool: Arc<OwnFile>,
    writer: PoolWriter,
    /// Whether the session has spawned the process for this program.
    is_spawned: bool,
}

impl ProgramPlace {
    /// Writes a remark on the program into the profile's log.
    pub(super) fn add_notice(&self, text: String) {
        self.writer.add_notice(text);
    }
}

/// Why a program has no pool.
pub(super) enum Unplaced {
    /// It may have one later: memory is being freed, or this process lacks descriptors.
    Later,
    /// It will have none, for this reason.
    Never(String),
}

impl ObservedReader {
    /// Makes a process of the session from a new file, if it is time.
    pub(super) fn meet(&mut self, name: &OsString) -> Met {
        let path = self.directory.path().join(name);
        let mut file = match ObservedFile::open(&path) {
            Ok(file) => file,
            Err(ObservedFileError::Unfinished) => return Met::Unfinished,
            Err(ObservedFileError::Io(error)) if is_exhaustion(&error) => return Met::Later,
            Err(_) => return Met::Done,
        };
        let Ok(header) = file.header() else {
            return Met::Done;
        };
        if header.ending == Ending::Recorder as u32 {
            // Its recorder has begun before there was anything to tell.
            let _ = std::fs::remove_file(&path);
            return Met::Done;
        }
        if is_short_fork(&header) {
            self.replaced.remove(ProcessId::new(header.pid));
            let _ = std::fs::remove_file(&path);
            return Met::Done;
        }
        let is_running = header.ending == Ending::None as u32;
        if is_running && !self.is_urgent && self.is_young(name, &mut file) {
            return Met::Young;
        }
        self.young.remove(name);
        self.begin(path, file, &header)
    }

    /// Whether a program has just begun: it may be about to call the profiler, and is then never
    /// observed. Its samples stay in its file, which gets more room when there are samples.
    fn is_young(&mut self, name: &OsString, file: &mut ObservedFile) -> bool {
        let looks = self.young.entry(name.clone()).or_default();
        *looks = looks.saturating_add(1);
        let used = file.used_pages();
        if used > 0 {
            // If the file system has no room, the program uses the pages that it has.
            let _ = file.grant(1);
        }
        *looks <= YOUNG_LOOKS && used < FIRST_RING_PAGES / 2
    }

    /// Begins to read a file.
    fn begin(&mut self, path: PathBuf, file: ObservedFile, header: &ObservedHeader) -> Met {
        let Ok(mut text) = file.text() else {
            return Met::Done;
        };
        let is_known = |pid: ProcessId| {
            let mut programs = self.programs.values();
            programs.any(|Reading { program, .. }| {
                program.pid == pid && !program.goes_on() && !program.is_outside()
            })
        };
        let Ok(arrival) = identify(&path, header, &mut text, is_known) else {
            return Met::Later;
        };
        let outside = self.end_outside(arrival.pid, Ending::Exec);
        self.end_earlier_program(arrival.pid);
        // The file will tell soon that the recorder has taken over.
        let is_running = header.ending == Ending::None as u32;
        if is_running && self.context.processes.records_itself(arrival.pid) {
            return Met::Later;
        }
        let place = match self.place(&arrival, header) {
            Ok(place) => place,
            Err(Unplaced::Later) => return Met::Later,
            Err(Unplaced::Never(why)) => {
                self.refuse(&path, arrival, why);
                return Met::Done;
            }
        };
        let base_ns = self.replaced.begin(arrival.pid, header.began_cpu_ns);
        // The time that was recorded from outside is not recorded again.
        let base_ns = base_ns.max(outside.unwrap_or(0));
        let loaded = loaded_files(&text, arrival.pid, header);
        let file = ProgramFile::Own(path, Box::new(file));
        self.observe((file, loaded), (header, base_ns), arrival, place);
        Met::Done
    }

    /// Finds the pool of a program: that of the process that was spawned for it, or a new one.
    pub(super) fn place(
        &self,
        arrival: &Arrival,
        header: &ObservedHeader,
    ) -> Result<ProgramPlace, Unplaced> {
        let processes = &self.context.processes;
        let spawned = processes.observe_spawned(arrival.pid, arrival.parent, &arrival.name);
        let is_spawned = spawned.is_some();
        let (key, pool) = spawned.map_or_else(|| self.new_pool(&arrival.name), Ok)?;
        match writer(&pool, arrival, header) {
            Ok(writer) => Ok(ProgramPlace {
                key,
                pool,
                writer,
                is_spawned,
            }),
            Err(error) => {
                if is_spawned {
                    processes.give_back_spawned(key);
                } else {
                    self.context.forget_pool(key);
                    self.forget(key);
                }
                Err(unplaced(&error))
            }
        }
    }

    /// Lists a process as one that is not profiled, and removes its file.
    fn refuse(&self, path: &Path, arrival: Arrival, why: String) {
        let _ = std::fs::remove_file(path);
        let Ok(key) = pool::new_id() else { return };
        let Arrival {
            pid,
            start,
            parent,
            name,
            ..
        } = arrival;
        let process = UnprofiledProcess {
            name,
            pid,
            parent,
            why,
        };
        let processes = &self.context.processes;
        if processes.list_unprofiled(key, process, start) {
            processes.note_empty(key); // the latest such processes are listed, the others counted
        }
    }

    /// Makes a process of the session from a program that has a pool.
    pub(super) fn observe(
        &mut self,
        (file, loaded): (ProgramFile, Vec<LoadedFile>),
        (header, base_ns): (&ObservedHeader, u64),
        arrival: Arrival,
        place: ProgramPlace,
    ) {
        let ProgramPlace {
            key,
            pool,
            writer,
            is_spawned,
        } = place;
        let mut process = ObservedProcess::new(writer);
        let place = ObservedPlace {
            pid: arrival.pid,
            start: Some(arrival.start).filter(|start| start.get() != 0),
            base_ns,
            began: Timestamp::from_raw(header.began),
            is_outside: file.is_outside(),
        };
        process.set_place(place.pid, place.start);
        if arrival.is_hidden {
            process.pool().add_notice(HIDDEN.to_owned());
        }
        let mut program = ObservedProgram::new(
            place,
            file,
            process,
            (&self.context.params, &self.context.symbols),
        );
        program.set_loaded(&mut self.files, loaded);
        let ring_bytes = program.ring_bytes();
        let turn = self.turns.add(key);
        let reading = Reading {
            turn,
            clock: ObservedClock::new(&place),
            program: Box::new(program),
        };
        self.programs.insert(key, reading);
        self.touched.insert(key);
        if !is_spawned {
            self.list(key, &arrival, Remains::Pool(pool));
        }
        self.context.processes.set_ring_bytes(key, ring_bytes);
        // As for a process that joins: its paths are those of this process, or it has none.
        let files = ProcessFiles::note(arrival.pid, false);
        let is_fork = header.began_cpu_ns == 0;
        self.context.processes.set_files(key, files, is_fork);
        self.supervisor
            .send(SupervisorEvent::Observed(ObservedEvent::Started { key }));
        if !is_spawned {
            self.watch(key, arrival);
        }
    }

    /// Makes a pool for a process that the session does not know.
    fn new_pool(&self, name: &str) -> Result<(PoolId, Arc<OwnFile>), Unplaced> {
        let key = pool::new_id().map_err(|error| unplaced(&error))?;
        let made = ask_to_join(&self.supervisor, key)
            .map_err(|refusal| match refusal {
                Refusal::NotYet { .. } => Unplaced::Later,
                why => Unplaced::Never(why.to_string()),
            })
            .and_then(|allowance| {
                make_pool(&self.context, key, allowance, name).map_err(|error| unplaced(&error))
            });
        if made.is_err() {
            self.forget(key);
        }
        made.map(|pool| (key, pool))
    }

    /// Gives up the memory that was claimed for a process.
    fn forget(&self, key: PoolId) {
        self.supervisor
            .send(SupervisorEvent::Accounting(Event::Forgotten { key }));
    }

    fn list(&self, key: PoolId, arrival: &Arrival, remains: Remains) {
        let Arrival {
            pid,
            start,
            parent,
            name,
            ..
        } = arrival;
        let entry = TrackedProcess::observed(name, (*pid, *start), *parent, remains)
            .with_pool_in_file(self.context.pools.is_some());
        self.context.processes.add(key, entry);
        self.context.tell_outer(Recorded::here(name, *pid, *parent));
    }

    /// Watches for the end of a process that this one has not started.
    fn watch(&mut self, key: PoolId, arrival: Arrival) {
        let Arrival {
            pid,
            start,
            process,
            is_hidden,
            ..
        } = arrival;
        let watched = process.map(|process| {
            self.supervisor
                .watcher()
                .watch_other(key, process, pid, start)
        });
        match watched {
            Some(Ok(())) => {}
            Some(Err(_)) => drop(self.hidden.insert(key, Some((pid, start)))),
            None if is_hidden => drop(self.hidden.insert(key, None)),
            // The system has no such descriptors.
            None if start.get() != 0 => drop(self.hidden.insert(key, Some((pid, start)))),
            None => self.end(key), // it has ended already
        }
    }
}

/// Opens a pool for the reader.
fn writer(pool: &OwnFile, arrival: &Arrival, header: &ObservedHeader) -> io::Result<PoolWriter> {
    let process = PoolProcess {
        pid: arrival.pid,
        start: arrival.start,
        began: Timestamp::from_raw(header.began),
    };
    let file = pool.get().map_err(io::Error::from)?.try_clone()?;
    PoolWriter::new(file, process).map_err(io::Error::other)
}

/// The reason why a program has no pool, after an operation has failed with this error.
fn unplaced(error: &io::Error) -> Unplaced {
    if is_exhaustion(error) {
        Unplaced::Later
    } else {
        Unplaced::Never(format!("its pool cannot be made: {error}"))
    }
}

/// Whether an operation has failed because this process or the system lacks descriptors or memory
/// at present.
fn is_exhaustion(error: &io::Error) -> bool {
    let lacking = [Errno::MFILE, Errno::NFILE, Errno::NOMEM].map(Errno::raw_os_error);
    error
        .raw_os_error()
        .is_some_and(|number| lacking.contains(&number))
}

/// Whether a file is that of a forked child that has soon executed another program. Its time is
/// that of the other program then, as for a child that is started without a fork.
const fn is_short_fork(header: &ObservedHeader) -> bool {
    header.began_cpu_ns == 0
        && header.ending == Ending::Exec as u32
        && header.ended_cpu_ns < SHORT_NS
}

/// The loaded files of a process. `found_at` leads through the process while it lives; for the
/// program, only while the process still runs it.
fn loaded_files(text: &ObservedText, pid: ProcessId, header: &ObservedHeader) -> Vec<LoadedFile> {
    let is_running = header.ending == Ending::None as u32;
    let program = text.program.strip_suffix(REMOVED).unwrap_or(&text.program);
    let mut mapped: Option<Vec<LoadedFile>> = None;
    let files = text.files.iter().map(|(addresses, path)| {
        let is_program = path.is_empty();
        let (path, place) = if is_program {
            (
                program,
                module_places::of_program(pid, &text.program, header),
            )
        } else {
            (path.as_slice(), module_places::by_path(pid, path))
        };
        let shown = String::from_utf8_lossy(path).into_owned();
        // Only the list of mappings leads to a file without a path.
        let found_at = place.unwrap_or_else(|| {
            if is_running && mapped.is_none() {
                mapped = Some(mapped_files(pid));
            }
            let is_it = |file: &&LoadedFile| file.addresses.contains(&addresses.start);
            let file = mapped.iter().flatten().find(is_it);
            match file {
                Some(file) => file.found_at.clone(),
                // Another file may be at the path of the program.
                None if is_program => PathBuf::new(),
                None => PathBuf::from(&shown),
            }
        });
        LoadedFile {
            addresses: addresses.clone(),
            path: shown,
            found_at,
        }
    });
    files.collect()
}
