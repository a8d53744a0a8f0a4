//! Unwinds stacks of other processes, and writes them into their pools.
//!
//! Used by the session for observed processes, whose handlers copy registers and stacks into shared
//! files. The unwinding tables come from files, not from the memory of the process: it may have
//! ended. [`ObservedFiles`] has the tables of each file once for all processes.
//!
//! Invariants: any registers, words and files are accepted; a sample costs no allocation once the
//! thread's deepest stack is known.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::PlacedFrame;
use super::crash_stack::caller_of_nowhere;
use super::process_code::{CodeFile, FileKey, ProcessCode};
use super::unwound::{module_number, placed_frame};
use super::wait_labels::WaitLabels;
use super::writer::{SampleSpan, SampleWriter};
use crate::entry::periodic::CounterValue;
use crate::entry::stack::{Frame, MAX_FRAMES};
use crate::ids::{DefinitionId, ProcessId, ProcessStart, ThreadId};
use crate::pool::definitions::{Definition, ModuleDefinition};
use crate::record::pool_writer::PoolWriter;
use crate::sample_types::Sample;
use crate::sys::native::memory::OwnMemory;
use crate::sys::native::tasks::Wait;
use crate::time::Timestamp;
use profiler_unwind::FunctionStarts;
use profiler_unwind::Image;
use profiler_unwind::Registers;
use profiler_unwind::{CodeBytes, CodeReader};
use profiler_unwind::{
    CopiedStack, ModuleSnapshot, PlacedModule, StackToWalk, UNKNOWN_FRAME_POINTER, UnwindCache,
    Walked, walk,
};

/// The file name of the library that is preloaded to observe a program.
const OBSERVING_LIBRARY: &str = "libprofiler_observed.so";
/// The most files whose tables are kept.
const MAX_FILES: usize = 4096;
/// The most files of one process.
const MAX_LOADED: usize = 2048;
/// The name that the loader gives to the kernel's own library.
const KERNEL_LIBRARY: &str = "linux-vdso.so.1";

/// A file that is loaded into a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedFile {
    /// Where it is loaded.
    pub addresses: Range<u64>,
    /// Its path, as the process knows it: shown in profiles.
    pub path: String,
    /// Where this process finds it.
    pub found_at: PathBuf,
}

/// A stack that a handler has copied.
#[derive(Clone, Copy, Debug)]
pub struct ObservedStack<'a> {
    /// When.
    pub at: Timestamp,
    /// The processor time since the thread's last sample, in nanoseconds.
    pub cpu_ns: u64,
    /// How many ticks of the session the sample stands for; at least 1.
    pub ticks: u64,
    /// The next instruction.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer.
    pub fp: u64,
    /// The link register; 0 where there is none.
    pub lr: u64,
    /// The stack, from the stack pointer rounded down to 8.
    pub words: &'a [u64],
    /// Whether the stack is longer.
    pub is_cut: bool,
}

impl<'a> ObservedStack<'a> {
    /// The registers and the words, for the unwinder.
    fn unwindable(self) -> (Registers, CopiedStack<'a>) {
        let words = CopiedStack {
            start: self.sp & !7,
            words: self.words,
            is_cut: self.is_cut,
        };
        let registers = Registers {
            pc: self.pc,
            sp: self.sp,
            fp: self.fp,
            lr: self.lr,
        };
        (registers, words)
    }
}

/// A file's tables.
#[derive(Debug)]
struct FileTables {
    key: FileKey,
    image: Image,
    functions: Option<FunctionStarts>,
}

/// The unwinding tables of files, for all observed processes, and the room for one stack.
#[derive(Debug)]
pub struct ObservedFiles {
    tables: HashMap<FileKey, Option<Arc<FileTables>>>,
    cache: UnwindCache,
    /// For waiting threads, whose frame pointer is not known: a failure may spoil it.
    waiting_cache: UnwindCache,
    frames: Vec<PlacedFrame>,
    /// The frames of the stack that was recorded last.
    pub(super) plain: Vec<Frame>,
}

impl Default for ObservedFiles {
    fn default() -> Self {
        Self {
            tables: HashMap::new(),
            cache: UnwindCache::new(),
            waiting_cache: UnwindCache::new(),
            frames: vec![(Frame::Unknown(0), 0); MAX_FRAMES],
            plain: Vec::with_capacity(MAX_FRAMES),
        }
    }
}

impl ObservedFiles {
    /// Makes an empty collection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The frames of the stack that was walked last, which has this number of frames.
    pub(super) fn walked(&self, len: usize) -> &[PlacedFrame] {
        let first = self.frames.len().saturating_sub(len);
        self.frames.get(first..).unwrap_or_default()
    }

    /// The number of files whose tables are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Whether no file is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The tables of a file. `None` if it cannot be read or is not an ELF file.
    fn tables_of(&mut self, loaded: &LoadedFile) -> Option<Arc<FileTables>> {
        if loaded.path == KERNEL_LIBRARY {
            return self.kept(FileKey::KernelLibrary, kernel_library);
        }
        let (file, key) = FileKey::open(&loaded.found_at).ok()?;
        self.kept(key, || Image::read_file(&file))
    }

    fn kept(
        &mut self,
        key: FileKey,
        read: impl FnOnce() -> Option<Image>,
    ) -> Option<Arc<FileTables>> {
        if !self.tables.contains_key(&key) {
            if self.tables.len() >= MAX_FILES {
                self.tables.clear(); // processes keep those that they use
            }
            let tables = read().map(|image| Arc::new(FileTables::new(key, image)));
            self.tables.insert(key, tables);
        }
        self.tables.get(&key).cloned().flatten()
    }
}

impl FileTables {
    fn new(key: FileKey, image: Image) -> Self {
        let functions = image.functions();
        Self {
            key,
            image,
            functions,
        }
    }
}

/// The kernel's library in this process, which is the same in all processes.
fn kernel_library() -> Option<Image> {
    // SAFETY: reads a value that the kernel has passed to this process.
    #[allow(unsafe_code)]
    let header = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    Image::read(&OwnMemory::open(), header)
}

/// The files of one process, and the writer of its samples.
#[derive(Debug)]
pub struct ObservedProcess {
    writer: PoolWriter,
    samples: SampleWriter,
    loaded: Vec<(LoadedFile, DefinitionId, Option<Arc<FileTables>>)>,
    snapshot: ModuleSnapshot,
    /// The code of the process.
    code: ProcessCode,
    /// The preloaded library. Its frames are left out of stacks.
    observing: Option<DefinitionId>,
    /// Whether a stack had an address in no known file.
    has_met_unknown: bool,
    wait_labels: WaitLabels,
}

impl ObservedProcess {
    /// Writes samples with this writer.
    #[must_use]
    pub fn new(writer: PoolWriter) -> Self {
        Self {
            samples: SampleWriter::of_pool(writer.tag()),
            writer,
            loaded: Vec::new(),
            snapshot: ModuleSnapshot::new(Vec::new(), (0, 0)),
            code: ProcessCode::default(),
            observing: None,
            has_met_unknown: false,
            wait_labels: WaitLabels::default(),
        }
    }

    /// Says which process this is, so that its code can be read. It must be the one that began
    /// then.
    pub fn set_place(&mut self, pid: ProcessId, start: Option<ProcessStart>) {
        self.code = ProcessCode::of(pid, start);
    }

    /// The writer of the pool.
    #[must_use]
    pub const fn pool(&self) -> &PoolWriter {
        &self.writer
    }

    /// Ends the process: see [`PoolWriter::close`].
    pub fn close(self, in_order: bool) {
        self.writer.close(in_order);
    }

    /// Sets the files that the process has loaded. A file that it had before keeps its number.
    pub fn set_loaded(&mut self, files: &mut ObservedFiles, loaded: &[LoadedFile]) {
        let mut before = std::mem::take(&mut self.loaded);
        for file in loaded.iter().take(MAX_LOADED) {
            let known = before.iter().position(|(known, ..)| known == file);
            let entry = known.map_or_else(
                || {
                    let tables = files.tables_of(file);
                    let number = self.define(file, tables.as_deref());
                    (file.clone(), number, tables)
                },
                |known| before.swap_remove(known),
            );
            self.loaded.push(entry);
        }
        let mut loaded = self.loaded.iter();
        let observing = loaded.find(|(file, ..)| is_observing_library(&file.path));
        self.observing = observing
            .map(|(_, number, _)| *number)
            .filter(|number| *number != DefinitionId::NONE);
        let placed = self
            .loaded
            .iter()
            .filter_map(|(file, number, tables)| {
                let tables = tables.as_ref()?;
                Some((placed(file, *number, tables), &tables.image))
            })
            .collect();
        self.snapshot = ModuleSnapshot::new(placed, (0, 0));
        let in_files = self.loaded.iter().filter_map(|(file, _, tables)| {
            let tables = tables.as_ref()?;
            Some(CodeFile {
                bias: bias(file, tables),
                code: Arc::clone(&tables.image.code),
                path: file.found_at.clone(),
                key: tables.key,
            })
        });
        self.code.set_files(in_files.collect());
    }

    /// Whether an address is in one of the loaded files.
    #[must_use]
    pub fn knows(&self, address: u64) -> bool {
        self.snapshot.module(address).is_some()
    }

    /// Whether a stack since the last call had an address in no loaded file.
    pub const fn take_unknown(&mut self) -> bool {
        std::mem::replace(&mut self.has_met_unknown, false)
    }

    /// Defines a file in the pool. Without room for it, addresses in it have no names.
    fn define(&self, file: &LoadedFile, tables: Option<&FileTables>) -> DefinitionId {
        let Some(tables) = tables else {
            return DefinitionId::NONE;
        };
        let definition = Definition::Module(ModuleDefinition {
            path: file.path.clone(),
            build_id: tables.image.build_id.clone(),
            base: bias(file, tables),
            start: file.addresses.start,
            end: file.addresses.end,
        });
        self.writer
            .define(&definition)
            .unwrap_or(DefinitionId::NONE)
    }

    /// Records a stack of a thread. False if it was dropped, which is counted.
    pub fn add(
        &mut self,
        files: &mut ObservedFiles,
        thread: ThreadId,
        stack: &ObservedStack<'_>,
    ) -> bool {
        let (registers, words) = stack.unwindable();
        let walked = self.walk(files, registers, &words);
        let span = SampleSpan::run(stack.ticks);
        self.add_walked(files, thread, (stack.at, stack.cpu_ns, span), walked, None)
    }

    /// Unwinds the stack of a crash. Returns the writer of the pool, the frames of the marker from
    /// the outermost one on, and whether outer frames are missing.
    pub(crate) fn unwind_crash<'f>(
        &mut self,
        files: &'f mut ObservedFiles,
        stack: &ObservedStack<'_>,
    ) -> (&mut PoolWriter, &'f [Frame], bool) {
        let (registers, words) = stack.unwindable();
        let (registers, called) = caller_of_nowhere(&self.snapshot, registers, &words);
        let walked = self.walk(files, registers, &words);
        self.keep_shown(files, walked);
        files.plain.extend(called.map(|(frame, _)| frame));
        if let Some(innermost) = files.plain.last_mut() {
            *innermost = innermost.as_return_address();
        }
        let is_cut = walked.cut || walked.failed;
        (&mut self.writer, &files.plain, is_cut)
    }

    /// Unwinds a stack that a handler has copied.
    fn walk(
        &mut self,
        files: &mut ObservedFiles,
        registers: Registers,
        words: &CopiedStack<'_>,
    ) -> Walked {
        let code = CodeReader::new(&self.code, &self.snapshot);
        let to_walk = StackToWalk {
            registers,
            words,
            code: Some(&code),
            generated: None,
        };
        let walked = walk(
            &self.snapshot,
            &mut files.cache,
            to_walk,
            &mut files.frames,
            placed_frame,
        );
        self.code.close();
        self.has_met_unknown |= walked.unknown.is_some();
        walked
    }

    /// Unwinds the stack of a thread that waits. `code` is the memory of the process.
    pub(super) fn walk_waiting(
        &mut self,
        files: &mut ObservedFiles,
        wait: Wait,
        stack: &CopiedStack<'_>,
        code: &dyn CodeBytes,
    ) -> Walked {
        let registers = Registers {
            pc: wait.pc,
            sp: wait.sp,
            fp: UNKNOWN_FRAME_POINTER,
            lr: 0,
        };
        let code = CodeReader::new(code, &self.snapshot);
        let to_walk = StackToWalk {
            registers,
            words: stack,
            code: Some(&code),
            generated: None,
        };
        let cache = &mut files.waiting_cache;
        let walked = walk(
            &self.snapshot,
            cache,
            to_walk,
            &mut files.frames,
            placed_frame,
        );
        if walked.has_spoiled_cache {
            files.waiting_cache = UnwindCache::new();
        }
        self.has_met_unknown |= walked.unknown.is_some();
        walked
    }

    /// The label that shows which process a thread waits for. `None` if there is no room for it.
    pub(super) fn wait_label(&mut self, name: &str) -> Option<Frame> {
        let writer = &self.writer;
        let define = |definition: &Definition| writer.define(definition).ok();
        self.wait_labels.label(name, &define)
    }

    /// Records the stack that was walked last, with a label as its innermost frame. False if it was
    /// dropped.
    pub(super) fn add_walked(
        &mut self,
        files: &mut ObservedFiles,
        thread: ThreadId,
        sample: (Timestamp, u64, SampleSpan),
        walked: Walked,
        label: Option<Frame>,
    ) -> bool {
        self.keep_shown(files, walked);
        files.plain.extend(label);
        self.add_frames(thread, sample, &files.plain, (walked.cut, walked.failed))
    }

    /// Keeps the frames of the stack that was walked last, without those of the preloaded library.
    fn keep_shown(&self, files: &mut ObservedFiles, walked: Walked) {
        files.plain.clear();
        let first = files.frames.len().saturating_sub(walked.len);
        let frames = files.frames.get(first..).unwrap_or_default();
        let frames = frames.iter().map(|(frame, _)| *frame);
        let is_shown = |frame: &Frame| match frame {
            Frame::Code(file, _) => Some(*file) != self.observing,
            _ => true,
        };
        files.plain.extend(frames.filter(is_shown));
    }

    /// Records a sample with these frames, the outermost first; false if it was dropped. `cut` and
    /// `failed` are those of [`Sample`].
    pub(super) fn add_frames(
        &mut self,
        thread: ThreadId,
        (at, cpu_ns, span): (Timestamp, u64, SampleSpan),
        frames: &[Frame],
        (cut, failed): (bool, bool),
    ) -> bool {
        let sample = Sample {
            at,
            cpu_ns: Some(cpu_ns),
            frames,
            cut,
            failed,
        };
        self.samples
            .add_sample(&mut self.writer, thread, &sample, span)
    }

    /// Records that a thread waited, as its last sample shows, for `ticks` up to `until`, and
    /// whether it `goes_on` to wait.
    pub(super) fn repeat_wait(
        &mut self,
        thread: ThreadId,
        (ticks, until): (u64, Timestamp),
        goes_on: bool,
    ) -> bool {
        let span = SampleSpan {
            waits: goes_on,
            ..SampleSpan::wait(ticks)
        };
        let at = (until, Some(0));
        self.samples
            .add_repeated(&mut self.writer, thread, at, span)
    }

    /// Records values of counters.
    pub(super) fn add_counters(&mut self, at: Timestamp, values: &[CounterValue]) {
        self.samples.add_counters(&mut self.writer, at, values);
    }

    /// Forgets the last stacks of all threads for which `is_there` returns false.
    pub(super) fn keep_only(&mut self, is_there: impl Fn(ThreadId) -> bool) {
        self.samples.keep_only(is_there);
    }

    /// Records processor time of a thread whose stack is not known.
    pub fn add_time(&mut self, thread: ThreadId, at: Timestamp, cpu_ns: u64, ticks: u64) -> bool {
        self.add_bare(thread, (at, cpu_ns, SampleSpan::run(ticks)))
    }

    /// Records a sample without a stack.
    pub(super) fn add_bare(
        &mut self,
        thread: ThreadId,
        sample: (Timestamp, u64, SampleSpan),
    ) -> bool {
        self.add_frames(thread, sample, &[], (false, false))
    }
}

/// Whether a file is the library that is preloaded to observe a program. The library replaces
/// functions of the C library. The time in such a replacement is shown as time of its caller.
fn is_observing_library(path: &str) -> bool {
    path.rsplit('/').next() == Some(OBSERVING_LIBRARY)
}

fn bias(file: &LoadedFile, tables: &FileTables) -> u64 {
    (file.addresses.start & !0xfff).wrapping_sub(tables.image.addresses.start)
}

fn placed(file: &LoadedFile, id: DefinitionId, tables: &FileTables) -> PlacedModule {
    let bias = bias(file, tables);
    let Range { start, end } = tables.image.addresses;
    PlacedModule {
        start: start.wrapping_add(bias),
        end: end.wrapping_add(bias),
        bias,
        number: module_number(id),
        code: Arc::clone(&tables.image.code),
        functions: tables.functions.clone(),
    }
}
