//! The tests of the crate's public interface. They are one program, because linking a program takes
//! long.

mod foreign_answers;
