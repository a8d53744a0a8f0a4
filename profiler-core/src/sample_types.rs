//! The data of samples: stacks, modules and functions as programs with a sampler pass them.
//!
//! Compiled with and without the engine; public in `sampler` and `safepoint`.

use crate::ids::DefinitionId;
use crate::timestamp::Timestamp;

/// Maximum number of frames of one stack. Further outer frames are cut off, which a flag marks.
pub const MAX_FRAMES: usize = 1024;

/// The name of the thread that records samples of others.
#[cfg(all(feature = "engine", unix))]
pub(crate) const SAMPLER_THREAD: &str = "profiler-stacks";

/// The name of the row of the entries that the handler of a crash writes.
#[cfg(all(feature = "engine", unix))]
pub(crate) const CRASH_THREAD: &str = "profiler-crash";

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// Code of a module, as a byte offset from where the module begins.
    Code(DefinitionId, u64),
    /// Code in no known module: generated at run time, or from a module that was never seen.
    Unknown(u64),
    /// A label that the program set.
    Label(DefinitionId),
}

/// A file whose code ran in the process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    all(feature = "engine", unix),
    derive(serde::Serialize, serde::Deserialize)
)]
pub struct ModuleDefinition {
    /// Path of the file as the process saw it; a name such as `[vdso]` if there is no file.
    pub path: String,
    /// The linker's identity of its contents (ELF: the GNU build id); empty if it has none.
    pub build_id: Vec<u8>,
    /// Address 0 of the file in the process when it was first seen: frames are relative to this.
    pub base: u64,
    /// Its first mapped address.
    pub start: u64,
    /// The address after its last.
    pub end: u64,
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The time of the sample.
    pub at: Timestamp,
    /// Processor time since the thread's previous sample, in nanoseconds; `None` if it was not
    /// measured.
    pub cpu_ns: Option<u64>,
    /// Outermost first. Beyond [`MAX_FRAMES`] the outermost are left out.
    pub frames: &'a [Frame],
    /// Whether outer frames are missing.
    pub cut: bool,
    /// Whether a frame could not be unwound.
    pub failed: bool,
}

/// The interpreter's number of a function. A function keeps its number while the sampler is on; two
/// functions never share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u64);

/// The name and place of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FunctionName<'n> {
    /// The shown name.
    pub name: &'n str,
    /// The source file; empty if unknown.
    pub file: &'n str,
    /// The line in it, from 1; 0 if unknown.
    pub line: u32,
}
