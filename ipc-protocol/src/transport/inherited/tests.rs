//! Tricks.
