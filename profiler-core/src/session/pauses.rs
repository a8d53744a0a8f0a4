//! Paused ranges: noted in the pool, so that a reader can show why there is nothing.

use crate::manager::ChunkManager;
use crate::time::Timestamp;

/// Notes that a pause began or ended now. Without budget for the page it is not shown.
pub(super) fn note(manager: &ChunkManager, paused: bool) {
    let now = Timestamp::now();
    let booked = manager.lock().rows.book_pauses(manager);
    let Some(pauses) = manager.pool().pauses().filter(|_| booked) else { return };
    if paused { pauses.open(now) } else { pauses.close(now) }
}
