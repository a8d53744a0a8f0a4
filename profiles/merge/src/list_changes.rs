//! What changes in the lists and logs of one input.

use super::naming::HostNames;

/// What changes in the lists of one input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListChanges<'a> {
    pub(crate) names: &'a HostNames,
    pub(crate) offset_ns: i64,
    /// Threads of the inputs before it.
    pub(crate) first_thread: u64,
}
