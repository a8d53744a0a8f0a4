//! A pseudoterminal that collects what programs write to it.
//!
//! Used by the tests of the progress line. Invariant: a thread reads the terminal until every
//! program has closed it, so no program waits for a reader.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, ensure};

/// A terminal of 120 columns.
#[derive(Debug)]
pub struct Terminal {
    program_side: File,
    written: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Terminal {
    /// Opens a terminal.
    ///
    /// # Errors
    /// When the system cannot create a pseudoterminal.
    pub fn open() -> anyhow::Result<Self> {
        let (mut own, mut programs) = (-1, -1);
        let size = libc::winsize {
            ws_row: 40,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: the pointers are null or live through the call.
        let opened = unsafe {
            libc::openpty(
                &mut own,
                &mut programs,
                std::ptr::null_mut(),
                std::ptr::null(),
                &size,
            )
        };
        ensure!(
            opened == 0,
            "no terminal: {}",
            std::io::Error::last_os_error()
        );
        // SAFETY: `openpty` has just created it for this process.
        let own = File::from(unsafe { OwnedFd::from_raw_fd(own) });
        // SAFETY: as above.
        let program_side = File::from(unsafe { OwnedFd::from_raw_fd(programs) });
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let collected = Arc::clone(&written);
        let reader = std::thread::Builder::new().spawn(move || read_all(own, &collected))?;
        Ok(Self {
            program_side,
            written,
            reader,
        })
    }

    /// The terminal as a stream of a program.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn stream(&self) -> anyhow::Result<Stdio> {
        Ok(self.program_side.try_clone()?.into())
    }

    /// What was written until now.
    pub fn so_far(&self) -> String {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&written).into_owned()
    }

    /// Everything that was written, after all programs have closed the terminal.
    ///
    /// # Errors
    /// When the reader fails.
    pub fn text(self) -> anyhow::Result<String> {
        drop(self.program_side);
        self.reader.join().ok().context("the reader panicked")?;
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(String::from_utf8_lossy(&written).into_owned())
    }
}

/// Reads until the last program closes the terminal; the system reports this as an error.
fn read_all(mut terminal: File, written: &Mutex<Vec<u8>>) {
    let mut part = [0; 4096];
    while let Ok(read) = terminal.read(&mut part) {
        if read == 0 {
            break;
        }
        let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
        written.extend_from_slice(part.get(..read).unwrap_or_default());
    }
}
