//! The portable fallback of `found_file`: found files are paths.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::foreign_file::ForeignFile;

/// Opens a file for reading if it is a regular file: see [`FoundFile::open`].
pub fn open_regular(path: &Path) -> io::Result<Option<ForeignFile>> {
    FoundFile::at(path)?.open()
}

/// A file to which a path led. If another file replaces it at this path, the value refers to the
/// other file.
#[derive(Debug)]
pub struct FoundFile(PathBuf);

impl FoundFile {
    /// Finds a file, and follows links.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self(std::fs::canonicalize(path)?))
    }

    /// The path of this file, which contains no links.
    pub fn real_path(&self) -> io::Result<PathBuf> {
        Ok(self.0.clone())
    }

    /// Opens the file for reading if it is a regular file. Never waits for the writer of a FIFO.
    pub fn open(&self) -> io::Result<Option<ForeignFile>> {
        if !std::fs::metadata(&self.0)?.is_file() {
            return Ok(None);
        }
        let mut options = File::options();
        options.read(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
        let file = options.open(&self.0)?;
        // Another file may have replaced it at the same path.
        let is_file = file.metadata()?.is_file();
        Ok(is_file.then(|| file.into()))
    }
}
