//! Decodes the records of a ring.
//!
//! Used by `ring`. The system writes the records, but it copies the stack and the registers from
//! another process, and a ring may be overrun. So every size is checked, and a record without the
//! expected layout is skipped. Pure.
//!
//! ```text
//! record      u32 type, u16 flags, u16 bytes of the record (a multiple of 8); then its body
//! sample      u32 pid, u32 tid, u64 time, u64 abi, the registers if abi is not 0,
//!             u64 size, and if that is not 0: the bytes of the stack, u64 bytes that are valid
//! lost        u64 event, u64 number; u32 pid, u32 tid, u64 time
//! comm        u32 pid, u32 tid, the name; u32 pid, u32 tid, u64 time
//! ```

use crate::registers::{COUNT, UserRegisters, from_words};

const LOST: u32 = 2;
const COMM: u32 = 3;
const SAMPLE: u32 = 9;
/// In the flags of a record of the type `comm`: the name has changed because the process has
/// executed a program.
const IS_EXEC: u16 = 1 << 13;
/// The value of `abi` in a sample of a program with words of 64 bits.
const ABI_64: u64 = 2;
/// The number of bytes of the head of a record.
const HEAD: usize = 8;
/// The number of bytes at the end of each record other than a sample: process, thread and time.
const TAIL: usize = 16;

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A sample of a thread.
    Sample(StackSample<'a>),
    /// Samples that found no room in the ring.
    Lost {
        /// The process that ran when the system noted the loss.
        pid: u32,
        /// The number of records.
        records: u64,
    },
    /// A process has executed another program.
    Exec {
        /// The process.
        pid: u32,
        /// The time of the call, on the monotonic clock.
        at_ns: u64,
    },
}

/// A sample of a thread that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackSample<'a> {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When it was taken, on the monotonic clock.
    pub at_ns: u64,
    /// The registers of the program. `None` if the program does not use words of 64 bits.
    pub registers: Option<UserRegisters>,
    /// The stack, from the stack pointer upwards.
    pub stack: &'a [u8],
    /// Whether the stack may be longer.
    pub is_cut: bool,
}

/// The records in these bytes.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// Decodes these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    /// The next record of a known type. Ends before a record whose size is impossible.
    fn next(&mut self) -> Option<Record<'a>> {
        loop {
            let (head, _) = self.rest.split_at_checked(HEAD)?;
            let mut fields = Fields(head);
            let kind = fields.half()?;
            let [a, b, c, d] = fields.0.first_chunk::<4>()?;
            let flags = u16::from_ne_bytes([*a, *b]);
            let size = usize::from(u16::from_ne_bytes([*c, *d]));
            let (record, rest) = self.rest.split_at_checked(size).unwrap_or_default();
            self.rest = rest;
            let body = record.get(HEAD..)?;
            let decoded = match kind {
                SAMPLE => sample(body),
                LOST => lost(body),
                COMM if flags & IS_EXEC != 0 => exec(body),
                _ => None,
            };
            if decoded.is_some() {
                return decoded;
            }
        }
    }
}

fn sample(body: &[u8]) -> Option<Record<'_>> {
    let mut fields = Fields(body);
    let (pid, tid, at_ns) = (fields.half()?, fields.half()?, fields.word()?);
    let abi = fields.word()?;
    let mut registers = None;
    if abi != 0 {
        let mut words = [0; COUNT];
        for word in &mut words {
            *word = fields.word()?;
        }
        registers = (abi == ABI_64).then(|| from_words(words));
    }
    let (stack, is_cut) = fields.stack()?;
    Some(Record::Sample(StackSample {
        pid,
        tid,
        at_ns,
        registers,
        stack,
        is_cut,
    }))
}

fn lost(body: &[u8]) -> Option<Record<'_>> {
    let mut fields = Fields(body);
    let (_event, records) = (fields.word()?, fields.word()?);
    let pid = fields.half()?;
    Some(Record::Lost { pid, records })
}

fn exec(body: &[u8]) -> Option<Record<'_>> {
    let pid = Fields(body).half()?;
    let tail = body.len().checked_sub(TAIL)?;
    let mut tail = Fields(body.get(tail..)?);
    let (_pid, _tid) = (tail.half()?, tail.half()?);
    let at_ns = tail.word()?;
    Some(Record::Exec { pid, at_ns })
}

/// The remaining fields of a record.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn half(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*bytes))
    }

    fn word(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*bytes))
    }

    /// The valid bytes of the stack, and whether there was no room for more.
    fn stack(&mut self) -> Option<(&'a [u8], bool)> {
        let size = usize::try_from(self.word()?).ok()?;
        if size == 0 {
            return Some((&[], true));
        }
        let (bytes, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        let valid = usize::try_from(self.word()?).unwrap_or(usize::MAX);
        let valid = valid.min(size);
        Some((bytes.get(..valid)?, valid == size))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A record with this body.
    fn record(kind: u32, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(u16::try_from(HEAD + body.len()).unwrap().to_ne_bytes());
        bytes.extend(body);
        bytes
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// A process and a thread, as the system writes them.
    fn numbers(pid: u32, tid: u32) -> Vec<u8> {
        [pid.to_ne_bytes(), tid.to_ne_bytes()].concat()
    }

    /// The body of a sample with a stack of 16 bytes, of which `valid` are valid.
    fn body(abi: u64, valid: u64) -> Vec<u8> {
        let mut body = numbers(7, 8);
        body.extend(words(&[99, abi]));
        if abi != 0 {
            body.extend(words(&[5; COUNT]));
        }
        body.extend(words(&[16, 0x11, 0x22, valid]));
        body
    }

    fn decoded(bytes: &[u8]) -> Vec<Record<'_>> {
        Records::new(bytes).collect()
    }

    fn stack_of(bytes: &[u8]) -> (Vec<u8>, bool, bool) {
        let all = decoded(bytes);
        let [Record::Sample(sample)] = all.as_slice() else {
            panic!("{all:?}");
        };
        assert_eq!((sample.pid, sample.tid, sample.at_ns), (7, 8, 99));
        let has_registers = sample.registers.is_some_and(|registers| registers.sp == 5);
        (sample.stack.to_vec(), sample.is_cut, has_registers)
    }

    #[test]
    fn a_sample_has_its_thread_its_registers_and_the_valid_part_of_its_stack() {
        let of = |abi, valid| stack_of(&record(SAMPLE, 2, &body(abi, valid)));
        assert_eq!(of(2, 8), (words(&[0x11]), false, true));
        assert_eq!(of(2, 16), (words(&[0x11, 0x22]), true, true));
        assert_eq!(of(2, u64::MAX), (words(&[0x11, 0x22]), true, true));
        assert_eq!(of(1, 8), (words(&[0x11]), false, false), "32 bits");
        assert_eq!(of(0, 0), (Vec::new(), false, false), "no registers");
    }

    #[test]
    fn losses_and_executed_programs_are_found_between_other_records() {
        let mut bytes = record(1, 0, &words(&[1, 2, 3]));
        let loss = [words(&[55, 3]), numbers(7, 8), words(&[99])].concat();
        bytes.extend(record(LOST, 0, &loss));
        let name = [
            numbers(7, 7),
            words(&[0x6f6f66]),
            numbers(7, 7),
            words(&[98]),
        ]
        .concat();
        bytes.extend(record(COMM, 0, &name));
        bytes.extend(record(COMM, IS_EXEC, &name));
        let lost = Record::Lost { pid: 7, records: 3 };
        let exec = Record::Exec { pid: 7, at_ns: 98 };
        assert_eq!(decoded(&bytes), [lost, exec]);
    }

    #[test]
    fn a_record_that_is_cut_off_or_has_an_odd_size_is_none() {
        let whole = record(SAMPLE, 2, &body(2, 8));
        for length in 0..whole.len() {
            assert_eq!(decoded(&whole[..length]), [], "{length}");
        }
        for size in 0..u16::try_from(whole.len()).unwrap() {
            let mut odd = whole.clone();
            odd[6..8].copy_from_slice(&size.to_ne_bytes());
            let first = Records::new(&odd).next();
            assert!(!matches!(first, Some(Record::Sample(_))), "{size}");
        }
        let mut long = body(2, 8);
        let at = long.len() - 32;
        long[at..at + 8].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(decoded(&record(SAMPLE, 2, &long)), []);
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(bytes: Vec<u8>, kinds in prop::collection::vec(1..12_u32, 0..6)) {
            for record in Records::new(&bytes) {
                if let Record::Sample(sample) = record {
                    prop_assert!(sample.stack.len() <= bytes.len());
                }
            }
            let mut all = Vec::new();
            for kind in kinds {
                all.extend(record(kind, IS_EXEC, &bytes));
                let cut = all.len() - usize::from(kind == 9).min(all.len());
                Records::new(&all[..cut]).for_each(drop);
            }
        }

        #[test]
        fn each_record_is_found_however_many_others_are_around_it(before in 0..9_usize, after in 0..9_usize) {
            let other = record(1, 0, &words(&[1, 2]));
            let own = record(SAMPLE, 2, &body(2, 8));
            let bytes = [other.repeat(before), own, other.repeat(after)].concat();
            prop_assert_eq!(decoded(&bytes).len(), 1);
        }
    }
}
