//! A writer of samples that writes none, for programs with a sampler of their own.

use crate::category::CategoryPair;
use crate::ids::{DefinitionId, ThreadId};
use crate::time::Timestamp;

/// Most frames of one stack.
pub const MAX_FRAMES: usize = 1024;

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// Code of a module, as a byte offset from where the module begins.
    Code(DefinitionId, u64),
    /// Code that belongs to no module.
    Unknown(u64),
    /// A label that the program set.
    Label(DefinitionId),
}

/// A file whose code ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleDefinition {
    /// Its file.
    pub path: String,
    /// The linker's identity of its contents; empty if it has none.
    pub build_id: Vec<u8>,
    /// Where its address 0 is in the process.
    pub base: u64,
    /// Its first mapped address.
    pub start: u64,
    /// The address after its last.
    pub end: u64,
}

/// `None`.
pub fn define_module(_module: &ModuleDefinition) -> Option<DefinitionId> {
    None
}

/// `None`.
pub fn define_label(
    _name: &str,
    _about: impl Into<CategoryPair>,
    _file: &str,
    _line: u32,
) -> Option<DefinitionId> {
    None
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// When.
    pub at: Timestamp,
    /// Processor time since the thread's sample before, in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// Outermost first.
    pub frames: &'a [Frame],
    /// Whether frames further out are missing.
    pub cut: bool,
    /// Whether unwinding came to a frame that it could not leave.
    pub failed: bool,
}

/// Drops all samples.
#[derive(Debug, Default)]
pub struct SampleWriter(());

impl SampleWriter {
    /// A writer.
    pub fn new() -> Self {
        Self(())
    }

    /// False: the sample is dropped.
    pub fn sample(&mut self, _thread: ThreadId, _sample: &Sample<'_>) -> bool {
        false
    }

    /// False: the sample is dropped.
    pub fn same_as_before(&mut self, _thread: ThreadId, _at: Timestamp) -> bool {
        false
    }

    /// False: the sample is dropped.
    pub fn repeat(&mut self, _thread: ThreadId, _at: Timestamp, _cpu_ns: Option<u64>) -> bool {
        false
    }

    /// Does nothing.
    pub fn keep_only(&mut self, _is_there: impl Fn(ThreadId) -> bool) {}
}
