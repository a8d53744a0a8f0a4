//! The text of a profile's file, compressed or not, as a stream.
//!
//! Used by all readers in this module, and by the `profiler` command. Reads by position, so one
//! open file serves several readers.

use std::fs::File;
use std::io::{self, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use crate::sys;
use crate::work::{WorkEvent, WorkListener};

const BUFFER: usize = 256 * 1024;

/// Whether a file is compressed, by its first bytes, not by its name.
pub(crate) fn is_compressed(file: &File) -> io::Result<bool> {
    let mut magic = [0; 2];
    Ok(sys::read_at(file, &mut magic, 0)? == magic.len() && magic == [0x1f, 0x8b])
}

/// The text of a profile, regardless of the file's name.
///
/// # Errors
/// When the file cannot be read.
pub fn text(file: &File) -> io::Result<Box<dyn Read + '_>> {
    text_of_pass(file, Pass::default())
}

/// One of several passes through a file.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    pub(crate) listener: WorkListener,
    /// The number of passes before this one.
    pub(crate) before: u64,
    /// The number of all passes.
    pub(crate) of: u64,
}

/// Like [`text`], and reports what has been read.
pub(crate) fn text_of_pass(file: &File, pass: Pass) -> io::Result<Box<dyn Read + '_>> {
    let at_start = AtPosition {
        file,
        position: 0,
        length: file.metadata()?.len(),
        pass,
    };
    let plain = BufReader::with_capacity(BUFFER, at_start);
    Ok(match is_compressed(file)? {
        true => Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(plain))),
        false => Box::new(plain),
    })
}

struct AtPosition<'a> {
    file: &'a File,
    position: u64,
    length: u64,
    pass: Pass,
}

impl Read for AtPosition<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let read = sys::read_at(self.file, room, self.position)?;
        self.position += read as u64;
        let Pass {
            listener,
            before,
            of,
        } = &self.pass;
        listener.send(WorkEvent::Reading {
            bytes: self.length.saturating_mul(*before) + self.position,
            of: self.length.saturating_mul(*of),
        });
        Ok(read)
    }
}
