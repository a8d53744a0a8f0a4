//! The ring of samples: claims pages, fills them, publishes them.
//!
//! Called by the signal handler only. The life of a page is drawn in [`crate::layout`]. Nothing
//! waits. The states of the pages may contain anything, because other processes may have written
//! them: a wrong state costs samples, and every page number is checked.

use core::sync::atomic::{AtomicU8, Ordering};

use crate::layout::{Control, FIRST_RING_PAGES, RING_PAGES, SAMPLE_PAGES};

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

/// Claims free pages, lowest numbers first, at most `wanted`. The result may have fewer, or none.
pub(crate) fn claim(control: &Control, wanted: usize) -> Claimed {
    let mut claimed = Claimed {
        pages: [0; SAMPLE_PAGES],
        claims: [0; SAMPLE_PAGES],
        len: 0,
    };
    let wanted = wanted.min(SAMPLE_PAGES);
    let states = control.claimed.iter().zip(&control.freed);
    for (page, (state, freed)) in states.take(granted(control)).enumerate() {
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
fn claim_page(state: &AtomicU8, freed: &AtomicU8) -> Option<u8> {
    // Acquires the session's reads of the page, which happened before it was freed.
    let free = freed.load(Ordering::Acquire);
    let claim = free.wrapping_add(1);
    state
        .compare_exchange(free, claim, Ordering::Acquire, Ordering::Relaxed)
        .ok()
        .map(|_| claim)
}

/// Publishes a sample, all of whose pages are filled.
pub(crate) fn publish(control: &Control, claimed: &Claimed) {
    let states = |page: u16| control.published.get(usize::from(page));
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
