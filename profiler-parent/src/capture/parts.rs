//! The array of children's parts in the file. Each part is checked before it is added.
//!
//! Used by `gathering`. A part is copied into an unlinked file of the parent while it is checked,
//! because a child could change its part file between a check and a copy. Invariant: after every
//! call the file holds `{"processes":[` and whole parts only.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use profiler_core::time::{SessionClock, Timestamp};
use profiler_gecko::{ProcessSummary, ProfileSpec};

use super::recover::{self, Subject};
use crate::gather::json_check::check;
use crate::part_file::{PartFile, Tee};
use crate::process_table::ProcessForCapture;

/// Largest part of one process, in bytes of JSON: 16 GiB.
const MAX_PART_BYTES: u64 = 16 << 30;
const BUFFER: usize = 256 * 1024;

/// Why a part is not in the file.
#[derive(Debug)]
pub(crate) enum PartError {
    /// The part is invalid or cannot be read; other parts are not affected.
    Refused(String),
    /// The file cannot be written any more.
    Output(io::Error),
}

/// Writes the array of parts.
#[derive(Debug)]
pub(crate) struct Parts<'a, W> {
    out: &'a mut W,
    count: u64,
}

impl<'a, W: Write> Parts<'a, W> {
    /// Begins the profile and its array of parts.
    pub(crate) fn begin(out: &'a mut W) -> io::Result<Self> {
        out.write_all(b"{\"processes\":[")?;
        Ok(Self { out, count: 0 })
    }

    /// Ends the array, and returns its writer; the next text must begin with a comma.
    pub(crate) fn end(self) -> io::Result<&'a mut W> {
        self.out.write_all(b"]")?;
        Ok(self.out)
    }

    /// Adds the part that a child has written into its part file. Fails if `is_patient` returns
    /// false meanwhile.
    pub(crate) fn take(
        &mut self,
        part_file: &PartFile,
        length: u64,
        is_patient: impl Fn() -> bool,
    ) -> Result<(), PartError> {
        let mut private = spool().map_err(PartError::Output)?;
        let from = part_file.read(length).and_then(|reader| {
            let from = BufReader::with_capacity(
                BUFFER,
                Patient {
                    from: reader,
                    is_patient,
                },
            );
            copy_checked(from, &mut private)
        });
        from.map_err(|error| PartError::Refused(error.to_string()))?;
        self.append(private)
    }

    /// Writes the part of a process from its memory. Returns `None`, and writes nothing, if the
    /// process never took the memory.
    pub(super) fn recover(
        &mut self,
        participant: &ProcessForCapture,
        died: Option<Timestamp>,
        clock: SessionClock,
        spec: &ProfileSpec,
    ) -> Result<Option<ProcessSummary>, PartError> {
        let pool = participant
            .pool()
            .ok_or_else(|| PartError::Refused("it has no memory".to_owned()))?;
        let mut private = spool().map_err(PartError::Output)?;
        let subject = Subject {
            pid: participant.pid,
            name: &participant.name,
            died,
        };
        let written = recover::write(&subject, pool, clock, spec, &mut private);
        let summary = written.map_err(PartError::Refused)?;
        if summary.is_some() {
            self.append(private)?;
        }
        Ok(summary)
    }

    /// Adds a part that is known to be whole.
    pub(crate) fn append(&mut self, part: File) -> Result<(), PartError> {
        let comma: &[u8] = if self.count > 0 { b"," } else { b"" };
        self.out
            .write_all(comma)
            .and_then(|()| copy_all(part, self.out))
            .map_err(PartError::Output)?;
        self.count += 1;
        Ok(())
    }
}

/// Copies a part into a file while checking it.
fn copy_checked(from: impl Read, private: &mut impl Write) -> io::Result<()> {
    let mut copy = BufWriter::with_capacity(BUFFER, private);
    check(Tee::new(from, &mut copy), MAX_PART_BYTES).map_err(io::Error::other)?;
    copy.flush() // a part that cannot be copied completely is refused, too
}

/// A reader that fails when the capture no longer waits for it.
struct Patient<R, F> {
    from: R,
    is_patient: F,
}

impl<R: Read, F: Fn() -> bool> Read for Patient<R, F> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if (self.is_patient)() {
            self.from.read(room)
        } else {
            Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "reading it takes too long",
            ))
        }
    }
}

/// Creates an unlinked file, which only this process can open.
pub(crate) fn spool() -> io::Result<File> {
    tempfile::tempfile_in(profiler_files::spill::directory())
}

/// Copies a whole file to `out`.
pub(crate) fn copy_all(mut from: File, out: &mut impl Write) -> io::Result<()> {
    from.seek(SeekFrom::Start(0))?;
    copy_remaining(&mut from, out)
}

/// Copies the remaining bytes of a file to `out`.
pub(crate) fn copy_remaining(from: &mut impl Read, out: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            got => out.write_all(buffer.get(..got).unwrap_or_default())?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: &[u8] = br#"{"meta":{},"libs":[],"threads":[]}"#;

    #[test]
    fn a_part_is_copied_as_it_was_checked() {
        let mut copy = Vec::new();
        copy_checked(PART, &mut copy).unwrap();
        assert_eq!(copy, PART);
    }

    #[test]
    fn a_copy_that_cannot_be_written_completely_is_an_error() {
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        let error = copy_checked(PART, &mut full).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn reading_a_part_fails_when_the_capture_no_longer_waits() {
        let checks = std::cell::Cell::new(0);
        let is_patient = || checks.replace(checks.get() + 1) < 3;
        let endless = Patient {
            from: io::repeat(b' '),
            is_patient,
        };
        let error = copy_checked(PART[..1].chain(endless), &mut io::sink()).unwrap_err();
        assert!(error.to_string().contains("takes too long"), "{error}");
    }
}
