//! Counters that count nothing.

/// A counter that is always zero.
#[derive(Debug)]
pub struct Counter;

impl Counter {
    /// Makes a counter that is always zero.
    pub const fn new(
        _name: &'static str,
        _category: &'static str,
        _description: &'static str,
    ) -> Self {
        Self
    }

    /// Does nothing.
    #[inline]
    pub fn add(&'static self, _delta: i64) {}

    /// Does nothing.
    #[inline]
    pub fn set(&'static self, _value: i64) {}

    /// Always 0.
    pub fn get(&'static self) -> i64 {
        0
    }

    /// Does nothing.
    pub fn register(&'static self) {}
}
