//! Files to which a path has led, and which may be opened without harm.
//!
//! Used by all code that reads files of the program or of other users. Invariant: a file is opened
//! for reading only after its type and its file system are known.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

use crate::{FileIdentity, ForeignFile};

/// Opens a file for reading if it is a regular file: see [`FoundFile::open`].
pub fn open_regular(path: &Path) -> io::Result<Option<ForeignFile>> {
    FoundFile::at(path)?.open()
}

/// A file to which a path led. It is not open for reading, and remains the same file if the path
/// later leads to another one.
#[derive(Debug)]
pub struct FoundFile(OwnedFd);

impl FoundFile {
    /// The file of this descriptor, which was opened with `O_PATH`.
    pub const fn new(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Its descriptor, which cannot read.
    pub const fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    /// Finds a file, and follows links.
    pub fn at(path: &Path) -> io::Result<Self> {
        // A descriptor with `O_PATH` does not release locks when it is closed.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// The path of this file, which contains no links.
    pub fn real_path(&self) -> io::Result<PathBuf> {
        std::fs::read_link(self.link())
    }

    /// Opens the file for reading if it is a regular file of a file system that stores files.
    /// Checks this first: opening a FIFO waits, opening a device may have side effects, reading a
    /// file of the kernel may wait or take events from other readers, and a file that the program
    /// has locked must not be opened a second time. Fails, without waiting, if another process
    /// holds a lease on the file.
    pub fn open(&self) -> io::Result<Option<ForeignFile>> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&self.0)?.st_mode);
        if kind != FileType::RegularFile || self.is_of_kernel() {
            return Ok(None);
        }
        if let Some(kept) = ForeignFile::kept(FileIdentity::of_number(self.0.as_raw_fd())?) {
            return Ok(Some(kept));
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file: File = rustix::fs::open(self.link(), flags, Mode::empty())?.into();
        Ok(Some(file.into()))
    }

    /// Whether the kernel generates the content of the file. False if a system call filter hides
    /// the type of the file system.
    fn is_of_kernel(&self) -> bool {
        let system = rustix::fs::fstatfs(&self.0);
        system.is_ok_and(|system| KERNEL_FILE_SYSTEMS.contains(&(system.f_type as u32)))
    }

    /// A path that leads to the same file.
    fn link(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }
}

/// The types of file systems, from the kernel's `magic.h`, whose files are not stored.
const KERNEL_FILE_SYSTEMS: [u32; 29] = [
    0x0000_9fa0, // proc
    0x0000_9fa1, // openprom
    0x0000_9fa2, // USB devices
    0x0000_1cd1, // terminals
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup 2
    0x0765_5821, // resctrl
    0x0904_1934, // files without a path
    0x1980_0202, // message queues
    0x4249_4e4d, // binfmt_misc
    0x4341_5d53, // Smack
    0x444d_4142, // DMA buffers
    0x5049_4446, // pidfd
    0x5a3c_69f0, // AppArmor
    0x6165_676c, // pstore
    0x6265_6570, // configfs
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x6573_5543, // FUSE connections
    0x6759_6969, // pipes of RPC
    0x6c6f_6f70, // binder
    0x6e66_7364, // NFS server
    0x6e73_6673, // namespaces
    0x7363_6673, // securityfs
    0x7472_6163, // tracefs
    0xabba_1974, // Xen
    0xcafe_4a11, // BPF
    0xde5e_81e4, // EFI variables
    0xf97c_ff8c, // SELinux
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_kernel_is_not_opened() {
        for path in ["/proc/self/status", "/proc/self/environ", "/proc/version"] {
            assert!(open_regular(Path::new(path)).unwrap().is_none(), "{path}");
        }
        let of_sysfs = Path::new("/sys/kernel/uevent_seqnum");
        if of_sysfs.exists() {
            assert!(open_regular(of_sysfs).unwrap().is_none());
        }
        // A path through a file system of the kernel may lead to a stored file.
        assert!(open_regular(Path::new("/proc/self/exe")).unwrap().is_some());
    }
}
