//! The messages between the parent and a worker, over the worker's standard input and output.
//!
//! ```text
//! frame := length (4 bytes, little endian) message        at most MAX_ENCODED_BYTES
//! ```
//!
//! No deadlock is possible: a worker has at most [`WINDOW`] unfinished files, and a pipe has space
//! for their `File` and `Done` frames. Longer frames follow only after the last `Done`, when the
//! parent only reads.

use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use profiler_parent::core::internal::codec::{self, MAX_ENCODED_BYTES};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Maximum number of unfinished files of a worker: two per thread.
pub(crate) const WINDOW: usize = 4;

/// Maximum length of a path, so that a full window fits into a pipe of 64 KiB.
pub(crate) const MAX_PATH_BYTES: usize = 8 * 1024;

/// From the parent to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToWorker {
    /// Index this file, below the directory in which the worker was started.
    File { job: u64, path: PathBuf },
    /// There are no more files. The worker sends its index.
    Finish,
}

/// From a worker to the parent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromWorker {
    /// A file is finished. `indexed` is false if it could not be read.
    Done { job: u64, indexed: bool },
    /// Some of the words, and how often each occurred.
    Words(Vec<(Box<[u8]>, u64)>),
    /// The whole index has been sent.
    Sum(Sum),
}

/// The numbers of a worker's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sum {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) words: u64,
    /// Number of pieces that were read, which is the number of `read` scopes.
    pub(crate) reads: u64,
    /// Number of pieces whose words were counted, which is the number of `count` scopes.
    pub(crate) counts: u64,
}

impl std::ops::AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.words += other.words;
        self.reads += other.reads;
        self.counts += other.counts;
    }
}

/// Sends one message.
pub(crate) fn send(out: &mut impl Write, message: &impl Serialize) -> Result<()> {
    let message = codec::encode(message)?;
    let mut frame = u32::try_from(message.len())?.to_le_bytes().to_vec();
    frame.extend(message);
    out.write_all(&frame)?;
    Ok(out.flush()?)
}

/// Receives one message; `None` if the other side has closed its end between two frames.
pub(crate) fn receive<M: DeserializeOwned>(from: &mut impl Read) -> Result<Option<M>> {
    let mut length = [0; 4];
    match from.read(&mut length[..1]) {
        Ok(0) => return Ok(None),
        Ok(_) => from
            .read_exact(&mut length[1..])
            .context("a frame is cut off")?,
        Err(error) if error.kind() == ErrorKind::Interrupted => return receive(from),
        Err(error) => return Err(error.into()),
    }
    let length = usize::try_from(u32::from_le_bytes(length))?;
    ensure!(length <= MAX_ENCODED_BYTES, "a frame of {length} bytes");
    let mut message = vec![0; length];
    from.read_exact(&mut message)
        .context("a frame is cut off")?;
    Ok(Some(codec::decode(&message)?))
}
