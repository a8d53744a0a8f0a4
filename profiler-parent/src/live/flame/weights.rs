//! The time that each stack of each thread took, by periods.
//!
//! Filled while a pool is read, summed up for a request. Invariants: the sum over all cells equals
//! the time that was added, except for the time that [`Weights::left_out`] counts; the periods of a
//! cell add up to its total to a microsecond, because the fractions are carried over; memory is
//! bounded by [`Room`].

use std::collections::HashMap;

use super::stack_tree::NodeNumber;
use super::window::{Period, PeriodRange, Resolution, length_ns};

/// Time on and off the processor, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) on_ns: u64,
    pub(super) off_ns: u64,
}

impl Weight {
    /// Time on the processor.
    pub(super) const fn on(on_ns: u64) -> Self {
        Self { on_ns, off_ns: 0 }
    }

    /// Time off the processor.
    pub(super) const fn off(off_ns: u64) -> Self {
        Self { on_ns: 0, off_ns }
    }

    /// The sum of both.
    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            on_ns: self.on_ns.saturating_add(other.on_ns),
            off_ns: self.off_ns.saturating_add(other.off_ns),
        }
    }

    /// Whether there is any time.
    pub(super) const fn is_zero(self) -> bool {
        self.on_ns == 0 && self.off_ns == 0
    }
}

/// Number of a thread in its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ThreadNumber(pub(super) u32);

/// What may still be added, for all processes together.
#[derive(Debug)]
pub(super) struct Room {
    cells: usize,
    nodes: usize,
    /// Limit on the cells of one process, so that one process cannot take all.
    share: usize,
}

impl Room {
    /// Room for this number of cells and of nodes of trees.
    pub(super) const fn of(cells: usize, nodes: usize) -> Self {
        Self {
            cells,
            nodes,
            share: usize::MAX,
        }
    }

    /// Limits the cells of each process from now on.
    pub(super) const fn set_share(&mut self, cells: usize) {
        self.share = cells;
    }

    /// Gives back what a process took that is dropped.
    pub(super) const fn give_back(&mut self, cells: usize, nodes: usize) {
        self.cells = self.cells.saturating_add(cells);
        self.nodes = self.nodes.saturating_add(nodes);
    }

    /// Takes the room of a node, if there is some.
    pub(super) fn take_node(&mut self) -> bool {
        take_one(&mut self.nodes)
    }
}

fn take_one(count: &mut usize) -> bool {
    let left = count.checked_sub(1);
    *count = left.unwrap_or(0);
    left.is_some()
}

/// The time of one period, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    period: Period,
    on_us: u32,
    off_us: u32,
}

/// The time of the latest periods, oldest first.
#[derive(Debug, Default)]
struct Recent(Vec<Slot>);

impl Recent {
    fn add(&mut self, period: Period, on_us: u32, off_us: u32) {
        let place = self.0.partition_point(|slot| slot.period < period);
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
                self.0.insert(place, slot);
                self.forget_before_the_latest();
            }
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
        let is_old = |slot: &Slot| slot.period.0.saturating_add(Resolution::KEPT) <= now.0;
        let old = self.0.partition_point(is_old);
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

/// The time of one stack of one thread.
#[derive(Debug)]
struct Cell {
    thread: ThreadNumber,
    node: NodeNumber,
    total: Weight,
    fine: Recent,
    coarse: Recent,
}

impl Cell {
    fn recent(&mut self, resolution: Resolution) -> &mut Recent {
        match resolution {
            Resolution::Fine => &mut self.fine,
            Resolution::Coarse => &mut self.coarse,
        }
    }

    /// Adds time that was spent at one point in session time.
    fn add(&mut self, at_ns: i64, weight: Weight) {
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
    fn add_wait(&mut self, (from_ns, to_ns): (i64, i64)) {
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

    fn within(&self, range: Option<&PeriodRange>) -> Weight {
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

/// The time of one cell in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CellWeight {
    pub(super) thread: ThreadNumber,
    pub(super) node: NodeNumber,
    pub(super) weight: Weight,
}

/// The time of all stacks of one process.
#[derive(Debug, Default)]
pub(super) struct Weights {
    cells: Vec<Cell>,
    index: HashMap<(ThreadNumber, NodeNumber), u32>,
    left_out: Weight,
}

impl Weights {
    /// Adds time that a thread spent at a stack, at one point in session time.
    pub(super) fn add(
        &mut self,
        thread: ThreadNumber,
        node: NodeNumber,
        at_ns: i64,
        weight: Weight,
        room: &mut Room,
    ) {
        match self.cell(thread, node, room) {
            Some(cell) => cell.add(at_ns, weight),
            None => self.left_out = self.left_out.plus(weight),
        }
    }

    /// Adds time off the processor that a thread spent at a stack, from one point in session time
    /// to another.
    pub(super) fn add_wait(
        &mut self,
        thread: ThreadNumber,
        node: NodeNumber,
        range: (i64, i64),
        room: &mut Room,
    ) {
        match self.cell(thread, node, room) {
            Some(cell) => cell.add_wait(range),
            None => self.left_out = self.left_out.plus(Weight::off(length_ns(range))),
        }
    }

    /// Takes the room of a thread's time without a stack: time for whose stack there is no room
    /// counts there.
    pub(super) fn reserve(&mut self, thread: ThreadNumber, room: &mut Room) {
        let _ = self.place(thread, NodeNumber::NONE, room);
    }

    /// The cell of a stack; that of the thread without a stack if there is no room.
    fn cell(
        &mut self,
        thread: ThreadNumber,
        node: NodeNumber,
        room: &mut Room,
    ) -> Option<&mut Cell> {
        let place = self
            .place(thread, node, room)
            .or_else(|| self.place(thread, NodeNumber::NONE, room))?;
        self.cells.get_mut(place as usize)
    }

    fn place(&mut self, thread: ThreadNumber, node: NodeNumber, room: &mut Room) -> Option<u32> {
        if let Some(known) = self.index.get(&(thread, node)) {
            return Some(*known);
        }
        let has_share = node == NodeNumber::NONE || self.cells.len() < room.share;
        let place = u32::try_from(self.cells.len()).ok()?;
        if !has_share || !take_one(&mut room.cells) {
            return None;
        }
        self.cells.push(Cell {
            thread,
            node,
            total: Weight::default(),
            fine: Recent::default(),
            coarse: Recent::default(),
        });
        self.index.insert((thread, node), place);
        Some(place)
    }

    /// Number of cells, which were taken from the room.
    pub(super) const fn len(&self) -> usize {
        self.cells.len()
    }

    /// Frees what only adding needs.
    pub(super) fn finish(&mut self) {
        self.index = HashMap::new();
        self.cells.shrink_to_fit();
    }

    /// Drops the periods that no window contains any more.
    pub(super) fn forget_before(&mut self, now_ns: i64) {
        for cell in &mut self.cells {
            for resolution in Resolution::ALL {
                let now = resolution.period_of(now_ns);
                cell.recent(resolution).forget(now);
            }
        }
    }

    /// The time of every cell in a range; `None` for all time.
    pub(super) fn within(
        &self,
        range: Option<PeriodRange>,
    ) -> impl Iterator<Item = CellWeight> + '_ {
        self.cells.iter().map(move |cell| CellWeight {
            thread: cell.thread,
            node: cell.node,
            weight: cell.within(range.as_ref()),
        })
    }

    /// The time for which there was no room.
    pub(super) const fn left_out(&self) -> Weight {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::window::Window;
    use super::*;

    const THREAD: ThreadNumber = ThreadNumber(0);
    const SECOND: i64 = 1_000_000_000;

    fn sum(weights: &Weights, range: Option<PeriodRange>) -> Weight {
        let all = weights.within(range);
        all.fold(Weight::default(), |sum, cell| sum.plus(cell.weight))
    }

    #[test]
    fn a_long_wait_is_divided_among_the_periods() {
        let mut weights = Weights::default();
        let mut room = Room::of(10, 0);
        let node = NodeNumber(3);
        weights.add_wait(THREAD, node, (-5, 1000 * SECOND), &mut room);
        let now = 1000 * SECOND - 1;
        let ten = sum(&weights, Window::TenSeconds.now(now));
        assert_eq!(ten, Weight::off(10 * SECOND as u64));
        let before = sum(&weights, Window::TenSeconds.before(now));
        assert_eq!(before, Weight::off(10 * SECOND as u64));
        let all = sum(&weights, None);
        assert_eq!(all, Weight::off(1000 * SECOND as u64 + 5));
    }

    #[test]
    fn stacks_without_room_keep_their_time_in_their_thread_or_are_counted() {
        let mut weights = Weights::default();
        let mut room = Room::of(2, 0);
        for node in 0..5 {
            weights.add(THREAD, NodeNumber(node), 0, Weight::on(10), &mut room);
            if node == 0 {
                weights.add(THREAD, NodeNumber::NONE, 0, Weight::on(1), &mut room);
            }
        }
        assert_eq!(sum(&weights, None), Weight::on(51));
        weights.add(ThreadNumber(1), NodeNumber(0), 0, Weight::on(7), &mut room);
        assert_eq!(weights.left_out(), Weight::on(7));
    }

    #[test]
    fn a_process_with_many_stacks_leaves_room_for_other_processes() {
        let mut room = Room::of(10, 0);
        room.set_share(4);
        let mut greedy = Weights::default();
        greedy.reserve(THREAD, &mut room);
        for node in 0..100 {
            greedy.add(THREAD, NodeNumber(node), 0, Weight::on(1), &mut room);
        }
        assert_eq!((greedy.len(), sum(&greedy, None)), (4, Weight::on(100)));
        let mut other = Weights::default();
        for node in 0..4 {
            other.add(THREAD, NodeNumber(node), 0, Weight::on(1), &mut room);
        }
        assert_eq!((other.len(), room.cells), (4, 2));
        room.give_back(greedy.len(), 3);
        assert_eq!((room.cells, room.nodes), (6, 3));
    }

    #[test]
    fn a_thread_with_reserved_room_keeps_the_time_of_all_stacks() {
        let mut room = Room::of(1, 0);
        let mut weights = Weights::default();
        weights.reserve(THREAD, &mut room);
        weights.add(THREAD, NodeNumber(1), 0, Weight::on(5), &mut room);
        weights.add_wait(THREAD, NodeNumber(2), (0, 7), &mut room);
        let kept = Weight {
            on_ns: 5,
            off_ns: 7,
        };
        assert_eq!(sum(&weights, None), kept);
        assert_eq!(weights.left_out(), Weight::default());
    }

    #[test]
    fn old_periods_are_dropped_and_stay_in_the_total() {
        let mut weights = Weights::default();
        let mut room = Room::of(1, 0);
        for second in 0..500 {
            weights.add(
                THREAD,
                NodeNumber(0),
                second * SECOND,
                Weight::on(1000),
                &mut room,
            );
        }
        let kept = |recent: &Recent| recent.0.len() <= Resolution::KEPT as usize;
        assert!(
            weights
                .cells
                .iter()
                .all(|cell| kept(&cell.fine) && kept(&cell.coarse))
        );
        weights.forget_before(5000 * SECOND);
        assert!(weights.cells.iter().all(|cell| cell.fine.0.is_empty()));
        assert_eq!(sum(&weights, None), Weight::on(500_000));
    }

    proptest! {
        #[test]
        fn waits_of_any_length_keep_their_time(from in any::<i64>(), to in any::<i64>()) {
            let mut weights = Weights::default();
            let mut room = Room::of(1, 0);
            weights.add_wait(THREAD, NodeNumber(0), (from, to), &mut room);
            let length = u64::try_from(to.saturating_sub(from)).unwrap_or(0);
            let off = sum(&weights, None).off_ns;
            prop_assert!(off == length || length == i64::MAX as u64, "{off} of {length}");
        }

        #[test]
        fn windows_contain_the_time_that_was_spent_in_them(
            steps in prop::collection::vec(
                (0..4_u32, 0..60_000_000_000_i64, 0..5_000_000_u64), 1..80),
        ) {
            let mut weights = Weights::default();
            let mut room = Room::of(100, 0);
            let now = 60 * SECOND - 1;
            let mut expected = 0;
            for (node, at, on) in &steps {
                weights.add(THREAD, NodeNumber(*node), *at, Weight::on(*on), &mut room);
                expected += on;
            }
            prop_assert_eq!(sum(&weights, None).on_ns, expected);
            // Late data of dropped periods may be missing, but nothing is counted twice.
            let mut inside = 0;
            for window in [Window::TenSeconds.now(now), Window::TenSeconds.before(now)] {
                inside += sum(&weights, window).on_ns;
            }
            prop_assert!(inside <= expected);
            let late = steps.iter().filter(|(_, at, _)| *at >= 50 * SECOND);
            let recent: u64 = late.map(|(.., on)| on).sum();
            let found = sum(&weights, Window::TenSeconds.now(now)).on_ns;
            // A cell carries the fraction of a microsecond from one step to the next.
            prop_assert!(found.abs_diff(recent) <= 4 * 1000, "{found} of {recent}");
        }
    }
}
