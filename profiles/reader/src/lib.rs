//! Reads profiles, in either format, compressed or not.
//!
//! Called by `profiler info`, `profiler diff` and `profiler view`, by the exports, and by the merge
//! of profiles, which walks through the text itself. All input is read as a stream; only the
//! requested data is kept. [`ProfileReader`] reads a profile twice: first the data that its threads
//! refer to ([`Survey`]), then one thread at a time. Invariant: memory grows with the amount of
//! requested data in the file, never with a number in the file.
//!
//! ```text
//! text ─▶ parser ─▶ walk ─▶ survey        libraries, names, shared tables   (held)
//! text ─▶ parser ─▶ walk ─▶ raw thread ─▶ located ─▶ ThreadSink             (one thread held)
//! ```

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod addresses;
mod ahead;
mod contexts;
mod counters;
mod json;
mod located;
mod logs;
mod markers;
mod meta;
mod namer;
mod parser;
mod pauses;
mod process_number;
mod reader;
mod sample_time;
mod shared;
mod sources;
mod stacks;
mod survey;
mod table;
pub mod text;
mod thread;
mod walk;

pub use contexts::{SampleTraces, TraceIds, is_sample_context};
pub use counters::{CounterLevels, CounterSeries, CounterValue};
pub use logs::{
    EntryTotals, GatheredProcess, GatheringLog, Logs, ObservedTimeLog, ProfilingLog, PushedBatches,
    PushedLog,
};
pub use markers::{MarkerPhase, NamedMarker};
pub use meta::Meta;
pub use namer::Nameless;
pub use parser::{pass_over, read_tree};
pub use pauses::{Pauses, PausesInOrder};
pub use process_number::system_pid;
pub use reader::{ProfileReader, ReadError, Thread, ThreadSink};
pub use sample_time::{FARTHEST_NS, bounded_ns};
pub use stacks::{FuncId, Function, NodeId, Tables};
pub use survey::{Part, Survey, Wanted};
pub use table::{Table, WeightType};
pub use text::text;
pub use thread::RawThread;
pub use walk::PartId;

pub use addresses::Lib;
pub use json::List;
pub use json::{Items, Members, Object, OptionalList};
pub use markers::{RawMarker, RawMarkers};
pub use meta::{Flow, TextField};
pub use parser::ParseError;
pub use parser::list_or_text;
pub use reader::walk_file;
pub use sources::source_names;
pub use stacks::{Frame, FrameId, Func, Node, TextId};
pub use table::{as_index, column};
pub use thread::plain;
pub use walk::Visit;
pub use walk::walk;
