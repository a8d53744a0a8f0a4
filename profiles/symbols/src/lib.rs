//! Looks up names for code addresses: functions, inlined functions, files and lines, once for all
//! processes.
//!
//! Writers of profiles with names call [`Symbols::resolve`] or, for all modules of a profile at
//! once, [`Symbols::resolve_all`]; `profiler view` answers the viewer's requests with
//! [`server_api`].
//!
//! ```no_run
//! # use profiler_symbols::{ModuleKey, SymbolOptions, Symbols};
//! # let (build_id, addresses) = (vec![], [0x1234]);
//! let mut symbols = Symbols::new(SymbolOptions::default());
//! let module = ModuleKey { path: "/usr/lib/libfoo.so", build_id: &build_id };
//! for place in symbols.resolve(module, &addresses) {
//!     for frame in &place.frames { /* innermost first */ }
//! }
//! ```
//!
//! Addresses are relative to the module, as in its file. A return address is the address after a
//! call; to get the line of the call, pass the address minus one. Pass all addresses of a module in
//! one call: each call reads the file once.
//!
//! Invariants: a file whose build id differs from that of the process gives no names; no content of
//! a file makes a look-up fail, panic, or take unbounded time or memory: problems are reported in a
//! [`ModuleReport`]; results are kept for later captures up to a limit, files and parsed debug
//! information are not; files are always read on a thread with a large stack ([`stack`]).

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod bounded;
mod bytes;
mod cache;
mod demangle;
mod dwarf;
mod image;
mod kept;
mod locate;
mod machine_code;
mod minidebug;
mod module;
mod module_key;
mod options;
mod place;
mod problem;
mod reading;
mod report;
pub mod server_api;
pub mod source_path;
pub mod stack;
mod store;
mod symbols;
mod table;
mod texts;

pub use self::machine_code::{
    CodeArchitecture, MachineCode, MachineCodeError, code_of_image, machine_code,
};
pub use self::module_key::{ModuleKey, Wanted};
pub use self::options::SymbolOptions;
pub use self::place::{CodeRange, Place, SourceFrame, without_name};
pub use self::problem::Problem;
pub use self::report::{ModuleReport, NameSource};
pub use self::store::SymbolStore;
pub use self::symbols::{SymbolProgress, Symbols, readable_name, resolve_image};
