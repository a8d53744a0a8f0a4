//! Numbers of flows that look random.
//!
//! Used by `flow`, by `marker::span_number`, and through that by the packages under
//! `integrations/`. Compiled with and without the feature `engine`, because a flow is a value that
//! the application sends to other processes, which may record it. Invariants: equal numbers of a
//! process give equal flows; two flows of different numbers or processes are equal as seldom as two
//! random numbers.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// An identifier for a flow that this number of this process stands for. It looks random, because
/// processes of several machines or namespaces may have the same number, and their profiles may be
/// merged.
pub(crate) fn flow_of(number: u64) -> u64 {
    static KEYS: FlowKeys = FlowKeys::new();
    KEYS.flow_of(std::process::id(), number)
}

/// Random keys, which are drawn once. A forked child has those of its parent, and its own number.
/// No thread waits for another one: that thread may have been lost in a fork.
struct FlowKeys([AtomicU64; 2]);

impl FlowKeys {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 2])
    }

    /// A hash (`SipHash`) of the keys and these numbers.
    fn flow_of(&self, process: u32, number: u64) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.get().hash(&mut hasher);
        (process, number).hash(&mut hasher);
        hasher.finish()
    }

    /// The keys, the same ones on all threads.
    fn get(&self) -> [u64; 2] {
        let keys = self.0.each_ref().map(|key| key.load(Ordering::Relaxed));
        if keys.iter().all(|key| *key != 0) {
            return keys;
        }
        let random = RandomState::new();
        let mut place = 0_u64;
        self.0.each_ref().map(|key| {
            place += 1;
            let drawn = random.hash_one(place).max(1); // 0 is no key
            match key.compare_exchange(0, drawn, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => drawn,
                Err(first) => first, // of another thread
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_and_all_calls_have_the_same_flow_for_a_number() {
        static KEYS: FlowKeys = FlowKeys::new();
        let flow = || KEYS.flow_of(7, 1);
        let threads: Vec<_> = (0..8)
            .map(|_| std::thread::Builder::new().spawn(flow).unwrap())
            .collect();
        let flows = threads.into_iter().map(|thread| thread.join().unwrap());
        let flows: Vec<u64> = flows.collect();
        assert_eq!(flows, [flow(); 8]);
        assert_ne!(flow(), KEYS.flow_of(8, 1), "of a forked child");
        assert_ne!(flow(), KEYS.flow_of(7, 2));
        assert_ne!(flow(), FlowKeys::new().flow_of(7, 1), "of another machine");
    }

    #[test]
    fn keys_that_a_thread_of_the_parent_was_drawing_are_completed_in_a_forked_child() {
        let keys = FlowKeys::new();
        keys.0[0].store(5, Ordering::Relaxed);
        let [first, second] = keys.get();
        assert_eq!(first, 5);
        assert_ne!(second, 0);
        assert_eq!(keys.get(), [first, second]);
    }
}
