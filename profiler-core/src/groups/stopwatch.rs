//! A thread's stopwatch: which groups it works for now, and what that has come to since the iteration began.
//!
//! A pure state machine over a [`Clock`]: one per thread, driven by `groups::local`, tested with an injected clock. It knows
//! nothing of pools.
//!
//! ```text
//! loop 0       enter A ─┬─ enter B ─ exit B ─┬─ exit A = end of iteration ─▶ a run for A, B, thread, process
//!                       │                    │
//! loop 1                └ nested: A is paused; iterations of its own ┘
//! ```
//!
//! - A **lap** is a group in the present iteration of one loop. The first guard opens it; those that enter again hold it open,
//!   and the last of them ends it, in whatever order they leave.
//! - The thread's and the process's laps are open as long as any other is.
//! - A **loop** is where iterations follow each other: the thread's own, and those nested inside of one iteration. A nested
//!   loop pauses all laps around it, so that nothing is counted twice, and each says how often that happened.
//! - An iteration **ends** when its last guard leaves, or, in a custom loop, when the program says so.
//!
//! Processor time is read when an iteration begins and when it ends, and shared out by time in a group that was not spent
//! blocked. `Loop::ticks` grows by every step forward between two readings of the clock, hence by no less than all laps
//! that exclude each other together: their shares never exceed the whole, whatever the clock does.
//! Nothing is allocated, and no panic is possible: there is room for [`LAPS`] laps and [`LOOPS`] loops, and what finds none is counted.

mod run;

use self::run::{run_of, sum_of};
use super::clock::{Clock, Reading};
use super::group::Registered;
use crate::group_kind::Probes;
use crate::pool::live::group::Run;

/// Laps of all loops of a thread together: bits of a word.
pub(crate) const LAPS: usize = 64;
/// Loops inside each other.
pub(crate) const LOOPS: usize = 8;

/// Which laps a guard holds open, and where. Two words: that is what a call gives back in registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owned {
    laps: u64,
    /// The loop, told from all others, from bit 1 on; bit 0: the thread waits until it leaves. 0: nothing was entered.
    place: u64,
}

impl Owned {
    /// Nothing was entered, so nothing is left.
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
    /// Guards that hold it open.
    holds: u32,
    since: Reading,
    ticks: u64,
    blocked: u64,
    /// Spans that count.
    spans: u64,
    sums: Run,
}

impl Lap {
    const NONE: Self =
        Self { group: None, holds: 0, since: Reading::ZERO, ticks: 0, blocked: 0, spans: 0, sums: Run::NONE };

    /// A span begins, that of one more entry from outside.
    fn start(&mut self, now: Reading) {
        (self.since, self.holds) = (now, 0);
        self.sums.ticks += 1;
    }

    fn is_of(&self, group: &'static Registered) -> bool {
        self.group.is_some_and(|known| std::ptr::eq(known, group))
    }

    /// Ends the span that runs.
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

    /// A guard has left; whether it was the last one.
    fn let_go(&mut self) -> bool {
        self.holds = self.holds.saturating_sub(1);
        self.holds == 0
    }

    fn clear(&mut self) {
        *self = Self { group: self.group, holds: self.holds, since: self.since, ..Self::NONE };
    }
}

/// Where iterations follow each other.
#[derive(Clone, Copy, Debug)]
struct Loop {
    serial: u64,
    /// An iteration has begun.
    is_running: bool,
    /// Guards by which iterations end only when the program says so.
    customs: u32,
    probes: Probes,
    /// Guards that are alive, and those of them that wait.
    guards: u32,
    blocking: u32,
    /// Laps of this iteration, those of them that are open, those of them that are implied.
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

    /// A guard has left, and with it these laps have ended.
    fn leave(&mut self, ended: u64, waited: bool) {
        self.open &= !ended;
        self.guards = self.guards.saturating_sub(1);
        self.blocking = self.blocking.saturating_sub(u32::from(waited));
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    laps: [Lap; LAPS],
    /// Laps of all loops.
    used: u64,
    /// The innermost loop.
    inner: Loop,
    /// Those around it, the outermost first; `level` of them.
    around: [Loop; LOOPS - 1],
    level: usize,
    serial: u64,
    found: Found,
}

/// Where groups were found last: they are entered again and again. Only a hint.
#[derive(Clone, Copy, Debug, Default)]
struct Found([u8; FOUND]);

/// Hints: a power of two.
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

/// What an exit came to.
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

/// The laps that end when a guard leaves that holds these; those that are implied end with the last guard.
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

    /// Enters groups, all at the same instant; from then on the thread `waits`, or works. Those that are entered already
    /// are held open; if that is all of them, and nobody waits, no clock is read. `implied` is asked for the groups that are
    /// open with any other.
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

    /// Enters one group that this iteration knows already, inside of others: what is done most takes the shortest way.
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

    /// Opens the laps of all these groups that are not open; their bits.
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

    /// Opens a group's lap, unless it is open, and gives its bit. Nothing if there is no room: then its tick is counted all
    /// the same.
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

    /// Leaves what a guard has entered.
    #[inline]
    pub(crate) fn exit<C: Clock>(&mut self, clock: &C, owned: Owned) -> Exit {
        if self.exit_one(clock, owned) {
            return Exit::Inner;
        }
        self.exit_any(clock, owned)
    }

    /// Leaves one group inside of others; whether that is what was to be done.
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
        // Of a guard that had entered again nothing ends.
        if ended != 0 || owned.waits() {
            let now = self.read(clock);
            self.stop(ended, now);
        }
        self.inner.leave(ended, owned.waits());
        if is_last && !self.inner.is_custom() { Exit::Outermost } else { Exit::Inner }
    }

    /// A guard of a loop around this one, whose laps are paused; or of one that is over, and what it was with it.
    #[cold]
    fn exit_around(&mut self, owned: Owned) {
        let around = self.around.iter_mut().take(self.level);
        for it in around.filter(|it| it.serial == owned.serial()) {
            let ended = ended_by(&mut self.laps, it, owned.laps);
            it.leave(ended, owned.waits());
        }
    }

    /// Ends the spans of these laps, those of them that are open in the present loop.
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

    /// An iteration begins now.
    fn restart<C: Clock>(&mut self, clock: &C, probes: Probes) -> Reading {
        let cpu = if probes.contains(Probes::CPU) { clock.cpu_ns() } else { None };
        let now = if probes.needs_time() { clock.read() } else { Reading::default() };
        let it = &mut self.inner;
        (it.probes, it.last) = (probes, now);
        (it.ticks, it.blocked) = (0, 0);
        (it.cpu_since, it.cpu) = (cpu, cpu.map(|_| 0));
        now
    }

    /// The clock now, if anything is timed. What went by since the last reading is the iteration's.
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

    /// From now on iterations of the innermost loop end only by [`Stopwatch::settle`]; the loop's serial number.
    pub(crate) const fn begin_custom(&mut self) -> u64 {
        self.inner.customs = self.inner.customs.saturating_add(1);
        self.inner.serial
    }

    /// Takes that back for the loop of this number, wherever it is; nothing if it is over.
    pub(crate) fn end_custom(&mut self, serial: u64) {
        let around = self.around.iter_mut().take(self.level);
        for it in around.chain([&mut self.inner]).filter(|it| it.serial == serial) {
            it.customs = it.customs.saturating_sub(1);
        }
    }

    /// Whether that is the number of the innermost loop.
    pub(crate) const fn is_innermost(&self, serial: u64) -> bool {
        self.inner.serial == serial
    }

    /// Whether an iteration is over that has not been settled.
    pub(crate) const fn is_over(&self) -> bool {
        self.inner.is_running && self.inner.guards == 0 && !self.inner.is_custom()
    }

    /// Begins a loop inside the present iteration; its serial number. `None` if there are too many inside each other.
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

    /// Whether the thread is in the nested loop of this number, or in one inside of it.
    pub(crate) fn is_in(&self, serial: u64) -> bool {
        let around = self.around.iter().take(self.level);
        self.level > 0 && (self.inner.serial == serial || around.skip(1).any(|it| it.serial == serial))
    }

    /// Ends the innermost loop, whose last iteration has been settled, and goes on with the one around it.
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

    /// Ends the iteration, if one runs, and tells what each group came to; `wanted` is what is measured now. Of a probe that
    /// was turned on or off on the way nothing is told. Laps that are open go on in the next iteration.
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

    /// When the iteration ends: now if anything is open, else when the last guard left, which is one reading less.
    fn end_of_spans<C: Clock>(&mut self, clock: &C) -> Reading {
        if self.inner.guards == 0 && !self.inner.is_custom() {
            return self.inner.last;
        }
        let now = self.read(clock);
        self.stop(u64::MAX, now);
        now
    }

    /// What is open after the end of an iteration is the beginning of the next.
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
