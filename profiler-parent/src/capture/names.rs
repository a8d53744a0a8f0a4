//! Names for the code in a capture: gives the session's symbols to the writer of the processed
//! format.
//!
//! Invariant: the names that one capture looks up are kept for the next; see [`profiler_symbols`].

use std::collections::HashSet;

use crossbeam_channel::Sender;
use profiler_core::internal::reader::ModuleDefinition;

use super::CaptureEvent;
use crate::processed::names::{CodeNames, InlineFrame, Symbols};
use profiler_symbols as symbols;
use profiler_symbols::{ModuleKey, Place, SymbolStore};

/// The largest number of remarks on files in one profile.
const MAX_REMARKS: usize = 100;

/// The session's symbols, for one capture.
#[derive(Debug, Default)]
pub(crate) struct SessionSymbols {
    symbols: SymbolStore,
    /// Receives an event for every module that is searched.
    events: Option<Sender<CaptureEvent>>,
    /// Files that this capture asked for.
    asked: HashSet<String>,
    /// The number of modules that are done, and of all.
    done: usize,
    modules: usize,
    /// Bytes of files that it may still read. `None` before the first file: the full allowance.
    left: Option<u64>,
}

impl SessionSymbols {
    /// Sends the events of this capture to `events`.
    pub(crate) fn new(symbols: SymbolStore, events: Sender<CaptureEvent>) -> Self {
        Self {
            symbols,
            events: Some(events),
            ..Self::default()
        }
    }
}

impl Symbols for SessionSymbols {
    fn begin(&mut self, modules: usize) {
        self.modules = modules;
    }

    fn resolve(
        &mut self,
        module: &ModuleDefinition,
        addresses: &[u64],
        found: &mut dyn FnMut(u64, &CodeNames<'_>),
    ) {
        if let Some(events) = &self.events {
            let naming = CaptureEvent::Naming {
                module: module.path.clone(),
                addresses: addresses.len(),
                modules_done: self.done,
                modules: self.modules,
            };
            let _ = events.try_send(naming);
        }
        self.done += 1;
        self.asked.insert(module.path.clone());
        let mut symbols = self.symbols.lock();
        let left = self.left.get_or_insert(symbols.sum_limit());
        let key = ModuleKey {
            path: &module.path,
            build_id: &module.build_id,
        };
        let places = symbols.resolve_within(key, addresses, left);
        for (address, place) in addresses.iter().zip(&places) {
            report(*address, place, found);
        }
    }

    fn left_out(&mut self) -> Vec<String> {
        let reports = self.symbols.lock().reports();
        let asked = reports
            .iter()
            .filter(|report| self.asked.contains(&report.path));
        let refused = asked
            .flat_map(|report| &report.problems)
            .filter(|problem| problem.is_refusal());
        refused.take(MAX_REMARKS).map(ToString::to_string).collect()
    }
}

fn report(address: u64, place: &Place, found: &mut dyn FnMut(u64, &CodeNames<'_>)) {
    // Code without a name for its outer function is shown as an address, even if files and lines
    // are known.
    if !place.is_named() {
        return;
    }
    let frames: Vec<InlineFrame<'_>> = place.frames.iter().map(inline_frame).collect();
    let range = place.function;
    let size = range
        .and_then(|range| u32::try_from(range.size).ok())
        .filter(|size| *size > 0);
    found(
        address,
        &CodeNames {
            frames: &frames,
            start: range.map(|range| range.start),
            size,
        },
    );
}

fn inline_frame(frame: &symbols::SourceFrame) -> InlineFrame<'_> {
    InlineFrame {
        function: frame.function.as_deref().unwrap_or("(unnamed)"),
        file: frame.file.as_deref(),
        line: (frame.line > 0).then_some(frame.line),
    }
}
