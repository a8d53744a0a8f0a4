//! The array of children's parts in the file: checked first, then copied, one after the other.
//!
//! A part is copied into an unlinked file of the parent's own while it is checked, because a child
//! could change its outbox between a check and a copy. Invariant: after every call the file holds
//! `{"processes":[` and whole parts only.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use profiler_core::profile::{ProcessSummary, ProfileSpec};
use profiler_core::time::{SessionClock, Timestamp};

use super::recover::{self, Subject};
use super::roster::Member;
use crate::gather::json_check::check;
use crate::outbox::{Outbox, Tee};

/// Largest part of one process, in bytes of JSON: 16 GiB.
const MAX_PART_BYTES: u64 = 16 << 30;
const BUFFER: usize = 256 * 1024;

/// Why a part is not in the file.
#[derive(Debug)]
pub(crate) enum PartError {
    /// The part itself is at fault; others go on.
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
    /// Begins the profile.
    pub(crate) fn begin(out: &'a mut W) -> io::Result<Self> {
        out.write_all(b"{\"processes\":[")?;
        Ok(Self { out, count: 0 })
    }

    /// Ends the array, and gives back what it was written to; what follows begins with a comma.
    pub(crate) fn end(self) -> io::Result<&'a mut W> {
        self.out.write_all(b"]")?;
        Ok(self.out)
    }

    /// Takes the part that a child has written into its outbox.
    pub(crate) fn take(&mut self, outbox: &Outbox, length: u64) -> Result<(), PartError> {
        let refused = |error: String| PartError::Refused(error);
        let mut private = spool().map_err(PartError::Output)?;
        {
            let copy = BufWriter::with_capacity(BUFFER, &mut private);
            let tee = Tee::new(BufReader::with_capacity(BUFFER, outbox.read(length)), copy);
            check(tee, MAX_PART_BYTES).map_err(|error| refused(error.to_string()))?;
        }
        self.append(private)
    }

    /// Writes the part of a process from its memory; `None`, and nothing written, if the process
    /// never took it.
    pub(super) fn recover(
        &mut self,
        member: &Member,
        died: Option<Timestamp>,
        clock: SessionClock,
        spec: &ProfileSpec,
    ) -> Result<Option<ProcessSummary>, PartError> {
        let pool = member.pool().ok_or_else(|| PartError::Refused("it has no memory".to_owned()))?;
        let mut private = spool().map_err(PartError::Output)?;
        let subject = Subject { pid: member.pid, name: &member.name, died };
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
        self.out.write_all(comma).and_then(|()| copy_all(part, self.out)).map_err(PartError::Output)?;
        self.count += 1;
        Ok(())
    }
}

/// An unlinked file that only this process has.
pub(crate) fn spool() -> io::Result<File> {
    tempfile::tempfile_in(crate::outbox::directory())
}

/// Copies a whole file to `out`.
pub(crate) fn copy_all(mut from: File, out: &mut impl Write) -> io::Result<()> {
    from.seek(SeekFrom::Start(0))?;
    copy_rest(&mut from, out)
}

/// Copies the rest of a file to `out`.
pub(crate) fn copy_rest(from: &mut impl Read, out: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            got => out.write_all(buffer.get(..got).unwrap_or_default())?,
        }
    }
}
