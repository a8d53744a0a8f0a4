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
//! - A **lap** is a group in the present iteration of one loop. The outermost entry opens it; entering again does nothing.
//! - The thread's and the process's laps are open as long as any other is.
//! - A **loop** is where iterations follow each other: the thread's own, and those nested inside of one iteration. A nested
//!   loop pauses all laps around it, so that nothing is counted twice, and each says how often that happened.
//! - An iteration **ends** when its last guard leaves, or, in a custom loop, when the program says so.
//!
//! Processor time is read when an iteration begins and when it ends, and shared out by time in a group that was not spent
//! blocked. `Loop::ticks` grows by every step forward between two readings of the clock, hence by no less than all laps
//! that exclude each other together: their shares never exceed the whole, whatever the clock does.
//! Nothing is allocated, and no panic is possible: there is room for [`LAPS`] laps and [`LOOPS`] loops, and what finds none is counted.

use super::clock::{Clock, Reading};
use super::group::Registered;
use super::kind::Probes;
use crate::pool::live::group::Run;

/// Laps of all loops of a thread together: bits of a word.
pub(crate) const LAPS: usize = 64;
/// Loops inside each other.
pub(crate) const LOOPS: usize = 8;

/// Which laps a guard has opened, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owned {
    laps: u64,
    level: usize,
    /// Tells the loop from others at this level; 0: nothing was entered.
    serial: u64,
}

impl Owned {
    /// Nothing was entered, so nothing is left.
    pub(crate) const NOTHING: Self = Self { laps: 0, level: 0, serial: 0 };

    #[inline(always)]
    pub(crate) const fn is_nothing(self) -> bool {
        self.serial == 0
    }
}

/// A group in the present iteration.
#[derive(Clone, Copy, Debug, Default)]
struct Lap {
    group: Option<&'static Registered>,
    since: Reading,
    ticks: u64,
    blocked: u64,
    /// Spans that count.
    spans: u64,
    sums: Run,
}

impl Lap {
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

    fn clear(&mut self) {
        *self = Self { group: self.group, since: self.since, ..Self::default() };
    }
}

/// Where iterations follow each other.
#[derive(Clone, Copy, Debug, Default)]
struct Loop {
    serial: u64,
    /// An iteration has begun.
    is_running: bool,
    /// Iterations end only when the program says so.
    is_custom: bool,
    probes: Probes,
    /// Guards that are alive.
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

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    laps: [Lap; LAPS],
    loops: [Loop; LOOPS],
    level: usize,
    serial: u64,
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

impl Stopwatch {
    pub(crate) fn new() -> Self {
        let mut new =
            Self { laps: [Lap::default(); LAPS], loops: [Loop::default(); LOOPS], level: 0, serial: 0 };
        new.begin_loop();
        new
    }

    /// Forgets everything; guards that are alive mean nothing any more.
    pub(crate) fn reset(&mut self) {
        (self.laps, self.loops) = ([Lap::default(); LAPS], [Loop::default(); LOOPS]);
        self.level = 0;
        self.begin_loop();
    }

    fn begin_loop(&mut self) {
        self.serial += 1;
        let serial = self.serial;
        if let Some(current) = self.loops.get_mut(self.level) {
            *current = Loop { serial, ..Loop::default() };
        }
    }

    fn current(&mut self) -> Option<&mut Loop> {
        self.loops.get_mut(self.level)
    }

    /// Enters groups, all at the same instant. Those that are entered already are not entered again; if that is all of
    /// them no clock is read.
    pub(crate) fn enter<C: Clock>(
        &mut self,
        clock: &C,
        probes: Probes,
        implied: [Option<&'static Registered>; 2],
        groups: impl Iterator<Item = &'static Registered> + Clone,
    ) -> Owned {
        let level = self.level;
        let Some(current) = self.current().map(|current| *current) else { return Owned::NOTHING };
        if groups.clone().all(|group| self.find(current.open, group).is_some()) {
            return Owned::NOTHING;
        }
        let now = self.begin_or_read(clock, probes);
        if current.guards == 0 {
            let opened = implied.into_iter().flatten().fold(0, |laps, group| laps | self.open(group, now));
            self.current().into_iter().for_each(|current| current.implied |= opened);
        }
        let laps = groups.fold(0, |laps, group| laps | self.open(group, now));
        self.current().into_iter().for_each(|current| current.guards += 1);
        Owned { laps, level, serial: current.serial }
    }

    /// The place of a group among these laps.
    fn find(&self, among: u64, group: &'static Registered) -> Option<usize> {
        let is_it = |lap: &Lap| lap.group.is_some_and(|known| std::ptr::eq(known, group));
        bits(among).find(|place| self.laps.get(*place).is_some_and(is_it))
    }

    /// Opens a group's lap, and gives its bit. Nothing if it is open already, or there is no room: then its tick is
    /// counted all the same.
    fn open(&mut self, group: &'static Registered, now: Reading) -> u64 {
        let used = self.loops.iter().fold(0, |used, each| used | each.laps);
        let Some(current) = self.current().map(|current| *current) else { return 0 };
        let free = (used != u64::MAX).then(|| used.trailing_ones() as usize);
        let Some(place) = self.find(current.laps, group).or(free) else {
            group.keep(1);
            return 0;
        };
        let bit = 1 << place;
        let (Some(lap), false) = (self.laps.get_mut(place), current.open & bit != 0) else { return 0 };
        if current.laps & bit == 0 {
            *lap = Lap { group: Some(group), ..Lap::default() };
        }
        lap.since = now;
        lap.sums.ticks += 1;
        if let Some(current) = self.current() {
            current.laps |= bit;
            current.open |= bit;
        }
        bit
    }

    /// Leaves what a guard has entered.
    pub(crate) fn exit<C: Clock>(&mut self, clock: &C, owned: Owned) -> Exit {
        let is_its = self.loops.get(owned.level).is_some_and(|its| its.serial == owned.serial);
        if !is_its || owned.level > self.level {
            return Exit::Inner; // its loop is over, and what it was with it
        }
        let is_paused = owned.level < self.level;
        if !is_paused {
            let now = self.read(clock);
            let is_last = self.current().is_some_and(|its| its.guards <= 1);
            self.stop(if is_last { u64::MAX } else { owned.laps }, now);
        }
        let Some(its) = self.loops.get_mut(owned.level) else { return Exit::Inner };
        its.open &= !owned.laps;
        its.guards = its.guards.saturating_sub(1);
        if its.guards == 0 {
            its.open &= !its.implied;
        }
        if its.guards == 0 && !its.is_custom && !is_paused { Exit::Outermost } else { Exit::Inner }
    }

    /// Ends the spans of these laps, those of them that are open in the present loop.
    fn stop(&mut self, laps: u64, now: Reading) {
        let Some(current) = self.current().map(|current| *current) else { return };
        if current.probes.needs_time() {
            for place in bits(laps & current.open) {
                self.laps.get_mut(place).into_iter().for_each(|lap| lap.stop(now));
            }
        }
    }

    /// The clock now; begins an iteration if none runs.
    fn begin_or_read<C: Clock>(&mut self, clock: &C, probes: Probes) -> Reading {
        match self.current() {
            Some(current) if !current.is_running => {
                current.is_running = true;
                self.restart(clock, probes)
            }
            _ => self.read(clock),
        }
    }

    /// An iteration begins now.
    fn restart<C: Clock>(&mut self, clock: &C, probes: Probes) -> Reading {
        let cpu = if probes.contains(Probes::CPU) { clock.cpu_ns() } else { None };
        let now = if probes.needs_time() { clock.read() } else { Reading::default() };
        if let Some(current) = self.current() {
            (current.probes, current.last) = (probes, now);
            (current.ticks, current.blocked) = (0, 0);
            (current.cpu_since, current.cpu) = (cpu, cpu.map(|_| 0));
        }
        now
    }

    /// The clock now, if anything is timed. What went by since the last reading is the iteration's.
    fn read<C: Clock>(&mut self, clock: &C) -> Reading {
        let Some(current) = self.current() else { return Reading::default() };
        if !current.is_running || !current.probes.needs_time() {
            return Reading::default();
        }
        let now = clock.read();
        let step = now.ticks.saturating_sub(current.last.ticks);
        current.last = now;
        current.ticks = current.ticks.saturating_add(step);
        if current.blocking > 0 {
            current.blocked = current.blocked.saturating_add(step);
            for place in bits(current.open) {
                self.laps
                    .get_mut(place)
                    .into_iter()
                    .for_each(|lap| lap.blocked = lap.blocked.saturating_add(step));
            }
        }
        now
    }

    /// The thread is about to wait, or has waited. Of several waits inside each other the outermost counts.
    pub(crate) fn set_blocking<C: Clock>(&mut self, clock: &C, begins: bool) {
        self.read(clock);
        if let Some(current) = self.current() {
            current.blocking =
                if begins { current.blocking.saturating_add(1) } else { current.blocking.saturating_sub(1) };
        }
    }

    /// Iterations end only by [`Stopwatch::settle`], or no longer so.
    pub(crate) fn set_custom(&mut self, is_custom: bool) {
        self.current().into_iter().for_each(|current| current.is_custom = is_custom);
    }

    /// Whether an iteration is over that has not been settled.
    pub(crate) fn is_over(&self) -> bool {
        self.loops.get(self.level).is_some_and(|it| it.is_running && it.guards == 0 && !it.is_custom)
    }

    /// Begins a loop inside the present iteration; its serial number. `None` if there are too many inside each other.
    pub(crate) fn begin_nested<C: Clock>(&mut self, clock: &C) -> Option<u64> {
        if self.level + 1 >= LOOPS {
            return None;
        }
        let now = self.read(clock);
        self.stop(u64::MAX, now);
        let cpu = self.cpu_now(clock);
        if let Some(current) = self.current() {
            current.cpu = sum_of(*current, cpu);
            current.cpu_since = None;
            for place in bits(current.open) {
                self.laps.get_mut(place).into_iter().for_each(|lap| lap.sums.nested += 1);
            }
        }
        self.level += 1;
        self.begin_loop();
        Some(self.serial)
    }

    /// Whether the loop of this number is the innermost one.
    pub(crate) fn is_innermost(&self, serial: u64) -> bool {
        self.level > 0 && self.loops.get(self.level).is_some_and(|current| current.serial == serial)
    }

    /// Ends the innermost loop, whose last iteration has been settled, and goes on with the one around it.
    pub(crate) fn end_nested<C: Clock>(&mut self, clock: &C) {
        if let Some(current) = self.current() {
            *current = Loop::default();
        }
        self.level = self.level.saturating_sub(1);
        let Some(current) = self.current() else { return };
        let (is_running, probes) = (current.is_running, current.probes);
        if !is_running || !probes.needs_time() {
            return;
        }
        let cpu = if probes.contains(Probes::CPU) { clock.cpu_ns() } else { None };
        let now = clock.read();
        current.cpu_since = cpu;
        current.last = now;
        for place in bits(current.open) {
            self.laps.get_mut(place).into_iter().for_each(|lap| lap.since = now);
        }
    }

    fn cpu_now<C: Clock>(&mut self, clock: &C) -> Option<u64> {
        let wants = self.current().is_some_and(|it| it.is_running && it.probes.contains(Probes::CPU));
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
        let now = self.read(clock);
        self.stop(u64::MAX, now);
        let cpu = self.cpu_now(clock);
        let Some(mut ended) = self.current().map(|current| *current).filter(|it| it.is_running) else {
            return;
        };
        ended.probes = ended.probes.and(wanted);
        ended.cpu = sum_of(ended, cpu).filter(|_| ended.probes.contains(Probes::CPU));
        for place in bits(ended.laps) {
            let Some(lap) = self.laps.get_mut(place) else { continue };
            let run = run_of(lap, &ended, clock, now);
            if let Some(group) = lap.group {
                tell(group, &run);
            }
            lap.clear();
        }
        self.go_on(clock, wanted);
    }

    /// What is open after the end of an iteration is the beginning of the next.
    fn go_on<C: Clock>(&mut self, clock: &C, probes: Probes) {
        let Some(current) = self.current() else { return };
        current.laps = current.open;
        current.implied &= current.open;
        current.is_running = current.guards > 0;
        if current.is_running {
            let open = current.open;
            let now = self.restart(clock, probes);
            for place in bits(open) {
                self.laps.get_mut(place).into_iter().for_each(|lap| lap.since = now);
            }
        }
    }
}

/// Processor time of the iteration until now.
fn sum_of(it: Loop, now: Option<u64>) -> Option<u64> {
    match (it.cpu, it.cpu_since, now) {
        (Some(sum), Some(since), Some(now)) => Some(sum.saturating_add(now.saturating_sub(since))),
        (Some(sum), None, None) => Some(sum), // it is paused
        _ => None,
    }
}

/// What a lap came to.
fn run_of<C: Clock>(lap: &Lap, ended: &Loop, clock: &C, now: Reading) -> Run {
    let wall = clock.ns_of(lap.ticks);
    let whole = ended.ticks.saturating_sub(ended.blocked);
    let own = lap.ticks.saturating_sub(lap.blocked).min(whole);
    let share = |cpu: u64| u128::from(cpu) * u128::from(own) / u128::from(whole.max(1));
    let cpu = ended.cpu.map(|cpu| u64::try_from(share(cpu)).unwrap_or(u64::MAX).min(wall));
    let is_timed = lap.spans > 0 && (ended.probes.contains(Probes::JANK) || cpu.is_some());
    Run {
        wall_ns: is_timed.then_some(wall),
        cpu_ns: cpu.filter(|_| is_timed),
        counts_as_run: is_timed && ended.probes.contains(Probes::JANK),
        blocking_ns: if ended.probes.contains(Probes::BLOCKING) { clock.ns_of(lap.blocked) } else { 0 },
        ended_ns: if is_timed { clock.session_ns(now) } else { 0 },
        ..lap.sums
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
