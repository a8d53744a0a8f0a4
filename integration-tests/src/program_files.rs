//! Files of a program whose descriptors take the numbers of closed ones. The profiler must neither
//! use nor close them.
//!
//! Used by the helper process and by the test `closed_descriptors_parent`.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, ensure};

/// The offset of each file.
const OFFSET: u64 = 7;

/// What the file with this number contains.
fn content(number: usize) -> String {
    format!("file {number:4} of the program")
}

/// Creates and opens `count` files in a directory.
///
/// # Errors
/// When that fails.
pub fn open(directory: &Path, count: usize) -> anyhow::Result<Vec<File>> {
    let open = |number: usize| {
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        let mut file = options.open(directory.join(number.to_string()))?;
        write!(file, "{}", content(number))?;
        file.seek(SeekFrom::Start(OFFSET))?;
        anyhow::Ok(file)
    };
    (0..count).map(open).collect()
}

/// Checks that all files are open and that their offsets and contents are unchanged.
///
/// # Errors
/// When one is not.
pub fn check(files: &mut [File]) -> anyhow::Result<()> {
    for (number, file) in files.iter_mut().enumerate() {
        let at = file
            .stream_position()
            .with_context(|| format!("file {number} is not open"))?;
        ensure!(at == OFFSET, "the offset of file {number} is {at}");
        let mut text = String::new();
        file.rewind()?;
        file.read_to_string(&mut text)?;
        file.seek(SeekFrom::Start(OFFSET))?;
        ensure!(text == content(number), "file {number} reads {text:?}");
    }
    Ok(())
}
