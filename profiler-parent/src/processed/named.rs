//! Frames with names: functions, files, lines, and one frame for each function that was inlined.
//!
//! Made once, when the addresses of all processes are known. An address at which functions are inlined
//! into each other becomes several frames, so that every node of the observed tree becomes a path; the
//! last node of that path is the number that samples refer to.

use std::cmp::Ordering;
use std::collections::HashMap;

use profiler_core::profile::frame_names::TRUNCATED_STACK;
use profiler_core::profile::{StringId, StringTable};

use super::frames::{Frames, Position, RawFrame};
use super::libs::{LibId, Libs};
use super::names::{CodeNames, Symbols};
use super::stacks::{NodeId, Stacks};

/// A function of the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Func {
    pub(super) name: StringId,
    pub(super) lib: Option<LibId>,
    pub(super) source: Option<StringId>,
}

/// A function of machine code, as its file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NativeSymbol {
    pub(super) lib: LibId,
    pub(super) address: u64,
    pub(super) name: StringId,
    pub(super) size: Option<u32>,
}

/// A frame of the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NamedFrame {
    pub(super) func: u32,
    pub(super) address: Option<u64>,
    pub(super) depth: u32,
    pub(super) native: Option<u32>,
    pub(super) category: Option<(u64, u64)>,
    pub(super) line: Option<u32>,
}

/// Things, each once, numbered in the order in which they came.
#[derive(Debug)]
pub(super) struct Table<T> {
    known: HashMap<T, u32>,
    all: Vec<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { known: HashMap::new(), all: Vec::new() }
    }
}

impl<T: Copy + Eq + std::hash::Hash> Table<T> {
    fn intern(&mut self, item: T) -> u32 {
        let next = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let all = &mut self.all;
        *self.known.entry(item).or_insert_with(|| {
            all.push(item);
            next
        })
    }

    pub(super) fn all(&self) -> &[T] {
        &self.all
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) funcs: Table<Func>,
    pub(super) natives: Table<NativeSymbol>,
    pub(super) frames: Vec<NamedFrame>,
    /// For every raw frame its frames: first, and how many.
    spans: Vec<(u32, u32)>,
    user: Option<u64>,
    /// Addresses of code, and how many of them have names.
    pub(super) addresses: (u64, u64),
}

impl Named {
    /// Asks for all names. `user` is the category of code that no label says more of.
    pub(super) fn new(
        (raw, libs, user): (&Frames, &Libs, Option<u64>),
        strings: &mut StringTable,
        symbols: &mut dyn Symbols,
    ) -> Self {
        let mut named = Self { spans: vec![(0, 0); raw.all().len()], user, ..Self::default() };
        let mut code: Vec<(LibId, u64, usize)> = Vec::new();
        for (number, frame) in raw.all().iter().enumerate() {
            if let RawFrame::Code(lib, address, _) = frame {
                code.push((*lib, *address, number));
            }
        }
        code.sort_unstable();
        named.addresses.0 = u64::try_from(code.len()).unwrap_or(0);
        for (lib, module) in libs.iter() {
            let of_lib = part(&code, |(of, ..)| of.cmp(&lib));
            let mut addresses: Vec<u64> = of_lib.iter().map(|(_, address, _)| *address).collect();
            addresses.dedup();
            if addresses.is_empty() {
                continue;
            }
            symbols.resolve(module, &addresses, &mut |address, names| {
                for (.., number) in part(of_lib, |(_, of, _)| of.cmp(&address)) {
                    let position = raw.position(*number);
                    named.add_code((*number, position), (lib, address), names, strings);
                }
            });
        }
        for (number, frame) in raw.all().iter().enumerate() {
            if named.spans.get(number).is_some_and(|(_, count)| *count == 0) {
                named.add_nameless(number, frame, libs, strings);
            }
        }
        named
    }

    /// The category of a frame of code.
    fn about(&self, position: Position) -> Option<(u64, u64)> {
        self.user.filter(|_| position == Position::Outermost).map(|user| (user, 0))
    }

    fn add_code(
        &mut self,
        (number, position): (usize, Position),
        (lib, address): (LibId, u64),
        names: &CodeNames<'_>,
        strings: &mut StringTable,
    ) {
        let Some(outermost) = names.frames.last() else { return };
        if self.spans.get(number).is_none_or(|(_, count)| *count > 0) {
            return; // told twice
        }
        self.addresses.1 += 1;
        let native = names.start.map(|start| NativeSymbol {
            lib,
            address: start,
            name: strings.intern(outermost.function),
            size: names.size,
        });
        let native = native.map(|native| self.natives.intern(native));
        let first = self.frames.len();
        for (depth, frame) in (0..).zip(names.frames.iter().rev()) {
            let source = frame.file.map(|file| strings.intern(file));
            let func = Func { name: strings.intern(frame.function), lib: Some(lib), source };
            let (func, line) = (self.funcs.intern(func), frame.line);
            let category = if depth == 0 { self.about(position) } else { None };
            self.frames.push(NamedFrame { func, address: Some(address), depth, native, category, line });
        }
        self.set_span(number, first);
    }

    fn add_nameless(&mut self, number: usize, frame: &RawFrame, libs: &Libs, strings: &mut StringTable) {
        let first = self.frames.len();
        let mut named =
            NamedFrame { func: 0, address: None, depth: 0, native: None, category: None, line: None };
        let func = match frame {
            RawFrame::Code(lib, address, position) => {
                (named.address, named.category) = (Some(*address), self.about(*position));
                let name = strings.intern(&format!("{}+{address:#x}", libs.name(*lib)));
                Func { name, lib: Some(*lib), source: None }
            }
            RawFrame::Unknown(address, position) => {
                named.category = self.about(*position);
                Func { name: strings.intern(&format!("{address:#x}")), lib: None, source: None }
            }
            RawFrame::Label(label) => {
                named.category = Some((label.category, label.subcategory));
                named.line = label.line;
                Func { name: label.name, lib: None, source: label.file }
            }
            RawFrame::TooMany => {
                Func { name: strings.intern("(too many different frames)"), lib: None, source: None }
            }
            RawFrame::Truncated => Func { name: strings.intern(TRUNCATED_STACK), lib: None, source: None },
        };
        named.func = self.funcs.intern(func);
        self.frames.push(named);
        self.set_span(number, first);
    }

    fn set_span(&mut self, number: usize, first: usize) {
        let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        if let Some(span) = self.spans.get_mut(number) {
            *span = (narrow(first), narrow(self.frames.len() - first));
        }
    }

    /// Shows the profile's tree, node by node: the caller's number, and the frame. Gives for every observed
    /// node the number of its innermost.
    pub(super) fn nodes(&self, stacks: &Stacks, mut show: impl FnMut(Option<u32>, u32)) -> Numbers {
        let mut numbers: Vec<u32> = Vec::with_capacity(stacks.iter().len());
        let mut next = 0;
        for (caller, frame) in stacks.iter() {
            let mut caller = caller.and_then(|NodeId(caller)| numbers.get(caller as usize).copied());
            let (first, count) = self.spans.get(frame.0 as usize).copied().unwrap_or_default();
            for frame in first..first + count {
                show(caller, frame);
                caller = Some(next);
                next += 1;
            }
            numbers.push(caller.unwrap_or(0));
        }
        Numbers(numbers)
    }
}

/// The part of a sorted list that is equal to what `compare` looks for.
fn part<T>(sorted: &[T], compare: impl Fn(&T) -> Ordering) -> &[T] {
    let first = sorted.partition_point(|item| compare(item) == Ordering::Less);
    let rest = sorted.get(first..).unwrap_or_default();
    rest.get(..rest.partition_point(|item| compare(item) == Ordering::Equal)).unwrap_or_default()
}

/// The number in the profile of every observed node.
#[derive(Debug)]
pub(super) struct Numbers(Vec<u32>);

impl Numbers {
    /// From what stands in a row: the node plus one.
    pub(super) fn of_row(&self, plus_one: u64) -> Option<u32> {
        let node = usize::try_from(plus_one.checked_sub(1)?).ok()?;
        self.0.get(node).copied()
    }

    /// Of a node.
    pub(super) fn of(&self, node: NodeId) -> Option<u32> {
        self.0.get(node.0 as usize).copied()
    }
}
