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
//!   guards hold it open, and the last guard to leave ends it, in whatever order they leave.
//! - The laps of the thread and the process are open as long as any other lap is.
//! - A **loop** is a sequence of iterations: the thread's own, or a loop nested inside one
//!   iteration. A nested loop pauses all laps around it, so that nothing is counted twice, and each
//!   paused lap counts the pause.
//! - An iteration **ends** when its last guard leaves, or, in a custom loop, when the program ends
//!   it.
//!
//! Processor time is read at the beginning and the end of an iteration, and divided among the
//! groups in proportion to their unblocked time. `Loop::ticks` grows by every forward step between
//! two readings of the clock, so by at least the sum of any laps that exclude each other: their
//! shares never exceed the whole, whatever the clock does. Nothing is allocated, and no panic is
//! possible: there is room for [`LAPS`] laps and [`LOOPS`] loops, and laps and loops without room
//! are counted.

mod run;

use self::run::{run_of, sum_of};
use super::clock::{Clock, Reading};
use super::group::Registered;
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
    /// The loop's unique number, from bit 1 on; bit 0: the thread waits until the guard leaves. 0:
    /// nothing was entered.
    place: u64,
}

impl Owned {
    /// Nothing was entered, so leaving does nothing.
    pub(crate) const NOTHING: Self = Self { laps: 0, place: 0 };

    #[inline(always)]
    fn new(laps: u64, serial: u64, waits: bool) -> Self {
        Self { laps, place: serial << 1 | u64::from(waits) }
    }

    #[inline(always)]
    pub(crate) const fn is_nothing(self) -> bool {
        self.place == 0
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

/// A group in the present iteration.
#[derive(Clone, Copy, Debug)]
struct Lap {
    group: Option<&'static Registered>,
    /// Number of guards that hold it open.
    holds: u32,
    since: Reading,
    ticks: u64,
    blocked: u64,
    /// Number of spans that count.
    spans: u64,
    sums: Run,
}

impl Lap {
    const NONE: Self =
        Self { group: None, holds: 0, since: Reading::ZERO, ticks: 0, blocked: 0, spans: 0, sums: Run::NONE };

    /// Starts a span for one more entry from outside.
    fn start(&mut self, now: Reading) {
        (self.since, self.holds) = (now, 0);
        self.sums.ticks += 1;
    }

    fn is_of(&self, group: &'static Registered) -> bool {
        self.group.is_some_and(|known| std::ptr::eq(known, group))
    }

    /// Ends the running span.
    fn stop(&mut self, now: Reading) {
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
    fn let_go(&mut self) -> bool {
        self.holds = self.holds.saturating_sub(1);
        self.holds == 0
    }

    fn clear(&mut self) {
        *self = Self { group: self.group, holds: self.holds, since: self.since, ..Self::NONE };
    }
}

/// A sequence of iterations.
#[derive(Clone, Copy, Debug)]
struct Loop {
    serial: u64,
    /// Whether an iteration has begun.
    is_running: bool,
    /// Number of guards that let iterations end only on the program's request.
    customs: u32,
    probes: Probes,
    /// Number of live guards, and how many of them wait.
    guards: u32,
    blocking: u32,
    /// Laps of this iteration, the open ones among them, and the implied ones among them.
    laps: u64,
    open: u64,
    implied: u64,
    last: Reading,
    ticks: u64,
    blocked: u64,
    cpu_since: Option<u64>,
    cpu: Option<u64>,
}

impl Loop {
    const NONE: Self = Self {
        serial: 0,
        is_running: false,
        customs: 0,
        probes: Probes::NONE,
        guards: 0,
        blocking: 0,
        laps: 0,
        open: 0,
        implied: 0,
        last: Reading::ZERO,
        ticks: 0,
        blocked: 0,
        cpu_since: None,
        cpu: None,
    };

    const fn is_custom(&self) -> bool {
        self.customs > 0
    }

    /// Notes that a guard has left and that these laps have ended with it.
    fn leave(&mut self, ended: u64, waited: bool) {
        self.open &= !ended;
        self.guards = self.guards.saturating_sub(1);
        self.blocking = self.blocking.saturating_sub(u32::from(waited));
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

/// Where groups were found last, because the same groups are entered repeatedly. Only a hint.
#[derive(Clone, Copy, Debug, Default)]
struct Found([u8; FOUND]);

/// Number of hints: a power of two.
const FOUND: usize = 16;

impl Found {
    fn slot(group: &'static Registered) -> usize {
        let address = std::ptr::from_ref(group).addr();
        ((address >> 5) ^ (address >> 9)) % FOUND
    }

    #[inline]
    fn place(&self, group: &'static Registered) -> usize {
        self.0.get(Self::slot(group)).copied().map_or(0, usize::from) % LAPS
    }

    fn note(&mut self, group: &'static Registered, place: usize) {
        let hint = u8::try_from(place).unwrap_or(0);
        self.0.get_mut(Self::slot(group)).into_iter().for_each(|known| *known = hint);
    }
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
            inner: Loop { serial: 1, ..Loop::NONE },
            around: [Loop::NONE; LOOPS - 1],
            level: 0,
            serial: 1,
            found: Found([0; FOUND]),
        }
    }

    /// Resets the stopwatch; guards that are still alive have no effect afterwards. Works in place,
    /// because a stopwatch is larger than what may be left of a small stack.
    pub(crate) fn reset(&mut self) {
        self.serial += 1;
        self.laps.fill(Lap::NONE);
        self.around.fill(Loop::NONE);
        self.inner = Loop { serial: self.serial, ..Loop::NONE };
        (self.used, self.level, self.found) = (0, 0, Found::default());
    }

    /// Enters groups, all at the same instant; from then on the thread `waits`, or works. Groups
    /// that are entered already are held open; if all are, and no guard waits, no clock is read.
    /// `implied` returns the groups that are open with any other.
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
        now.into_iter().for_each(|now| lap.start(now));
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
        let laps = held.unwrap_or_else(|| self.open_all(clock, probes, implied, groups));
        self.each(laps, |lap| lap.holds = lap.holds.saturating_add(1));
        self.inner.guards = self.inner.guards.saturating_add(1);
        self.inner.blocking = self.inner.blocking.saturating_add(u32::from(waits));
        Owned::new(laps, self.inner.serial, waits)
    }

    /// Opens the laps of these groups where they are not open, and returns the bits of all.
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
            let opened = implied().into_iter().flatten().fold(0, |laps, group| laps | self.open(group, now));
            self.inner.implied |= opened;
        }
        groups.fold(0, |laps, group| laps | self.open(group, now))
    }

    /// The place of a group among these laps.
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
        let Some(lap) = self.laps.get_mut(place) else { return 0 };
        if self.inner.laps & bit == 0 {
            *lap = Lap { group: Some(group), ..Lap::NONE };
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
        let (it, bit) = (&self.inner, owned.laps);
        let is_one = bit.is_power_of_two() && bit & it.implied == 0 && bit & it.open != 0;
        if owned.serial() != it.serial || it.guards <= 1 || owned.waits() || !is_one {
            return false;
        }
        let place = bit.trailing_zeros() as usize;
        let is_over = self.laps.get_mut(place).is_some_and(Lap::let_go);
        if is_over {
            let now = self.read(clock);
            let lap = self.laps.get_mut(place).filter(|_| self.inner.probes.needs_time());
            lap.into_iter().for_each(|lap| lap.stop(now));
        }
        self.inner.leave(if is_over { bit } else { 0 }, false);
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
        if is_last && !self.inner.is_custom() { Exit::Outermost } else { Exit::Inner }
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

    /// Ends the spans of those of these laps that are open in the present loop.
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

    /// The clock now; begins an iteration if none runs.
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
        let cpu = if probes.contains(Probes::CPU) { clock.cpu_ns() } else { None };
        let now = if probes.needs_time() { clock.read() } else { Reading::default() };
        let it = &mut self.inner;
        (it.probes, it.last) = (probes, now);
        (it.ticks, it.blocked) = (0, 0);
        (it.cpu_since, it.cpu) = (cpu, cpu.map(|_| 0));
        now
    }

    /// The clock now, if anything is timed. Adds the time since the last reading to the iteration.
    #[inline]
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
            it.blocked = it.blocked.saturating_add(step);
            self.each(self.inner.open, |lap| lap.blocked = lap.blocked.saturating_add(step));
        }
        now
    }

    /// From now on, iterations of the innermost loop end only by [`Stopwatch::settle`]. Returns the
    /// loop's serial number.
    pub(crate) const fn begin_custom(&mut self) -> u64 {
        self.inner.customs = self.inner.customs.saturating_add(1);
        self.inner.serial
    }

    /// Undoes [`Stopwatch::begin_custom`] for the loop of this number, at any level; does nothing
    /// if the loop has ended.
    pub(crate) fn end_custom(&mut self, serial: u64) {
        let around = self.around.iter_mut().take(self.level);
        for it in around.chain([&mut self.inner]).filter(|it| it.serial == serial) {
            it.customs = it.customs.saturating_sub(1);
        }
    }

    /// Whether `serial` is the number of the innermost loop.
    pub(crate) const fn is_innermost(&self, serial: u64) -> bool {
        self.inner.serial == serial
    }

    /// Whether an iteration has ended that has not been settled.
    pub(crate) const fn is_over(&self) -> bool {
        self.inner.is_running && self.inner.guards == 0 && !self.inner.is_custom()
    }

    /// Begins a loop inside the present iteration and returns its serial number; `None` if loops
    /// are nested too deep.
    pub(crate) fn begin_nested<C: Clock>(&mut self, clock: &C) -> Option<u64> {
        if self.level >= self.around.len() {
            return None;
        }
        let now = self.read(clock);
        self.stop(u64::MAX, now);
        self.inner.cpu = sum_of(self.inner, self.cpu_now(clock));
        self.inner.cpu_since = None;
        self.each(self.inner.open, |lap| lap.sums.nested += 1);
        *self.around.get_mut(self.level)? = self.inner;
        self.level += 1;
        self.serial += 1;
        self.inner = Loop { serial: self.serial, ..Loop::NONE };
        Some(self.serial)
    }

    /// Whether the thread is in the nested loop of this number, or in one inside it.
    pub(crate) fn is_in(&self, serial: u64) -> bool {
        let around = self.around.iter().take(self.level);
        self.level > 0 && (self.inner.serial == serial || around.skip(1).any(|it| it.serial == serial))
    }

    /// Ends the innermost loop, whose last iteration has been settled, and continues the loop
    /// around it.
    pub(crate) fn end_nested<C: Clock>(&mut self, clock: &C) {
        let Some(outer) = self.level.checked_sub(1) else { return };
        let Some(it) = self.around.get(outer).copied() else { return };
        self.used &= !self.inner.laps;
        (self.level, self.inner) = (outer, it);
        if !it.is_running || !it.probes.needs_time() {
            return;
        }
        self.inner.cpu_since = if it.probes.contains(Probes::CPU) { clock.cpu_ns() } else { None };
        let now = clock.read();
        self.inner.last = now;
        self.each(it.open, |lap| lap.since = now);
    }

    fn cpu_now<C: Clock>(&self, clock: &C) -> Option<u64> {
        let wants = self.inner.is_running && self.inner.probes.contains(Probes::CPU);
        if wants { clock.cpu_ns() } else { None }
    }

    /// Ends the running iteration, if there is one, and reports the run of each group; `wanted` are
    /// the probes in effect now. Nothing is reported for a probe that was turned on or off during
    /// the iteration. Open laps continue in the next iteration.
    pub(crate) fn settle<C: Clock>(
        &mut self,
        clock: &C,
        wanted: Probes,
        mut tell: impl FnMut(&'static Registered, &Run),
    ) {
        if !self.inner.is_running {
            return;
        }
        let now = self.end_of_spans(clock);
        clock.keep_exact(now);
        let mut ended = self.inner;
        ended.probes = ended.probes.and(wanted);
        ended.cpu = sum_of(ended, self.cpu_now(clock)).filter(|_| ended.probes.contains(Probes::CPU));
        self.each(ended.laps, |lap| {
            let run = run_of(lap, &ended, clock, now);
            lap.group.into_iter().for_each(|group| tell(group, &run));
            lap.clear();
        });
        self.go_on(clock, wanted);
    }

    /// When the iteration ends: now if a lap is open, otherwise when the last guard left, which
    /// saves one reading.
    fn end_of_spans<C: Clock>(&mut self, clock: &C) -> Reading {
        if self.inner.guards == 0 && !self.inner.is_custom() {
            return self.inner.last;
        }
        let now = self.read(clock);
        self.stop(u64::MAX, now);
        now
    }

    /// Continues the laps that are open after the end of an iteration in the next one.
    fn go_on<C: Clock>(&mut self, clock: &C, probes: Probes) {
        self.used &= !(self.inner.laps & !self.inner.open);
        self.inner.laps = self.inner.open;
        self.inner.implied &= self.inner.open;
        self.inner.is_running = self.inner.guards > 0;
        if self.inner.is_running {
            let now = self.restart(clock, probes);
            self.each(self.inner.open, |lap| lap.since = now);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
