//! The processes of the profile's log: the tree of processes, and for each program of a process a
//! slice with the time of its life and the verdict on its data.
//!
//! Called by [`super::write`] before the threads. The log has a row for each program; the threads
//! of the second program of a process have a number of their own in the profile, and so a process
//! of their own in the trace. A program without data is shown at its process.

use std::collections::HashMap;
use std::io::{self, Write};

use super::super::proto::Message;
use super::Trace;
use super::annotations::{add_number, add_numbers, add_text};
use super::descriptor::{self, About};
use super::event;
use super::lanes::Lanes;
use super::packets::Content;
use super::tracks::{ProcessTrack, Tracks, life_number};
use profiler_reader::bounded_ns;
use profiler_reader::{GatheredProcess, Meta, Survey};

/// The name of the tracks, and the category of the slices.
const PROGRAMS: &str = "Programs";
const CATEGORY: &str = "process";
/// The verdict on a process without losses.
const COMPLETE: &str = "complete";

/// A process of a machine: the name of the machine in a merged profile, and the system's number.
type HostPid<'s> = (Option<&'s str>, u64);

/// The programs of a process with data, each with the time at which it began, in order.
type Lives<'s> = HashMap<HostPid<'s>, Vec<(i64, u32)>>;

/// Declares all processes of the log, and writes the slices of their programs.
pub(super) fn write<W: Write>(trace: &mut Trace<W>, survey: &Survey) -> io::Result<()> {
    let logs = survey
        .parts
        .iter()
        .flat_map(|part| part.logs.gathering.values());
    let mut rows: Vec<Row<'_>> = logs
        .flat_map(|log| &log.processes)
        .map(|process| Row::new(process, &survey.meta))
        .collect();
    number(&mut rows, &mut trace.tracks);
    let processes = declare(trace, &rows, &survey.meta)?;
    // Tracks are given in the order of the slices.
    rows.sort_by_key(|row| row.began_ns);
    let mut lanes: HashMap<u32, Lanes> = HashMap::new();
    for row in &rows {
        if let Some(process) = processes.get(&row.number) {
            let lanes = lanes.entry(row.number).or_default();
            write_row(trace, row, *process, lanes)?;
        }
    }
    Ok(())
}

/// Declares the processes. Returns them by number.
fn declare<W: Write>(
    trace: &mut Trace<W>,
    rows: &[Row<'_>],
    meta: &Meta,
) -> io::Result<HashMap<u32, ProcessTrack>> {
    let mut lives = lives(rows);
    let mut processes = HashMap::new();
    // The command line is that of the first program with data, which is the profile's main one.
    let mut command_line = meta.arguments.as_deref();
    for row in rows {
        let Some(life) = row.life else { continue };
        let GatheredProcess { name, verdict, .. } = row.process;
        let started = row.process.began_ms.map(bounded_ns);
        let about = About {
            name,
            parent: parent(row, &mut lives, &mut trace.tracks),
            command_line: command_line.take_if(|_| row.process.present),
            started: started.map(|at| trace.packets.time(at)),
            label: Some(verdict.as_str()).filter(|verdict| *verdict != COMPLETE),
        };
        let pid = life_number(&row.process.pid_in_profile(), life);
        let process = trace
            .tracks
            .log(pid, row.number, &about, &mut trace.packets)?;
        processes.insert(row.number, process);
    }
    Ok(processes)
}

/// A row of the log.
struct Row<'s> {
    process: &'s GatheredProcess,
    began_ns: i64,
    /// The number of its process in the trace.
    number: u32,
    /// Which program with data of its process it is, if it stands for a process of the trace.
    life: Option<u32>,
}

impl<'s> Row<'s> {
    fn new(process: &'s GatheredProcess, meta: &Meta) -> Self {
        let start = meta.profiling_start_time.unwrap_or(0.0);
        Self {
            process,
            began_ns: bounded_ns(process.began_ms.unwrap_or(start)),
            number: 0,
            life: None,
        }
    }

    fn host(&self) -> Option<&'s str> {
        self.process.host.as_deref()
    }

    fn host_pid(&self) -> HostPid<'s> {
        (self.host(), self.process.pid)
    }
}

/// Gives each program with data the number of a process. The programs without data get that of the
/// first program with data, or one for all of them.
fn number(rows: &mut [Row<'_>], tracks: &mut Tracks) {
    let mut first: HashMap<HostPid<'_>, u32> = HashMap::new();
    let mut count: HashMap<HostPid<'_>, u32> = HashMap::new();
    for row in rows.iter_mut().filter(|row| row.process.present) {
        let life = count.entry(row.host_pid()).or_insert(0);
        row.life = Some(*life);
        *life += 1;
        row.number = tracks.numbers.take(row.process.pid);
        first.entry(row.host_pid()).or_insert(row.number);
    }
    for row in rows.iter_mut().filter(|row| !row.process.present) {
        row.number = *first.entry(row.host_pid()).or_insert_with(|| {
            row.life = Some(0);
            tracks.numbers.take(row.process.pid)
        });
    }
}

fn lives<'s>(rows: &[Row<'s>]) -> Lives<'s> {
    let mut lives = Lives::new();
    for row in rows.iter().filter(|row| row.life.is_some()) {
        let of_process = lives.entry(row.host_pid()).or_default();
        of_process.push((row.began_ns, row.number));
    }
    lives.values_mut().for_each(|lives| lives.sort_unstable());
    lives
}

/// The number of the process that started a program: the program that it ran at that time.
fn parent<'s>(row: &Row<'s>, lives: &mut Lives<'s>, tracks: &mut Tracks) -> Option<u32> {
    let pid = row.process.parent?;
    // A process outside of the session is there by its number.
    let outside = || vec![(i64::MIN, tracks.numbers.take(pid))];
    let lives = lives.entry((row.host(), pid)).or_insert_with(outside);
    let begun = lives.partition_point(|(began, _)| *began <= row.began_ns);
    lives
        .get(begun.saturating_sub(1))
        .map(|(_, number)| *number)
}

/// Writes the slice of a program.
fn write_row<W: Write>(
    trace: &mut Trace<W>,
    row: &Row<'_>,
    process: ProcessTrack,
    lanes: &mut Lanes,
) -> io::Result<()> {
    let Trace {
        packets, tracks, ..
    } = trace;
    let ended_ns = row.process.ended_ms.map(bounded_ns);
    let ended_ns = ended_ns.map(|ended| ended.max(row.began_ns));
    let track = lanes.track(row.began_ns, ended_ns, || {
        let track = tracks.next();
        let body = descriptor::named(track, process.track, PROGRAMS);
        packets.write(Content::TrackDescriptor, &body)?;
        io::Result::Ok(track)
    })?;
    let mut nothing = Message::default();
    let mut begin = event::new(event::BEGIN, track);
    let GatheredProcess { name, verdict, .. } = row.process;
    begin.bytes(event::NAME, format!("{name}: {verdict}").as_bytes());
    begin.bytes(event::CATEGORY, CATEGORY.as_bytes());
    annotate(row.process, &mut begin);
    packets.write_at(row.began_ns, Content::TrackEvent, &begin, &mut nothing)?;
    if let Some(ended) = ended_ns {
        let end = event::new(event::END, track);
        packets.write_at(ended, Content::TrackEvent, &end, &mut nothing)?;
    }
    Ok(())
}

fn annotate(process: &GatheredProcess, event: &mut Message) {
    add_text("verdict", &process.verdict, event);
    add_number("pid", process.pid, event);
    for (name, number) in [
        ("parentPid", process.parent),
        ("recordedByPid", process.recorded_by),
    ] {
        if let Some(number) = number {
            add_number(name, number, event);
        }
    }
    for (name, number) in [
        ("threads", process.threads),
        ("recorded", process.recorded),
        ("delivered", process.delivered),
        ("outside", process.outside),
        ("evicted", process.evicted),
        ("unfinished", process.unfinished),
    ] {
        add_number(name, number, event);
    }
    add_numbers("dropped", &process.dropped, event);
}
