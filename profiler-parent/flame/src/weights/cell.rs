//! The time of one stack of one thread: its total, and its periods.
//!
//! Used by [`super::Weights`]. Invariants: the periods add up to the total to a microsecond,
//! because the fractions are carried over; only the periods that a window may contain are kept.

use super::{ThreadNumber, Weight};
use crate::stack_tree::NodeNumber;
use crate::window::{Period, PeriodRange, Resolution, length_ns};

/// The time of one period, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    period: Period,
    on_us: u32,
    off_us: u32,
}

/// The time of the latest periods, oldest first.
#[derive(Debug, Default)]
pub(super) struct RecentPeriods(pub(super) Vec<Slot>);

impl RecentPeriods {
    fn add(&mut self, period: Period, on_us: u32, off_us: u32) {
        let place = self.place_of(period);
        match self.0.get_mut(place).filter(|slot| slot.period == period) {
            Some(slot) => {
                slot.on_us = slot.on_us.saturating_add(on_us);
                slot.off_us = slot.off_us.saturating_add(off_us);
            }
            None => {
                let slot = Slot {
                    period,
                    on_us,
                    off_us,
                };
                self.insert(place, slot);
            }
        }
    }

    /// Adds a period, unless no window contains it any more. The newest entries are read first, so
    /// most periods of a large pool are too old when they are read.
    fn insert(&mut self, place: usize, slot: Slot) {
        let latest = self.0.last().map(|last| last.period);
        if latest.is_none_or(|latest| !is_too_old(slot.period, latest)) {
            self.0.insert(place, slot);
            self.forget_before_the_latest();
        }
    }

    /// The place of a period, or the place where it would be.
    fn place_of(&self, period: Period) -> usize {
        // Almost all time is added to the latest period.
        let latest = self.0.len().saturating_sub(1);
        match self.0.get(latest) {
            Some(slot) if slot.period == period => latest,
            _ => self.0.partition_point(|slot| slot.period < period),
        }
    }

    /// Drops the periods that no window contains any more.
    fn forget_before_the_latest(&mut self) {
        let Some(latest) = self.0.last().map(|slot| slot.period) else {
            return;
        };
        self.forget(latest);
    }

    fn forget(&mut self, now: Period) {
        let old = self.0.partition_point(|slot| is_too_old(slot.period, now));
        self.0.drain(..old);
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }

    fn within(&self, range: &PeriodRange) -> Weight {
        let inside = self.0.iter().filter(|slot| range.contains(slot.period));
        inside.fold(Weight::default(), |sum, slot| {
            sum.plus(Weight {
                on_ns: u64::from(slot.on_us).saturating_mul(1000),
                off_ns: u64::from(slot.off_us).saturating_mul(1000),
            })
        })
    }
}

/// Whether no window contains a period any more.
const fn is_too_old(period: Period, now: Period) -> bool {
    period.0.saturating_add(Resolution::KEPT) <= now.0
}

/// The time of one stack of one thread.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) thread: ThreadNumber,
    pub(super) node: NodeNumber,
    total: Weight,
    pub(super) fine: RecentPeriods,
    pub(super) coarse: RecentPeriods,
}

impl Cell {
    /// The cell of a stack that has no time yet.
    pub(super) fn new(thread: ThreadNumber, node: NodeNumber) -> Self {
        Self {
            thread,
            node,
            total: Weight::default(),
            fine: RecentPeriods::default(),
            coarse: RecentPeriods::default(),
        }
    }

    fn recent(&mut self, resolution: Resolution) -> &mut RecentPeriods {
        match resolution {
            Resolution::Fine => &mut self.fine,
            Resolution::Coarse => &mut self.coarse,
        }
    }

    /// Adds time that was spent at one point in session time.
    pub(super) fn add(&mut self, at_ns: i64, weight: Weight) {
        let before = self.total;
        self.total = before.plus(weight);
        let on_us = whole_us(before.on_ns, self.total.on_ns);
        let off_us = whole_us(before.off_ns, self.total.off_ns);
        if on_us == 0 && off_us == 0 {
            return;
        }
        for resolution in Resolution::ALL {
            let period = resolution.period_of(at_ns);
            self.recent(resolution).add(period, on_us, off_us);
        }
    }

    /// Adds time off the processor from one point in session time to another. A period that no
    /// window contains any more gets none, so a long wait takes few steps.
    pub(super) fn add_wait(&mut self, (from_ns, to_ns): (i64, i64)) {
        let before_ns = self.total.off_ns;
        let length = length_ns((from_ns, to_ns));
        self.total = self.total.plus(Weight::off(length));
        for resolution in Resolution::ALL {
            let last = resolution.period_of(to_ns);
            let first = Period(last.0.saturating_sub(Resolution::KEPT));
            let mut at = from_ns.max(resolution.start_of(first)).min(to_ns);
            let mut counted = before_ns.saturating_add(length_ns((from_ns, at)));
            while at < to_ns {
                let period = resolution.period_of(at);
                // A forged time may be beyond the last period.
                let next = resolution.start_of(period.next());
                let end = if next > at { next.min(to_ns) } else { to_ns };
                let after = counted.saturating_add(length_ns((at, end)));
                let off_us = whole_us(counted, after);
                if off_us > 0 {
                    self.recent(resolution).add(period, 0, off_us);
                }
                (at, counted) = (end, after);
            }
        }
    }

    /// Drops the periods that no window contains any more.
    pub(super) fn forget_before(&mut self, now_ns: i64) {
        for resolution in Resolution::ALL {
            let now = resolution.period_of(now_ns);
            self.recent(resolution).forget(now);
        }
    }

    /// The time in a range; `None` for all time.
    pub(super) fn within(&self, range: Option<&PeriodRange>) -> Weight {
        match range {
            None => self.total,
            Some(range) => match range.resolution {
                Resolution::Fine => self.fine.within(range),
                Resolution::Coarse => self.coarse.within(range),
            },
        }
    }
}

/// The whole microseconds between two totals. The sum over all steps is the sum of the totals.
fn whole_us(before_ns: u64, after_ns: u64) -> u32 {
    u32::try_from((after_ns / 1000).saturating_sub(before_ns / 1000)).unwrap_or(u32::MAX)
}
