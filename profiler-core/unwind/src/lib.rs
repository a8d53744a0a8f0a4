//! Unwinds stacks: from registers and the words of a stack to frames.
//!
//! Used by `profiler-core`, for its own process and for observed ones. Not an interface for
//! applications.
//!
//! ```text
//! files with code ─▶ Image ─▶ ModuleSnapshot ─┐
//! registers, words of a stack ────────────────┼─▶ walk ─▶ frames, and whether any are missing
//! code of the process ─▶ CodeReader ──────────┘
//! ```
//!
//! framehop unwinds functions that have unwinding tables. The modules here read the tables from
//! memory and files, check every return address, and unwind functions without tables.
//!
//! Invariants: [`walk`] allocates nothing, takes no lock and causes no fault; it accepts any
//! registers, words, tables and code. No frame is made up: if nothing fits, the stack is marked as
//! incomplete.

#![cfg(all(unix, any(target_arch = "x86_64", target_arch = "aarch64")))]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod calls;
mod elf;
mod frame;
mod frame_entries;
mod frame_index;
mod frame_pointer;
mod function_starts;
mod generated_code;
mod program_start;
mod prologue;
mod registers;
mod return_address;
mod section;
mod snapshot;
mod stack_words;
mod storage;
mod walk;
mod without_tables;

pub use calls::{CodeBytes, CodeReader, FunctionMap};
pub use elf::{CodeRange, Image, ReadBytes};
pub use frame::{ModuleNumber, UnwoundFrame};
pub use function_starts::FunctionStarts;
pub use generated_code::{GeneratedCode, GeneratedRanges, KnownEpilogues};
pub use registers::Registers;
pub use section::Section;
pub use snapshot::{ModuleSnapshot, PlacedModule};
pub use stack_words::{CopiedStack, StackWords};
pub use walk::{StackToWalk, UNKNOWN_FRAME_POINTER, UnwindCache, Walked, walk};
