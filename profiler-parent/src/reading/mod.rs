//! Reads profiles, in either format, compressed or not.
//!
//! Called by `profiler info`, `profiler diff` and `profiler view`, and by the exports. All input is
//! read as a stream; only the requested data is kept. [`ProfileReader`] reads a profile twice:
//! first the data that its threads refer to ([`Survey`]), then one thread at a time. Invariant:
//! memory grows with the amount of requested data in the file, never with a number in the file.
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

pub use counters::CounterLevels;
pub use logs::{EntryTotals, GatheredProcess, GatheringLog, Logs, ProfilingLog};
pub use markers::{MarkerPhase, NamedMarker};
pub use meta::Meta;
pub use namer::Nameless;
pub use parser::{pass_over, read_tree};
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
pub(crate) use json::{Items, List};
pub(crate) use markers::{RawMarker, RawMarkers};
pub(crate) use meta::{Flow, TextField};
#[cfg(feature = "view")]
pub(crate) use parser::ParseError;
#[cfg(feature = "view")]
pub(crate) use sources::source_names;
pub(crate) use stacks::Frame;
#[cfg(test)]
pub(crate) use stacks::{FrameId, Func, Node, TextId};
pub(crate) use table::as_index;
#[cfg(feature = "view")]
pub(crate) use walk::{Visit, walk};
