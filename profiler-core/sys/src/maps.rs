//! Reads the list of this process's mappings (Linux).
//!
//! Read by the sampler to find code, and the stack that contains an address. Invariant: a line that
//! is no mapping is left out.

use std::io;

/// One mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// Its first address.
    pub start: u64,
    /// The address behind its last byte.
    pub end: u64,
    /// Whether the program may read it.
    pub readable: bool,
    /// Whether the program may execute code in it.
    pub executable: bool,
    /// The offset in its file.
    pub offset: u64,
    /// The file number; 0 without a file.
    pub inode: u64,
    /// The file's path, or a name in brackets, or empty.
    pub path: &'a str,
}

impl Mapping<'_> {
    /// Whether it contains an address.
    #[must_use]
    pub const fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }
}

/// The list of mappings as of the last read.
#[derive(Debug, Default)]
pub struct Maps {
    text: Vec<u8>,
}

impl Maps {
    /// Reads the list again.
    ///
    /// # Errors
    /// If the system does not tell it.
    pub fn read(&mut self) -> io::Result<()> {
        self.text.clear();
        crate::descriptor::read_file("/proc/self/maps", &mut self.text)
    }

    /// All mappings, by address.
    pub fn iter(&self) -> impl Iterator<Item = Mapping<'_>> {
        self.text
            .split(|byte| *byte == b'\n')
            .filter_map(|line| parse(std::str::from_utf8(line).ok()?))
    }

    /// The mapping that contains an address.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<Mapping<'_>> {
        self.iter().find(|mapping| mapping.contains(address))
    }
}

/// `start-end rwxp offset device inode path`.
fn parse(line: &str) -> Option<Mapping<'_>> {
    let mut rest = line;
    let mut next = || {
        let (word, after) = rest
            .trim_start()
            .split_once(' ')
            .unwrap_or((rest.trim_start(), ""));
        rest = after;
        word
    };
    let hex = |word| u64::from_str_radix(word, 16).ok();
    let (start, end) = next().split_once('-')?;
    let rights = next().as_bytes();
    let offset = next();
    let _device = next();
    let inode = next();
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        readable: rights.first() == Some(&b'r'),
        executable: rights.get(2) == Some(&b'x'),
        offset: hex(offset)?,
        inode: inode.parse().ok()?,
        path: rest.trim(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed_with_and_without_files() {
        let file = parse("7f1-7f2 r-xp 0001a000 fd:00 123   /a dir/lib c.so (deleted)").unwrap();
        assert_eq!(
            (file.start, file.end, file.offset, file.inode),
            (0x7f1, 0x7f2, 0x1a000, 123)
        );
        assert!(file.readable && file.executable);
        assert_eq!(file.path, "/a dir/lib c.so (deleted)");
        let none = parse("7f1-7f2 ---p 00000000 00:00 0 ").unwrap();
        assert_eq!((none.path, none.readable), ("", false));
        assert_eq!(parse(""), None);
    }

    #[test]
    fn the_stack_of_this_very_function_is_found() {
        let mut maps = Maps::default();
        let local = 0_u8;
        maps.read().unwrap();
        assert!(maps.at(&raw const local as u64).unwrap().readable);
        assert!(maps.at(parse as *const () as u64).unwrap().executable);
    }
}
