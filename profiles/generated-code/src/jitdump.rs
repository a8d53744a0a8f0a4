//! Parses jitdumps: binary files with a record for each piece of generated code.
//!
//! ```text
//! header   magic u32, version u32, its size u32, machine u32, 0 u32, pid u32, time u64, flags u64
//! record   kind u32, its size u32, time u64, then by kind:
//!   load   pid u32, tid u32, address u64, code address u64, code size u64, index u64,
//!          name up to a zero byte, code
//!   move   pid u32, tid u32, address u64, old code address u64, new code address u64, size u64,
//!          index u64
//! ```
//!
//! Used by the look-up. Numbers are in the byte order of the machine. Records of other kinds, among
//! them lines and unwinding information, are skipped. Times are not used: the last record for an
//! address holds, as in a perf map. Invariants: any bytes are accepted; the code in the records is
//! not read; memory does not grow with the file; at most [`MAX_RECORDS`] records are read.

use std::io::{self, BufReader, ErrorKind, Read, Seek};

use crate::file_kind::Tally;
use crate::ranges::{AddressRange, LONGEST_NAME, NamedRanges};
use crate::sys::NamespacePid;

/// "JiTD" in the byte order of the machine that wrote the file.
const MAGIC: u32 = 0x4a69_5444;
const VERSION: u32 = 1;
const HEADER_BYTES: u32 = 40;
/// Limit on the size of the header, which later versions may extend.
const LARGEST_HEADER: u32 = 1 << 12;
const RECORD_HEAD_BYTES: u32 = 16;
/// Limit on the records of a file.
const MAX_RECORDS: u64 = 1 << 20;

/// The kinds of records that are used.
const LOAD: u32 = 0;
const MOVE: u32 = 1;
const CLOSE: u32 = 3;
const LOAD_BYTES: u32 = 40;
const MOVE_BYTES: u32 = 48;

/// Why a file cannot be read as a jitdump.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JitdumpError {
    /// The magic number is wrong.
    #[error("it is not a jitdump of this machine's byte order")]
    Magic,
    /// The header is not understood.
    #[error("its header is damaged, or of version {0}")]
    Header(u32),
    /// The header names another process.
    #[error("it is the jitdump of another process")]
    OtherProcess,
    /// The system cannot read it.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
}

/// The numbers at the beginning of some bytes.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn u32(&mut self) -> u32 {
        let Some((first, rest)) = self.0.split_first_chunk() else {
            return 0; // the callers pass enough bytes
        };
        self.0 = rest;
        u32::from_ne_bytes(*first)
    }

    fn u64(&mut self) -> u64 {
        let Some((first, rest)) = self.0.split_first_chunk() else {
            return 0;
        };
        self.0 = rest;
        u64::from_ne_bytes(*first)
    }
}

/// Reads the records of a file that begin in its first `bytes` bytes.
pub(crate) fn read(
    from: impl Read + Seek,
    bytes: u64,
    own_pid: NamespacePid,
    ranges: &mut NamedRanges,
) -> Result<Tally, JitdumpError> {
    let mut records = Records {
        from: BufReader::with_capacity(1 << 12, from),
        tally: Tally::default(),
        left: bytes,
    };
    records.check_header(own_pid)?;
    for _ in 0..MAX_RECORDS {
        if records.left == 0 || !records.read_record(ranges)? {
            return Ok(records.tally);
        }
    }
    records.tally.is_cut = true;
    Ok(records.tally)
}

struct Records<R> {
    from: BufReader<R>,
    tally: Tally,
    /// How many bytes further a record may begin.
    left: u64,
}

impl<R: Read + Seek> Records<R> {
    fn check_header(&mut self, own_pid: NamespacePid) -> Result<(), JitdumpError> {
        let head = self.take::<{ HEADER_BYTES as usize }>()?;
        let head = head.ok_or(JitdumpError::Magic)?;
        let mut fields = Fields(&head);
        if fields.u32() != MAGIC {
            return Err(JitdumpError::Magic);
        }
        let version = fields.u32();
        let size = fields.u32();
        let is_size_known = (HEADER_BYTES..=LARGEST_HEADER).contains(&size);
        if version != VERSION || !is_size_known {
            return Err(JitdumpError::Header(version));
        }
        let (_machine, _padding) = (fields.u32(), fields.u32());
        if fields.u32() != own_pid.get() {
            return Err(JitdumpError::OtherProcess);
        }
        self.left = self.left.saturating_sub(u64::from(size));
        Ok(self.skip(size - HEADER_BYTES)?)
    }

    /// Reads a record; returns whether others may follow.
    fn read_record(&mut self, ranges: &mut NamedRanges) -> io::Result<bool> {
        let Some(head) = self.take::<{ RECORD_HEAD_BYTES as usize }>()? else {
            return Ok(false);
        };
        let mut fields = Fields(&head);
        let (kind, size) = (fields.u32(), fields.u32());
        self.left = self.left.saturating_sub(u64::from(size));
        let Some(body) = size.checked_sub(RECORD_HEAD_BYTES) else {
            self.tally.malformed += 1; // the next record cannot be found
            return Ok(false);
        };
        match kind {
            LOAD => return self.load(body, ranges),
            MOVE => return self.relocate(body, ranges),
            CLOSE => return Ok(false),
            _ => self.skip(body)?,
        }
        Ok(true)
    }

    fn load(&mut self, body: u32, ranges: &mut NamedRanges) -> io::Result<bool> {
        let Some(rest) = body.checked_sub(LOAD_BYTES) else {
            return self.malformed(body);
        };
        let Some(head) = self.take::<{ LOAD_BYTES as usize }>()? else {
            return Ok(false); // not finished
        };
        let mut fields = Fields(&head);
        let (_process_and_thread, _address) = (fields.u64(), fields.u64());
        let (start, size) = (fields.u64(), fields.u64());
        let mut room = [0; LONGEST_NAME + 2];
        let most = u32::try_from(room.len()).unwrap_or(0).min(rest);
        let Some(room) = room.get_mut(..most as usize) else {
            return Ok(false);
        };
        if !is_filled(self.from.read_exact(room))? {
            return Ok(false);
        }
        self.skip(rest - most)?;
        let end = room.iter().position(|byte| *byte == 0);
        let is_long = end.is_none() && most < rest;
        let name = match end.and_then(|end| room.get(..end)) {
            None if is_long => &*room,
            None => &[],
            Some(name) => name,
        };
        match AddressRange::new(start, size).filter(|_| !name.is_empty()) {
            Some(range) => {
                self.tally.entries += 1;
                ranges.add(range, name);
            }
            None => self.tally.malformed += 1,
        }
        Ok(true)
    }

    fn relocate(&mut self, body: u32, ranges: &mut NamedRanges) -> io::Result<bool> {
        let Some(rest) = body.checked_sub(MOVE_BYTES) else {
            return self.malformed(body);
        };
        let Some(head) = self.take::<{ MOVE_BYTES as usize }>()? else {
            return Ok(false);
        };
        self.skip(rest)?;
        let mut fields = Fields(&head);
        let (_process_and_thread, _address) = (fields.u64(), fields.u64());
        let (old, new, size) = (fields.u64(), fields.u64(), fields.u64());
        match (AddressRange::new(old, size), AddressRange::new(new, size)) {
            (Some(old), Some(new)) => {
                self.tally.entries += 1;
                ranges.relocate(old, new);
            }
            _ => self.tally.malformed += 1,
        }
        Ok(true)
    }

    /// Skips a record that is too short for its kind.
    fn malformed(&mut self, body: u32) -> io::Result<bool> {
        self.tally.malformed += 1;
        self.skip(body)?;
        Ok(true)
    }

    /// The next bytes; `None` if the file ends before.
    fn take<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        let mut room = [0; N];
        Ok(is_filled(self.from.read_exact(&mut room))?.then_some(room))
    }

    fn skip(&mut self, bytes: u32) -> io::Result<()> {
        self.from.seek_relative(i64::from(bytes))
    }
}

/// Whether a read found all bytes. The end of the file is no error: the runtime may be writing.
fn is_filled(read: io::Result<()>) -> io::Result<bool> {
    match read {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    const PID: NamespacePid = NamespacePid::new(7);

    fn bytes(words: &[u32], longs: &[u64]) -> Vec<u8> {
        let words = words.iter().flat_map(|word| word.to_ne_bytes());
        words
            .chain(longs.iter().flat_map(|long| long.to_ne_bytes()))
            .collect()
    }

    fn header(pid: u32, size: u32) -> Vec<u8> {
        let mut header = bytes(&[MAGIC, VERSION, size, 62, 0, pid], &[1, 0]);
        header.resize(size.max(HEADER_BYTES) as usize, 0);
        header
    }

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let size = RECORD_HEAD_BYTES + u32::try_from(body.len()).unwrap();
        [bytes(&[kind, size], &[5]), body.to_vec()].concat()
    }

    fn load(start: u64, size: u64, name: &str, code: &[u8]) -> Vec<u8> {
        let numbers = bytes(&[7, 8], &[start, start, size, 1]);
        record(LOAD, &[&numbers, name.as_bytes(), &[0], code].concat())
    }

    fn read_all(parts: &[Vec<u8>], ranges: &mut NamedRanges) -> Result<Tally, JitdumpError> {
        let file = parts.concat();
        read(Cursor::new(&file), file.len() as u64, PID, ranges)
    }

    #[test]
    fn loads_and_moves_are_read_and_other_records_are_skipped() {
        let wanted = [0x1000, 0x2008, 0x3008];
        let mut ranges = NamedRanges::new(&wanted);
        let moved = bytes(&[7, 8], &[0, 0x2000, 0x3000, 0x10, 2]);
        let parts = [
            header(7, 64),
            record(2, &[9; 100]),
            load(0x1000, 0x10, "py::hot:/a.py", &[0xcc; 0x10]),
            load(0x2000, 0x10, "b", &[0xcc; 20_000]),
            record(4, &[1; 30]),
            record(MOVE, &moved),
            record(CLOSE, &[]),
            load(0x1000, 0x10, "after the end", &[]),
        ];
        let tally = read_all(&parts, &mut ranges).unwrap();
        assert_eq!(
            (tally.entries, tally.malformed, tally.is_cut),
            (3, 0, false)
        );
        let names = wanted.map(|address| ranges.name_at(address));
        assert_eq!(names, [Some("py::hot:/a.py"), None, Some("b")]);
    }

    #[test]
    fn a_file_of_another_format_or_process_is_refused() {
        let refused = |parts: &[Vec<u8>]| {
            let refused = read_all(parts, &mut NamedRanges::new(&[]));
            refused.unwrap_err().to_string()
        };
        assert!(refused(&[]).contains("not a jitdump"));
        assert!(refused(&[vec![7; 100]]).contains("not a jitdump"));
        assert!(refused(&[header(8, 40)]).contains("another process"));
        assert!(refused(&[header(7, 39)]).contains("version 1"));
        assert!(refused(&[header(7, LARGEST_HEADER + 1)]).contains("damaged"));
        let swapped: Vec<u8> = header(7, 40)
            .chunks(4)
            .flat_map(|word| word.iter().rev().copied())
            .collect();
        assert!(refused(&[swapped]).contains("byte order"));
    }

    #[test]
    fn damaged_records_are_counted_and_a_torn_end_is_not() {
        let wanted = [0x1000, 0x2000, 0x3000];
        let mut ranges = NamedRanges::new(&wanted);
        let long = "x".repeat(3 * LONGEST_NAME);
        let mut torn = load(0x3000, 0x10, "torn", &[]);
        torn.truncate(RECORD_HEAD_BYTES as usize + 20);
        let parts = [
            header(7, 40),
            record(LOAD, &[0; 39]),
            record(MOVE, &[0; 3]),
            load(0x1000, 0, "empty", &[]),
            load(0x1000, 0x10, "", &[]),
            load(0x1000, 0x10, &long, &[0xcc; 0x10]),
            load(0x2000, 0x10, "b", &[]),
            torn,
        ];
        let tally = read_all(&parts, &mut ranges).unwrap();
        assert_eq!((tally.entries, tally.malformed), (2, 4));
        assert!(ranges.name_at(0x1000).unwrap().ends_with("x…"));
        assert_eq!(ranges.name_at(0x2000), Some("b"));
        assert_eq!(ranges.name_at(0x3000), None);
        let unsized_record = bytes(&[LOAD, 15], &[0]);
        let parts = [header(7, 40), unsized_record, load(0x3000, 1, "lost", &[])];
        let tally = read_all(&parts, &mut ranges).unwrap();
        assert_eq!((tally.entries, tally.malformed), (0, 1));
    }

    proptest! {
        #[test]
        fn any_records_are_accepted_and_counted_once(
            bodies in prop::collection::vec((0..6_u32, prop::collection::vec(any::<u8>(), 0..90)), 0..20),
            tail in prop::collection::vec(any::<u8>(), 0..90),
        ) {
            let mut file = header(7, 40);
            let mut used = 0;
            for (kind, body) in &bodies {
                file.extend(record(*kind, body));
                used += u64::from(*kind == LOAD || *kind == MOVE);
                if *kind == CLOSE {
                    break;
                }
            }
            let mut ranges = NamedRanges::new(&[0, 5, u64::MAX]);
            let tally = read(Cursor::new(&file), file.len() as u64, PID, &mut ranges).unwrap();
            prop_assert_eq!(tally.entries + tally.malformed, used);
            file.extend(tail);
            prop_assert!(read(Cursor::new(&file), file.len() as u64, PID, &mut ranges).is_ok());
        }

        #[test]
        fn a_written_name_is_read(
            start in 0..1_u64 << 47,
            size in 1..1_u64 << 20,
            name in "[!-~][ -~]{0,100}",
            code in 0..9000_usize,
        ) {
            let wanted = [start + size / 2];
            let mut ranges = NamedRanges::new(&wanted);
            let parts = [header(7, 48), load(start, size, &name, &vec![0xcc; code]), load(start + size, 1, "next", &[])];
            let tally = read_all(&parts, &mut ranges).unwrap();
            prop_assert_eq!((tally.entries, tally.malformed), (2, 0));
            prop_assert_eq!(ranges.name_at(start + size / 2), Some(&*name));
        }
    }
}
