//! Turns a copied stack into a recorded sample: reads modules, unwinds, writes.
//!
//! Owned by the sampler's thread. Allocates nothing per sample once every thread has been sampled
//! with its deepest stack and all modules are known. The exception is a waiting thread whose stack
//! spoils the unwinder's cache, which is then made anew.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::control::{SamplerShared, count};
use super::modules::Modules;
use super::notices::{Notice, Notices};
use super::own_waits::{OwnWait, OwnWaits};
use super::schedule::now;
use super::stack_copy::{Bounds, STACK_BYTES, Seen};
use super::targets::Target;
use super::unwound::placed_frame;
use super::wait_period::WaitPlace;
use super::writer::{SampleSpan, SampleWriter};
use super::{PlacedFrame, self_unwind};
use crate::carried::CarriedNow;
use crate::entry::stack::{Frame, MAX_FRAMES};
use crate::entry::trace::SampleContext;
use crate::ids::ThreadId;
use crate::label::merge::merge;
use crate::label::registry::{self, LabelFinder};
use crate::label::{LabelStack, MAX_LABELS};
use crate::manager::ChunkManager;
use crate::pool::tag::pool_tag;
use crate::record::session_state;
use crate::sample_types::Sample;
use crate::sys::native::alternate_stack;
use crate::sys::native::memory::OwnMemory;
use crate::sys::native::tasks::{self, Doing, Wait};
use crate::time::Timestamp;
use profiler_unwind::CodeReader;
use profiler_unwind::Registers;
use profiler_unwind::{
    CopiedStack, ModuleSnapshot, StackToWalk, UNKNOWN_FRAME_POINTER, UnwindCache, Walked, walk,
};
use profiler_unwind::{GeneratedCode, KnownEpilogues};

/// The time after which the modules are refreshed without another reason, because a library may
/// have replaced another.
const CALM: Duration = Duration::from_secs(1);
/// The shortest time between two refreshes for unknown addresses, which code generated at run time
/// always has.
const PRESSED: Duration = Duration::from_millis(20);
/// How many refreshes that find only new generated code count as useful. A runtime maps its first
/// memory for code while it starts; a runtime that maps such memory all the time does not cause
/// more than the usual refreshes.
const MAX_USEFUL_FOR_GENERATED: u8 = 16;
/// The shortest time between refreshes that only find a new thread's stack.
const NEW_THREAD: Duration = Duration::from_millis(5);

/// Turns stacks into samples.
#[derive(Debug)]
pub(super) struct SampleRecorder {
    pub(super) manager: Arc<ChunkManager>,
    pub(super) shared: Arc<SamplerShared>,
    pub(super) writer: SampleWriter,
    pub(super) notices: Notices,
    waits: OwnWaits,
    memory: OwnMemory,
    modules: Modules,
    /// Old snapshots that a capturing thread may still use.
    old: Vec<Arc<ModuleSnapshot>>,
    cache: UnwindCache,
    /// For waiting threads, whose frame pointer is not known: a failure may spoil it.
    waiting_cache: UnwindCache,
    epilogues: KnownEpilogues,
    frames: Vec<PlacedFrame>,
    plain: Vec<Frame>,
    words: Vec<u64>,
    finder: LabelFinder,
    looked: Option<Instant>,
    /// How long unknown addresses wait for a refresh; grows while refreshes find nothing new.
    refresh_after: Duration,
    /// How many further refreshes that find only new generated code count as useful.
    useful_for_generated: u8,
    measures_cpu: bool,
    /// Whether samples of threads that are not targets were recorded.
    has_strays: bool,
}

impl SampleRecorder {
    pub(super) fn new(
        manager: Arc<ChunkManager>,
        shared: Arc<SamplerShared>,
        measures_cpu: bool,
    ) -> Self {
        Self {
            notices: Notices::new(Arc::clone(&manager)),
            waits: OwnWaits::new(Arc::clone(&manager)),
            manager,
            shared,
            writer: SampleWriter::new(),
            memory: OwnMemory::open(),
            modules: Modules::new(),
            old: Vec::with_capacity(16),
            cache: UnwindCache::new(),
            waiting_cache: UnwindCache::new(),
            epilogues: KnownEpilogues::new(),
            frames: vec![(Frame::Unknown(0), 0); MAX_FRAMES],
            plain: Vec::with_capacity(MAX_FRAMES),
            words: vec![0; STACK_BYTES / 8],
            finder: LabelFinder::default(),
            looked: None,
            refresh_after: PRESSED,
            useful_for_generated: MAX_USEFUL_FOR_GENERATED,
            measures_cpu,
            has_strays: false,
        }
    }

    /// Refreshes the modules, and publishes the new snapshot to capturing threads. True if there is
    /// one.
    pub(super) fn refresh(&mut self) -> bool {
        let changed = self
            .modules
            .refresh(&self.memory, &self.manager, &mut self.notices);
        if changed {
            self.old.extend(self_unwind::publish(Some(Arc::clone(
                self.modules.snapshot(),
            ))));
        }
        // Only this thread drops snapshots, never a capturing thread.
        self.old.retain(|old| Arc::strong_count(old) > 1);
        self.epilogues.clear();
        self.looked = Some(now());
        changed
    }

    /// Refreshes the modules if the last refresh is long ago or a thread met an unknown address.
    pub(super) fn refresh_if_due(&mut self) {
        let met_unknown = self_unwind::has_met_unknown() && self.is_older_than(self.refresh_after);
        if met_unknown || self.is_older_than(CALM) {
            self.refresh();
        }
    }

    fn is_older_than(&self, age: Duration) -> bool {
        self.looked.is_none_or(|looked| looked.elapsed() >= age)
    }

    /// Stops captures, and waits for those in progress, up to about a second.
    pub(super) fn close(&mut self) {
        self.old.extend(self_unwind::publish(None));
        for _ in 0..1000 {
            let latest = self.modules.snapshot();
            // The remaining references are the list's and, for the latest snapshot, the modules'.
            self.old
                .retain(|old| Arc::strong_count(old) > 1 + usize::from(Arc::ptr_eq(old, latest)));
            if self.old.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // A thread is suspended within a capture; it drops the last reference.
        self.old.clear();
    }

    /// Finds the bounds of a thread's stack from the handler's answer. True if they are new.
    pub(super) fn learn(&mut self, target: &mut Target, sp: u64, thread_pointer: u64) -> bool {
        let is_main = target.tid.get() == u64::from(std::process::id());
        // A thread of the parent may have forked this process.
        let has_thread_stack = !is_main || session_state::has_begun_anew();
        let find = |modules: &Modules| {
            let stack = modules.maps().at(sp)?;
            // The C library puts a thread's control block at the upper end of its stack. The main
            // thread's is elsewhere, and its stack ends where its mapping ends.
            let end = match (is_main, stack.contains(thread_pointer)) {
                (true, _) if stack.path == "[stack]" => stack.end,
                (_, true) if has_thread_stack && sp < thread_pointer => thread_pointer,
                _ => return None,
            };
            Some(Bounds {
                lowest: stack.start,
                end,
                thread_pointer,
            })
        };
        let found = find(&self.modules).or_else(|| {
            if self.is_older_than(NEW_THREAD) {
                self.refresh();
            }
            find(&self.modules)
        });
        let known = target.bounds;
        target.bounds = found.unwrap_or_default();
        found.is_some() && target.bounds != known
    }

    /// Records the stack that a handler copied, as a sample of `ticks`.
    pub(super) fn record_seen(
        &mut self,
        target: &mut Target,
        seen: &Seen<'_>,
        cpu_ns: u64,
        ticks: u64,
    ) {
        target.has_sample |= self.record_copy(target.tid, seen, cpu_ns, ticks);
    }

    /// The same for a thread that is not a target, because it began and ended between two lists, or
    /// is not listed yet.
    pub(super) fn record_stray(
        &mut self,
        thread: ThreadId,
        seen: &Seen<'_>,
        cpu_ns: u64,
        ticks: u64,
    ) {
        self.has_strays |= self.record_copy(thread, seen, cpu_ns, ticks);
    }

    /// Whether samples of threads that are not targets were recorded since the last call.
    pub(super) const fn take_strays(&mut self) -> bool {
        std::mem::replace(&mut self.has_strays, false)
    }

    fn record_copy(&mut self, thread: ThreadId, seen: &Seen<'_>, cpu_ns: u64, ticks: u64) -> bool {
        count(&self.shared.counts.taken, 1);
        let walked = self.unwind(seen.registers, &seen.stack);
        let span = SampleSpan::run(ticks).within(self.context(seen.carried));
        self.write(thread, (seen.at, cpu_ns, span), walked, (seen.labels, None))
    }

    /// The bounds of the main thread's stack.
    pub(super) fn main_stack(&self) -> Option<Bounds> {
        let (lowest, end) = self.modules.snapshot().main_stack;
        (end > lowest).then_some(Bounds {
            lowest,
            end,
            thread_pointer: 0,
        })
    }

    /// Records that a thread waited, as its last sample shows, for `ticks` up to `until`, and
    /// whether it `goes_on` to wait.
    pub(super) fn record_wait(
        &mut self,
        thread: ThreadId,
        (ticks, until): (u64, Timestamp),
        goes_on: bool,
    ) {
        let cpu_ns = self.measures_cpu.then_some(0);
        let span = SampleSpan {
            waits: goes_on,
            ..SampleSpan::wait(ticks)
        };
        if self.writer.repeat_for(thread, until, cpu_ns, span) {
            count(&self.shared.counts.repeated, 1);
        }
    }

    /// The label of the wait of a thread at this place, as the session has named it. The thread has
    /// not run since `since`.
    pub(super) fn for_whom(
        &mut self,
        thread: ThreadId,
        place: WaitPlace,
        since: Option<Instant>,
    ) -> OwnWait {
        match place {
            WaitPlace::Known(wait) => self.waits.of(thread, wait, (&self.memory, since)),
            WaitPlace::Unknown => OwnWait::WITHOUT_HOLDER,
        }
    }

    /// Asks the session again about the wait of a thread at this place. False if this is not
    /// possible at present.
    pub(super) fn ask_anew(&mut self, thread: ThreadId, place: WaitPlace) -> bool {
        match place {
            WaitPlace::Known(wait) => self.waits.ask_anew(thread, wait, &self.memory),
            WaitPlace::Unknown => true,
        }
    }

    /// Takes the session's answers, and sends the next question.
    pub(super) fn exchange_waits(&mut self) {
        self.waits.exchange();
    }

    /// Records where a thread waits at the time `at`, in a sample of `ticks` ticks, without
    /// disturbing it; false if it no longer waits there. `label`, which shows for whom it waits,
    /// becomes the innermost frame.
    ///
    /// The system reports only two registers. If a function needs its frame pointer, the module
    /// `frame_pointer` finds it.
    pub(super) fn peek(
        &mut self,
        target: &mut Target,
        wait: Wait,
        (at, ticks): (Timestamp, u64),
        label: Option<Frame>,
    ) -> bool {
        let start = wait.sp & !7;
        let mut words = std::mem::take(&mut self.words);
        let known = target
            .bounds
            .end
            .checked_sub(start)
            .filter(|_| target.bounds.lowest <= start);
        let most = known.map_or(words.len(), |len| {
            usize::try_from(len / 8).unwrap_or(0).min(words.len())
        });
        let labels = self.open_labels(target.tid);
        let read = words
            .get_mut(..most)
            .map_or(0, |room| self.memory.read_words(start, room));
        // The thread still waits and has not run in between, so the stack that was read is
        // consistent.
        let is_whole = tasks::doing(target.tid) == Doing::Waiting(wait)
            && tasks::cpu_ns(target.tid) == Some(target.cpu);
        if is_whole {
            let registers = Registers {
                pc: wait.pc,
                sp: wait.sp,
                fp: UNKNOWN_FRAME_POINTER,
                lr: 0,
            };
            let stack = CopiedStack {
                start,
                words: words.get(..read).unwrap_or_default(),
                is_cut: read * 8 >= STACK_BYTES,
            };
            count(&self.shared.counts.peeked, 1);
            let walked = self.unwind(registers, &stack);
            let span = SampleSpan::wait(ticks).within(self.context(labels.carried));
            let of = (at, 0, span);
            target.has_sample |= self.write(target.tid, of, walked, (labels.open(), label));
        }
        self.words = words;
        is_whole
    }

    /// Records a sample without a stack: processor time and open labels.
    pub(super) fn record_cpu(
        &mut self,
        target: &mut Target,
        cpu_ns: u64,
        (at, ticks): (Timestamp, u64),
    ) {
        self.write_bare(target, (at, cpu_ns, SampleSpan::run(ticks)));
    }

    /// Records, in a sample of `ticks` ticks, that a thread waits at the time `at` and that the
    /// system does not report where.
    pub(super) fn record_hidden(&mut self, target: &mut Target, (at, ticks): (Timestamp, u64)) {
        count(&self.shared.counts.hidden, 1);
        self.record_why_hidden();
        self.write_bare(target, (at, 0, SampleSpan::wait(ticks)));
    }

    fn write_bare(&mut self, target: &mut Target, of: (Timestamp, u64, SampleSpan)) {
        let labels = self.open_labels(target.tid);
        let (at, cpu_ns, span) = of;
        let of = (at, cpu_ns, span.within(self.context(labels.carried)));
        target.has_sample |= self.write(target.tid, of, Walked::default(), (labels.open(), None));
    }

    /// Records once why there are samples without stacks.
    fn record_why_hidden(&mut self) {
        match tasks::why_unknown() {
            Some(error) => self.notices.record(Notice::States, || {
                format!("waiting threads have no stacks, and no thread is asked for its stack: the system does not say which threads run: {error}")
            }),
            None => self.notices.record(Notice::Waits, || {
                "threads that wait have no stacks: the system does not say where they wait".to_owned()
            }),
        }
    }

    /// Records once that there are threads with too small a stack for a signal.
    pub(super) fn record_small_stack(&mut self) {
        self.notices.record(Notice::SmallStack, || {
            let least = alternate_stack::least();
            format!("threads with an alternate signal stack of less than {least} bytes, or with a small stack and no alternate one, are not asked for stacks")
        });
    }

    /// The label stack of a thread, if it has one.
    pub(super) fn labels_of(&mut self, thread: ThreadId) -> Option<&'static LabelStack> {
        self.finder.of(thread)
    }

    /// A number that changes whenever a thread opens its first label.
    pub(super) fn label_changes(&self) -> u64 {
        registry::changes()
    }

    /// Reads a thread's open labels from this thread.
    fn open_labels(&mut self, thread: ThreadId) -> OpenLabels {
        let mut labels = OpenLabels {
            carried: CarriedNow::NOTHING,
            all: [(Frame::Unknown(0), 0); MAX_LABELS],
            count: 0,
        };
        if let Some(stack) = self.finder.of(thread) {
            labels.carried = stack.carried.now();
            labels.count = stack.copy(pool_tag(), &mut labels.all).unwrap_or(0);
        }
        labels
    }

    fn unwind(&mut self, registers: Registers, stack: &CopiedStack<'_>) -> Walked {
        let begin = now();
        let mut walked = self.walk(registers, stack);
        if walked.unknown.is_some() && self.is_older_than(self.refresh_after) {
            let has_new_modules = self.refresh();
            let has_new_code = self.modules.has_new_generated_code();
            self.refresh_after = if has_new_modules || has_new_code && self.spend_useful() {
                PRESSED
            } else {
                (self.refresh_after * 2).min(CALM)
            };
            if has_new_modules || has_new_code {
                walked = self.walk(registers, stack);
            }
        }
        let counts = &self.shared.counts;
        count(
            &counts.unwinding_ns,
            u64::try_from(begin.elapsed().as_nanos()).unwrap_or(0),
        );
        count(&counts.frames, walked.len as u64);
        count(&counts.failed, u64::from(walked.failed));
        count(&counts.cut, u64::from(walked.cut));
        walked
    }

    /// What a thread works for now.
    pub(super) fn context_of(&mut self, thread: ThreadId) -> SampleContext {
        let labels = self.finder.of(thread);
        let carried = labels.map_or(CarriedNow::NOTHING, |labels| labels.carried.now());
        self.context(carried)
    }

    /// What a thread worked for that carried this.
    fn context(&self, carried: CarriedNow) -> SampleContext {
        SampleContext {
            trace: carried.trace,
            group: carried.group_in(self.manager.tag()),
        }
    }

    /// Whether a refresh that found only new generated code still counts as useful.
    fn spend_useful(&mut self) -> bool {
        let left = self.useful_for_generated.checked_sub(1);
        self.useful_for_generated = left.unwrap_or(0);
        left.is_some()
    }

    fn walk(&mut self, registers: Registers, stack: &CopiedStack<'_>) -> Walked {
        let snapshot = self.modules.snapshot();
        let is_waiting = registers.fp == UNKNOWN_FRAME_POINTER;
        let code = CodeReader::new(&self.memory, snapshot.as_ref());
        let generated = GeneratedCode {
            ranges: self.modules.generated(),
            known: &self.epilogues,
            code: &self.memory,
        };
        let stack = StackToWalk {
            registers,
            words: stack,
            code: Some(&code),
            generated: Some(generated),
        };
        let cache = if is_waiting {
            &mut self.waiting_cache
        } else {
            &mut self.cache
        };
        let walked = walk(snapshot, cache, stack, &mut self.frames, placed_frame);
        if walked.has_spoiled_cache {
            self.waiting_cache = UnwindCache::new();
        }
        walked
    }

    /// Writes a sample of this time, processor time and span, with the open labels of its thread
    /// and an innermost frame; false if it was dropped.
    fn write(
        &mut self,
        thread: ThreadId,
        (at, cpu_ns, span): (Timestamp, u64, SampleSpan),
        walked: Walked,
        (labels, innermost): (&[PlacedFrame], Option<Frame>),
    ) -> bool {
        let native = self
            .frames
            .get(self.frames.len().saturating_sub(walked.len)..)
            .unwrap_or_default();
        self.plain.clear();
        self.plain.extend(merge(
            native,
            labels.iter().copied(),
            walked.cut || walked.failed,
        ));
        self.plain.extend(innermost);
        let cpu_ns = self.measures_cpu.then_some(cpu_ns);
        let Walked { cut, failed, .. } = walked;
        let sample = Sample {
            at,
            cpu_ns,
            frames: &self.plain,
            cut,
            failed,
        };
        self.writer.sample_for(thread, &sample, span)
    }
}

/// The open labels of a thread, and what else it carries.
struct OpenLabels {
    carried: CarriedNow,
    all: [PlacedFrame; MAX_LABELS],
    count: usize,
}

impl OpenLabels {
    fn open(&self) -> &[PlacedFrame] {
        self.all.get(..self.count).unwrap_or_default()
    }
}
