//! The memory into which the system writes the records of one processor.
//!
//! Used by the reader of the records and by `process_events`. Layout of a ring's memory: one page
//! with the two positions, then a power of two of pages with records. The system writes at
//! `data_head`, and never beyond `data_tail` plus the length; this process reads from `data_tail`
//! on and then raises it.
//!
//! Invariants: bytes are copied before they are decoded, between an acquire load of `data_head` and
//! a release store of `data_tail`; only one thread reads a ring, because reading needs `&mut`.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::event::{Event, EventError};
use crate::record::{Record, Records};

/// The bytes of the ring of a processor: the usual size, and the smallest one, if the user may not
/// lock more memory. The usual one is what the system's default setting permits for each processor.
const RING_BYTES: (usize, usize) = (1 << 19, 1 << 15);
/// The maximum number of processors.
const MAX_PROCESSORS: i32 = 1024;

/// The rings of all processors.
#[derive(Debug)]
pub struct Rings {
    all: Vec<(i32, Ring)>,
    /// The bytes that were copied from a ring.
    copied: Vec<u8>,
    budget: Arc<EventBudget>,
}

/// Counts the open events, and limits their number.
#[derive(Debug)]
pub(crate) struct EventBudget {
    open: AtomicUsize,
    most: usize,
}

impl EventBudget {
    /// Takes a number of events from the budget, if it has them.
    pub(crate) fn take(&self, events: usize) -> bool {
        let more = |open: usize| open.checked_add(events).filter(|all| *all <= self.most);
        let taken = self
            .open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok()
    }

    /// Gives events back.
    pub(crate) fn give_back(&self, events: usize) {
        self.open.fetch_sub(events, Ordering::Relaxed);
    }
}

impl Rings {
    /// Makes a ring for each processor. At most `most_events` events of threads may write into
    /// them.
    ///
    /// # Errors
    /// If the system refuses events or memory.
    pub fn open(most_events: usize) -> Result<Self, EventError> {
        let mut bytes = RING_BYTES.0;
        let all = loop {
            match rings_of(bytes) {
                Ok(all) => break all,
                // All rings are smaller then: the user may lock a limited number of bytes.
                Err(EventError::Exhausted) if bytes > RING_BYTES.1 => bytes /= 2,
                Err(error) => return Err(error),
            }
        };
        let budget = Arc::new(EventBudget {
            open: AtomicUsize::new(0),
            most: most_events,
        });
        Ok(Self {
            all,
            copied: Vec::new(),
            budget,
        })
    }

    /// Passes all records that the rings have at present to `each`, in the order of each ring.
    pub fn read(&mut self, mut each: impl FnMut(Record<'_>)) {
        for (_, ring) in &mut self.all {
            ring.take(&mut self.copied);
            Records::new(&self.copied).for_each(&mut each);
        }
    }

    /// The bytes of memory of all rings.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.all.iter().map(|(_, ring)| ring.memory.bytes).sum()
    }

    pub(crate) fn processors(&self) -> impl Iterator<Item = (i32, &Event)> {
        self.all.iter().map(|(number, ring)| (*number, &ring.owner))
    }

    pub(crate) const fn budget(&self) -> &Arc<EventBudget> {
        &self.budget
    }
}

/// A ring of this number of bytes for each processor.
fn rings_of(bytes: usize) -> Result<Vec<(i32, Ring)>, EventError> {
    let mut all = Vec::new();
    for processor in 0..configured_processors() {
        match Ring::open(processor, bytes) {
            Ok(ring) => all.push((processor, ring)),
            Err(EventError::Unsupported) if !all.is_empty() => {} // the processor is offline
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// The number of processors that the system may have.
#[allow(unsafe_code)]
fn configured_processors() -> i32 {
    // SAFETY: reads a number.
    let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    i32::try_from(configured)
        .unwrap_or(1)
        .clamp(1, MAX_PROCESSORS)
}

#[derive(Debug)]
struct Ring {
    owner: Event,
    memory: RingMemory,
}

impl Ring {
    fn open(processor: i32, bytes: usize) -> Result<Self, EventError> {
        let owner = Event::of_ring(processor)?;
        let memory = RingMemory::map(&owner, bytes)?;
        Ok(Self { owner, memory })
    }

    /// Moves the records that the ring has into `room`.
    fn take(&mut self, room: &mut Vec<u8>) {
        room.clear();
        let tail = self.memory.tail().load(Ordering::Relaxed);
        let head = self.memory.head().load(Ordering::Acquire);
        let bytes = self.memory.bytes;
        let new = usize::try_from(head.wrapping_sub(tail)).unwrap_or(usize::MAX);
        if new <= bytes {
            let start = usize::try_from(tail % bytes as u64).unwrap_or(0);
            let first = new.min(bytes - start);
            self.memory.copy(start, first, room);
            self.memory.copy(0, new - first, room);
        }
        self.memory.tail().store(head, Ordering::Release);
    }
}

/// The mapped memory of a ring.
#[derive(Debug)]
struct RingMemory {
    page: NonNull<perf_event_mmap_page>,
    /// The bytes of the first page.
    first: usize,
    /// The bytes for records.
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone, and any thread may read it.
#[allow(unsafe_code)]
unsafe impl Send for RingMemory {}

impl RingMemory {
    #[allow(unsafe_code)]
    fn map(owner: &Event, bytes: usize) -> Result<Self, EventError> {
        let first = rustix::param::page_size();
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let descriptor = owner.descriptor()?;
        // SAFETY: the system chooses the place, so no other memory is replaced.
        let mapped = unsafe {
            mmap(
                std::ptr::null_mut(),
                first + bytes,
                rights,
                MapFlags::SHARED,
                descriptor,
                0,
            )
        };
        let page = mapped.map(|address| NonNull::new(address.cast()));
        match page {
            Ok(Some(page)) => Ok(Self { page, first, bytes }),
            // The system reports this also if the memory that a user may lock is used up.
            _ => Err(EventError::Exhausted),
        }
    }

    #[allow(unsafe_code)]
    fn head(&self) -> &AtomicU64 {
        // SAFETY: the page is mapped while this value lives.
        let place = unsafe { &raw mut (*self.page.as_ptr()).data_head };
        // SAFETY: the address is aligned, and both sides only use it atomically.
        unsafe { AtomicU64::from_ptr(place) }
    }

    #[allow(unsafe_code)]
    fn tail(&self) -> &AtomicU64 {
        // SAFETY: the page is mapped while this value lives.
        let place = unsafe { &raw mut (*self.page.as_ptr()).data_tail };
        // SAFETY: the address is aligned, and both sides only use it atomically.
        unsafe { AtomicU64::from_ptr(place) }
    }

    /// Adds `count` bytes from `start` on to `room`. The system does not write to them: they are
    /// between `data_tail` and `data_head`.
    #[allow(unsafe_code)]
    fn copy(&self, start: usize, count: usize, room: &mut Vec<u8>) {
        let count = count.min(self.bytes.saturating_sub(start));
        // SAFETY: the records begin after the first page, within the mapping.
        let records = unsafe { self.page.as_ptr().cast::<u8>().add(self.first) };
        // SAFETY: `start` is at most the number of bytes for records.
        let from = unsafe { records.add(start.min(self.bytes)) };
        // SAFETY: `count` bytes from there on are mapped, and nothing writes to them.
        room.extend_from_slice(unsafe { std::slice::from_raw_parts(from, count) });
    }
}

impl Drop for RingMemory {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing refers to it any more.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), self.first + self.bytes) };
    }
}
