//! Fuzzes the unwinder: any file with unwinding tables and code, any registers and any words of a
//! stack give frames, without a panic.
//!
//! ```text
//! bytes 0…31   registers: instruction, stack pointer, frame pointer, link register
//! byte  32     number of words on the stack
//! bytes 33…    the words, 8 bytes each; then the file
//! ```
//!
//! The file is read like one that is loaded at address 0, and like one that is not loaded.

use std::io::Write as _;

use profiler_unwind::{
    CodeBytes, CodeReader, CopiedStack, Image, ModuleNumber, ModuleSnapshot, PlacedModule,
    ReadBytes, Registers, StackToWalk, UnwindCache, UnwoundFrame, walk,
};

/// The room for frames: less than some stacks have.
const FRAMES: usize = 24;
const MODULE: ModuleNumber = ModuleNumber(7);

struct File<'a>(&'a [u8]);

impl File<'_> {
    fn copy(&self, address: u64, room: &mut [u8]) -> usize {
        let start = usize::try_from(address).unwrap_or(usize::MAX);
        let bytes = self.0.get(start..).unwrap_or_default();
        let len = bytes.len().min(room.len());
        room[..len].copy_from_slice(&bytes[..len]);
        len
    }
}

impl ReadBytes for File<'_> {
    fn read(&self, address: u64, room: &mut [u8]) -> usize {
        self.copy(address, room)
    }
}

impl CodeBytes for File<'_> {
    fn read(&self, address: u64, room: &mut [u8]) -> usize {
        self.copy(address, room)
    }
}

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    let Some((head, rest)) = data.split_first_chunk::<33>() else {
        return;
    };
    let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("8 bytes"));
    let registers = Registers {
        pc: word(0),
        sp: word(8),
        fp: word(16),
        lr: word(24),
    };
    let Some((words, file)) = rest.split_at_checked(usize::from(head[32]) * 8) else {
        return;
    };
    let words: Vec<u64> = words
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
        .collect();
    if let Some(image) = Image::read(&File(file), 0) {
        unwind(registers, &words, file, &image);
    }
    if let Some(image) = not_loaded(file) {
        unwind(registers, &words, file, &image);
    }
}

fn not_loaded(bytes: &[u8]) -> Option<Image> {
    let mut file = tempfile::tempfile().expect("a directory for temporary files");
    file.write_all(bytes).expect("room for a temporary file");
    Image::read_file(&file)
}

fn unwind(registers: Registers, words: &[u64], file: &[u8], image: &Image) {
    let at = |address: u64| image.bias.wrapping_add(address);
    let (start, end) = (at(image.addresses.start), at(image.addresses.end));
    if start >= end {
        return; // such a file is loaded nowhere
    }
    let placed = PlacedModule {
        start,
        end,
        bias: image.bias,
        number: Some(MODULE),
        code: image.code.clone(),
        functions: image.functions(),
    };
    let snapshot = ModuleSnapshot::new(vec![(placed, image)], (0, 0));
    let copied = CopiedStack {
        start: registers.sp & !7,
        words,
        is_cut: false,
    };
    let code = File(file);
    let mut cache = UnwindCache::new();
    let mut walk_once = || {
        let reader = CodeReader::new(&code, &snapshot);
        let stack = StackToWalk {
            registers,
            words: &copied,
            code: Some(&reader),
            generated: None,
        };
        let mut room = [None; FRAMES];
        let walked = walk(&snapshot, &mut cache, stack, &mut room, Some);
        let frames: Vec<UnwoundFrame> = room[FRAMES - walked.len..]
            .iter()
            .map(|frame| frame.expect("each frame is stored"))
            .collect();
        (walked, frames)
    };
    let (walked, frames) = walk_once();
    let innermost = frames.last().expect("the innermost frame needs no table");
    assert_eq!(innermost.sp, registers.sp);
    assert!(
        frames
            .iter()
            .all(|frame| frame.module.is_none_or(|module| module == MODULE))
    );
    if !walked.has_spoiled_cache {
        assert_eq!(walk_once().1, frames, "the cache changes no frame");
    }
}
