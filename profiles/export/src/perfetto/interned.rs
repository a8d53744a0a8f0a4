//! Interned data: what packets refer to by number.
//!
//! Used by [`super::samples`], [`super::markers`] and [`super::annotations`]. The rows of a
//! profile's tables keep their numbers, so no table of texts is built; entries are written when
//! they are used first. Names that no table of the profile has are numbered up to a limit. Threads
//! that share their tables share the data; it begins anew at a thread with tables of its own. Of a
//! deep stack, the innermost [`MAX_FRAMES`] functions are written, and [`CALLERS_LEFT_OUT`] as
//! their caller.

use std::collections::HashMap;

use super::super::by_row::ByRow;
use super::super::depth::{CALLERS_LEFT_OUT, MAX_FRAMES};
use super::super::proto::Message;
use super::super::recording::Thread;
use super::super::tree::What;
use super::libraries::Libraries;
use profiler_reader::{FrameId, NodeId, Survey, Tables, TextId};

/// Fields of `InternedData`.
mod data {
    pub(super) const CATEGORIES: u64 = 1;
    pub(super) const EVENT_NAMES: u64 = 2;
    pub(super) const ANNOTATION_NAMES: u64 = 3;
    pub(super) const FUNCTIONS: u64 = 5;
    pub(super) const FRAMES: u64 = 6;
    pub(super) const CALLSTACKS: u64 = 7;
    pub(super) const BUILD_IDS: u64 = 16;
    pub(super) const MAPPING_PATHS: u64 = 17;
    pub(super) const SOURCES: u64 = 18;
    pub(super) const MAPPINGS: u64 = 19;
}

/// Fields of the entries. The first field of an entry is its number, and the second its text.
mod entry {
    pub(super) const IID: u64 = 1;
    pub(super) const TEXT: u64 = 2;
    /// Of `Frame`.
    pub(super) const FUNCTION: u64 = 2;
    pub(super) const MAPPING: u64 = 3;
    pub(super) const ADDRESS: u64 = 4;
    pub(super) const SOURCE: u64 = 5;
    pub(super) const LINE: u64 = 6;
    /// Of `Callstack`.
    pub(super) const FRAMES: u64 = 2;
    /// Of `Mapping`.
    pub(super) const BUILD_ID: u64 = 2;
    pub(super) const END: u64 = 5;
    pub(super) const PATH: u64 = 7;
}

/// The numbers of entries that no table has: the stack and the frame of a thread that did not run,
/// and of an unknown function; the frame that stands for the callers of a deep stack.
const IDLE: u64 = 1;
const PROGRAM: u64 = 2;
const LEFT_OUT: u64 = FIRST_ROW + (1 << 32); // no table has a row with this number
/// The mapping of frames without a library.
const NO_MAPPING: u64 = 1;
/// The number of the first row of a table.
const FIRST_ROW: u64 = 3;

/// The most names of each kind that get a number. The others are written out.
const MAX_NAMES: usize = 1 << 12;

/// The kinds of names that no table of the profile has.
#[derive(Clone, Copy, Debug)]
pub(super) enum NameKind {
    Category,
    Annotation,
}

/// The data that was written, and the data that the next packet has to carry.
#[derive(Debug, Default)]
pub(super) struct Interned {
    /// The message `InternedData`.
    pub(super) new: Message,
    has_begun: bool,
    is_shared: bool,
    event_names: ByRow<()>,
    functions: ByRow<()>,
    libraries: ByRow<()>,
    sources: ByRow<()>,
    frames: ByRow<()>,
    stacks: ByRow<()>,
    categories: HashMap<String, u64>,
    annotations: HashMap<String, u64>,
    has_special: [bool; 3],
    has_no_mapping: bool,
    of_process: Libraries,
    entry: Message,
    path: Vec<u64>,
}

impl Interned {
    /// Begins a thread. Returns whether the sequence's state must be cleared.
    pub(super) fn begin(&mut self, thread: &Thread<'_>, survey: &Survey) -> bool {
        self.of_process.begin(thread.part, survey);
        let is_own = thread.has_own_tables;
        let texts = thread.tables.texts.len();
        for by_text in [&mut self.functions, &mut self.libraries, &mut self.sources] {
            by_text.begin_thread(texts, is_own);
        }
        self.event_names.begin_thread(thread.texts.len(), is_own);
        self.frames.begin_thread(thread.tables.frames.len(), is_own);
        self.stacks.begin_thread(thread.tables.node_count(), is_own);
        let is_new = is_own || !self.is_shared;
        if is_new {
            self.categories.clear();
            self.annotations.clear();
            (self.has_special, self.has_no_mapping) = ([false; 3], false);
        }
        self.is_shared = !is_own;
        // The trace begins with an empty state.
        is_new && std::mem::replace(&mut self.has_begun, true)
    }

    /// The number of the name of an event, a row of the thread's texts.
    pub(super) fn event_name(&mut self, row: usize, texts: &[String]) -> Option<u64> {
        let text = texts.get(row)?;
        let row = u32::try_from(row).ok()?;
        let iid = FIRST_ROW + u64::from(row);
        if is_new(&mut self.event_names, row) {
            self.text(data::EVENT_NAMES, iid, text);
        }
        Some(iid)
    }

    /// The number of a name; `None` if it is beyond the limit and must be written out.
    pub(super) fn name(&mut self, kind: NameKind, name: &str) -> Option<u64> {
        let (names, field) = match kind {
            NameKind::Category => (&mut self.categories, data::CATEGORIES),
            NameKind::Annotation => (&mut self.annotations, data::ANNOTATION_NAMES),
        };
        if let Some(known) = names.get(name) {
            return Some(*known);
        }
        let iid = names.len() as u64 + 1;
        if names.len() == MAX_NAMES {
            return None;
        }
        names.insert(name.to_owned(), iid);
        self.text(field, iid, name);
        Some(iid)
    }

    /// The number of a stack.
    pub(super) fn stack(&mut self, stack: Option<NodeId>, tables: &Tables) -> u64 {
        let Some(stack) = stack.and_then(|stack| tables.named(stack)) else {
            return self.special(PROGRAM, What::Program);
        };
        let iid = FIRST_ROW + u64::from(stack.0);
        if !is_new(&mut self.stacks, stack.0) {
            return iid;
        }
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        let mut frames = tables.stack(stack);
        for (id, _) in frames.by_ref().take(MAX_FRAMES) {
            path.push(self.frame(id, tables));
        }
        if frames.next().is_some() {
            path.push(self.special_frame(LEFT_OUT, CALLERS_LEFT_OUT));
        }
        // The outermost frame comes first.
        path.reverse();
        self.entry.clear();
        self.entry.number(entry::IID, iid);
        for frame in &path {
            self.entry.number(entry::FRAMES, *frame);
        }
        self.new.message(data::CALLSTACKS, &self.entry);
        self.path = path;
        iid
    }

    /// The number of the stack of a thread that did not run.
    pub(super) fn idle(&mut self) -> u64 {
        self.special(IDLE, What::Idle)
    }

    /// The stack of one frame that is not a function.
    fn special(&mut self, iid: u64, what: What) -> u64 {
        if self.special_place(iid).is_none_or(|has| *has) {
            return iid;
        }
        let frame = self.special_frame(iid, what.special().unwrap_or_default());
        self.entry.clear();
        self.entry.number(entry::IID, iid);
        self.entry.number(entry::FRAMES, frame);
        self.new.message(data::CALLSTACKS, &self.entry);
        iid
    }

    /// A frame that is not a function.
    fn special_frame(&mut self, iid: u64, name: &str) -> u64 {
        let place = self.special_place(iid);
        if place.is_none_or(|has| std::mem::replace(has, true)) {
            return iid;
        }
        self.no_mapping();
        self.text(data::FUNCTIONS, iid, name);
        self.entry.clear();
        self.entry.number(entry::IID, iid);
        self.entry.number(entry::FUNCTION, iid);
        self.entry.number(entry::MAPPING, NO_MAPPING);
        self.new.message(data::FRAMES, &self.entry);
        iid
    }

    /// Whether a frame that is not a function was written.
    fn special_place(&mut self, iid: u64) -> Option<&mut bool> {
        let place = match iid {
            IDLE => 0,
            PROGRAM => 1,
            _ => 2,
        };
        self.has_special.get_mut(place)
    }

    fn frame(&mut self, id: FrameId, tables: &Tables) -> u64 {
        let iid = FIRST_ROW + u64::from(id.0);
        if !is_new(&mut self.frames, id.0) {
            return iid;
        }
        let frame = tables.frame(id);
        let func = frame.and_then(|frame| tables.funcs.get(frame.func.0 as usize));
        let (Some(frame), Some(func)) = (frame, func) else {
            return iid;
        };
        let mapping = self.mapping(func.library, tables);
        let function = self.row(Column::Functions, func.name, tables);
        let source = func
            .file
            .map(|file| self.row(Column::Sources, file, tables));
        self.entry.clear();
        self.entry.number(entry::IID, iid);
        self.entry.number(entry::FUNCTION, function);
        self.entry.number(entry::MAPPING, mapping);
        self.entry
            .number(entry::ADDRESS, frame.address.unwrap_or(0));
        self.entry.number(entry::SOURCE, source.unwrap_or(0));
        let line = frame.line.or(func.line).map_or(0, u64::from);
        self.entry.number(entry::LINE, line);
        self.new.message(data::FRAMES, &self.entry);
        iid
    }

    /// The number of the mapping of a library. It covers the whole range, because addresses are
    /// relative to it.
    fn mapping(&mut self, library: Option<TextId>, tables: &Tables) -> u64 {
        let named = library.and_then(|row| Some((row, tables.text(row)?)));
        let Some((row, name)) = named else {
            return self.no_mapping();
        };
        let iid = FIRST_ROW + u64::from(row.0);
        if !is_new(&mut self.libraries, row.0) {
            return iid;
        }
        let known = self.of_process.get(name).cloned();
        // Perfetto puts a slash before the path.
        let path = known
            .as_ref()
            .map(|known| known.path.trim_start_matches('/'));
        let path = path.filter(|path| !path.is_empty()).unwrap_or(name);
        self.text(data::MAPPING_PATHS, iid, path);
        let build_id = known.as_ref().map(|known| known.build_id.as_slice());
        let build_id = build_id.filter(|id| !id.is_empty());
        if let Some(build_id) = build_id {
            self.bytes(data::BUILD_IDS, iid, build_id);
        }
        self.entry.clear();
        self.entry.number(entry::IID, iid);
        self.entry
            .number(entry::BUILD_ID, build_id.map_or(0, |_| iid));
        self.entry.number(entry::END, i64::MAX.unsigned_abs());
        self.entry.number(entry::PATH, iid);
        self.new.message(data::MAPPINGS, &self.entry);
        iid
    }

    fn no_mapping(&mut self) -> u64 {
        if !std::mem::replace(&mut self.has_no_mapping, true) {
            self.entry.clear();
            self.entry.number(entry::IID, NO_MAPPING);
            self.new.message(data::MAPPINGS, &self.entry);
        }
        NO_MAPPING
    }

    /// The number of a text of the tables.
    fn row(&mut self, column: Column, row: TextId, tables: &Tables) -> u64 {
        let (rows, field) = match column {
            Column::Functions => (&mut self.functions, data::FUNCTIONS),
            Column::Sources => (&mut self.sources, data::SOURCES),
        };
        let iid = FIRST_ROW + u64::from(row.0);
        if is_new(rows, row.0) {
            self.text(field, iid, tables.text(row).unwrap_or_default());
        }
        iid
    }

    fn text(&mut self, field: u64, iid: u64, text: &str) {
        self.bytes(field, iid, text.as_bytes());
    }

    fn bytes(&mut self, field: u64, iid: u64, bytes: &[u8]) {
        self.entry.clear();
        self.entry.number(entry::IID, iid);
        self.entry.bytes(entry::TEXT, bytes);
        self.new.message(field, &self.entry);
    }
}

/// The texts of the tables.
#[derive(Clone, Copy, Debug)]
enum Column {
    Functions,
    Sources,
}

/// Marks a row as written. Returns whether it was not.
fn is_new(rows: &mut ByRow<()>, row: u32) -> bool {
    let is_new = rows.get(row).is_none();
    rows.insert(row, ());
    is_new
}
