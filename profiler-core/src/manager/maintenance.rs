//! The maintenance thread: all work on chunks that a recording thread should not do.
//!
//! One per recording process, from start to stop. It sleeps while no chunk is switched (and, with a
//! duration window, wakes a few times per window). Per pass: take large chunks back from idle
//! threads, list done chunks, enforce the allowance, destroy chunks outside the window, make the
//! next chunks ready, inform the listener. Page work happens without the lock, on chunks that no
//! other thread can see yet.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::chunks::{Acquired, NoChunk};
use super::{ChunkManager, ChunkManagerState};
use crate::ids::ChunkIndex;
use crate::pool::layout::SIZE_CLASSES;
use crate::time::{Anchor, Timestamp};

/// Ready chunks may take 1/`READY_SHARE` of the allowance.
const READY_SHARE: u64 = 8;
/// Minimum number of chunks made ready in place of larger ones that are unavailable.
const MINIMUM_OF_SMALLER: usize = 2;
/// Passes per duration window.
const PASSES_PER_WINDOW: u32 = 16;

/// Takes large chunks back from idle threads, and returns when to run again. Supplied by a higher
/// layer: only `record` knows which thread holds which chunk.
pub(crate) type Reclaim = Box<dyn FnMut(&ChunkManager) -> Option<Duration> + Send>;

/// The running thread; dropping it without [`Maintenance::stop`] leaves the thread running.
#[derive(Debug)]
pub(crate) struct Maintenance {
    manager: Arc<ChunkManager>,
    stop: Arc<AtomicBool>,
    thread: profiler_sys::QuietThread<()>,
}

impl Maintenance {
    /// Starts the thread. Its first pass makes the first chunks ready.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub(crate) fn start(
        manager: Arc<ChunkManager>,
        window: Option<Duration>,
        reclaim: Reclaim,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let body = {
            let manager = Arc::clone(&manager);
            let stop = Arc::clone(&stop);
            move || run(&manager, &stop, window, reclaim)
        };
        let thread = profiler_sys::spawn_quiet("profiler-chunks", body)?;
        Ok(Self {
            manager,
            stop,
            thread,
        })
    }

    /// Ends the thread and waits for it.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.manager.work.notify();
        let _ = self.thread.join();
    }
}

fn run(manager: &ChunkManager, stop: &AtomicBool, window: Option<Duration>, mut reclaim: Reclaim) {
    let pause = window.map(|window| (window / PASSES_PER_WINDOW).max(Duration::from_millis(1)));
    while !stop.load(Ordering::Acquire) {
        let next_check = reclaim(manager);
        pass(manager, window);
        let timeout = [pause, next_check].into_iter().flatten().min();
        manager.work.wait(timeout);
    }
}

/// One round of work.
pub(crate) fn pass(manager: &ChunkManager, window: Option<Duration>) {
    // Before done chunks are collected: a thread that ended before has handed everything over.
    let just_ended = manager.threads.take_ended(manager.pool());
    manager.obey_allowance();
    if let Some(oldest) = window.and_then(|window| window_start(manager, window)) {
        manager.destroy_all(|chunks| chunks.take_done_at_or_before(manager, oldest));
    }
    {
        let ChunkManagerState { chunks, rows } = &mut *manager.lock();
        rows.sweep(manager, chunks, just_ended);
    }
    restock(manager);
    manager.report(false);
}

/// The instant before which entries are outside the window.
pub(crate) fn window_start(manager: &ChunkManager, window: Duration) -> Option<Timestamp> {
    let converter = manager.pool().clock().converter(Anchor::take());
    let ticks = converter.ticks_in(u64::try_from(window.as_nanos()).unwrap_or(u64::MAX));
    Timestamp::now()
        .raw()
        .checked_sub(ticks)
        .map(Timestamp::from_raw)
}

/// Destroys ready chunks that no thread requested since the last call. Returns whether any larger
/// than the smallest are left.
pub(crate) fn clear_left_over_stock(manager: &ChunkManager) -> bool {
    for class in (0..SIZE_CLASSES).filter(|class| manager.ready.is_left_over(*class)) {
        manager
            .ready
            .drain(class)
            .into_iter()
            .for_each(|index| drop_ready(manager, index));
    }
    (1..SIZE_CLASSES).any(|class| manager.ready.count(class) > 0)
}

fn drop_ready(manager: &ChunkManager, index: ChunkIndex) {
    manager.destroy(index);
    manager.lock().chunks.note_change();
}

/// Makes chunks ready for the next switches. If no block of a class's size is left in one piece,
/// the next smaller class gets the chunks instead.
fn restock(manager: &ChunkManager) {
    let (_, allowed) = manager.pool().budget().used_and_allowed();
    let mut room = allowed.min(manager.lock().chunks.room()) / READY_SHARE;
    let mut missed = false;
    for class in (0..SIZE_CLASSES).rev() {
        let bytes = manager.pool().layout().class_bytes(class);
        let plan = manager.ready.plan(class);
        let stock = manager.ready.count(class);
        let affordable = usize::try_from(room / bytes).unwrap_or(usize::MAX);
        let wanted = plan
            .target
            .max(if missed { MINIMUM_OF_SMALLER } else { 0 })
            .min(affordable);
        let in_demand = plan.in_demand || missed;
        let made = (stock..wanted)
            .map_while(|_| make_ready(manager, class, in_demand))
            .count();
        missed = in_demand && stock + made == 0;
        room = room.saturating_sub(bytes.saturating_mul((stock + made) as u64));
    }
}

/// Makes one chunk ready; with `may_evict`, at the cost of the oldest released one.
fn make_ready(manager: &ChunkManager, class: u8, may_evict: bool) -> Option<()> {
    let index = take_chunk(manager, class, may_evict)?;
    let slot = manager.pool().slot(index)?;
    if manager
        .pool()
        .map()
        .populate(manager.pool().chunk_extent(slot))
        .is_err()
    {
        manager.destroy(index);
        return None;
    }
    match manager.ready.offer(class, index) {
        Ok(()) => Some(()),
        Err(index) => {
            manager.destroy(index);
            None
        }
    }
}

fn take_chunk(manager: &ChunkManager, class: u8, may_evict: bool) -> Option<ChunkIndex> {
    manager.lock().chunks.collect_done(manager);
    if may_evict {
        acquire(manager, class).ok()
    } else {
        manager.lock().chunks.take_free(manager, class).ok()
    }
}

/// Returns a chunk, if necessary at the cost of the oldest released ones.
pub(crate) fn acquire(manager: &ChunkManager, class: u8) -> Result<ChunkIndex, NoChunk> {
    let mut wanted = false;
    loop {
        let acquired = manager.lock().chunks.acquire(manager, class, &mut wanted)?;
        match acquired {
            Acquired::Chunk(index) => return Ok(index),
            // Destroying more would free nothing.
            Acquired::Destroy(index) if !manager.destroy(index) => return Err(NoChunk::NoBudget),
            Acquired::Destroy(_) => {}
        }
    }
}
