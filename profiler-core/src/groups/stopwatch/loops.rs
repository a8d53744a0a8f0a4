//! The loops of a stopwatch: custom loops, nested loops, and the end of an iteration.
//!
//! Called by `groups::local`. A nested loop pauses the loop around it. An iteration is settled
//! once: its runs are reported, and the laps that are still open continue in the next iteration.

use super::run::{run_of, sum_of};
use super::{Clock, Loop, Probes, Reading, Registered, Run, Stopwatch};

impl Stopwatch {
    /// Makes the innermost loop custom: its iterations end only by [`Stopwatch::settle`]. Returns
    /// the loop's serial number.
    pub(crate) const fn begin_custom(&mut self) -> u64 {
        self.inner.customs = self.inner.customs.saturating_add(1);
        self.inner.serial
    }

    /// Undoes [`Stopwatch::begin_custom`] for the loop of this number, at any level; does nothing
    /// if the loop has ended.
    pub(crate) fn end_custom(&mut self, serial: u64) {
        let around = self.around.iter_mut().take(self.level);
        for it in around
            .chain([&mut self.inner])
            .filter(|it| it.serial == serial)
        {
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
        self.inner = Loop {
            serial: self.serial,
            ..Loop::NONE
        };
        Some(self.serial)
    }

    /// Whether the thread is in the nested loop of this number, or in one inside it.
    pub(crate) fn is_in(&self, serial: u64) -> bool {
        let around = self.around.iter().take(self.level);
        self.level > 0
            && (self.inner.serial == serial || around.skip(1).any(|it| it.serial == serial))
    }

    /// Ends the innermost loop, whose last iteration has been settled, and continues the loop
    /// around it.
    pub(crate) fn end_nested<C: Clock>(&mut self, clock: &C) {
        let Some(outer) = self.level.checked_sub(1) else {
            return;
        };
        let Some(it) = self.around.get(outer).copied() else {
            return;
        };
        self.used &= !self.inner.laps;
        (self.level, self.inner) = (outer, it);
        self.leave_innermost();
        if !it.is_running || !it.probes.needs_time() {
            return;
        }
        self.inner.cpu_since = if it.probes.contains(Probes::CPU) {
            clock.cpu_ns()
        } else {
            None
        };
        let now = clock.read();
        self.inner.last = now;
        self.each(it.open, |lap| lap.since = now);
    }

    /// Reads the thread's processor time if it is requested and an iteration runs.
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
        mut report: impl FnMut(&'static Registered, &Run),
    ) {
        if !self.inner.is_running {
            return;
        }
        let now = self.end_of_spans(clock);
        clock.keep_exact(now);
        let mut ended = self.inner;
        ended.probes = ended.probes.and(wanted);
        ended.cpu =
            sum_of(ended, self.cpu_now(clock)).filter(|_| ended.probes.contains(Probes::CPU));
        self.each(ended.laps, |lap| {
            let run = run_of(lap, &ended, clock, now);
            lap.group.into_iter().for_each(|group| report(group, &run));
            lap.clear();
        });
        self.go_on(clock, wanted);
    }

    /// Returns the end of the iteration: now if a lap may be open, otherwise the time at which the
    /// last guard left, which saves one reading.
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
