//! Frames with names: functions, files, lines, and one frame for each inlined function.
//!
//! Created once, when the addresses of all processes are known. An address with inlined functions
//! becomes several frames, so every node of the recorded tree becomes a path; samples refer to the
//! last node of that path. Invariant: at most [`MAX_INLINED`] inlined functions are shown, for any
//! content of the files; beyond that, only the outermost function of an address is shown.

use std::cmp::Ordering;

use profiler_gecko::CategoryRow;
use profiler_gecko::frame_names::{IDLE, TRUNCATED_STACK, USER};
use profiler_gecko::model::{TextTable, find_category};
use profiler_json::StringId;
use profiler_json::interner::Interner;

use super::frames::{Frames, MemberNumber, Position, RawFrame};
use super::generated::GeneratedNames;
use super::libs::{LibId, Libs};
use super::names::{CodeNames, Symbols};
use super::stacks::{NodeId, Stacks};
use super::strings::ProfileStrings;
use profiler_symbols::source_path::viewer_form;

/// A function of the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Func {
    pub name: StringId,
    pub(super) source: Option<StringId>,
    origin: Origin,
}

/// What else is known of a function. One field for both cases, because there are many functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Origin {
    Unknown,
    /// Its code is in this file.
    Lib(LibId),
    /// Its code was generated, from source that begins on this line, counted from 1.
    Line(u32),
}

impl Func {
    /// A function that is known by its name alone.
    const fn named(name: StringId) -> Self {
        Self {
            name,
            source: None,
            origin: Origin::Unknown,
        }
    }

    /// The file that contains its code.
    pub(super) const fn lib(&self) -> Option<LibId> {
        match self.origin {
            Origin::Lib(lib) => Some(lib),
            Origin::Unknown | Origin::Line(_) => None,
        }
    }

    /// Its first line, counted from 1. Known only for generated code.
    pub(super) const fn line(&self) -> Option<u32> {
        match self.origin {
            Origin::Line(line) => Some(line),
            Origin::Unknown | Origin::Lib(_) => None,
        }
    }
}

/// A function in the machine code of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NativeSymbol {
    pub(super) lib: LibId,
    pub(super) address: u64,
    pub(super) name: StringId,
    pub(super) size: Option<u32>,
}

/// Limit on the frames of inlined functions of all addresses together.
pub(super) const MAX_INLINED: usize = 1 << 18;
/// Limit on the rows of the profile's tree. Inlined functions beyond it are left out.
const MAX_SHOWN_NODES: usize = 1 << 22;

/// A frame of the profile. It refers to the recorded frame for the properties that both share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NamedFrame {
    pub(super) func: u32,
    /// Number of the recorded frame.
    raw: u32,
    /// Number of the native symbol plus one; 0 for none.
    native: u32,
    /// Line, counted from 1; 0 for none.
    line: u32,
    pub(super) depth: u16,
}

impl NamedFrame {
    pub(super) fn native(&self) -> Option<u32> {
        self.native.checked_sub(1)
    }

    pub(super) fn line(&self) -> Option<u32> {
        Some(self.line).filter(|line| *line > 0)
    }

    /// Address of its code, relative to its file; `None` for a label or an unknown module.
    pub(super) fn address(&self, raw: &Frames) -> Option<u64> {
        match raw.all().get(self.raw as usize) {
            Some(RawFrame::Code(_, address, _)) => Some(*address),
            _ => None,
        }
    }

    /// Category and subcategory; `None` for those of the caller. Inlined functions have the
    /// category of the function that contains them.
    pub(super) fn category(&self, raw: &Frames, code: CodeCategories) -> Option<(u64, u64)> {
        let of_label = |id| {
            raw.label(id)
                .map(|label| (u64::from(label.category), u64::from(label.subcategory)))
        };
        let plain = |row: Option<u64>| row.map(|row| (row, 0));
        match *raw.all().get(self.raw as usize)? {
            RawFrame::Code(.., position)
            | RawFrame::Unknown(.., position)
            | RawFrame::UnknownModule(.., position) => match position {
                _ if self.depth > 0 => None,
                Position::Outermost => plain(code.user),
                Position::Inner => None,
                Position::Idle => plain(code.idle),
            },
            RawFrame::Label(id) => of_label(id),
            RawFrame::IdleLabel(id) => plain(code.idle).or_else(|| of_label(id)),
            RawFrame::TooMany | RawFrame::Truncated => None,
        }
    }
}

/// Rows of the categories of code.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CodeCategories {
    /// For the outermost code of a stack.
    pub(super) user: Option<u64>,
    /// For the innermost code of a sample without processor time.
    pub(super) idle: Option<u64>,
}

impl CodeCategories {
    /// The rows in the profile's list.
    pub(super) fn of(rows: &[CategoryRow]) -> Self {
        Self {
            user: find_category(rows, USER.name()),
            idle: find_category(rows, IDLE.name()),
        }
    }
}

/// All named frames.
#[derive(Debug, Default)]
pub(super) struct SymbolicatedFrames {
    pub(super) funcs: Interner<Func>,
    pub(super) natives: Interner<NativeSymbol>,
    pub(super) frames: Vec<NamedFrame>,
    /// For each recorded frame, the number of its first named frame and the count of its frames.
    spans: Vec<(u32, u32)>,
    pub(super) categories: CodeCategories,
    /// How many frames of inlined functions there are.
    inlined: usize,
    /// How many further frames of inlined functions did not fit.
    inlined_left_out: u64,
    /// How many code addresses there are.
    pub(super) addresses: u64,
    /// How many code addresses have names.
    pub(super) named_addresses: u64,
}

impl SymbolicatedFrames {
    /// Resolves all names.
    pub(super) fn new(
        raw: &Frames,
        libs: &Libs,
        categories: CodeCategories,
        strings: &mut ProfileStrings,
        symbols: &mut dyn Symbols,
        generated: &mut GeneratedNames<'_>,
    ) -> Self {
        let mut named = Self {
            spans: vec![(0, 0); raw.all().len()],
            categories,
            ..Self::default()
        };
        let mut code: Vec<(LibId, u64, u32)> = Vec::new();
        for (number, frame) in (0..).zip(raw.all()) {
            if let RawFrame::Code(lib, address, _) = frame {
                code.push((*lib, *address, number));
            }
        }
        code.sort_unstable();
        named.addresses = u64::try_from(code.len()).unwrap_or(0);
        symbols.begin(code.chunk_by(|(one, ..), (other, ..)| one == other).count());
        for (lib, module) in libs.iter() {
            let of_lib = part(&code, |(of, ..)| of.cmp(&lib));
            let mut addresses: Vec<u64> = of_lib.iter().map(|(_, address, _)| *address).collect();
            addresses.dedup();
            if addresses.is_empty() {
                continue;
            }
            symbols.resolve(module, &addresses, &mut |address, names| {
                for (.., number) in part(of_lib, |(_, of, _)| of.cmp(&address)) {
                    named.add_code(*number, lib, names, strings);
                }
            });
        }
        named.add_generated(raw, strings, generated);
        for (number, frame) in (0..).zip(raw.all()) {
            if named
                .spans
                .get(number as usize)
                .is_some_and(|(_, count)| *count == 0)
            {
                named.add_nameless(number, frame, raw, libs, strings);
            }
        }
        named
    }

    fn add_code(
        &mut self,
        number: u32,
        lib: LibId,
        names: &CodeNames<'_>,
        strings: &mut ProfileStrings,
    ) {
        let Some((outermost, inlined)) = names.frames.split_last() else {
            return;
        };
        if self
            .spans
            .get(number as usize)
            .is_none_or(|(_, count)| *count > 0)
        {
            return; // resolved twice
        }
        self.named_addresses += 1;
        let name = strings.intern(outermost.function);
        let native = names.start.map(|start| NativeSymbol {
            lib,
            address: start,
            name,
            size: names.size,
        });
        let native = native.and_then(|native| self.natives.intern(native, usize::MAX));
        let first = self.frames.len();
        let has_room = self.inlined + inlined.len() <= MAX_INLINED;
        let shown = if has_room {
            names.frames
        } else {
            std::slice::from_ref(outermost)
        };
        match has_room {
            true => self.inlined += inlined.len(),
            false => self.inlined_left_out += inlined.len() as u64,
        }
        for (depth, frame) in (0..=u16::MAX).zip(shown.iter().rev()) {
            let source = frame.file.map(|file| strings.intern(&viewer_form(file)));
            let func = Func {
                source,
                origin: Origin::Lib(lib),
                ..Func::named(strings.intern(frame.function))
            };
            self.push(func, number, native, frame.line, depth);
        }
        self.set_span(number, first);
    }

    /// Adds the frames in generated code that have names, one process after the other.
    fn add_generated(
        &mut self,
        raw: &Frames,
        strings: &mut ProfileStrings,
        generated: &mut GeneratedNames<'_>,
    ) {
        let mut code: Vec<(MemberNumber, u64, u32)> = Vec::new();
        for (number, frame) in (0..).zip(raw.all()) {
            if let RawFrame::Unknown(member, address, _) = frame {
                code.push((*member, *address, number));
            }
        }
        code.sort_unstable();
        let of_members = || code.chunk_by(|(one, ..), (other, ..)| one == other);
        let addresses = |of_member: &[(MemberNumber, u64, u32)]| {
            let (member, ..) = of_member.first()?;
            let mut all: Vec<u64> = of_member.iter().map(|(_, address, _)| *address).collect();
            all.dedup();
            Some((*member, all))
        };
        let wanted: Vec<_> = of_members().filter_map(addresses).collect();
        generated.look_up(&wanted);
        strings.begin_generated(of_members().count());
        for of_member in of_members() {
            let Some((member, ..)) = of_member.first() else {
                continue;
            };
            strings.begin_process(false);
            generated.resolve(*member, &mut |address, name| {
                let func = Func {
                    source: name.file.map(|file| strings.intern(&viewer_form(file))),
                    origin: name.line.map_or(Origin::Unknown, Origin::Line),
                    ..Func::named(strings.intern(&name.function))
                };
                for (.., number) in part(of_member, |(_, of, _)| of.cmp(&address)) {
                    let first = self.frames.len();
                    self.push(func, *number, None, None, 0);
                    self.set_span(*number, first);
                }
            });
        }
        strings.begin_code();
    }

    fn push(&mut self, func: Func, raw: u32, native: Option<u32>, line: Option<u32>, depth: u16) {
        let func = self.funcs.intern(func, usize::MAX).unwrap_or(0);
        let native = native.map_or(0, |native| native + 1);
        self.frames.push(NamedFrame {
            func,
            raw,
            native,
            line: line.unwrap_or(0),
            depth,
        });
    }

    fn add_nameless(
        &mut self,
        number: u32,
        frame: &RawFrame,
        raw: &Frames,
        libs: &Libs,
        strings: &mut ProfileStrings,
    ) {
        let first = self.frames.len();
        let mut line = None;
        let func = match frame {
            RawFrame::Code(lib, address, _) => {
                let name = strings.intern(&format!("{}+{address:#x}", libs.name(*lib)));
                Func {
                    origin: Origin::Lib(*lib),
                    ..Func::named(name)
                }
            }
            RawFrame::Unknown(_, address, _) | RawFrame::UnknownModule(_, address, _) => {
                Func::named(strings.intern(&format!("{address:#x}")))
            }
            RawFrame::Label(id) | RawFrame::IdleLabel(id) => match raw.label(*id) {
                Some(label) => {
                    line = label.line;
                    Func {
                        source: label.file,
                        ..Func::named(label.name)
                    }
                }
                None => Func::named(strings.own("(unknown label)")),
            },
            RawFrame::TooMany => Func::named(strings.own("(too many different frames)")),
            RawFrame::Truncated => Func::named(strings.own(TRUNCATED_STACK)),
        };
        self.push(func, number, None, line, 0);
        self.set_span(number, first);
    }

    fn set_span(&mut self, number: u32, first: usize) {
        let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        if let Some(span) = self.spans.get_mut(number as usize) {
            *span = (narrow(first), narrow(self.frames.len() - first));
        }
    }

    /// Number of inlined functions that did not fit.
    pub(super) const fn inlined_left_out(&self) -> u64 {
        self.inlined_left_out
    }

    /// Calls `show` with every node of the profile's tree: the number of its caller, and its frame.
    /// Returns, for each recorded node, the number of the last node of its path.
    pub(super) fn nodes(&self, stacks: &Stacks, mut show: impl FnMut(Option<u32>, u32)) -> Numbers {
        let mut numbers: Vec<u32> = Vec::with_capacity(stacks.iter().len());
        let mut next = 0;
        let mut left_out = 0;
        let mut room = MAX_SHOWN_NODES.saturating_sub(stacks.iter().len());
        for (caller, frame) in stacks.iter() {
            let mut caller =
                caller.and_then(|NodeId(caller)| numbers.get(caller as usize).copied());
            let (first, mut count) = self
                .spans
                .get(frame.0 as usize)
                .copied()
                .unwrap_or_default();
            match room.checked_sub(count.saturating_sub(1) as usize) {
                Some(rest) => room = rest,
                None => {
                    left_out += u64::from(count - 1);
                    count = 1;
                }
            }
            for frame in first..first + count {
                show(caller, frame);
                caller = Some(next);
                next += 1;
            }
            numbers.push(caller.unwrap_or(0));
        }
        Numbers {
            of_nodes: numbers,
            left_out,
        }
    }
}

/// The part of a sorted list for which `compare` returns `Equal`.
fn part<T>(sorted: &[T], compare: impl Fn(&T) -> Ordering) -> &[T] {
    let first = sorted.partition_point(|item| compare(item) == Ordering::Less);
    let rest = sorted.get(first..).unwrap_or_default();
    rest.get(..rest.partition_point(|item| compare(item) == Ordering::Equal))
        .unwrap_or_default()
}

/// The numbers of the recorded nodes in the profile.
#[derive(Debug)]
pub(super) struct Numbers {
    of_nodes: Vec<u32>,
    /// Number of rows of inlined functions that did not fit.
    pub(super) left_out: u64,
}

impl Numbers {
    /// The number of a node that is stored in a row as the node plus one.
    pub(super) fn of_row(&self, plus_one: u64) -> Option<u32> {
        let node = usize::try_from(plus_one.checked_sub(1)?).ok()?;
        self.of_nodes.get(node).copied()
    }

    /// The number of a node.
    pub(super) fn of(&self, node: NodeId) -> Option<u32> {
        self.of_nodes.get(node.0 as usize).copied()
    }
}
