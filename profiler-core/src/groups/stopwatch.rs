//! A thread's stopwatch: the groups that the thread works for, and their times since the iteration
//! began.
//!
//! A pure state machine over a [`Clock`]: one per thread, driven by `groups::local`, tested with an
//! injected clock. It is independent of pools.
//!
//! ```text
//! loop 0       enter A ─┬─ enter B ─ exit B ─┬─ exit A = end ─▶ a run for A, B, thread, process
//!                       │                    │
//! loop 1                └ nested: A is paused; iterations of its own ┘
//! ```
//!
//! - A **lap** is a group in the present iteration of one loop. The first guard opens it, further
//!   guards hold it open, and the last guard to leave ends it. Guards may leave in any order.
//! - The laps of the thread and the process are open as long as any other lap is.
//! - A **loop** is a sequence of iterations: the thread's own, or a loop nested inside one
//!   iteration. A nested loop pauses all laps around it, so that nothing is counted twice, and each
//!   paused lap counts the pause.
//! - An iteration **ends** when its last guard leaves, or, in a custom loop, when the program ends
//!   it.
//!
//! Processor time is read at the beginning and the end of an iteration, and divided among the
//! groups in proportion to their unblocked time. `Loop::ticks` grows by every forward step between
//! two readings of the clock. It is therefore at least the sum of any laps that exclude each other,
//! and their shares never exceed the whole, even if the clock jumps. Nothing is allocated, and no
//! panic is possible: there is room for [`LAPS`] laps and [`LOOPS`] loops, and laps and loops
//! without room are counted.

mod loops;
mod run;
mod state;

use self::state::{Found, Lap, Loop};
use super::clock::{Clock, Reading};
use super::registered::Registered;
use crate::group_kind::Probes;
use crate::pool::live::group::Run;

/// Maximum number of laps in all loops of a thread together: bits of a word.
pub(crate) const LAPS: usize = 64;
/// Maximum depth of loops inside each other.
pub(crate) const LOOPS: usize = 8;

/// The laps that a guard holds open, and their loop. Two words, so that a call returns them in
/// registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owned {
    laps: u64,
    /// Bits 1 to 63: the loop's unique number. Bit 0: the thread waits until the guard leaves. 0 if
    /// nothing was entered.
    place: u64,
}

impl Owned {
    /// Nothing was entered, so leaving does nothing.
    pub(crate) const NOTHING: Self = Self { laps: 0, place: 0 };

    #[inline(always)]
    fn new(laps: u64, serial: u64, waits: bool) -> Self {
        Self {
            laps,
            place: serial << 1 | u64::from(waits),
        }
    }

    #[inline(always)]
    pub(crate) const fn is_nothing(self) -> bool {
        self.place == 0
    }

    /// The two words. Owns nothing, so a copy is harmless.
    pub(crate) const fn to_words(self) -> [u64; 2] {
        [self.laps, self.place]
    }

    /// The guard of two words. Every pair of words is valid: laps and loops that do not exist are
    /// ignored.
    pub(crate) const fn from_words([laps, place]: [u64; 2]) -> Self {
        Self { laps, place }
    }

    #[inline(always)]
    const fn serial(self) -> u64 {
        self.place >> 1
    }

    #[inline(always)]
    const fn waits(self) -> bool {
        self.place & 1 != 0
    }
}

/// The stopwatch; the head of this file describes it.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    laps: [Lap; LAPS],
    /// Laps of all loops.
    used: u64,
    /// The innermost loop.
    inner: Loop,
    /// The loops around it, the outermost first; `level` of them.
    around: [Loop; LOOPS - 1],
    level: usize,
    serial: u64,
    found: Found,
}

/// Result of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The iteration goes on.
    Inner,
    /// The iteration is over.
    Outermost,
}

fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        next
    })
}

/// The place of a lap, plus one.
#[inline(always)]
fn number_of(place: usize) -> u8 {
    u8::try_from(place + 1).unwrap_or(0)
}

/// The laps that end when a guard with these laps leaves; implied laps end with the last guard.
#[inline]
fn ended_by(laps: &mut [Lap; LAPS], it: &Loop, held: u64) -> u64 {
    if it.guards <= 1 {
        return u64::MAX;
    }
    let ended = bits(held).filter(|place| laps.get_mut(*place).is_some_and(Lap::let_go));
    ended.fold(0, |ended, place| ended | 1_u64 << place) & !it.implied
}

impl Stopwatch {
    pub(crate) const fn new() -> Self {
        Self {
            laps: [Lap::NONE; LAPS],
            used: 0,
            inner: Loop {
                serial: 1,
                ..Loop::NONE
            },
            around: [Loop::NONE; LOOPS - 1],
            level: 0,
            serial: 1,
            found: Found::NONE,
        }
    }

    /// Resets the stopwatch; guards that are still alive have no effect afterwards. Works in place,
    /// because a stopwatch is larger than what may be left of a small stack.
    pub(crate) fn reset(&mut self) {
        self.serial += 1;
        self.laps.fill(Lap::NONE);
        self.around.fill(Loop::NONE);
        self.inner = Loop {
            serial: self.serial,
            ..Loop::NONE
        };
        (self.used, self.level, self.found) = (0, 0, Found::NONE);
    }

    /// Enters groups, all at the same instant. `waits` says whether the thread waits until the
    /// guard leaves. Groups that are already entered are held open; if all are, and the guard does
    /// not wait, no clock is read. `implied` returns the groups that are open with any other.
    #[inline]
    pub(crate) fn enter<C: Clock>(
        &mut self,
        clock: &C,
        probes: Probes,
        implied: impl FnOnce() -> [Option<&'static Registered>; 2],
        groups: impl Iterator<Item = &'static Registered> + Clone,
        waits: bool,
    ) -> Owned {
        let mut each = groups.clone();
        if let (Some(group), None, false) = (each.next(), each.next(), waits)
            && let Some(owned) = self.enter_again(clock, group)
        {
            return owned;
        }
        self.enter_anew(clock, probes, implied, groups, waits)
    }

    /// Enters one group that this iteration has already seen, inside others: the shortest path for
    /// the most frequent case.
    #[inline]
    fn enter_again<C: Clock>(&mut self, clock: &C, group: &'static Registered) -> Option<Owned> {
        let place = self.found.place(group);
        let bit = 1_u64 << place;
        let is_it = self.laps.get(place).is_some_and(|lap| lap.is_of(group));
        if !is_it || self.inner.laps & bit == 0 || self.inner.guards == 0 {
            return None;
        }
        let now = (self.inner.open & bit == 0).then(|| self.read(clock));
        let lap = self.laps.get_mut(place)?;
        if let Some(now) = now {
            lap.start(now);
            lap.around = self.inner.innermost;
            self.inner.innermost = number_of(place);
        }
        lap.holds = lap.holds.saturating_add(1);
        self.inner.open |= bit;
        self.inner.guards = self.inner.guards.saturating_add(1);
        Some(Owned::new(bit, self.inner.serial, false))
    }

    #[inline(never)]
    fn enter_anew<C: Clock>(
        &mut self,
        clock: &C,
        probes: Probes,
        implied: impl FnOnce() -> [Option<&'static Registered>; 2],
        groups: impl Iterator<Item = &'static Registered> + Clone,
        waits: bool,
    ) -> Owned {
        if groups.clone().next().is_none() && (!waits || self.inner.guards == 0) {
            return Owned::NOTHING;
        }
        let all_open = |laps: u64, group| Some(laps | 1_u64 << self.find(self.inner.open, group)?);
        let held = groups.clone().try_fold(0, all_open).filter(|_| !waits);
        let laps = held.unwrap_or_else(|| {
            let before = self.inner.open;
            let laps = self.open_all(clock, probes, implied, groups.clone());
            if !waits {
                groups.for_each(|group| self.put_innermost(group, before));
            }
            laps
        });
        self.each(laps, |lap| lap.holds = lap.holds.saturating_add(1));
        self.inner.guards = self.inner.guards.saturating_add(1);
        self.inner.blocking = self.inner.blocking.saturating_add(u32::from(waits));
        Owned::new(laps, self.inner.serial, waits)
    }

    /// Opens the laps of these groups unless they are open, and returns the bits of all of them.
    #[inline]
    fn open_all<C: Clock>(
        &mut self,
        clock: &C,
        probes: Probes,
        implied: impl FnOnce() -> [Option<&'static Registered>; 2],
        groups: impl Iterator<Item = &'static Registered>,
    ) -> u64 {
        let now = self.begin_or_read(clock, probes);
        if self.inner.guards == 0 {
            let opened = implied()
                .into_iter()
                .flatten()
                .fold(0, |laps, group| laps | self.open(group, now));
            self.inner.implied |= opened;
        }
        groups.fold(0, |laps, group| laps | self.open(group, now))
    }

    /// Makes a group the innermost one, unless it was among the laps that were open `before`.
    fn put_innermost(&mut self, group: &'static Registered, before: u64) {
        let opened = self.inner.open & !before;
        let innermost = self.inner.innermost;
        let Some(place) = self.find(opened, group) else {
            return;
        };
        if let Some(lap) = self.laps.get_mut(place) {
            lap.around = innermost;
            self.inner.innermost = number_of(place);
        }
    }

    /// The group that was entered last of those that the thread is in. Does not count the groups of
    /// the thread, of the process and of what it waits for, nor those around a nested loop.
    #[inline(always)]
    pub(crate) fn innermost(&self) -> Option<&'static Registered> {
        let place = usize::from(self.inner.innermost).checked_sub(1)?;
        self.laps.get(place)?.group
    }

    /// Finds the innermost lap anew, if the one that was it has ended.
    #[inline(always)]
    fn leave_innermost(&mut self) {
        for _ in 0..LAPS {
            let Some(place) = usize::from(self.inner.innermost).checked_sub(1) else {
                return;
            };
            if self.inner.open & (1 << place) != 0 {
                return;
            }
            self.inner.innermost = self.laps.get(place).map_or(0, |lap| lap.around);
        }
        self.inner.innermost = 0;
    }

    /// Finds the place of a group among these laps.
    #[inline]
    fn find(&self, among: u64, group: &'static Registered) -> Option<usize> {
        bits(among).find(|place| self.laps.get(*place).is_some_and(|lap| lap.is_of(group)))
    }

    /// Opens a group's lap unless it is open, and returns its bit. Returns nothing if there is no
    /// room; the tick is counted nevertheless.
    #[inline]
    fn open(&mut self, group: &'static Registered, now: Reading) -> u64 {
        let free = (self.used != u64::MAX).then_some(self.used.trailing_ones() as usize);
        let Some(place) = self.find(self.inner.laps, group).or(free) else {
            group.keep(1);
            return 0;
        };
        let bit = 1 << place;
        if self.inner.open & bit != 0 {
            return bit;
        }
        let Some(lap) = self.laps.get_mut(place) else {
            return 0;
        };
        if self.inner.laps & bit == 0 {
            *lap = Lap {
                group: Some(group),
                ..Lap::NONE
            };
        }
        lap.start(now);
        self.found.note(group, place);
        self.used |= bit;
        self.inner.laps |= bit;
        self.inner.open |= bit;
        bit
    }

    /// Leaves the groups that a guard has entered.
    #[inline]
    pub(crate) fn exit<C: Clock>(&mut self, clock: &C, owned: Owned) -> Exit {
        if self.exit_one(clock, owned) {
            return Exit::Inner;
        }
        self.exit_any(clock, owned)
    }

    /// Leaves one group inside others; returns whether this simple case applied.
    #[inline]
    fn exit_one<C: Clock>(&mut self, clock: &C, owned: Owned) -> bool {
        let it = &self.inner;
        let bit = owned.laps;
        let is_one = bit.is_power_of_two() && bit & it.implied == 0 && bit & it.open != 0;
        if owned.serial() != it.serial || it.guards <= 1 || owned.waits() || !is_one {
            return false;
        }
        let place = bit.trailing_zeros() as usize;
        let is_over = self.laps.get_mut(place).is_some_and(Lap::let_go);
        if is_over {
            let now = self.read(clock);
            let lap = self
                .laps
                .get_mut(place)
                .filter(|_| self.inner.probes.needs_time());
            lap.into_iter().for_each(|lap| lap.stop(now));
        }
        self.inner.leave(if is_over { bit } else { 0 }, false);
        self.leave_innermost();
        true
    }

    #[inline(never)]
    fn exit_any<C: Clock>(&mut self, clock: &C, owned: Owned) -> Exit {
        if owned.serial() != self.inner.serial {
            self.exit_around(owned);
            return Exit::Inner;
        }
        let is_last = self.inner.guards <= 1;
        let ended = ended_by(&mut self.laps, &self.inner, owned.laps);
        // A guard that entered an open group again ends nothing.
        if ended != 0 || owned.waits() {
            let now = self.read(clock);
            self.stop(ended, now);
        }
        self.inner.leave(ended, owned.waits());
        self.leave_innermost();
        if is_last && !self.inner.is_custom() {
            Exit::Outermost
        } else {
            Exit::Inner
        }
    }

    /// Handles a guard of a loop around this one, whose laps are paused, or of a loop that has
    /// ended together with its laps.
    #[cold]
    fn exit_around(&mut self, owned: Owned) {
        let around = self.around.iter_mut().take(self.level);
        for it in around.filter(|it| it.serial == owned.serial()) {
            let ended = ended_by(&mut self.laps, it, owned.laps);
            it.leave(ended, owned.waits());
        }
    }

    /// Ends the spans of `laps` that are open in the present loop.
    #[inline]
    fn stop(&mut self, laps: u64, now: Reading) {
        if self.inner.probes.needs_time() {
            self.each(laps & self.inner.open, |lap| lap.stop(now));
        }
    }

    #[inline]
    fn each(&mut self, laps: u64, mut change: impl FnMut(&mut Lap)) {
        for place in bits(laps) {
            self.laps.get_mut(place).into_iter().for_each(&mut change);
        }
    }

    /// Reads the clock, and begins an iteration if none runs.
    #[inline]
    fn begin_or_read<C: Clock>(&mut self, clock: &C, probes: Probes) -> Reading {
        if self.inner.is_running {
            return self.read(clock);
        }
        self.inner.is_running = true;
        self.restart(clock, probes)
    }

    /// Begins an iteration now.
    fn restart<C: Clock>(&mut self, clock: &C, probes: Probes) -> Reading {
        let cpu = if probes.contains(Probes::CPU) {
            clock.cpu_ns()
        } else {
            None
        };
        let now = if probes.needs_time() {
            clock.read()
        } else {
            Reading::default()
        };
        let it = &mut self.inner;
        (it.probes, it.last) = (probes, now);
        (it.ticks, it.blocked) = (0, 0);
        (it.cpu_since, it.cpu) = (cpu, cpu.map(|_| 0));
        now
    }

    /// Reads the clock if anything is timed, and adds the time since the last reading to the
    /// iteration.
    #[inline(always)]
    fn read<C: Clock>(&mut self, clock: &C) -> Reading {
        let it = &mut self.inner;
        if !it.is_running || !it.probes.needs_time() {
            return Reading::default();
        }
        let now = clock.read();
        let step = now.ticks.saturating_sub(it.last.ticks);
        it.last = now;
        it.ticks = it.ticks.saturating_add(step);
        if it.blocking > 0 {
            self.add_blocked(step);
        }
        now
    }

    /// Adds time during which the thread waited to the iteration and to its open laps.
    #[inline(never)]
    fn add_blocked(&mut self, step: u64) {
        self.inner.blocked = self.inner.blocked.saturating_add(step);
        self.each(self.inner.open, |lap| {
            lap.blocked = lap.blocked.saturating_add(step)
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
