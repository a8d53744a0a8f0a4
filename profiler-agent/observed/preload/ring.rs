//! The ring of samples: claims pages, fills them, publishes them.
//!
//! Called by the signal handler only. The life of a page is drawn in [`crate::layout`]. Nothing
//! waits. The states of the pages may contain anything, because other processes may have written
//! them: a wrong state costs samples, and every page number is checked. The models below check the
//! protocol between handlers and the session under all interleavings; `.ci/run loom` runs them.

use core::sync::atomic::{AtomicU8, Ordering};

use crate::layout::{Control, FIRST_RING_PAGES, RING_PAGES, SAMPLE_PAGES};

/// The state of a page: an atomic, or that of a model.
pub(crate) trait State {
    fn load(&self, order: Ordering) -> u8;
    fn store(&self, value: u8, order: Ordering);
    /// Changes the value if it is `from`.
    fn change(&self, from: u8, to: u8, order: Ordering) -> bool;
}

impl State for AtomicU8 {
    fn load(&self, order: Ordering) -> u8 {
        self.load(order)
    }

    fn store(&self, value: u8, order: Ordering) {
        self.store(value, order);
    }

    fn change(&self, from: u8, to: u8, order: Ordering) -> bool {
        self.compare_exchange(from, to, order, Ordering::Relaxed)
            .is_ok()
    }
}

/// The pages of one sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimed {
    /// The numbers of the pages, of which the first `len` are valid.
    pub(crate) pages: [u16; SAMPLE_PAGES],
    /// The value of `claimed` of each page.
    pub(crate) claims: [u8; SAMPLE_PAGES],
    pub(crate) len: usize,
}

impl Claimed {
    /// The numbers of the pages.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u16> + '_ {
        self.pages.iter().copied().take(self.len)
    }
}

/// The pages that may be used: what exists from the start, and what the session has granted.
fn granted(control: &Control) -> usize {
    let more = usize::from(control.granted.load(Ordering::Relaxed)) * 16;
    (FIRST_RING_PAGES + more).min(RING_PAGES)
}

/// Claims free pages from the page `first` on, lowest numbers first, at most `wanted`. The result
/// may have fewer, or none.
pub(crate) fn claim(control: &Control, wanted: usize, first: usize) -> Claimed {
    let pages = granted(control);
    let (claimed, freed) = (&control.claimed, &control.freed);
    let states = claimed.iter().zip(freed).take(pages);
    claim_of(states.enumerate().skip(first), wanted)
}

/// The same with the numbers of the pages and their states: `claimed` and `freed`.
fn claim_of<'a, S: State + 'a>(
    states: impl Iterator<Item = (usize, (&'a S, &'a S))>,
    wanted: usize,
) -> Claimed {
    let mut claimed = Claimed {
        pages: [0; SAMPLE_PAGES],
        claims: [0; SAMPLE_PAGES],
        len: 0,
    };
    let wanted = wanted.min(SAMPLE_PAGES);
    for (page, (state, freed)) in states {
        if claimed.len >= wanted {
            break;
        }
        if let Some(claim) = claim_page(state, freed) {
            let at = claimed.len;
            if let (Some(number), Some(place)) =
                (claimed.pages.get_mut(at), claimed.claims.get_mut(at))
            {
                (*number, *place) = (page as u16, claim);
                claimed.len = at.wrapping_add(1);
            }
        }
    }
    claimed
}

/// Claims a page if it is free; returns the new value of `claimed`.
fn claim_page<S: State>(state: &S, freed: &S) -> Option<u8> {
    // Acquires the session's reads of the page, which happened before it was freed.
    let free = freed.load(Ordering::Acquire);
    let claim = free.wrapping_add(1);
    state
        .change(free, claim, Ordering::Acquire)
        .then_some(claim)
}

/// Publishes a sample, all of whose pages are filled.
pub(crate) fn publish(control: &Control, claimed: &Claimed) {
    publish_in(&control.published, claimed);
}

/// The same with the states of the pages.
fn publish_in<S: State>(published: &[S], claimed: &Claimed) {
    let states = |page: u16| published.get(usize::from(page));
    for (page, claim) in claimed.pages().zip(claimed.claims).skip(1) {
        if let Some(published) = states(page) {
            published.store(claim.wrapping_sub(1), Ordering::Relaxed); // not a first page
        }
    }
    let first = claimed.pages().zip(claimed.claims).next();
    if let Some((page, claim)) = first
        && let Some(published) = states(page)
    {
        published.store(claim, Ordering::Release);
    }
}

/// Handlers claim, fill and publish; the session reads and frees. A page has its writer's mark in a
/// cell that loom watches, so two writers of a page, or a reader beside a writer, fail the model.
#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU8 as Model, fence};
    use loom::thread;

    impl State for Model {
        fn load(&self, order: Ordering) -> u8 {
            self.load(order)
        }

        fn store(&self, value: u8, order: Ordering) {
            self.store(value, order);
        }

        fn change(&self, from: u8, to: u8, order: Ordering) -> bool {
            self.compare_exchange(from, to, order, Ordering::Relaxed)
                .is_ok()
        }
    }

    /// The pages of a small ring. The counters begin before they wrap.
    struct Ring<const PAGES: usize> {
        claimed: [Model; PAGES],
        published: [Model; PAGES],
        freed: [Model; PAGES],
        /// The writer, the number of further pages, and the first of them.
        pages: [UnsafeCell<(u8, u8, u8)>; PAGES],
    }

    const START: u8 = 255;

    impl<const PAGES: usize> Ring<PAGES> {
        fn new() -> Arc<Self> {
            let states = |value: u8| std::array::from_fn(|_| Model::new(value));
            Arc::new(Self {
                claimed: states(START),
                published: states(START.wrapping_sub(1)),
                freed: states(START),
                pages: std::array::from_fn(|_| UnsafeCell::new((0, 0, 0))),
            })
        }

        /// What a handler does. True if the sample was stored.
        fn sample(&self, writer: u8, wanted: usize) -> bool {
            let claimed = claim_of(self.claimed.iter().zip(&self.freed).enumerate(), wanted);
            let more = (claimed.len as u8).wrapping_sub(1);
            for page in claimed.pages() {
                // SAFETY: loom checks that nobody else uses the page.
                self.pages[usize::from(page)]
                    .with_mut(|place| unsafe { *place = (writer, more, claimed.pages[1] as u8) });
            }
            publish_in(&self.published, &claimed);
            claimed.len > 0
        }

        /// What the session does in a pass, as `file.rs` does it. Returns the writers.
        fn drain(&self, own: &mut [u8; PAGES]) -> Vec<u8> {
            let copy = |states: &[Model; PAGES]| -> [u8; PAGES] {
                std::array::from_fn(|page| states[page].load(Ordering::Relaxed))
            };
            let (claimed, published) = (copy(&self.claimed), copy(&self.published));
            fence(Ordering::Acquire);
            let (mut writers, before) = (Vec::new(), *own);
            for page in 0..PAGES {
                if published[page] != claimed[page] || before[page] == claimed[page] {
                    continue;
                }
                let read = |page: usize| {
                    // SAFETY: loom checks that nobody writes to the page.
                    self.pages[page].with(|place| unsafe { *place })
                };
                let (writer, more, second) = read(page);
                own[page] = claimed[page];
                if more > 0 {
                    assert_eq!(
                        read(usize::from(second)).0,
                        writer,
                        "a sample has its own pages"
                    );
                    own[usize::from(second)] = own[usize::from(second)].wrapping_add(1);
                }
                writers.push(writer);
            }
            for page in 0..PAGES {
                self.freed[page].store(own[page], Ordering::Release);
            }
            writers
        }
    }

    #[test]
    fn every_page_has_one_user_at_a_time_and_no_sample_is_lost_or_read_twice() {
        loom::model(|| {
            let ring = Ring::<2>::new();
            let handlers = [(1, 2), (2, 1)].map(|(writer, wanted)| {
                let ring = ring.clone();
                thread::spawn(move || ring.sample(writer, wanted))
            });
            let mut own = [START; 2];
            let mut read = ring.drain(&mut own);
            let stored = handlers.map(|handler| handler.join().unwrap());
            read.extend(ring.drain(&mut own));
            read.sort_unstable();
            let expected: Vec<u8> = [1, 2]
                .into_iter()
                .zip(stored)
                .filter_map(|(writer, stored)| stored.then_some(writer))
                .collect();
            assert_eq!(read, expected);
            assert!(ring.drain(&mut own).is_empty());
        });
    }

    #[test]
    fn a_freed_page_is_used_again_while_the_session_reads() {
        loom::model(|| {
            let ring = Ring::<1>::new();
            let handler = {
                let ring = ring.clone();
                thread::spawn(move || [ring.sample(1, 1), ring.sample(2, 1)])
            };
            let mut own = [START];
            let mut read = ring.drain(&mut own);
            read.extend(ring.drain(&mut own));
            let stored = handler.join().unwrap();
            read.extend(ring.drain(&mut own));
            assert_eq!(
                read.len(),
                stored.into_iter().filter(|stored| *stored).count()
            );
        });
    }
}
