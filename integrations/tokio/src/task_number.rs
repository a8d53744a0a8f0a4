//! The number of a task of tokio.
//!
//! Used by the hooks and by the wrapped futures. tokio shows the number in texts, such as those of
//! its console and its debug output, but returns it only as an opaque value, which can be hashed.
//! The hash of such a value is that of its number, so a hasher gets the number.

use std::hash::{Hash, Hasher};

use tokio::task::Id;

/// The number of a task; never 0.
#[inline]
pub(crate) fn number_of(id: Id) -> u64 {
    let mut number = HashedNumber(0);
    id.hash(&mut number);
    number.0
}

/// The number of the task that the calling thread polls; 0 outside of a task.
#[inline]
pub(crate) fn current_task() -> u64 {
    tokio::task::try_id().map_or(0, number_of)
}

/// Keeps the number that is hashed.
struct HashedNumber(u64);

impl Hasher for HashedNumber {
    fn write(&mut self, bytes: &[u8]) {
        // Not used by an identifier that is a number.
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_the_one_that_tokio_shows() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let task = async { (current_task(), tokio::task::id().to_string()) };
        let runtime = runtime.unwrap();
        let (number, shown) = runtime.block_on(runtime.spawn(task)).unwrap();
        assert_eq!(number.to_string(), shown);
        assert_eq!(current_task(), 0, "outside of a task");
    }
}
