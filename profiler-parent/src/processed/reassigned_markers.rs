//! Markers that one thread recorded for another, copied to the thread that they belong to.
//!
//! Filled in the first pass, so that a chunk is not read once for every thread that its markers
//! belong to. Invariant: a copied marker is in the profile, even if its chunk is evicted.

use std::io;

use profiler_core::internal::entry::MarkerEntry;

use super::stacks::NodeId;
use super::store::{Log, RowStore};

/// Size of the head of a copied marker in bytes: its node plus one, and its length.
const HEAD: usize = 16;

/// The markers that other threads recorded for one thread.
#[derive(Debug, Default)]
pub(super) struct ReassignedMarkers {
    log: Log,
}

impl ReassignedMarkers {
    /// Adds the bytes of a marker, and the node of its stack.
    pub(super) fn push(
        &mut self,
        store: &mut RowStore,
        entry: &[u8],
        node: Option<NodeId>,
    ) -> io::Result<()> {
        let node = node.map_or(0, |node| u64::from(node.0) + 1);
        self.log.push(
            store,
            &[
                &node.to_ne_bytes(),
                &(entry.len() as u64).to_ne_bytes(),
                entry,
            ],
        )
    }

    /// Calls `show` with every marker and the node of its stack plus one (0: none).
    pub(super) fn for_each(
        &self,
        store: &RowStore,
        mut show: impl FnMut(&MarkerEntry<'_>, u64),
    ) -> io::Result<()> {
        self.log.for_each(store, |mut bytes| {
            while let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() {
                let [node, len] = super::rows::row(head);
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                let (entry, others) = rest
                    .split_at_checked(len)
                    .ok_or(io::ErrorKind::InvalidData)?;
                if let Some(marker) = MarkerEntry::decode(entry) {
                    show(&marker, node);
                }
                bytes = others;
            }
            Ok(())
        })
    }
}
