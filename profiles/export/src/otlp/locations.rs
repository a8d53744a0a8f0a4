//! Stacks of a profile as stacks of a dictionary.
//!
//! Used by [`super::profiles`]. Functions that are inlined at an address are lines of one location,
//! as in pprof. A sample without a stack has the one function `(program)`. Of a deep stack, the
//! innermost [`MAX_FRAMES`] functions are written, and [`CALLERS_LEFT_OUT`] as their caller.

use std::collections::HashMap;

use super::super::by_row::ByRow;
use super::super::depth::{CALLERS_LEFT_OUT, MAX_FRAMES};
use super::super::recording::Thread;
use super::super::tree::What;
use super::dictionary::{
    AttributeValue, Dictionary, FunctionRow, Line, LocationRow, MappingRow, TableIndex,
};
use profiler_reader::{Frame, Function, NodeId, PartId, Survey, Tables};

/// The attribute of a mapping that has the build id of its file.
const BUILD_ID: &str = "process.executable.build_id.gnu";

/// The stacks that are known in the present dictionary.
#[derive(Debug, Default)]
pub(super) struct Locations {
    /// By stack of the present tables.
    stacks: ByRow<TableIndex>,
    /// By frame, of those without inlined functions.
    frames: ByRow<TableIndex>,
    /// The build ids of the libraries of a process, by name; `None` if several have the name.
    build_ids: HashMap<String, Option<String>>,
    part: Option<PartId>,
}

impl Locations {
    /// Begins a thread.
    pub(super) fn begin(&mut self, thread: &Thread<'_>, survey: &Survey) {
        self.stacks
            .begin_thread(thread.tables.node_count(), thread.has_own_tables);
        self.frames
            .begin_thread(thread.tables.frames.len(), thread.has_own_tables);
        // In the processed format, all processes have the same list.
        if self.part.replace(thread.part) != Some(thread.part) {
            self.build_ids.clear();
            for (name, id) in survey.build_ids(thread.part) {
                let known = self.build_ids.entry(name.to_owned());
                known
                    .and_modify(|known| *known = known.take().filter(|known| known == id))
                    .or_insert_with(|| Some(id.to_owned()));
            }
        }
    }

    /// Forgets the stacks, because another dictionary begins.
    pub(super) fn forget(&mut self, tables: &Tables) {
        self.stacks.begin(tables.node_count());
        self.frames.begin(tables.frames.len());
    }

    /// The index of a stack.
    pub(super) fn stack(
        &mut self,
        stack: Option<NodeId>,
        tables: &Tables,
        dictionary: &mut Dictionary,
    ) -> TableIndex {
        let known = stack.and_then(|stack| self.stacks.get(stack.0).copied());
        if let Some(known) = known {
            return known;
        }
        let locations = self.locations(stack, tables, dictionary);
        let index = dictionary.stack(&locations);
        if let Some(stack) = stack {
            self.stacks.insert(stack.0, index);
        }
        index
    }

    /// The locations of a stack, the innermost first.
    fn locations(
        &mut self,
        stack: Option<NodeId>,
        tables: &Tables,
        dictionary: &mut Dictionary,
    ) -> Vec<TableIndex> {
        let mut locations = Vec::new();
        let mut inlined = Vec::new();
        let mut frames = stack.into_iter().flat_map(|stack| tables.stack(stack));
        for (id, frame) in frames.by_ref().take(MAX_FRAMES) {
            let is_inlined = tables.is_inlined(id);
            let is_alone = inlined.is_empty() && !is_inlined;
            let known = self.frames.get(id.0).copied().filter(|_| is_alone);
            if let Some(known) = known {
                locations.push(known);
                continue;
            }
            inlined.push(frame);
            if !is_inlined {
                let location = self.location(&inlined, tables, dictionary);
                if is_alone {
                    self.frames.insert(id.0, location);
                }
                locations.push(location);
                inlined.clear();
            }
        }
        if !inlined.is_empty() {
            locations.push(self.location(&inlined, tables, dictionary));
        }
        if frames.next().is_some() {
            locations.push(special(CALLERS_LEFT_OUT, dictionary));
        } else if locations.is_empty() {
            locations.push(special(
                What::Program.special().unwrap_or_default(),
                dictionary,
            ));
        }
        locations
    }

    /// The location of frames at one address, the innermost first.
    fn location(
        &self,
        frames: &[Frame],
        tables: &Tables,
        dictionary: &mut Dictionary,
    ) -> TableIndex {
        let functions = frames
            .iter()
            .map(|frame| tables.function(frame.func).unwrap_or_default());
        let lines = frames.iter().zip(functions).map(|(frame, function)| Line {
            function: function_row(&function, dictionary),
            line: frame.line.or(function.line).unwrap_or(0),
        });
        let lines: Vec<Line> = lines.collect();
        let last = frames.last();
        let library = last.and_then(|frame| tables.function(frame.func)?.library);
        let mapping = library.map_or(TableIndex::ZERO, |name| self.mapping(name, dictionary));
        dictionary.location(&LocationRow {
            mapping,
            address: last.and_then(|frame| frame.address).unwrap_or(0),
            lines,
        })
    }

    fn mapping(&self, library: &str, dictionary: &mut Dictionary) -> TableIndex {
        let build_id = self.build_ids.get(library).and_then(Option::as_ref);
        let build_id = build_id
            .map(|id| dictionary.attribute(BUILD_ID, AttributeValue::Text(id.to_lowercase())));
        let file = dictionary.text(library);
        dictionary.mapping(MappingRow { file, build_id })
    }
}

fn function_row(function: &Function<'_>, dictionary: &mut Dictionary) -> TableIndex {
    let row = FunctionRow {
        name: dictionary.text(function.name),
        file: dictionary.text(function.file.unwrap_or_default()),
        start_line: function.line.unwrap_or(0),
    };
    dictionary.function(row)
}

/// The location of a name that is not a function's.
fn special(name: &str, dictionary: &mut Dictionary) -> TableIndex {
    let function = Function {
        name,
        ..Function::default()
    };
    let line = Line {
        function: function_row(&function, dictionary),
        line: 0,
    };
    dictionary.location(&LocationRow {
        mapping: TableIndex::ZERO,
        address: 0,
        lines: vec![line],
    })
}
