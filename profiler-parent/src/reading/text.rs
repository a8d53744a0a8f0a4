//! The text of a profile's file, compressed or not, as a stream.
//!
//! Used by all readers in this module, and by the `profiler` command. Reads by position, so one
//! open file serves several readers. A compressed file is unpacked by another thread, see
//! [`super::ahead`].

use std::borrow::Borrow;
use std::fs::File;
use std::io::{self, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use super::ahead::ReadAhead;
use super::parser::{Source, Stream};
use crate::sys;

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
    Ok(match open(file)? {
        Text::Plain(text) => Box::new(BufReader::with_capacity(BUFFER, text)),
        Text::Packed(text) => text,
    })
}

/// The text of a profile, for a parser.
pub(super) fn open(file: &File) -> io::Result<Text<'_>> {
    if !is_compressed(file)? {
        return Ok(Text::Plain(AtPosition { file, position: 0 }));
    }
    let ahead = file
        .try_clone()
        .and_then(|file| ReadAhead::start(unpacked(file)));
    Ok(Text::Packed(match ahead {
        Ok(ahead) => Box::new(ahead),
        // There is no descriptor or no thread left.
        Err(_) => Box::new(BufReader::with_capacity(BUFFER, unpacked(file))),
    }))
}

/// The text of a file that is open.
pub(super) enum Text<'f> {
    Plain(AtPosition<&'f File>),
    Packed(Box<dyn Read + 'f>),
}

impl Read for Text<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(text) => text.read(room),
            Self::Packed(text) => text.read(room),
        }
    }
}

impl Source for Text<'_> {
    fn pass_over(&mut self, bytes: u64) -> io::Result<()> {
        match self {
            Self::Plain(text) => text.position = text.position.saturating_add(bytes),
            Self::Packed(text) => Stream(text).pass_over(bytes)?,
        }
        Ok(())
    }
}

fn unpacked<F: Borrow<File>>(file: F) -> MultiGzDecoder<BufReader<AtPosition<F>>> {
    let packed = AtPosition { file, position: 0 };
    MultiGzDecoder::new(BufReader::with_capacity(BUFFER, packed))
}

/// Reads a file from its start, regardless of the position of its descriptor.
pub(super) struct AtPosition<F> {
    file: F,
    position: u64,
}

impl<F: Borrow<File>> Read for AtPosition<F> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let read = sys::read_at(self.file.borrow(), room, self.position)?;
        self.position = self.position.saturating_add(read as u64);
        Ok(read)
    }
}
