//! Builds a profile in the processed format: pools are added one by one, then the profile is
//! written.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use profiler_core::ids::ProcessId;
use profiler_core::internal::reader::PoolReader;
use profiler_core::time::{SessionClock, TimeConverter, Timestamp, UnixNs};
use profiler_gecko::model::{MetaSection, ProcessModel, SlowRunMarker};
use profiler_gecko::{ProcessRole, ProcessSummary, ProfileSpec, ShownRange};
use profiler_generated_code::{GeneratedCode, ProcessFiles, unix_now};
use profiler_json::JsonWriter;
use profiler_sys::OwnFile;

use super::earlier::EarlierEntries;
use super::first_pass::{FirstPassTerms, ProfileTables, SortedProcess, sort_process};
use super::generated::{GeneratedNames, GeneratingProcess};
use super::late::{LateProcess, shown_by};
use super::meta::Meta;
use super::names::Symbols;
use super::process::{Written, WrittenProcess};
use super::slow_runs::PlacedRuns;
use super::sorted_thread::SortedThread;
use super::symbolicated::{CodeCategories, Numbers, SymbolicatedFrames};
use super::tick_detail::{TickDetail, WallSeconds};
use super::visible::{Activity, Visible, choose};
use super::window::Window;
use super::{counters, overhead, tables};

/// Opens a pool. Called once per pass, so that not all pools are open at the same time.
pub(crate) type OpenPool<'a> = Box<dyn Fn() -> io::Result<Arc<OwnFile>> + 'a>;

/// A profile while its processes are added.
pub(crate) struct ProcessedProfile<'a> {
    clock: SessionClock,
    spec: &'a ProfileSpec,
    window: Window,
    detail: TickDetail,
    arguments: Option<String>,
    sections: Vec<MetaSection>,
    shared: ProfileTables,
    members: Vec<Member<'a>>,
    on_writing: OnWriting<'a>,
}

/// Called before a process is written, with the process, the number of processes before it, and the
/// number of all processes.
type OnWriting<'a> = Box<dyn FnMut(ProcessId, usize, usize) + 'a>;

struct Member<'a> {
    role: ProcessRole,
    ended: Option<Timestamp>,
    sorted: SortedProcess,
    open: OpenPool<'a>,
    pid: String,
    /// The number of earlier processes with its process id; `None`: of those in this profile.
    life: Option<u32>,
    sorting_ns: u64,
    slow_runs: PlacedRuns,
    generated: Option<GeneratedCode>,
}

impl<'a> ProcessedProfile<'a> {
    /// Creates a profile of at most `processes` processes.
    pub(crate) fn new(clock: SessionClock, spec: &'a ProfileSpec, processes: usize) -> Self {
        let window = Window {
            since: spec.since,
            until: None,
        };
        Self {
            clock,
            spec,
            window,
            detail: TickDetail::default(),
            arguments: None,
            sections: Vec::new(),
            shared: ProfileTables::new(processes),
            members: Vec::new(),
            on_writing: Box::new(|_, _, _| {}),
        }
    }

    /// Calls this function before each process is written.
    pub(crate) fn on_writing(mut self, call: impl FnMut(ProcessId, usize, usize) + 'a) -> Self {
        self.on_writing = Box::new(call);
        self
    }

    /// Leaves out entries that began after `until`.
    pub(crate) fn until(mut self, until: Option<Timestamp>) -> Self {
        self.window.until = until;
        self
    }

    /// Shows this much of each tick.
    pub(crate) fn detail(mut self, detail: TickDetail) -> Self {
        self.detail = detail;
        self
    }

    /// Shows this command line.
    pub(crate) fn arguments(mut self, arguments: Option<String>) -> Self {
        self.arguments = arguments;
        self
    }

    /// Sets the sections that viewers show with the properties of the profile.
    pub(crate) fn show_sections(&mut self, sections: Vec<MetaSection>) {
        self.sections = sections;
    }

    /// Whether no process was added yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Adds a process; the root must be the first. `ended` is the time of its end, if known. Leaves
    /// the entries in `earlier` out. Returns these and the added ones, or `None` and adds nothing
    /// if no process ever attached the pool, or if the process is dead and recorded nothing.
    ///
    /// # Errors
    /// The reason why the pool cannot be read, in words. The process is not in the profile then.
    pub(crate) fn add(
        &mut self,
        role: ProcessRole,
        ended: Option<Timestamp>,
        earlier: &EarlierEntries,
        open: OpenPool<'a>,
    ) -> Result<Option<EarlierEntries>, String> {
        let began = Timestamp::now();
        self.shared.begin_process(role.is_root);
        let file = open().map_err(|error| error.to_string())?;
        let reader = PoolReader::open(&*file).map_err(|error| error.to_string())?;
        if reader.header().owner().is_none() && !role.is_root {
            return Ok(None);
        }
        let snapshot = reader.snapshot().map_err(|error| error.to_string())?;
        if ended.is_some() && !role.is_root && snapshot.counts().recorded() == 0 {
            return Ok(None);
        }
        let interval_ns = snapshot
            .header
            .params
            .as_ref()
            .map_or(0, |params| params.interval_ns);
        let converter = self.clock.converter(self.spec.later);
        let tick = converter.ticks_in(interval_ns);
        let terms = FirstPassTerms {
            window: self.window,
            categories: &self.spec.categories,
            tick,
            interval_ns,
            end: ended.unwrap_or(self.spec.later.ticks),
            downsampling: self.downsampling(&converter),
        };
        let sorted = sort_process(&reader, snapshot, earlier.clone(), terms, &mut self.shared)
            .map_err(|error| error.to_string())?;
        let and_these = sorted.and_earlier();
        let sorting_ns = self.since(began);
        self.members.push(Member {
            role,
            ended,
            sorted,
            open,
            pid: String::new(),
            life: None,
            sorting_ns,
            slow_runs: PlacedRuns::default(),
            generated: None,
        });
        Ok(Some(and_these))
    }

    /// The process that was added last has this number of predecessors with its process id. The
    /// numbers of the profiles of a series are those of the series.
    pub(crate) fn life(&mut self, life: u32) {
        if let Some(member) = self.members.last_mut() {
            member.life = Some(life);
        }
    }

    /// Adds a notice about the process that was added last.
    pub(crate) fn add_notice(&mut self, text: String) {
        if let Some(member) = self.members.last_mut() {
            member.sorted.snapshot.definitions.add_notice(text);
        }
    }

    /// Adds a marker for each of these runs to the threads of the process that was added last.
    pub(crate) fn show_slow_runs(&mut self, runs: &[SlowRunMarker]) {
        if let Some(member) = self.members.last_mut() {
            member.slow_runs = PlacedRuns::new(runs, &member.sorted);
        }
    }

    /// Looks for the names of the code that the process which was added last generates at run time.
    /// `files` is what is known of its files since it connected. `forked_from` is its parent
    /// process if it may have been forked, and have executed no program since.
    pub(crate) fn name_generated_code(
        &mut self,
        forked_from: Option<ProcessId>,
        files: Option<Arc<ProcessFiles>>,
        is_trusted: bool,
    ) {
        let ended = self.members.last().and_then(|member| member.ended);
        let ended = ended.map(|ended| {
            let age = self.since(ended);
            UnixNs(unix_now().0.saturating_sub(age))
        });
        if let Some(member) = self.members.last_mut() {
            member.generated = Some(GeneratedCode {
                pid: member.role.pid,
                forked_from,
                files,
                ended,
                is_trusted,
            });
        }
    }

    /// The seconds of which only some values are kept, if the profile does not show every tick.
    fn downsampling(&self, converter: &TimeConverter) -> Option<WallSeconds> {
        let seconds = || WallSeconds::of(&self.clock, converter);
        (self.detail == TickDetail::EachSecond).then(seconds)
    }

    fn since(&self, began: Timestamp) -> u64 {
        let converter = self.clock.converter(self.spec.later);
        let ns = converter
            .since_start_ns(Timestamp::now())
            .saturating_sub(converter.since_start_ns(began));
        u64::try_from(ns).unwrap_or(0)
    }

    /// Writes the profile. `log` is called with the summaries of the processes, in the order in
    /// which they were added, and with descriptions of the data that was left out. `log` writes the
    /// other keys of the profile.
    ///
    /// # Errors
    /// The profile or a temporary file cannot be written.
    pub(crate) fn write<'o, W: Write>(
        mut self,
        symbols: &mut dyn Symbols,
        incomplete: &[LateProcess],
        log: impl FnOnce(&[ProcessSummary], Vec<String>, &mut JsonWriter<&'o mut W>),
        out: &'o mut W,
    ) -> io::Result<()> {
        assign_ids(&mut self.members);
        self.shared.close();
        let ProfileTables {
            frames,
            libs,
            strings,
            ..
        } = &mut self.shared;
        let categories = CodeCategories::of(&self.spec.categories);
        let mut generated = generated_names(&self.members, symbols);
        let named =
            SymbolicatedFrames::new(frames, libs, categories, strings, symbols, &mut generated);
        let remarks = generated.into_remarks();
        strings.code_is_named(self.members.len());
        let numbers = named.nodes(&self.shared.stacks, |_, _| {});
        let mut left_out = self.left_out(&named, &numbers);
        left_out.extend(symbols.left_out());
        left_out.extend(remarks);
        left_out.extend(self.notices());
        let mut out = JsonWriter::new(out);
        out.begin_object();
        let (written, shown) = self.write_processes(incomplete, &numbers, &mut out)?;
        self.shared.libs.write(&mut out);
        let ProfileTables {
            stacks,
            frames,
            libs,
            strings,
            ..
        } = &mut self.shared;
        tables::write(&named, stacks, frames, libs, strings, &mut out);
        left_out.extend(count(
            strings.left_out(),
            "texts are shown as one: too many different texts",
        ));
        let summaries = self.write_logs(&written, &mut out);
        log(&summaries, left_out, &mut out);
        self.write_meta(shown, &named, &mut out);
        out.end_object();
        out.finish().map(|_| ())
    }

    /// Notices about data that is missing from the parts of the processes, in words.
    fn notices(&self) -> Vec<String> {
        let of = |member: &Member<'_>| {
            let ProcessRole { name, pid, .. } = &member.role;
            let say = |notice: &String| format!("{name} ({pid}): {notice}");
            member
                .sorted
                .snapshot
                .definitions
                .notices()
                .iter()
                .map(say)
                .collect::<Vec<_>>()
        };
        self.members.iter().flat_map(of).collect()
    }

    /// Descriptions of the data that did not fit, without texts of markers, which are written
    /// later.
    fn left_out(&self, named: &SymbolicatedFrames, numbers: &Numbers) -> Vec<String> {
        let ProfileTables {
            frames,
            stacks,
            libs,
            thread_cap,
            ..
        } = &self.shared;
        let inlined = named.inlined_left_out().saturating_add(numbers.left_out);
        let all = [
            count(stacks.lost(), "frames left out: too many different stacks"),
            count(
                frames.lost(),
                "frames are shown as one: too many different frames",
            ),
            count(inlined, "inlined functions left out: too many"),
            count(thread_cap.left_out(), "threads are not shown: too many"),
            count(
                libs.left_out(),
                "files are not named: too many, or names too long",
            ),
        ];
        all.into_iter().flatten().collect()
    }

    /// Writes the threads, counters and overhead of all processes.
    fn write_processes<W: Write>(
        &mut self,
        incomplete: &[LateProcess],
        numbers: &Numbers,
        out: &mut JsonWriter<W>,
    ) -> io::Result<(Vec<(Written, u64)>, ShownRange)> {
        let mut all = Vec::new();
        let mut shown = ShownRange::default();
        let mut next = 0;
        let role = |member: &Member<'_>| (member.role.pid, member.role.is_root);
        let roles: Vec<_> = self.members.iter().map(role).collect();
        out.key("threads");
        out.begin_array();
        for (number, member) in self.members.iter().enumerate() {
            (self.on_writing)(member.role.pid, number, self.members.len());
            let began = Timestamp::now();
            let file = (member.open)()?;
            let reader = PoolReader::open(&*file).map_err(io::Error::other)?;
            let late = shown_by(number, &roles, incomplete);
            self.shared.strings.begin_process(member.role.is_root);
            let process = member.process(self.clock, self.spec, self.window);
            let written =
                process.write_threads(&reader, next, &late, &mut self.shared, numbers, out)?;
            next += u64::from(written.threads);
            shown += written.shown;
            all.push((written, self.since(began)));
        }
        out.end_array();
        out.key("counters");
        out.begin_array();
        for (member, (written, _)) in self.members.iter().zip(&all) {
            let process = member.process(self.clock, self.spec, self.window);
            let rows = &self.shared.rows;
            counters::write(&process, written.main_thread, self.detail, rows, out)?;
        }
        out.end_array();
        out.key("profilerOverhead");
        out.begin_array();
        for (member, (written, _)) in self.members.iter().zip(&all) {
            let process = member.process(self.clock, self.spec, self.window);
            overhead::write(&process, written.main_thread, &self.shared.rows, out)?;
        }
        out.end_array();
        Ok((all, shown))
    }

    /// Writes the logs of all processes, and returns their summaries.
    fn write_logs<W: Write>(
        &self,
        written: &[(Written, u64)],
        out: &mut JsonWriter<W>,
    ) -> Vec<ProcessSummary> {
        out.key("profilingLog");
        out.begin_object();
        let members = self.members.iter().zip(written);
        let summaries = members.map(|(member, (written, writing_ns))| {
            let counts = member
                .process(self.clock, self.spec, self.window)
                .write_log(written, out);
            let writing_ns = writing_ns.saturating_add(member.sorting_ns);
            ProcessSummary {
                threads: written.threads,
                counts,
                shown: written.shown,
                writing_ns,
            }
        });
        let summaries = summaries.collect();
        out.end_object();
        summaries
    }

    fn write_meta<W: Write>(
        &self,
        shown: ShownRange,
        named: &SymbolicatedFrames,
        out: &mut JsonWriter<W>,
    ) {
        let meta = Meta {
            root: self
                .members
                .first()
                .map(|root| root.process(self.clock, self.spec, self.window).model),
            spec: self.spec,
            clock: self.clock,
            shown,
            definitions: self
                .members
                .iter()
                .map(|member| &member.sorted.snapshot.definitions)
                .collect(),
            visible: &self.visible(),
            arguments: self.arguments.as_deref(),
            sections: &self.sections,
            sample_source: self
                .members
                .iter()
                .find_map(|member| member.sorted.snapshot.header.sample_source),
            // A profile without code addresses counts as symbolicated.
            is_symbolicated: named.addresses == 0 || named.named_addresses > 0,
            has_one_stack_type: self.shared.frames.have_one_type(),
        };
        meta.write(out);
    }

    fn visible(&self) -> Visible {
        let mut threads = Vec::new();
        for (number, member) in self.members.iter().enumerate() {
            let process = member.process(self.clock, self.spec, self.window);
            let idle = Activity {
                process: number,
                is_main: true,
                ..Activity::default()
            };
            threads.extend(process.model.lacks_main().then_some(idle));
            let activity = |is_main: bool, sorted: &SortedThread| Activity {
                process: number,
                is_main,
                cpu_ns: sorted.cpu_ns,
                busy_samples: sorted.busy_samples.into(),
                markers: sorted.markers.into(),
                slow_runs: 0,
            };
            threads.extend(process.listed().map(|(place, info, sorted)| Activity {
                slow_runs: process.slow_runs.of(place).count(),
                ..activity(info.is_main, sorted)
            }));
            threads.extend(
                process
                    .sampled_only()
                    .map(|(_, sorted)| activity(false, sorted)),
            );
        }
        choose(&threads)
    }
}

impl Member<'_> {
    fn process<'p>(
        &'p self,
        clock: SessionClock,
        spec: &'p ProfileSpec,
        window: Window,
    ) -> WrittenProcess<'p> {
        let Self {
            role,
            ended,
            sorted,
            pid,
            slow_runs,
            ..
        } = self;
        WrittenProcess {
            model: ProcessModel::new(&sorted.snapshot, spec, role, clock, *ended)
                .until(window.until),
            sorted,
            pid,
            window,
            slow_runs,
        }
    }
}

/// The names of the code that the processes generate, if they are wanted.
fn generated_names<'m>(members: &'m [Member<'_>], symbols: &dyn Symbols) -> GeneratedNames<'m> {
    let is_wanted = symbols.names_generated_code();
    let processes = members.iter().filter(|_| is_wanted).filter_map(|member| {
        let ProcessRole { name, pid, .. } = &member.role;
        Some(GeneratingProcess {
            member: member.sorted.member,
            shown: format!("{name} ({pid})"),
            code: member.generated.as_ref()?,
            definitions: &member.sorted.snapshot.definitions,
        })
    });
    GeneratedNames::new(processes.collect())
}

fn count(count: u64, of_what: &str) -> Option<String> {
    (count > 0).then(|| format!("{count} {of_what}"))
}

/// Assigns each process an id that is unique in the profile. Viewers distinguish processes by this
/// id only, and the system reuses process ids.
fn assign_ids(members: &mut [Member<'_>]) {
    let mut lives: HashMap<u32, u32> = HashMap::new();
    for member in members {
        let pid = member.role.pid.get();
        let next = lives.entry(pid).or_insert(0);
        let life = member.life.unwrap_or(*next);
        member.pid = if life == 0 {
            pid.to_string()
        } else {
            format!("{pid}.{life}")
        };
        *next = next.saturating_add(1);
    }
}
