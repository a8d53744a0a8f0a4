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
use profiler_files::{WorkEvent, WorkListener};

const BUFFER: usize = 256 * 1024;

/// Whether a file is compressed, by its first bytes, not by its name.
pub fn is_compressed(file: &File) -> io::Result<bool> {
    let mut magic = [0; 2];
    Ok(profiler_sys::read_at(file, &mut magic, 0)? == magic.len() && magic == [0x1f, 0x8b])
}

/// The text of a profile, regardless of the file's name.
///
/// # Errors
/// When the file cannot be read.
pub fn text(file: &File) -> io::Result<Box<dyn Read + '_>> {
    text_of_pass(file, Pass::default())
}

/// One of several passes through a file.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// Receives the progress.
    pub listener: WorkListener,
    /// The number of passes before this one.
    pub before: u64,
    /// The number of all passes.
    pub of: u64,
}

/// Like [`text`], and reports what has been read.
pub fn text_of_pass(file: &File, pass: Pass) -> io::Result<Box<dyn Read + '_>> {
    Ok(match open(file, pass)? {
        Text::Plain(text) => Box::new(BufReader::with_capacity(BUFFER, text)),
        Text::Packed(text) => text,
    })
}

/// The text of a profile, for a parser.
pub(super) fn open(file: &File, pass: Pass) -> io::Result<Text<'_>> {
    let progress = PassProgress {
        pass,
        length: file.metadata()?.len(),
    };
    if !is_compressed(file)? {
        return Ok(Text::Plain(AtPosition::start(file, progress)));
    }
    let ahead = file
        .try_clone()
        .and_then(|file| ReadAhead::start(unpacked(file, progress.clone())));
    Ok(Text::Packed(match ahead {
        Ok(ahead) => Box::new(ahead),
        // There is no descriptor or no thread left.
        Err(_) => Box::new(BufReader::with_capacity(BUFFER, unpacked(file, progress))),
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

fn unpacked<F: Borrow<File>>(
    file: F,
    progress: PassProgress,
) -> MultiGzDecoder<BufReader<AtPosition<F>>> {
    let packed = AtPosition::start(file, progress);
    MultiGzDecoder::new(BufReader::with_capacity(BUFFER, packed))
}

/// Reports how much of a file a pass has read.
#[derive(Clone, Debug)]
struct PassProgress {
    pass: Pass,
    /// Bytes of the file.
    length: u64,
}

impl PassProgress {
    fn report(&self, position: u64) {
        let Pass {
            listener,
            before,
            of,
        } = &self.pass;
        listener.send(WorkEvent::Reading {
            bytes: self.length.saturating_mul(*before).saturating_add(position),
            of: self.length.saturating_mul(*of),
        });
    }
}

/// Reads a file from its start, regardless of the position of its descriptor.
pub(super) struct AtPosition<F> {
    file: F,
    position: u64,
    progress: PassProgress,
}

impl<F> AtPosition<F> {
    fn start(file: F, progress: PassProgress) -> Self {
        Self {
            file,
            position: 0,
            progress,
        }
    }
}

impl<F: Borrow<File>> Read for AtPosition<F> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let read = profiler_sys::read_at(self.file.borrow(), room, self.position)?;
        self.position = self.position.saturating_add(read as u64);
        self.progress.report(self.position);
        Ok(read)
    }
}
