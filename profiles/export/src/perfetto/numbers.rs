//! The numbers of processes and threads in a trace: the system's, if they are free.
//!
//! Used by [`super::tracks`]. Perfetto has one space of numbers for processes and threads: a thread
//! with the number of its process is its main thread. A profile may have a number twice, because
//! the system reuses numbers, because a process runs several programs, or because processes are in
//! several namespaces. Invariant: every number is given once, to a process and its main thread, or
//! to a thread; it fits in 31 bits and is not 0.

use std::collections::HashSet;

/// The first number for processes and threads whose own number is taken. Systems give smaller ones.
const FIRST_FREE: u32 = 1 << 30;

/// The numbers that are taken. See the [module](self).
#[derive(Debug)]
pub(super) struct Numbers {
    taken: HashSet<u32>,
    next: u32,
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            taken: HashSet::new(),
            next: FIRST_FREE,
        }
    }
}

impl Numbers {
    /// This number, or another one if it is taken or does not fit.
    pub(super) fn take(&mut self, wanted: u64) -> u32 {
        let wanted = u32::try_from(wanted).ok();
        let fits = |number: &u32| *number > 0 && *number < FIRST_FREE;
        let mut number = wanted.filter(fits).unwrap_or(self.next);
        while !self.taken.insert(number) {
            number = self.next;
            self.next = self.next.saturating_add(1).min(i32::MAX.unsigned_abs());
            if number == self.next {
                break;
            }
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_given_once_and_fits() {
        let mut numbers = Numbers::default();
        let given = [7, 7, 0, 1 << 40, 7, u64::MAX].map(|wanted| numbers.take(wanted));
        assert_eq!(given[0], 7);
        let all: HashSet<u32> = given.into_iter().collect();
        assert_eq!(all.len(), given.len(), "{given:?}");
        assert!(!all.contains(&0) && all.iter().all(|number| i32::try_from(*number).is_ok()));
    }
}
