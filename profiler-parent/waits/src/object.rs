//! The object that a descriptor of another process refers to. Used by `resolver` and `ends`.
//!
//! Read from the links in `/proc/PID/task/TID/fd` and from the files in `fdinfo`. The threads of a
//! library may have a descriptor table of their own, so the table of the waiting thread is read.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};

use crate::call::Direction;

/// The descriptor table of a thread, in `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DescriptorTable {
    pub(crate) process: u32,
    pub(crate) thread: u32,
}

/// An object that a thread can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitObject {
    /// A pipe, by its inode.
    Pipe(u64),
    /// A named pipe, by its device and inode.
    Fifo(u64, u64),
    /// A socket, by its inode.
    Socket(u64),
    /// A counter of events, by its number.
    EventCounter(u64),
    /// A process, by its number.
    Process(u32),
    /// A set of descriptors.
    Epoll,
    /// A timer.
    Timer,
    /// A terminal.
    Terminal,
    /// A file, or a device.
    File,
}

impl DescriptorTable {
    fn folder(self, name: &str) -> PathBuf {
        let Self { process, thread } = self;
        PathBuf::from(format!("/proc/{process}/task/{thread}/{name}"))
    }

    /// The object of a descriptor. `None` if the system does not show it.
    pub(crate) fn object(self, descriptor: i32) -> Option<WaitObject> {
        let link = self.folder("fd").join(descriptor.to_string());
        let name = fs::read_link(&link).ok()?;
        let name = name.to_str()?;
        match name {
            "anon_inode:[eventpoll]" => Some(WaitObject::Epoll),
            "anon_inode:[timerfd]" => Some(WaitObject::Timer),
            "anon_inode:[pidfd]" | "pidfd:" => {
                let pid = self.field(descriptor, "Pid:")?;
                Some(WaitObject::Process(u32::try_from(pid).ok()?))
            }
            _ if name.starts_with("/dev/pts/") || name.starts_with("/dev/tty") => {
                Some(WaitObject::Terminal)
            }
            _ => self
                .with_ends(descriptor, (&link, name))
                .or(Some(WaitObject::File)),
        }
    }

    /// The object with this name, if it is of a kind that connects descriptors: a pipe, a socket or
    /// a counter of events.
    fn with_ends(self, descriptor: i32, (link, name): (&Path, &str)) -> Option<WaitObject> {
        if let Some(object) = numbered(name) {
            return Some(object);
        }
        if name == "anon_inode:[eventfd]" {
            let id = self.field(descriptor, "eventfd-id:")?;
            return Some(WaitObject::EventCounter(id));
        }
        if !name.starts_with('/') || name.starts_with("/dev/") {
            return None;
        }
        // Without a question to the file system: its server may be the process that waits.
        let flags = AtFlags::STATX_DONT_SYNC;
        let about = statx(CWD, link, flags, StatxFlags::TYPE | StatxFlags::INO).ok()?;
        let is_fifo = FileType::from_raw_mode(about.stx_mode.into()) == FileType::Fifo;
        let device = u64::from(about.stx_dev_major) << 32 | u64::from(about.stx_dev_minor);
        is_fifo.then_some(WaitObject::Fifo(device, about.stx_ino))
    }

    /// Whether a descriptor may be read from and written to. `None` if the system does not show it.
    pub(crate) fn access(self, descriptor: i32) -> Option<(bool, bool)> {
        let text = self.info(descriptor)?;
        let flags = value(&text, "flags:")?;
        let flags = u64::from_str_radix(flags, 8).ok()?;
        Some(match flags & 3 {
            0 => (true, false),
            1 => (false, true),
            _ => (true, true),
        })
    }

    /// The descriptors in a set, at most `most`, each with what is waited for.
    pub(crate) fn members_of_epoll(self, descriptor: i32, most: usize) -> Vec<(i32, Direction)> {
        let text = self.info(descriptor).unwrap_or_default();
        let members = text.lines().filter_map(|line| line.strip_prefix("tfd:"));
        members.filter_map(member).take(most).collect()
    }

    fn field(self, descriptor: i32, name: &str) -> Option<u64> {
        value(&self.info(descriptor)?, name)?.parse().ok()
    }

    fn info(self, descriptor: i32) -> Option<String> {
        fs::read_to_string(self.folder("fdinfo").join(descriptor.to_string())).ok()
    }

    /// The descriptors that refer to pipes, sockets and counters of events. Looks at `most`
    /// descriptors or fewer.
    pub(crate) fn numbered_objects(self, most: usize) -> Vec<(i32, WaitObject)> {
        let entries = fs::read_dir(self.folder("fd"))
            .into_iter()
            .flatten()
            .flatten();
        let object = |entry: fs::DirEntry| {
            let descriptor = entry.file_name().to_str()?.parse().ok()?;
            let name = fs::read_link(entry.path()).ok()?;
            let name = name.to_str()?;
            let object = self.with_ends(descriptor, (&entry.path(), name))?;
            Some((descriptor, object))
        };
        entries.take(most).filter_map(object).collect()
    }
}

/// The object in a name such as `pipe:[123]`.
fn numbered(name: &str) -> Option<WaitObject> {
    let (kind, rest) = name.split_once(":[")?;
    let number = rest.strip_suffix(']')?.parse().ok()?;
    match kind {
        "pipe" => Some(WaitObject::Pipe(number)),
        "socket" => Some(WaitObject::Socket(number)),
        _ => None,
    }
}

/// A member in a row such as `        5 events:       19 data: 0`.
fn member(row: &str) -> Option<(i32, Direction)> {
    let mut words = row.split_ascii_whitespace();
    let descriptor = words.next()?.parse().ok()?;
    words.find(|word| *word == "events:")?;
    let events = u32::from_str_radix(words.next()?, 16).ok()?;
    let reads = (libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLRDNORM).cast_unsigned();
    let waits = if events & reads == 0 {
        Direction::Writes
    } else {
        Direction::Reads
    };
    Some((descriptor, waits))
}

/// The value of a line `NAME VALUE`.
fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    fn own() -> DescriptorTable {
        let process = std::process::id();
        DescriptorTable {
            process,
            thread: process,
        }
    }

    #[test]
    fn the_ends_of_a_pipe_have_one_object_and_different_directions() {
        let (reader, writer) = std::io::pipe().unwrap();
        let [read, written] = [reader.as_raw_fd(), writer.as_raw_fd()];
        let object = own().object(read).unwrap();
        assert!(matches!(object, WaitObject::Pipe(number) if number > 0));
        assert_eq!(own().object(written), Some(object));
        assert_eq!(own().access(read), Some((true, false)));
        assert_eq!(own().access(written), Some((false, true)));
        let all = own().numbered_objects(1024);
        assert!(all.contains(&(read, object)) && all.contains(&(written, object)));
        assert!(own().numbered_objects(0).is_empty());
    }

    #[test]
    fn files_and_descriptors_that_do_not_exist_are_told_apart() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(own().object(file.as_raw_fd()), Some(WaitObject::File));
        assert_eq!(own().object(-1), None);
        assert_eq!(own().access(-1), None);
    }

    #[test]
    fn a_set_has_its_members_and_a_counter_its_number() {
        use rustix::event::{EventfdFlags, epoll, eventfd};
        let counter = eventfd(0, EventfdFlags::empty()).unwrap();
        let set = epoll::create(epoll::CreateFlags::empty()).unwrap();
        let data = epoll::EventData::new_u64(0);
        epoll::add(&set, &counter, data, epoll::EventFlags::IN).unwrap();
        let counter = counter.as_raw_fd();
        assert!(matches!(
            own().object(counter),
            Some(WaitObject::EventCounter(_))
        ));
        assert_eq!(own().object(set.as_raw_fd()), Some(WaitObject::Epoll));
        let members = [(counter, Direction::Reads)];
        assert_eq!(own().members_of_epoll(set.as_raw_fd(), 8), members);
    }

    #[test]
    fn names_of_other_forms_are_no_numbered_objects() {
        for name in [
            "",
            "pipe:",
            "pipe:[",
            "pipe:[x]",
            "pipe:[1",
            "/a:[1]",
            "pipe:[-1]",
        ] {
            assert_eq!(numbered(name), None, "{name}");
        }
    }
}
