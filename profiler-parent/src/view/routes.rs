//! What is there to be had: the file and the symbols, below the token.
//!
//! Shared by all connections of a [`super::Server`]. Invariant: a path with a wrong token and a path that
//! does not exist get the same answer, after a comparison that takes the same time for every token.

use std::fs::File;
use std::io::{self, Write};

use super::symbols::Symbolicate;
use crate::sys;
use crate::token::is_same;

/// Bytes that are read of the file and written to the client at a time.
const BLOCK: usize = 64 * 1024;

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ViewResource {
    Profile,
    Symbolicate,
}

/// The served things.
pub(super) struct ViewRoutes {
    pub(super) token: String,
    pub(super) file: File,
    pub(super) is_compressed: bool,
    /// `Host` headers of clients that mean this server.
    pub(super) hosts: [String; 2],
    pub(super) symbolicate: Box<Symbolicate>,
}

impl ViewRoutes {
    /// Whether a client that names this host means this server. A page that has its own name resolve to
    /// this machine names another.
    pub(super) fn is_host(&self, host: &str) -> bool {
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    /// What a path names; `None` for everything that is not below the token.
    pub(super) fn place(&self, path: &str) -> Option<ViewResource> {
        let (token, rest) = path.strip_prefix('/')?.split_once('/')?;
        if !is_same(token, &self.token) {
            return None;
        }
        match rest {
            super::link::PROFILE => Some(ViewResource::Profile),
            super::link::SYMBOLICATE => Some(ViewResource::Symbolicate),
            _ => None,
        }
    }

    /// The file's length now.
    pub(super) fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Writes `length` bytes of the file.
    pub(super) fn write_file(&self, length: u64, out: &mut impl Write) -> io::Result<()> {
        let mut block = vec![0; BLOCK];
        let mut position = 0;
        while position < length {
            let wanted = usize::try_from(length - position).unwrap_or(BLOCK).min(BLOCK);
            let room = block.get_mut(..wanted).unwrap_or_default();
            let read = sys::read_at(&self.file, room, position)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into()); // it was made shorter
            }
            out.write_all(room.get(..read).unwrap_or_default())?;
            position += read as u64;
        }
        Ok(())
    }
}

impl std::fmt::Debug for ViewRoutes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the token: it is a secret.
        f.debug_struct("ViewRoutes").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}
