//! The tracks of processes and threads.
//!
//! Used by all parts of [`super`]. A process is declared when the log of the profile or a thread
//! names it. A counter may come before the threads of its process: it is then in a group of its
//! own, whose process is found at the end. Memory grows with the number of processes and threads.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Write};

use super::super::recording::Thread;
use super::descriptor::{self, About};
use super::numbers::Numbers;
use super::packets::{Content, Packets};
use profiler_reader::{PartId, Survey, system_pid};

/// The name of a group of counters whose process is known only at the end.
const COUNTERS: &str = "Counters";

/// The number of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TrackId(pub(super) u64);

/// A process in the trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessTrack {
    pub(super) number: u32,
    pub(super) track: TrackId,
}

/// A thread in the trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadTrack {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) track: TrackId,
}

/// All tracks. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Tracks {
    pub(super) numbers: Numbers,
    last: u64,
    /// Processes of the log that no thread has named yet, by number in the profile.
    logged: HashMap<String, ProcessTrack>,
    /// Processes with threads, by number in the profile.
    known: HashMap<(PartId, String), ProcessTrack>,
    /// The first process of each object.
    of_parts: HashMap<PartId, ProcessTrack>,
    /// The number of programs with threads, by process number in the profile.
    lives: HashMap<String, u32>,
    /// The processes whose main thread is known.
    with_main: HashSet<u32>,
    /// Groups of counters that came before their process.
    waiting: BTreeMap<(PartId, Option<String>), TrackId>,
}

impl Tracks {
    /// A new track.
    pub(super) fn next(&mut self) -> TrackId {
        self.last += 1;
        TrackId(self.last)
    }

    /// Declares a process of the log, which has this number in the profile's threads.
    pub(super) fn log<W: Write>(
        &mut self,
        pid: String,
        number: u32,
        about: &About<'_>,
        packets: &mut Packets<W>,
    ) -> io::Result<ProcessTrack> {
        let process = self.declare(number, about, packets)?;
        self.logged.insert(pid, process);
        Ok(process)
    }

    /// Declares a thread, and its process if it is new.
    pub(super) fn thread<W: Write>(
        &mut self,
        thread: &Thread<'_>,
        packets: &mut Packets<W>,
    ) -> io::Result<ThreadTrack> {
        let process = self.process(thread, packets)?;
        let is_main = thread.is_main && self.with_main.insert(process.number);
        let tid = if is_main {
            process.number
        } else {
            self.numbers.take(thread.tid)
        };
        let track = self.next();
        let numbers = [process.number, tid];
        let body = descriptor::thread(track, process.track, numbers, thread.name);
        packets.write(Content::TrackDescriptor, &body)?;
        Ok(ThreadTrack {
            pid: process.number,
            tid,
            track,
        })
    }

    /// The process of a thread.
    fn process<W: Write>(
        &mut self,
        thread: &Thread<'_>,
        packets: &mut Packets<W>,
    ) -> io::Result<ProcessTrack> {
        let key = (thread.part, thread.pid.to_owned());
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let process = match self.of_log(thread.pid) {
            Some(logged) => logged,
            None => {
                let number = self.numbers.take(system_pid(thread.pid).unwrap_or(0));
                let label = format!("process {}", thread.pid);
                let is_renumbered = thread.pid != number.to_string();
                let about = About {
                    name: thread.process,
                    label: is_renumbered.then_some(&label),
                    ..About::default()
                };
                self.declare(number, &about, packets)?
            }
        };
        self.known.insert(key, process);
        self.of_parts.entry(thread.part).or_insert(process);
        Ok(process)
    }

    /// The process of the log with this number in the profile. The Gecko format has the system's
    /// number for each program of a process.
    fn of_log(&mut self, pid: &str) -> Option<ProcessTrack> {
        if let Some(process) = self.logged.remove(pid) {
            return Some(process);
        }
        let life = self.lives.entry(pid.to_owned()).or_insert(0);
        *life += 1;
        self.logged.remove(&life_number(pid, *life))
    }

    /// The parent of the tracks of a process's counters.
    pub(super) fn of_counter(&mut self, part: PartId, pid: Option<&str>) -> TrackId {
        if let Some(process) = self.find(part, pid) {
            return process.track;
        }
        let key = (part, pid.map(str::to_owned));
        if let Some(group) = self.waiting.get(&key) {
            return *group;
        }
        let group = self.next();
        self.waiting.insert(key, group);
        group
    }

    fn find(&self, part: PartId, pid: Option<&str>) -> Option<ProcessTrack> {
        let Some(pid) = pid else {
            return self.of_parts.get(&part).copied();
        };
        let known = self.known.get(&(part, pid.to_owned()));
        known.or_else(|| self.logged.get(pid)).copied()
    }

    /// Declares what was used before it could be declared. Must be called once, at the end.
    pub(super) fn declare_rest<W: Write>(
        &mut self,
        packets: &mut Packets<W>,
        survey: &Survey,
    ) -> io::Result<()> {
        for ((part, pid), group) in std::mem::take(&mut self.waiting) {
            let process = match self.find(part, pid.as_deref()) {
                Some(process) => process,
                None => {
                    let wanted = pid.as_deref().and_then(system_pid).unwrap_or(0);
                    let number = self.numbers.take(wanted);
                    let product = survey.parts.get(part.0).filter(|_| pid.is_none());
                    let product = product.and_then(|part| part.product.as_deref());
                    let about = About {
                        name: product.unwrap_or("process"),
                        ..About::default()
                    };
                    self.declare(number, &about, packets)?
                }
            };
            let body = descriptor::named(group, process.track, COUNTERS);
            packets.write(Content::TrackDescriptor, &body)?;
        }
        Ok(())
    }

    /// Writes the track of a process, and its place in the tree of processes.
    fn declare<W: Write>(
        &mut self,
        number: u32,
        about: &About<'_>,
        packets: &mut Packets<W>,
    ) -> io::Result<ProcessTrack> {
        let row = descriptor::process_tree(number, about);
        packets.write(Content::ProcessTree, &row)?;
        let track = self.next();
        let body = descriptor::process(track, number, about);
        packets.write(Content::TrackDescriptor, &body)?;
        Ok(ProcessTrack { number, track })
    }
}

/// The number that the profile gives a process's program, of which this is the first, second, ….
pub(super) fn life_number(pid: &str, life: u32) -> String {
    if life == 0 {
        pid.to_owned()
    } else {
        format!("{pid}.{life}")
    }
}
