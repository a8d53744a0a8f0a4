//! Reads the code of another process: from its files, and what is in no readable file from its
//! memory.
//!
//! Used by `observed` to check return addresses. Files and the process are opened when code is read
//! first, and closed after each stack. Invariants: a file has not changed since its tables were
//! read; the memory is that of the process that began at the given time, and of the program that it
//! executed when its memory was read first; no page is brought into the memory of the process.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ids::{ProcessId, ProcessStart};
use crate::sys::native::other_process::{MemoryKind, OtherMemory, OtherProcess, ProgramPlace};
use profiler_unwind::CodeBytes;
use profiler_unwind::CodeRange;

/// The identity of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FileKey {
    File {
        device: u64,
        inode: u64,
        len: u64,
        changed: (i64, i64),
    },
    KernelLibrary,
}

impl FileKey {
    /// Opens a regular file; does not wait for another process, as opening a pipe would.
    pub(super) fn open(path: &Path) -> io::Result<(File, Self)> {
        use rustix::fs::{Mode, OFlags, open};
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(open(path, flags, Mode::empty())?);
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let key = Self::File {
            device: about.dev(),
            inode: about.ino(),
            len: about.len(),
            changed: (about.mtime(), about.mtime_nsec()),
        };
        Ok((file, key))
    }
}

/// The code of a loaded file.
#[derive(Debug)]
pub(super) struct CodeFile {
    /// What was added to the file's own addresses.
    pub(super) bias: u64,
    pub(super) code: Arc<[CodeRange]>,
    pub(super) path: PathBuf,
    pub(super) key: FileKey,
}

impl CodeFile {
    /// The offset in the file of the code at an address, and the number of bytes from there on.
    fn place(&self, address: u64) -> Option<(u64, usize)> {
        let address = address.wrapping_sub(self.bias);
        let contains = |code: &&CodeRange| code.addresses.contains(&address);
        let code = self.code.iter().find(contains)?;
        let left = usize::try_from(code.addresses.end - address).unwrap_or(usize::MAX);
        Some((
            code.offset.checked_add(address - code.addresses.start)?,
            left,
        ))
    }

    /// Opens the file, if it is still the same.
    fn open(&self) -> Option<File> {
        let (file, key) = FileKey::open(&self.path).ok()?;
        (key == self.key).then_some(file)
    }
}

/// The state of the process while a stack is unwound.
#[derive(Debug, Default)]
enum Memory {
    #[default]
    NotOpened,
    Ended,
    Open(OtherMemory),
}

/// The code of a process.
#[derive(Debug, Default)]
pub(super) struct ProcessCode {
    place: Option<(ProcessId, ProcessStart)>,
    /// The program that the process executed when its memory was read first.
    program: Cell<Option<ProgramPlace>>,
    memory: RefCell<Memory>,
    files: Vec<CodeFile>,
    /// The file that was read last, by its index; `None` if it cannot be read.
    opened: RefCell<Option<(usize, Option<File>)>>,
}

impl ProcessCode {
    /// The code of the process that began then.
    pub(super) fn of(pid: ProcessId, start: Option<ProcessStart>) -> Self {
        Self {
            place: start.map(|start| (pid, start)),
            ..Self::default()
        }
    }

    pub(super) fn set_files(&mut self, files: Vec<CodeFile>) {
        self.files = files;
        self.opened = RefCell::default();
    }

    /// Closes the process and its files.
    pub(super) fn close(&mut self) {
        self.memory = RefCell::default();
        self.opened = RefCell::default();
    }

    /// Uses the memory of the process, unless it has ended.
    fn with_memory<R>(&self, read: impl FnOnce(&OtherMemory) -> R) -> Option<R> {
        let mut memory = self.memory.borrow_mut();
        if matches!(*memory, Memory::NotOpened) {
            let process = self
                .place
                .and_then(|(pid, start)| OtherProcess::open(pid, start));
            let process = process.filter(|process| {
                let program = process.program();
                let first = self.program.get().unwrap_or(program);
                self.program.set(Some(first));
                first == program
            });
            *memory = process.map_or(Memory::Ended, |process| {
                Memory::Open(OtherMemory::of(&process))
            });
        }
        match &*memory {
            Memory::Open(memory) => Some(read(memory)),
            Memory::NotOpened | Memory::Ended => None,
        }
    }

    fn read_file(&self, address: u64, room: &mut [u8]) -> Option<usize> {
        let places = self.files.iter().map(|file| file.place(address));
        let (index, place) = places
            .enumerate()
            .find_map(|(index, place)| Some((index, place?)))?;
        let (offset, left) = place;
        let mut opened = self.opened.borrow_mut();
        if opened.as_ref().is_none_or(|(known, _)| *known != index) {
            *opened = Some((index, self.files.get(index)?.open()));
        }
        let file = opened.as_ref()?.1.as_ref()?;
        let len = room.len().min(left);
        file.read_at(room.get_mut(..len)?, offset).ok()
    }
}

impl CodeBytes for ProcessCode {
    fn read(&self, address: u64, room: &mut [u8]) -> usize {
        let in_memory = |room: &mut [u8]| {
            self.with_memory(|memory| memory.read(address, room, MemoryKind::Any).bytes)
        };
        let read = self.read_file(address, room).filter(|read| *read > 0);
        read.or_else(|| in_memory(room)).unwrap_or(0)
    }

    fn is_complete(&self) -> bool {
        self.with_memory(|memory| !memory.is_closed()) == Some(true)
    }
}
