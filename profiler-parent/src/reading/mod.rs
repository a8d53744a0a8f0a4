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

mod addresses;
mod ahead;
mod counters;
mod json;
mod located;
mod logs;
mod markers;
mod meta;
mod namer;
mod parser;
mod process_number;
mod reader;
mod shared;
#[cfg(feature = "view")]
mod sources;
mod stacks;
mod survey;
mod table;
pub(crate) mod text;
mod thread;
mod walk;

pub use counters::{CounterLevels, CounterSeries, CounterValue};
pub use logs::{
    EntryTotals, GatheredProcess, GatheringLog, Logs, ProfilingLog, PushedBatches, PushedLog,
};
pub use markers::{MarkerPhase, NamedMarker};
pub use meta::Meta;
pub use namer::Nameless;
pub use parser::{pass_over, read_tree};
pub use process_number::system_pid;
pub use reader::{ProfileReader, ReadError, Thread, ThreadSink};
pub use stacks::{FuncId, Function, NodeId, Tables};
pub use survey::{Part, Survey, Wanted};
pub use table::{Table, WeightType};
pub use text::text;
pub use thread::RawThread;
pub use walk::PartId;

#[cfg(feature = "view")]
pub(crate) use addresses::Lib;
#[cfg(feature = "view")]
pub(crate) use json::List;
pub(crate) use json::{Items, Members, Object, OptionalList};
pub(crate) use markers::{RawMarker, RawMarkers};
pub(crate) use meta::{Flow, TextField};
#[cfg(feature = "view")]
pub(crate) use parser::ParseError;
pub(crate) use parser::list_or_text;
pub(crate) use reader::walk_file;
#[cfg(feature = "view")]
pub(crate) use sources::source_names;
pub(crate) use stacks::{Frame, FrameId, TextId};
#[cfg(test)]
pub(crate) use stacks::{Func, Node};
pub(crate) use table::{as_index, column};
pub(crate) use thread::plain;
pub(crate) use walk::Visit;
#[cfg(feature = "view")]
pub(crate) use walk::walk;
