//! The only decoder of pools: turns their bytes into typed events.
//!
//! Called by the profile writers, by the parent's accounting and by the tests. The pool may be the
//! process's own, that of a live, frozen or dead child, or a file left behind by a process that
//! ended. The decoder reads through [`ByteSource`] into its own memory, so checked data cannot
//! change. It trusts no data: any bytes give either an error or well-formed values, never a panic,
//! and take no more memory than the pool's length.
//!
//! Reading a pool that is being written needs no cooperation: see the protocols drawn in
//! `pool::slot` and `pool::definitions`.

mod chunk;
mod definitions;
mod directory;
mod follow;
pub(crate) mod groups;
mod panics;
mod record_window;
mod snapshot;
mod source;
pub(crate) mod tables;

pub use chunk::{ChunkBuffer, Entries};
pub use definitions::{Definitions, MarkerType};
pub use directory::ChunkInfo;
pub use follow::{ChunkIdentity, Followed, Follower, Progress};
pub use panics::PanicInfo;
pub use snapshot::{PoolReader, Snapshot};
pub use source::ByteSource;
pub use tables::{CounterInfo, ThreadInfo};

#[doc(inline)]
pub use crate::pool::definitions::{
    CategoryDefinition, CounterDefinition, LabelDefinition, ModuleDefinition,
};
use crate::pool::header::{Header, HeaderError};

/// The reason why a pool could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The header is not one this build understands.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The bytes could not be read.
    #[error("cannot read the pool: {0}")]
    Io(#[from] std::io::Error),
}

/// Reads and checks the header of a pool.
///
/// # Errors
/// [`HeaderError`].
pub fn read_header(source: &impl ByteSource) -> Result<Header, HeaderError> {
    let mut page = vec![0; 4096];
    let len = source.len()?;
    if len < 4096 {
        return Err(HeaderError::Damaged("shorter than a header"));
    }
    source.read_at(&mut page, 0)?;
    Header::parse(&page, len)
}
