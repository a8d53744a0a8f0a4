//! The parts of a stopwatch: laps, loops, and hints about the places of groups.
//!
//! Used by the stopwatch only. No function here reads a clock, allocates or panics.

use super::{LAPS, Probes, Reading, Registered, Run};

/// The time of one group in the present iteration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lap {
    pub(super) group: Option<&'static Registered>,
    /// Number of guards that hold it open.
    pub(super) holds: u32,
    /// The place + 1 of the lap that was the innermost one when this one was opened; 0 for none.
    pub(super) around: u8,
    pub(super) since: Reading,
    pub(super) ticks: u64,
    pub(super) blocked: u64,
    /// Number of spans that count.
    pub(super) spans: u64,
    pub(super) sums: Run,
}

impl Lap {
    pub(super) const NONE: Self = Self {
        group: None,
        holds: 0,
        around: 0,
        since: Reading::ZERO,
        ticks: 0,
        blocked: 0,
        spans: 0,
        sums: Run::NONE,
    };

    /// Starts a span and counts one entry from outside.
    #[inline]
    pub(super) fn start(&mut self, now: Reading) {
        (self.since, self.holds) = (now, 0);
        self.sums.ticks += 1;
    }

    #[inline]
    pub(super) fn is_of(&self, group: &'static Registered) -> bool {
        self.group.is_some_and(|known| std::ptr::eq(known, group))
    }

    /// Ends the running span.
    #[inline]
    pub(super) fn stop(&mut self, now: Reading) {
        if now.processor != self.since.processor {
            self.sums.moved += 1;
        } else if now.ticks < self.since.ticks {
            self.sums.discarded += 1;
        } else {
            self.ticks = self.ticks.saturating_add(now.ticks - self.since.ticks);
            self.spans += 1;
        }
        self.since = now;
    }

    /// Releases one guard; returns whether it was the last one.
    #[inline]
    pub(super) fn let_go(&mut self) -> bool {
        self.holds = self.holds.saturating_sub(1);
        self.holds == 0
    }

    /// Clears the measurements. The group, its guards and the start of the span stay.
    pub(super) fn clear(&mut self) {
        *self = Self {
            group: self.group,
            holds: self.holds,
            around: self.around,
            since: self.since,
            ..Self::NONE
        };
    }
}

/// A sequence of iterations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loop {
    pub(super) serial: u64,
    /// Whether an iteration has begun.
    pub(super) is_running: bool,
    /// Number of guards that let iterations end only on the program's request.
    pub(super) customs: u32,
    pub(super) probes: Probes,
    /// Number of live guards, and how many of them wait.
    pub(super) guards: u32,
    pub(super) blocking: u32,
    /// Laps of this iteration, the open ones among them, and the implied ones among them.
    pub(super) laps: u64,
    pub(super) open: u64,
    pub(super) implied: u64,
    /// The place + 1 of the innermost lap; 0 for none.
    pub(super) innermost: u8,
    pub(super) last: Reading,
    pub(super) ticks: u64,
    pub(super) blocked: u64,
    pub(super) cpu_since: Option<u64>,
    pub(super) cpu: Option<u64>,
}

impl Loop {
    pub(super) const NONE: Self = Self {
        serial: 0,
        is_running: false,
        customs: 0,
        probes: Probes::NONE,
        guards: 0,
        blocking: 0,
        laps: 0,
        open: 0,
        implied: 0,
        innermost: 0,
        last: Reading::ZERO,
        ticks: 0,
        blocked: 0,
        cpu_since: None,
        cpu: None,
    };

    #[inline]
    pub(super) const fn is_custom(&self) -> bool {
        self.customs > 0
    }

    /// Notes that a guard has left and that these laps have ended with it.
    #[inline]
    pub(super) fn leave(&mut self, ended: u64, waited: bool) {
        self.open &= !ended;
        self.guards = self.guards.saturating_sub(1);
        self.blocking = self.blocking.saturating_sub(u32::from(waited));
    }
}

/// The places at which groups were last found. The same groups are entered repeatedly, so a hint is
/// often right; it is verified before use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found([u8; FOUND]);

/// Number of hints: a power of two.
const FOUND: usize = 16;

impl Found {
    pub(super) const NONE: Self = Self([0; FOUND]);

    #[inline]
    fn slot(group: &'static Registered) -> usize {
        let address = std::ptr::from_ref(group).addr();
        ((address >> 5) ^ (address >> 9)) % FOUND
    }

    #[inline]
    pub(super) fn place(&self, group: &'static Registered) -> usize {
        self.0
            .get(Self::slot(group))
            .copied()
            .map_or(0, usize::from)
            % LAPS
    }

    #[inline]
    pub(super) fn note(&mut self, group: &'static Registered, place: usize) {
        let hint = u8::try_from(place).unwrap_or(0);
        self.0
            .get_mut(Self::slot(group))
            .into_iter()
            .for_each(|known| *known = hint);
    }
}
