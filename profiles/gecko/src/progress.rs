//! The progress of writing a profile, which other threads can read meanwhile.
//!
//! The writing thread holds a [`ProgressLogger`]; the code that waits for the profile holds the
//! [`ProgressCell`]. As in Gecko, a logger maps its own 0 to 100 % to a part of its parent's, so
//! that a function that reports progress need not know which part of the whole it is.
//!
//! Invariants: the proportion in the cell never falls; a logger that is dropped leaves its range
//! complete; neighbouring ranges meet exactly, so a finished loop of n steps is at exactly 100 %.
//! Parts borrow their logger mutably, so there is one producer at a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A part of a whole, from 0 to 1, as fixed point with 31 fractional bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Proportion(u32);

impl Proportion {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The whole.
    pub const ONE: Self = Self(1 << 31);

    /// `part / whole`; [`Self::ONE`] if `part` is not below `whole`.
    pub fn new(part: u64, whole: u64) -> Self {
        if part >= whole {
            return Self::ONE;
        }
        let scaled = u128::from(part) * u128::from(Self::ONE.0) / u128::from(whole);
        u32::try_from(scaled).map_or(Self::ONE, Self)
    }

    /// This number of hundredths.
    pub fn percent(hundredths: u32) -> Self {
        Self::new(u64::from(hundredths), 100)
    }

    /// The fixed-point number, for the wire.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// As a number from 0 to 1.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE.0)
    }
}

/// The progress at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// How much is done.
    pub proportion: Proportion,
    /// What is being done, in a few words.
    pub location: &'static str,
}

/// Holds the progress. All clones share it.
#[derive(Clone, Debug)]
pub struct ProgressCell(Arc<Mutex<Progress>>);

impl ProgressCell {
    /// A cell at 0 %.
    pub fn new(location: &'static str) -> Self {
        Self(Arc::new(Mutex::new(Progress {
            proportion: Proportion::ZERO,
            location,
        })))
    }

    /// The present progress. Proportion and location are read together.
    pub fn read(&self) -> Progress {
        *self.lock()
    }

    /// The logger of the whole work. A cell has one logger.
    pub fn logger(&self) -> ProgressLogger<'_> {
        ProgressLogger {
            cell: self,
            from: Proportion::ZERO,
            to: Proportion::ONE,
        }
    }

    /// Locks the progress. The lock is held for a copy of four words, and nothing panics meanwhile.
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn advance(&self, proportion: Proportion, location: Option<&'static str>) {
        let mut shown = self.lock();
        shown.proportion = shown.proportion.max(proportion);
        shown.location = location.unwrap_or(shown.location);
    }
}

/// Reports the progress of one part of the work; see the [module](self).
#[derive(Debug)]
pub struct ProgressLogger<'a> {
    cell: &'a ProgressCell,
    from: Proportion,
    to: Proportion,
}

impl ProgressLogger<'_> {
    /// Reports that the proportion `done` of this part is complete, and that `location` is next.
    pub fn set(&mut self, done: Proportion, location: &'static str) {
        self.cell.advance(self.within(done), Some(location));
    }

    /// A logger for the part from `from` to `to` percent of this one.
    pub fn sub(&mut self, from: u32, to: u32, location: &'static str) -> ProgressLogger<'_> {
        let part = self.part(Proportion::percent(from), Proportion::percent(to));
        part.cell.advance(part.from, Some(location));
        part
    }

    /// A logger for step `index` of `count` equal ones. The location is unchanged.
    pub fn step(&mut self, index: usize, count: usize) -> ProgressLogger<'_> {
        let boundary = |steps: usize| {
            let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
            Proportion::new(wide(steps), wide(count))
        };
        let part = self.part(boundary(index), boundary(index.saturating_add(1)));
        part.cell.advance(part.from, None);
        part
    }

    fn part(&self, from: Proportion, to: Proportion) -> ProgressLogger<'_> {
        ProgressLogger {
            cell: self.cell,
            from: self.within(from),
            to: self.within(to),
        }
    }

    /// A proportion of this part as a proportion of the whole; exact at both ends.
    fn within(&self, local: Proportion) -> Proportion {
        let width = u64::from(self.to.0.saturating_sub(self.from.0));
        let offset = (width * u64::from(local.0)) >> 31;
        u32::try_from(offset).map_or(self.to, |offset| {
            Proportion(self.from.0.saturating_add(offset).min(self.to.0))
        })
    }
}

impl Drop for ProgressLogger<'_> {
    fn drop(&mut self) {
        self.cell.advance(self.to, None);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_dropped_logger_leaves_its_range_complete() {
        let cell = ProgressCell::new("asked");
        {
            let mut all = cell.logger();
            drop(all.sub(10, 20, "libraries"));
            let shown = cell.read();
            assert_eq!(
                (shown.proportion, shown.location),
                (Proportion::percent(20), "libraries")
            );
            all.sub(20, 80, "samples")
                .set(Proportion::percent(50), "half of the samples");
            assert_eq!(
                cell.read(),
                Progress {
                    proportion: Proportion::percent(80),
                    location: "half of the samples"
                }
            );
        }
        assert_eq!(cell.read().proportion, Proportion::ONE);
    }

    #[test]
    fn progress_never_goes_back() {
        let cell = ProgressCell::new("");
        let mut all = cell.logger();
        all.set(Proportion::percent(70), "late");
        all.set(Proportion::percent(30), "early");
        assert_eq!(
            cell.read(),
            Progress {
                proportion: Proportion::percent(70),
                location: "early"
            }
        );
    }

    #[test]
    fn proportions_beyond_the_whole_are_the_whole() {
        assert!(Proportion::new(u64::MAX - 1, u64::MAX) < Proportion::ONE);
        assert_eq!(Proportion::new(5, 4), Proportion::ONE);
        assert_eq!(Proportion::new(0, 0), Proportion::ONE);
        assert_eq!(Proportion::percent(25).as_f64(), 0.25);
    }

    #[test]
    fn another_thread_sees_only_pairs_that_were_set() {
        let cell = ProgressCell::new("0");
        let watcher = cell.clone();
        let names = ["0", "1", "2", "3", "4", "5", "6", "7"];
        std::thread::scope(|scope| {
            let watch = scope.spawn(move || {
                let mut last = Proportion::ZERO;
                while last < Proportion::ONE {
                    let shown = watcher.read();
                    assert!(shown.proportion >= last);
                    last = shown.proportion;
                    if last < Proportion::ONE {
                        let index: u64 = shown.location.parse().unwrap();
                        assert_eq!(last, Proportion::new(index, 8));
                    }
                }
            });
            let mut all = cell.logger();
            (0_u64..8)
                .zip(names)
                .for_each(|(index, name)| all.set(Proportion::new(index, 8), name));
            drop(all);
            watch.join().unwrap();
        });
    }

    proptest! {
        #[test]
        fn steps_meet_exactly_and_end_at_the_end(count in 1..500_usize, from in 0..50_u32, to in 50..100_u32) {
            let cell = ProgressCell::new("");
            let mut all = cell.logger();
            let mut part = all.sub(from, to, "loop");
            let mut last = Proportion::percent(from);
            for index in 0..count {
                let step = part.step(index, count);
                prop_assert_eq!(step.from, last);
                last = step.to;
            }
            prop_assert_eq!(last, Proportion::percent(to));
            prop_assert_eq!(cell.read().proportion, Proportion::percent(to));
        }
    }
}
