//! What `/proc/PID/stat` says about a process or a thread, and descriptors of processes. Linux.
//!
//! Used here, and by the parent and the transport for processes that need not be their children.
//! Invariant: the name of a program may be any bytes, such as brackets and the first half of a
//! character.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags};

use profiler_ids::{ProcessId, ProcessStart};

use crate::OwnDescriptor;

/// The fields of a `stat` file after the name.
#[derive(Debug)]
pub struct ProcessStat(String);

impl ProcessStat {
    /// Reads the file of a process. `None` if there is no such process, or no `/proc`.
    pub fn of(pid: ProcessId) -> Option<Self> {
        Self::read(Path::new(&format!("/proc/{pid}/stat")))
    }

    /// Reads a `stat` file, such as that of a thread.
    pub fn read(path: &Path) -> Option<Self> {
        let mut stat = Vec::new();
        crate::read_file(path, &mut stat).ok()?;
        Self::parse(&stat)
    }

    /// The fields in the bytes of such a file.
    pub fn parse(stat: &[u8]) -> Option<Self> {
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        Some(Self(
            String::from_utf8_lossy(stat.get(end + 1..)?).into_owned(),
        ))
    }

    /// A field, with its number in proc(5). The first one after the name is the third.
    pub fn field(&self, number: usize) -> Option<&str> {
        self.0.split_ascii_whitespace().nth(number.checked_sub(3)?)
    }

    /// A field that is a number.
    pub fn number(&self, number: usize) -> Option<u64> {
        self.field(number)?.parse().ok()
    }

    /// The state, as a letter.
    pub fn state(&self) -> Option<&str> {
        self.field(3)
    }

    /// When the process started.
    pub fn start(&self) -> Option<ProcessStart> {
        self.number(22).map(ProcessStart::new)
    }
}

/// A descriptor (pidfd) of the process that has this number and this start time.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] if there is no such process; the system's error, for example if no
/// descriptor is left.
pub fn open_process(pid: ProcessId, start: ProcessStart) -> io::Result<OwnDescriptor<OwnedFd>> {
    let none = || io::Error::from(io::ErrorKind::NotFound);
    let number = i32::try_from(pid.get()).ok().and_then(Pid::from_raw);
    let process = rustix::process::pidfd_open(number.ok_or_else(none)?, PidfdFlags::empty());
    let process = match process {
        Err(rustix::io::Errno::SRCH) => return Err(none()),
        process => OwnDescriptor::new(process?),
    };
    // Compared afterwards: the number may have been given to another process before.
    let now = ProcessStat::of(pid).and_then(|stat| stat.start());
    if now == Some(start) {
        Ok(process)
    } else {
        Err(none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_after_any_name_are_read() {
        // The system cuts a name at 15 bytes, also within a character.
        let stat = ProcessStat::parse(b"7 (a) S (\xc3) Z 1 x\n").unwrap();
        assert_eq!(stat.state(), Some("Z"));
        assert_eq!(stat.number(4), Some(1));
        assert_eq!(stat.number(5), None, "not a number");
        assert_eq!((stat.field(2), stat.field(6)), (None, None));
        assert!(ProcessStat::parse(b"7 nothing").is_none());
    }

    #[test]
    fn a_process_is_opened_only_with_its_start_time() {
        let own = ProcessId::new(std::process::id());
        let start = ProcessStat::of(own).and_then(|stat| stat.start()).unwrap();
        assert!(start.get() > 0);
        assert!(open_process(own, start).is_ok());
        let missing = |pid, start| {
            let error = open_process(pid, start).unwrap_err();
            error.kind() == io::ErrorKind::NotFound
        };
        assert!(missing(own, ProcessStart::new(start.get() + 1)));
        assert!(missing(ProcessId::new(u32::MAX - 1), start));
        assert!(missing(ProcessId::new(0), start));
    }
}
