//! Paused ranges: recorded in the pool, so that a reader can explain gaps in the data.

use crate::manager::ChunkManager;
use crate::time::Timestamp;

/// Records that a pause began or ended now. Without budget for the page the pause is not shown.
pub(super) fn note(manager: &ChunkManager, paused: bool) {
    let now = Timestamp::now();
    let charged = manager.lock().rows.charge_pauses(manager);
    let Some(pauses) = manager.pool().pauses().filter(|_| charged) else {
        return;
    };
    if paused {
        pauses.open(now)
    } else {
        pauses.close(now)
    }
}
