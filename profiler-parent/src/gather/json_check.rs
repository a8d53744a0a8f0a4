//! Checks that a child's bytes can go into a profile: one JSON object of the right shape.
//!
//! The parent runs every child's part through [`check`] before it copies it into the merged
//! profile, where one stray bracket would make every part unreadable. Invariants: memory is bounded
//! for every input (one buffer, [`MAX_DEPTH`] levels); nothing panics; accepted input is
//! valid to the strictest readers, so UTF-8, surrogates and the range of numbers are checked, too.
//!
//! The shape: `meta` an object, `libs` an array, `threads` an array of objects, `processes` absent
//! or an empty array. All other members may be anything. The input is read once, byte by byte, with
//! a fast path for plain text; [`scan`] holds the grammar.

mod number;
mod scan;
mod text;

use std::io::{self, Read};

use self::scan::{Found, Scan};

/// Deepest nesting that is accepted; the outer object is level 1.
pub(crate) const MAX_DEPTH: usize = 64;

/// Why a child's bytes cannot go into a profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChildJsonError {
    /// The bytes could not be read.
    #[error("cannot read: {0}")]
    Read(#[source] io::Error),
    /// The input is longer than allowed.
    #[error("more than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// The text ends before the object does.
    #[error("cut after {at} bytes")]
    Cut {
        /// The length of the text, in bytes.
        at: u64,
    },
    /// A byte that JSON does not allow at this place.
    #[error("not JSON at byte {at}: expected {expected}")]
    NotJson {
        /// The offset.
        at: u64,
        /// What was expected.
        expected: &'static str,
    },
    /// The object is followed by other text.
    #[error("bytes after the object, from byte {at}")]
    Trailing {
        /// The offset of that text.
        at: u64,
    },
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} levels at byte {at}")]
    TooDeep {
        /// The offset.
        at: u64,
    },
    /// A text is not UTF-8.
    #[error("not UTF-8 at byte {at}")]
    NotUtf8 {
        /// The offset.
        at: u64,
    },
    /// A text holds half of a surrogate pair.
    #[error("half of a surrogate pair at byte {at}")]
    LoneSurrogate {
        /// The offset.
        at: u64,
    },
    /// A number is too large for a reader, or has far too many digits.
    #[error("number out of range at byte {at}")]
    NumberOutOfRange {
        /// The offset.
        at: u64,
    },
    /// Valid JSON, but not a part of a profile.
    #[error("wrong shape: {0}")]
    WrongShape(&'static str),
}

/// The properties of an accepted part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedJson {
    /// Length in bytes.
    pub length: u64,
    /// Number of elements of `threads`.
    pub threads: u64,
}

/// Reads `input` to its end and checks it.
///
/// # Errors
/// All of [`ChildJsonError`]; the first error found.
pub fn check(input: impl Read, limit: u64) -> Result<CheckedJson, ChildJsonError> {
    let mut scan = Scan::new(input, limit);
    let mut shape = Shape::default();
    scan.open(b'{', "an object")?;
    scan.members(1, &mut |scan, name| shape.member(scan, name))?;
    let length = scan.expect_end()?;
    shape.complete(length)
}

/// The members that define the shape.
#[derive(Debug, Default)]
struct Shape {
    meta: bool,
    libs: bool,
    processes: bool,
    threads: Option<u64>,
}

impl Shape {
    /// Reads the value of a member of the outer object.
    fn member<R: Read>(&mut self, scan: &mut Scan<R>, name: &[u8]) -> Result<(), ChildJsonError> {
        match name {
            b"meta" => {
                once(std::mem::replace(&mut self.meta, true), "meta twice")?;
                is(scan.value(1)?, Found::Object, "meta is not an object")
            }
            b"libs" => {
                once(std::mem::replace(&mut self.libs, true), "libs twice")?;
                is(scan.value(1)?, Found::Array, "libs is not an array")
            }
            b"processes" => {
                once(
                    std::mem::replace(&mut self.processes, true),
                    "processes twice",
                )?;
                no_elements(scan)
            }
            b"threads" => {
                once(self.threads.is_some(), "threads twice")?;
                self.threads = Some(threads(scan)?);
                Ok(())
            }
            _ => scan.value(1).map(|_| ()),
        }
    }

    fn complete(self, length: u64) -> Result<CheckedJson, ChildJsonError> {
        is(self.meta, true, "no meta")?;
        is(self.libs, true, "no libs")?;
        let threads = self
            .threads
            .ok_or(ChildJsonError::WrongShape("no threads"))?;
        Ok(CheckedJson { length, threads })
    }
}

fn once(seen_before: bool, complaint: &'static str) -> Result<(), ChildJsonError> {
    is(seen_before, false, complaint)
}

fn is<T: PartialEq>(found: T, expected: T, complaint: &'static str) -> Result<(), ChildJsonError> {
    if found == expected {
        Ok(())
    } else {
        Err(ChildJsonError::WrongShape(complaint))
    }
}

fn threads<R: Read>(scan: &mut Scan<R>) -> Result<u64, ChildJsonError> {
    let mut count = 0;
    open_array(scan, "threads is not an array")?;
    scan.elements(2, &mut |scan| {
        count += 1;
        is(scan.value(2)?, Found::Object, "a thread is not an object")
    })?;
    Ok(count)
}

fn no_elements<R: Read>(scan: &mut Scan<R>) -> Result<(), ChildJsonError> {
    open_array(scan, "processes is not an array")?;
    scan.elements(2, &mut |_| {
        Err(ChildJsonError::WrongShape("processes is not empty"))
    })
}

fn open_array<R: Read>(scan: &mut Scan<R>, complaint: &'static str) -> Result<(), ChildJsonError> {
    is(scan.peek_value()?, b'[', complaint)?;
    scan.open(b'[', complaint)
}

#[cfg(test)]
mod tests;
