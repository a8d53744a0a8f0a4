//! A writer that drops all samples, for programs with a sampler of their own.

use crate::category::CategoryPair;
use crate::ids::{DefinitionId, ThreadId};
pub use crate::sample_types::{Frame, MAX_FRAMES, ModuleDefinition, Sample};
use crate::time::Timestamp;

/// Always `None`: nothing is defined.
pub fn define_module(_module: &ModuleDefinition) -> Option<DefinitionId> {
    None
}

/// Always `None`: nothing is defined.
pub fn define_label(
    _name: &str,
    _about: impl Into<CategoryPair>,
    _file: &str,
    _line: u32,
) -> Option<DefinitionId> {
    None
}

/// A writer that drops all samples.
#[derive(Debug, Default)]
pub struct SampleWriter(());

impl SampleWriter {
    /// Makes a writer that drops all samples.
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
