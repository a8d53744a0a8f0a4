//! Fuzzes the session's reader of observed processes: the input patches an empty, valid file of an
//! observed process between the passes of the reader, as a hostile process could.
//!
//! The input is a list of (how, place, word), eleven bytes each. `how` selects a region, or an
//! operation of the reader; `place` counts words of the region, so that a short input reaches the
//! header, every state, each head of a sample, and the text. For any bytes, the reader must not
//! panic, must hand out no more than one sample for each page and pass, and must write only the
//! bytes that are its own.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use profiler_observed::file::{ObservedFile, ObservedFileError};
use profiler_observed::layout::{
    CONTROL_AT, CONTROL_BYTES, FILE_BYTES, FREED_AT, GRANTED_AT, HEAD_BYTES, MAGIC,
    MAX_STACK_BYTES, PAGE, RING_AT, RING_PAGES, VERSION, row_at, text_at,
};

const INPUT_BYTES: usize = 11;
const MAX_STEPS: usize = 400;

struct Base {
    path: tempfile::TempPath,
    file: File,
}

thread_local! {
    static BASE: RefCell<Base> = RefCell::new(base());
}

fn base() -> Base {
    // In memory, because disk writes would dominate the run time.
    let folder = ["/dev/shm", "/tmp"]
        .into_iter()
        .find(|path| std::path::Path::new(path).is_dir());
    let named = tempfile::NamedTempFile::new_in(folder.unwrap_or(".")).expect("a file");
    let (file, path) = named.into_parts();
    Base { path, file }
}

impl Base {
    /// Makes the file that of a process that has done nothing.
    fn restore(&mut self) {
        self.file.set_len(0).expect("a shorter file");
        self.file.set_len(FILE_BYTES as u64).expect("a longer file");
        let start = [MAGIC.to_ne_bytes(), u64::from(VERSION).to_ne_bytes()].concat();
        self.file.write_all_at(&start, 0).expect("room");
        self.file.flush().expect("room");
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        if at + bytes.len() <= FILE_BYTES {
            self.file.write_all_at(bytes, at as u64).expect("room");
        }
    }

    /// Writes what a process could write.
    fn patch(&self, how: u8, place: usize, word: [u8; 8]) {
        let [low, ..] = word;
        match how % 8 {
            0 => self.write(place % (PAGE / 8) * 8, &word),
            1 => self.write(CONTROL_AT + place % CONTROL_BYTES, &[low]),
            // The head of a page, which is most of what the reader believes.
            2 => self.write(
                RING_AT + place % RING_PAGES * PAGE + place / RING_PAGES % (HEAD_BYTES / 8) * 8,
                &word,
            ),
            3 => self.write(text_at(place), &word),
            4 => self.write(row_at(place).unwrap_or(0), &word),
            5 => self.publish(place % RING_PAGES, &word),
            6 => self.write(place * 64, &word),
            _ => {}
        }
    }

    /// Publishes a sample whose numbers fit each other, except as the word says.
    fn publish(&self, page: usize, word: &[u8; 8]) {
        let [claim, more, stack, wild, ..] = *word;
        let head = RING_AT + page * PAGE;
        let more_pages = u32::from(more % 17);
        let stack_bytes = u32::from(stack) * 256 / 8 * 8;
        self.write(head + 56, &stack_bytes.to_ne_bytes());
        self.write(head + 68, &more_pages.to_ne_bytes());
        for number in 0..15 {
            let other = (page as u16)
                .wrapping_add(number + 1)
                .wrapping_add(u16::from(wild));
            self.write(head + 72 + usize::from(number) * 2, &other.to_ne_bytes());
        }
        self.write(head + 102, &[claim; 16]);
        self.write(CONTROL_AT + page, &[claim]);
        self.write(CONTROL_AT + RING_PAGES + page, &[claim]);
    }
}

fn read(file: &mut ObservedFile, how: u8) {
    match how % 5 {
        0 => drop(file.header()),
        1 => {
            for row in [0, 63, 64, 16_319, 16_320, usize::MAX] {
                let _ = file.thread(row);
            }
        }
        2 => {
            if let Ok(text) = file.text() {
                assert!(text.files.iter().all(|(range, _)| range.start <= range.end));
            }
        }
        3 => drop(file.grant(how)),
        _ => drain(file),
    }
}

fn drain(file: &mut ObservedFile) {
    let mut passed = 0;
    let drained = file.drain(|head, stack| {
        assert!(stack.len() == head.stack_bytes as usize && stack.len() <= MAX_STACK_BYTES);
        assert!(stack.len().is_multiple_of(8));
        passed += 1;
    });
    assert!(passed <= RING_PAGES);
    if let Ok(count) = drained {
        assert_eq!(count, passed);
        // What was passed is free: nothing is passed twice.
        let again = file.drain(|_, _| panic!("a sample is passed twice"));
        assert!(again.is_err() || again.is_ok_and(|count| count == 0));
        assert!(!file.has_samples().unwrap_or(false));
    }
}

/// Copies all bytes but those that the reader may write.
fn others(file: &File) -> Option<Vec<u8>> {
    let mut bytes = vec![0; CONTROL_AT + CONTROL_BYTES];
    file.read_exact_at(&mut bytes, 0).ok()?;
    bytes.get_mut(FREED_AT..FREED_AT + RING_PAGES)?.fill(0);
    *bytes.get_mut(GRANTED_AT)? = 0;
    Some(bytes)
}

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    BASE.with_borrow_mut(|base| {
        base.restore();
        let mut file = ObservedFile::open(&base.path).expect("a valid file");
        for step in data.chunks_exact(INPUT_BYTES).take(MAX_STEPS) {
            let [how, low, high, word @ ..] = step else {
                continue;
            };
            let Ok(word) = <[u8; 8]>::try_from(word) else {
                continue;
            };
            base.patch(*how, usize::from(u16::from_le_bytes([*low, *high])), word);
            // Nearly the last operation of a process: it cuts the file off.
            if *how == 255 {
                let _ = base
                    .file
                    .set_len(u64::from(u16::from_le_bytes([*low, *high])) * 64);
            }
            if *how >= 128 {
                let before = others(&base.file);
                read(&mut file, how / 8);
                // Of a file that was cut off, the reader may make the rest again.
                assert!(
                    before.is_none() || before == others(&base.file),
                    "the reader writes its own bytes only"
                );
            }
        }
        drain(&mut file);
        check_open(base);
    });
}

/// A file of any content is opened or refused.
fn check_open(base: &Base) {
    let opened = ObservedFile::open(&base.path);
    assert!(!matches!(opened, Err(ObservedFileError::Io(error)) if error.raw_os_error().is_some()));
}
