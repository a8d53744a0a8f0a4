//! Profiles read back, in either form, compressed or not: what `profiler info` and the exports have in common.
//!
//! Everything is read as a stream; what is kept of it is what the caller names ([`Columns`]). Invariant: memory
//! grows with what the file holds and is asked for, never with a number that stands in it.

mod addresses;
mod namer;
mod table;
pub(crate) mod text;

pub use addresses::{AddressMap, Lib, code_of};
pub use namer::{Nameless, Namer, UNNAMED};
pub use table::{Columns, Number, Table, WeightType, as_index};
pub use text::text;
