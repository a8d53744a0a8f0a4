//! How far a destination has got with the batches of a directory, in a file of one line.
//!
//! Used by the directories of a spool. Invariant: one write replaces the line, so a reader finds
//! all of the old or all of the new numbers.

use std::cmp::Ordering;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use profiler_sys::OwnFile;
use rustix::io::Errno;

use super::batch::ENCODER_VERSION;

/// What a destination has of a directory: all batches before `next`, and these bodies of `next`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BatchProgress {
    pub(super) next: u64,
    pub(super) done: FinishedBodies,
}

/// The bodies of a batch that a destination has accepted or refused: the first bodies of the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FinishedBodies {
    /// The number of these bodies.
    pub(super) bodies: u64,
    /// The number of them that the destination has refused, completely or in part.
    pub(super) refused: u64,
}

impl BatchProgress {
    /// What the destination has of a batch; `None` if it has all.
    pub(super) fn of_batch(self, number: u64) -> Option<FinishedBodies> {
        match number.cmp(&self.next) {
            Ordering::Less => None,
            Ordering::Equal => Some(self.done),
            Ordering::Greater => Some(FinishedBodies::default()),
        }
    }
}

/// The file with the progress of one destination. Its line has a fixed length. It is opened for
/// each use, because the program may close descriptors.
#[derive(Debug)]
pub(super) struct ProgressFile(pub(super) PathBuf);

impl ProgressFile {
    /// The length of the line: three numbers of 20 digits and one of 10, spaces and a line break.
    const LENGTH: usize = 74;

    /// The file in a directory for the destination with this address.
    pub(super) fn of(home: &Path, address: &str) -> Self {
        Self(home.join(format!("progress-{:016x}", fnv(address.as_bytes()))))
    }

    fn open(&self, options: &mut OpenOptions) -> io::Result<OwnFile> {
        let file = options.custom_flags(libc::O_NOFOLLOW).open(&self.0)?;
        Ok(file.into())
    }

    /// Reads the numbers. A damaged file counts as no progress: the bodies are sent again, with the
    /// same identifiers. If another version of the encoder has made the bodies, the batch begins
    /// anew: its bodies are divided in another way.
    ///
    /// # Errors
    /// The file exists, and cannot be opened or read.
    pub(super) fn read(&self) -> io::Result<BatchProgress> {
        let line = match self.line() {
            Ok(line) => line,
            Err(error) if is_absent(&error) => return Ok(BatchProgress::default()),
            Err(error) => return Err(error),
        };
        let [next, bodies, refused, encoder] = numbers(&line).unwrap_or_default();
        let is_same = encoder == u64::from(ENCODER_VERSION);
        let done = FinishedBodies { bodies, refused };
        let done = if is_same {
            done
        } else {
            FinishedBodies::default()
        };
        Ok(BatchProgress { next, done })
    }

    fn line(&self) -> io::Result<[u8; Self::LENGTH]> {
        let mut line = [0; Self::LENGTH];
        let file = self.open(OpenOptions::new().read(true))?;
        file.get()?.read_exact_at(&mut line, 0)?;
        Ok(line)
    }

    /// Replaces the numbers.
    pub(super) fn write(&self, BatchProgress { next, done }: BatchProgress) -> io::Result<()> {
        let FinishedBodies { bodies, refused } = done;
        let line = format!("{next:020} {bodies:020} {refused:020} {ENCODER_VERSION:010}\n");
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let file = self.open(options)?;
        file.get()?.write_all_at(line.as_bytes(), 0)
    }
}

/// Whether an error says that there is no such file, or that it is no file with a line.
fn is_absent(error: &io::Error) -> bool {
    let is_link = Errno::from_io_error(error) == Some(Errno::LOOP);
    is_link || matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof)
}

/// The numbers in a line; `None` if it is damaged.
fn numbers(line: &[u8]) -> Option<[u64; 4]> {
    let text = std::str::from_utf8(line).ok()?;
    let numbers = text.trim_end().split(' ').map(|number| number.parse().ok());
    let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
    numbers.try_into().ok()
}

/// The hash FNV-1a, which is the same in all versions of this library.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn file(directory: &Path) -> ProgressFile {
        ProgressFile::of(directory, "otlp+http://a")
    }

    fn progress(next: u64, bodies: u64) -> BatchProgress {
        let refused = bodies / 2;
        let done = FinishedBodies { bodies, refused };
        BatchProgress { next, done }
    }

    #[test]
    fn progress_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let file = file(directory.path());
        assert_eq!(file.read().unwrap(), BatchProgress::default());
        for written in [progress(3, 2), progress(u64::MAX, u64::MAX), progress(0, 0)] {
            file.write(written).unwrap();
            assert_eq!(file.read().unwrap(), written);
        }
    }

    #[test]
    fn damaged_progress_is_that_of_the_beginning() {
        let directory = tempfile::tempdir().unwrap();
        let file = file(directory.path());
        let other = format!("{:020}x{:020} {:020} {:010}\n", 1, 2, 0, ENCODER_VERSION);
        let more = format!(
            "{:010} {:020} {:020} {:09} {:010}",
            1, 2, 0, 0, ENCODER_VERSION
        );
        for damage in ["", "x", &"9".repeat(74), &other, &more] {
            fs::write(&file.0, damage).unwrap();
            assert_eq!(file.read().unwrap(), BatchProgress::default(), "{damage:?}");
        }
    }

    #[test]
    fn progress_that_cannot_be_read_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = file(directory.path());
        fs::create_dir(&file.0).unwrap();
        file.read().unwrap_err();
    }

    #[test]
    fn a_batch_begins_anew_after_another_version_of_the_encoder() {
        let directory = tempfile::tempdir().unwrap();
        let file = file(directory.path());
        file.write(progress(3, 2)).unwrap();
        let line = fs::read_to_string(&file.0).unwrap();
        let present = format!("{ENCODER_VERSION:010}\n");
        let other = line.replace(&present, &format!("{:010}\n", ENCODER_VERSION + 1));
        fs::write(&file.0, other).unwrap();
        assert_eq!(file.read().unwrap(), progress(3, 0));
    }
}
