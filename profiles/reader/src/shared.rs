//! The tables that all threads share in the processed form, as the file has them.

use std::borrow::Cow;

use serde::de::MapAccess;

use super::json::{Members, skip};
use super::stacks::{Frame, FrameId, Func, FuncId, Node, NodeId, Tables, TextId, narrow};
use super::table::{Columns, Table};
use profiler_symbols::source_path::plain_path;

const NONE: usize = usize::MAX;
/// The flag of a function that has a resource.
const HAS_RESOURCE: usize = 4;

/// The columns that are needed.
#[derive(Debug, Default)]
pub(super) struct SharedTables {
    /// `frame`, `prefix`, `prefixOffset`.
    stacks: Table<3>,
    /// `func`, `line`, `address`, `inlineDepth`.
    frames: Table<4>,
    /// `name`, `resource`, `flags`, `source`, `fileName`, `lineNumber`, `columnNumber`.
    funcs: Table<7>,
    /// `name`.
    resources: Table<1>,
    /// `filename`.
    sources: Table<1>,
    strings: Vec<String>,
}

impl SharedTables {
    /// Converts them to the common form of all formats.
    pub(super) fn into_tables(mut self) -> Tables {
        let mut texts = std::mem::take(&mut self.strings);
        self.shorten_paths(&mut texts);
        let [frames, ..] = &self.stacks.0;
        let nodes = (0..frames.len()).map(|row| self.node(row)).collect();
        let [funcs, ..] = &self.frames.0;
        let frames = (0..funcs.len()).map(|row| self.frame(row)).collect();
        let [names, ..] = &self.funcs.0;
        let mut funcs: Vec<Func> = (0..names.len()).map(|row| self.func(row)).collect();
        self.give_labels_their_lines(&mut funcs);
        let mut tables = Tables::new(nodes, frames, funcs, texts);
        let [.., depths] = &self.frames.0;
        tables.inlined = depths.iter().map(|depth| *depth > 0.0).collect();
        tables
    }

    /// Replaces the viewer's forms of source paths by plain paths.
    fn shorten_paths(&self, texts: &mut [String]) {
        let [names] = &self.sources.0;
        for row in 0..names.len() {
            let text = self
                .sources
                .index(0, row)
                .and_then(|text| texts.get_mut(text));
            if let Some(text) = text
                && let Cow::Owned(plain) = plain_path(text)
            {
                *text = plain;
            }
        }
    }

    fn node(&self, row: usize) -> Node {
        let by_offset = || row.checked_sub(self.stacks.index(2, row).filter(|offset| *offset > 0)?);
        let caller = self
            .stacks
            .index(1, row)
            .or_else(by_offset)
            .filter(|caller| *caller < row);
        Node {
            caller: caller.map(|caller| NodeId(narrow(caller))),
            frame: FrameId(self.stacks.index(0, row).map_or(u32::MAX, narrow)),
        }
    }

    fn frame(&self, row: usize) -> Frame {
        let address = self.frames.number(2, row);
        Frame {
            func: FuncId(self.frames.index(0, row).map_or(u32::MAX, narrow)),
            line: self
                .frames
                .index(1, row)
                .filter(|line| *line > 0)
                .map(narrow),
            address: (address >= 0.0).then_some(address as u64),
        }
    }

    fn func(&self, row: usize) -> Func {
        let text = |place: Option<usize>| place.map(|place| TextId(narrow(place)));
        let has_resource = self
            .funcs
            .index(2, row)
            .is_none_or(|flags| flags & HAS_RESOURCE != 0);
        let resource = self.funcs.index(1, row).filter(|_| has_resource);
        let source = self
            .funcs
            .index(3, row)
            .and_then(|source| self.sources.index(0, source));
        let at = |column| {
            self.funcs
                .index(column, row)
                .filter(|at| *at > 0)
                .map(narrow)
        };
        Func {
            name: TextId(self.funcs.index(0, row).map_or(u32::MAX, narrow)),
            file: text(source.or(self.funcs.index(4, row))),
            line: at(5),
            column: at(6),
            library: text(resource.and_then(|resource| self.resources.index(0, resource))),
        }
    }

    /// Sets the lines of labels. A frame without an address, of a function without a start line, is
    /// a label: it has one line.
    fn give_labels_their_lines(&self, funcs: &mut [Func]) {
        let [rows, ..] = &self.frames.0;
        for row in 0..rows.len() {
            let frame = self.frame(row);
            let func = funcs
                .get_mut(frame.func.0 as usize)
                .filter(|func| func.line.is_none());
            if let Some(func) = func.filter(|_| frame.address.is_none()) {
                func.line = frame.line;
            }
        }
    }
}

impl Members for SharedTables {
    const NAME: &'static str = "shared tables";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "stackTable" => {
                self.stacks = map.next_value_seed(named(["frame", "prefix", "prefixOffset"]))?
            }
            "frameTable" => {
                self.frames =
                    map.next_value_seed(named(["func", "line", "address", "inlineDepth"]))?
            }
            "funcTable" => {
                let names = [
                    "name",
                    "resource",
                    "flags",
                    "source",
                    "fileName",
                    "lineNumber",
                    "columnNumber",
                ];
                self.funcs = map.next_value_seed(named(names))?;
            }
            "resourceTable" => self.resources = map.next_value_seed(named(["name"]))?,
            "sources" => self.sources = map.next_value_seed(named(["filename"]))?,
            "stringArray" => self.strings = map.next_value()?,
            _ => skip(map)?,
        }
        Ok(())
    }
}

fn named<const N: usize>(names: [&'static str; N]) -> Columns<N> {
    Columns(names.map(|name| (name, NONE)))
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeSeed as _;

    use super::*;
    use crate::json::Object;

    #[test]
    fn published_sources_have_plain_paths() {
        let text = r#"{
            "funcTable": {"name": [0, 0, 0], "source": [0, 1, 2]},
            "sources": {"filename": [1, 2, 3]},
            "stringArray": ["f", "cargo:r:tokio-1.6.1:src/lib.rs", "git:github.com/rust-lang/rust:library/std/src/rt.rs:0123abc", "/a.c"]
        }"#;
        let mut shared = SharedTables::default();
        let mut from = serde_json::Deserializer::from_str(text);
        Object(&mut shared).deserialize(&mut from).unwrap();
        let tables = shared.into_tables();
        let file = |row| tables.function(FuncId(row)).unwrap().file;
        assert_eq!(
            [file(0), file(1), file(2)],
            [
                Some("tokio-1.6.1/src/lib.rs"),
                Some("/rustc/0123abc/library/std/src/rt.rs"),
                Some("/a.c")
            ]
        );
    }
}
