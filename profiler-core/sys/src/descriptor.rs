//! Descriptors of the profiler, in a process whose program may close any descriptor at any time.
//!
//! A program that becomes a daemon, or that prepares to execute another one, closes all descriptors
//! from 3 on, without knowing which of them belong to the profiler. The system then reuses the
//! numbers for files of the program, and a call with such a number acts on those files. A
//! long-lived descriptor is therefore kept as an [`OwnDescriptor`], which remembers the file it was
//! made for. Invariant: a number that refers to another file is neither used nor closed; it is
//! forgotten, because it belongs to the program now. The check is one system call, `statx`. If the
//! program closes our descriptor between the check and the use, the use acts on the program's file.
//! Threads with a table of their own exclude that ([`super::leave_program_table`]); a descriptor is
//! used and closed only in the table in which it was made.
//!
//! Files without an inode of their own (`eventfd`, and process descriptors before Linux 6.9) cannot
//! be distinguished from each other: do not keep those.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::descriptor_table::DescriptorTable;
use super::file_identity::FileIdentity;

/// The lowest number that is not one of the standard streams.
const FIRST_FREE: RawFd = 3;

/// The program has closed a descriptor of the profiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program has closed a descriptor of the profiler")]
pub struct DescriptorLost;

impl From<DescriptorLost> for io::Error {
    fn from(lost: DescriptorLost) -> Self {
        Self::other(lost)
    }
}

impl DescriptorLost {
    /// Whether `error` was made from a [`DescriptorLost`].
    pub fn is_in(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

impl FileIdentity {
    /// The identity of the file that has this number now. Neither makes nor closes a descriptor,
    /// because closing any descriptor of a file releases all POSIX locks that the process holds on
    /// it.
    ///
    /// # Errors
    /// `EBADF` for a number that refers to no file.
    pub fn of_number(number: RawFd) -> io::Result<Self> {
        super::imp::file_identity(number)
    }
}

/// A value that closes a descriptor when it is dropped, unless the number refers to another file at
/// that time.
#[derive(Debug)]
pub struct OwnDescriptor<T> {
    value: ManuallyDrop<T>,
    /// The number, and the file it referred to. `None` if unknown: the value is then used
    /// unchecked.
    known: Option<(RawFd, FileIdentity)>,
    /// The table in which the number is.
    table: DescriptorTable,
}

impl<T: AsRawFd> OwnDescriptor<T> {
    /// Remembers the file that the number refers to now.
    pub fn new(value: T) -> Self {
        let number = value.as_raw_fd();
        Self::of_number(value, Some(number))
    }
}

impl<T> OwnDescriptor<T> {
    /// Like `new`, for a type that does not expose its number. The caller passes the number if it
    /// is known.
    pub fn of_number(value: T, number: Option<RawFd>) -> Self {
        let known = number.and_then(|number| Some((number, FileIdentity::of_number(number).ok()?)));
        Self {
            value: ManuallyDrop::new(value),
            known,
            table: DescriptorTable::current(),
        }
    }

    /// The same value, after the caller has put another file of the profiler under the number.
    #[must_use]
    pub fn renewed(mut self) -> Self {
        self.known = self
            .known
            .and_then(|(number, _)| Some((number, FileIdentity::of_number(number).ok()?)));
        self.table = DescriptorTable::current();
        self
    }

    /// Whether the number still refers to the same file, in the table of the calling thread.
    pub fn is_ours(&self) -> bool {
        if self.table != DescriptorTable::current() {
            return false;
        }
        self.known.is_none_or(|(number, identity)| {
            match FileIdentity::of_number(number) {
                Ok(now) => now == identity,
                // A sandbox may refuse the call; then the number counts as ours.
                Err(error) => error.raw_os_error() != Some(libc::EBADF),
            }
        })
    }

    /// The value, for one immediate use.
    ///
    /// # Errors
    /// [`DescriptorLost`].
    pub fn get(&self) -> Result<&T, DescriptorLost> {
        if self.is_ours() {
            Ok(&self.value)
        } else {
            Err(DescriptorLost)
        }
    }

    /// The value itself. Its descriptor is no longer checked.
    ///
    /// # Errors
    /// [`DescriptorLost`].
    pub fn into_inner(self) -> Result<T, DescriptorLost> {
        let is_ours = self.is_ours();
        let mut forgotten = ManuallyDrop::new(self);
        // SAFETY: the value is taken once, because `forgotten` is neither dropped nor used again.
        let value = is_ours.then(|| unsafe { ManuallyDrop::take(&mut forgotten.value) });
        value.ok_or(DescriptorLost)
    }

    /// The value without a check, for uses that are harmless with any file.
    pub fn unchecked(&self) -> &T {
        &self.value
    }

    /// The number, if it is known.
    pub fn number(&self) -> Option<RawFd> {
        self.known.map(|(number, _)| number)
    }
}

impl<T> Drop for OwnDescriptor<T> {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

/// The same open file under a number that is not one of the standard streams. The system gives a
/// new file the lowest free number: without this, the output of a program that has closed a stream
/// would go into a file of the profiler.
///
/// # Errors
/// If no number is left.
pub fn above_streams(descriptor: OwnedFd) -> io::Result<OwnedFd> {
    if descriptor.as_raw_fd() >= FIRST_FREE {
        return Ok(descriptor);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&descriptor, FIRST_FREE)?)
}

/// A file of ours that another thread or a later call uses.
pub type OwnFile = OwnDescriptor<File>;

impl OwnFile {
    /// The same file under a new descriptor of the calling thread's table, which cannot write. Any
    /// thread may call it.
    ///
    /// # Errors
    /// [`DescriptorLost`]; errors of the system, for example without `/proc`.
    pub fn reopen(&self) -> io::Result<File> {
        if self.table == DescriptorTable::current() {
            return super::imp::read_only(self.get()?);
        }
        let (number, identity) = self.known.ok_or(DescriptorLost)?;
        let file = File::open(format!("{}/{number}", self.table.directory()))?;
        if FileIdentity::of_number(file.as_raw_fd()).is_ok_and(|now| now == identity) {
            return Ok(file);
        }
        // Closing a file of the program could release the locks that the program holds on it.
        std::mem::forget(file);
        Err(DescriptorLost.into())
    }
}

/// Opens a file for reading, for as long as the process runs.
pub fn open_file(path: impl AsRef<Path>) -> io::Result<OwnFile> {
    let file = File::open(path)?;
    Ok(File::from(above_streams(file.into())?).into())
}

/// Bytes of memory or disk that a file occupies.
///
/// # Errors
/// Errors of `fstat`.
pub fn allocated_bytes(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.blocks().saturating_mul(512))
}

/// Appends the contents of a file to `all`. Unlike with [`std::fs::read`], the program may close
/// the descriptor meanwhile. Reads at offsets: this takes nothing out of a pipe or a socket that
/// gets the number between the check and the call.
pub fn read_file(path: impl AsRef<Path>, all: &mut Vec<u8>) -> io::Result<()> {
    let file = OwnFile::from(File::open(path)?);
    let mut room = [0; 4096];
    let mut offset = 0;
    loop {
        match file.get()?.read_at(&mut room, offset) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                offset = offset.saturating_add(length as u64);
                all.extend_from_slice(room.get(..length).unwrap_or_default());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The contents of a file, as text, read like [`read_file`].
///
/// # Errors
/// As of [`std::fs::read`], and if the program closes the file meanwhile.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    let mut all = Vec::new();
    read_file(path, &mut all)?;
    Ok(String::from_utf8_lossy(&all).into_owned())
}

impl From<File> for OwnFile {
    fn from(file: File) -> Self {
        Self::new(file)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{FromRawFd, IntoRawFd};

    use super::*;

    fn pipe() -> (OwnedFd, OwnedFd) {
        rustix::pipe::pipe().unwrap()
    }

    #[test]
    fn a_number_that_refers_to_another_file_is_neither_used_nor_closed() {
        let (ours, _writer) = pipe();
        let number = ours.as_raw_fd();
        let own = OwnDescriptor::new(ours);
        assert!(own.get().is_ok());
        // The program closes it, and the system reuses the number for a file of the program.
        let (foreign, _) = pipe();
        // SAFETY: both numbers are open; `own`'s number is replaced on purpose.
        assert_eq!(unsafe { libc::dup2(foreign.as_raw_fd(), number) }, number);
        assert_eq!(own.get().err(), Some(DescriptorLost));
        drop(own);
        assert_eq!(
            FileIdentity::of_number(number).unwrap(),
            FileIdentity::of_number(foreign.as_raw_fd()).unwrap()
        );
        // SAFETY: the number was made above and has no other owner.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }

    #[test]
    fn a_value_is_taken_out_only_while_its_number_is_ours() {
        let (ours, _writer) = pipe();
        let number = ours.as_raw_fd();
        let taken = OwnDescriptor::new(ours).into_inner().unwrap();
        assert_eq!(taken.as_raw_fd(), number);
        let own = OwnDescriptor::new(taken);
        let (foreign, _) = pipe();
        // SAFETY: both numbers are open; `own`'s number is replaced on purpose.
        assert_eq!(unsafe { libc::dup2(foreign.as_raw_fd(), number) }, number);
        assert_eq!(own.into_inner().err(), Some(DescriptorLost));
        assert!(FileIdentity::of_number(number).is_ok(), "it was not closed");
        // SAFETY: the number was made above and has no other owner.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }

    #[test]
    fn a_descriptor_that_is_still_ours_is_closed() {
        let (ours, _writer) = pipe();
        let identity = FileIdentity::of_number(ours.as_raw_fd()).unwrap();
        let number = ours.into_raw_fd();
        // SAFETY: its owner just gave up the number.
        drop(OwnDescriptor::new(unsafe { OwnedFd::from_raw_fd(number) }));
        // Another test may have the number by now, but not for this pipe.
        assert!(FileIdentity::of_number(number).map_or(true, |now| now != identity));
    }

    #[test]
    fn a_file_is_read_as_the_standard_library_reads_it() {
        let path = "/proc/self/cmdline";
        let mut all = Vec::new();
        read_file(path, &mut all).unwrap();
        assert_eq!(all, std::fs::read(path).unwrap());
        assert!(read_text("/does/not/exist").is_err());
    }

    #[test]
    fn the_loss_is_recognised_in_an_error_of_the_system() {
        assert!(DescriptorLost::is_in(&DescriptorLost.into()));
        assert!(!DescriptorLost::is_in(&io::ErrorKind::BrokenPipe.into()));
    }
}
