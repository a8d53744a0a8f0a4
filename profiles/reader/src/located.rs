//! The tables of one thread in the Gecko form, whose frames are texts: a name, or an address whose
//! name is looked up.
//!
//! Used by [`super::reader`]. The same address means different code for a caller and for the
//! innermost function, and may stand for several inlined functions. So a stack of the file becomes
//! one node as a caller and another as a leaf.

use std::collections::HashMap;
use std::ops::Range;

use super::addresses::{AddressMap, code_of};
use super::namer::{Namer, UNNAMED};
use super::stacks::{Frame, FrameId, Func, FuncId, Node, NodeId, Tables, TextId, narrow};
use super::thread::RawThread;
use profiler_symbols::source_path::plain_path;

/// The sources of names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'n> {
    pub(super) libs: &'n AddressMap<'n>,
    pub(super) namer: &'n Namer,
}

/// Tables that are being built; each entry is unique.
#[derive(Debug, Default)]
pub(super) struct Located {
    pub(super) tables: Tables,
    texts: HashMap<String, TextId>,
    funcs: HashMap<Func, FuncId>,
    frames: HashMap<Frame, FrameId>,
    nodes: HashMap<(Option<NodeId>, FrameId), NodeId>,
    /// The frames at all known places. At each place, the outermost frame comes first.
    at_places: Vec<FrameId>,
    /// The part of `at_places` for each frame of the file, as a caller and as a leaf.
    known: [Vec<Option<Range<usize>>>; 2],
    /// The node of each stack of the file, as a caller.
    callers: Vec<Option<NodeId>>,
    /// The node of each stack of the file as a leaf, as far as it is known.
    leaves: Vec<Option<Option<NodeId>>>,
}

impl Located {
    /// The tables of a thread without its leaves.
    pub(super) fn of(thread: &RawThread, names: Names<'_>) -> Self {
        let mut located = Self::default();
        let [texts, lines] = &thread.frames.0;
        let frames = texts.len().max(lines.len());
        located.known = [vec![None; frames], vec![None; frames]];
        let [prefixes, frames] = &thread.stacks.0;
        for row in 0..prefixes.len().max(frames.len()) {
            let node = located.node(thread, row, false, names);
            located.callers.push(node);
        }
        located.leaves = vec![None; located.callers.len()];
        located
    }

    /// The node of a stack as a leaf. `stack` is a row of the file's table.
    pub(super) fn leaf(
        &mut self,
        thread: &RawThread,
        stack: usize,
        names: Names<'_>,
    ) -> Option<NodeId> {
        if let Some(known) = self.leaves.get(stack)? {
            return *known;
        }
        let leaf = self.node(thread, stack, true, names);
        if let Some(known) = self.leaves.get_mut(stack) {
            *known = Some(leaf);
        }
        leaf
    }

    fn node(
        &mut self,
        thread: &RawThread,
        row: usize,
        is_leaf: bool,
        names: Names<'_>,
    ) -> Option<NodeId> {
        let caller = thread.stacks.index(0, row).filter(|caller| *caller < row);
        let mut node = caller.and_then(|caller| self.callers.get(caller).copied().flatten());
        let Some(frame) = thread.stacks.index(1, row) else {
            return node;
        };
        for at in self.at(thread, frame, is_leaf, names) {
            if let Some(frame) = self.at_places.get(at).copied() {
                node = Some(self.intern_node(node, frame));
            }
        }
        node
    }

    /// The frames at the place of a frame of the file, as a part of `at_places`.
    fn at(
        &mut self,
        thread: &RawThread,
        frame: usize,
        is_leaf: bool,
        names: Names<'_>,
    ) -> Range<usize> {
        let [as_callers, as_leaves] = &self.known;
        let known = if is_leaf { as_leaves } else { as_callers };
        match known.get(frame) {
            None => return 0..0,
            Some(Some(known)) => return known.clone(),
            Some(None) => {}
        }
        let line = thread.frames.index(1, frame).filter(|line| *line > 0);
        let text = thread.frames.index(0, frame);
        let text = text.and_then(|text| thread.strings.get(text));
        let frames = text
            .map(|text| self.locate(text, is_leaf, line.map(narrow), names))
            .unwrap_or_default();
        let start = self.at_places.len();
        self.at_places.extend(frames);
        let range = start..self.at_places.len();
        let [as_callers, as_leaves] = &mut self.known;
        let known = if is_leaf { as_leaves } else { as_callers };
        if let Some(known) = known.get_mut(frame) {
            *known = Some(range.clone());
        }
        range
    }

    fn locate(
        &mut self,
        text: &str,
        is_leaf: bool,
        line: Option<u32>,
        names: Names<'_>,
    ) -> Vec<FrameId> {
        let Some((lib, address)) = names.libs.find(text) else {
            let func = Func {
                name: self.text(text),
                file: None,
                line,
                column: None,
                library: None,
            };
            return vec![self.frame(func, line, None)];
        };
        let library = Some(self.text(&lib.name));
        let address = code_of(address, is_leaf);
        let found = names.namer.frames(lib, address);
        if found.is_empty() {
            let shown = if is_leaf {
                address
            } else {
                address.saturating_add(1)
            };
            let name = self.text(&format!("{}+{shown:#x}", lib.name));
            return vec![self.frame(
                Func {
                    name,
                    file: None,
                    line: None,
                    column: None,
                    library,
                },
                None,
                Some(address),
            )];
        }
        let frame = |place: &profiler_symbols::SourceFrame| {
            let name = self.text(place.function.as_deref().unwrap_or(UNNAMED));
            let file = place
                .file
                .as_deref()
                .map(|file| self.text(&plain_path(file)));
            let line = (place.line > 0).then_some(place.line);
            self.frame(
                Func {
                    name,
                    file,
                    line: None,
                    column: None,
                    library,
                },
                line,
                Some(address),
            )
        };
        let frames: Vec<FrameId> = found.iter().rev().map(frame).collect();
        frames
            .iter()
            .skip(1)
            .for_each(|frame| self.mark_inlined(*frame));
        frames
    }

    fn text(&mut self, text: &str) -> TextId {
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        let next = TextId(narrow(self.tables.texts.len()));
        self.tables.texts.push(text.to_owned());
        self.texts.insert(text.to_owned(), next);
        next
    }

    fn frame(&mut self, func: Func, line: Option<u32>, address: Option<u64>) -> FrameId {
        let next = FuncId(narrow(self.tables.funcs.len()));
        let func = *self.funcs.entry(func).or_insert_with_key(|func| {
            self.tables.funcs.push(*func);
            next
        });
        let next = FrameId(narrow(self.tables.frames.len()));
        *self
            .frames
            .entry(Frame {
                func,
                line,
                address,
            })
            .or_insert_with_key(|frame| {
                self.tables.frames.push(*frame);
                next
            })
    }

    fn mark_inlined(&mut self, frame: FrameId) {
        let inlined = &mut self.tables.inlined;
        let row = frame.0 as usize;
        inlined.resize(inlined.len().max(row + 1), false);
        inlined
            .iter_mut()
            .skip(row)
            .take(1)
            .for_each(|inlined| *inlined = true);
    }

    fn intern_node(&mut self, caller: Option<NodeId>, frame: FrameId) -> NodeId {
        let next = NodeId(narrow(self.tables.nodes.len()));
        *self.nodes.entry((caller, frame)).or_insert_with(|| {
            self.tables.nodes.push(Node { caller, frame });
            next
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    #[test]
    fn a_leaf_and_a_caller_at_one_address_are_two_places() {
        let stacks = Table::new([vec![f64::NAN, 0.0, 7.0], vec![0.0, 0.0, 1.0]]);
        let frames = Table::new([vec![0.0, 1.0], vec![f64::NAN, 12.0]]);
        let strings = vec!["0x1010".to_owned(), "label".to_owned()];
        let thread = RawThread {
            stacks,
            frames,
            strings,
            ..RawThread::default()
        };
        let lib = serde_json::from_str(r#"{"name":"libx.so","start":4096,"end":8192,"offset":0}"#)
            .unwrap();
        let libs = [lib];
        let libs = AddressMap::of(&libs);
        let namer = Namer::default();
        let names = Names {
            libs: &libs,
            namer: &namer,
        };
        let mut located = Located::of(&thread, names);
        let leaf = located.leaf(&thread, 1, names).unwrap();
        located.tables.find_named();
        let shown: Vec<_> = located
            .tables
            .stack(leaf)
            .map(|(_, frame)| frame.address)
            .collect();
        assert_eq!(
            shown,
            [Some(0x10), Some(0xf)],
            "a call is one byte before its return address"
        );
        let label = located.leaf(&thread, 2, names).unwrap();
        located.tables.find_named();
        let (_, frame) = located.tables.stack(label).next().unwrap();
        let function = located.tables.function(frame.func).unwrap();
        assert_eq!((function.name, function.line), ("label", Some(12)));
        assert_eq!(
            located.tables.stack(label).count(),
            1,
            "a caller with a larger row number is ignored"
        );
        assert_eq!(located.leaf(&thread, 3, names), None);
    }

    #[test]
    fn an_address_without_a_name_is_library_and_offset() {
        let lib =
            serde_json::from_str(r#"{"name":"libx.so","start":4096,"end":8192,"offset":256}"#)
                .unwrap();
        let libs = [lib];
        let libs = AddressMap::of(&libs);
        let namer = Namer::default();
        let names = Names {
            libs: &libs,
            namer: &namer,
        };
        let name = |text: &str| {
            let mut located = Located::default();
            let frame = located.locate(text, true, None, names).remove(0);
            let func = located.tables.frame(frame).unwrap().func;
            located.tables.function(func).unwrap().name.to_owned()
        };
        assert_eq!(name("0x1010"), "libx.so+0x110");
        for same in ["0x2000", "0xfff", "0xnot", "main", "0x11112222333344445"] {
            assert_eq!(name(same), same);
        }
    }
}
