//! Commands for files and locks of the program itself, which the profiler must not change.
//!
//! `init` starts recording late. `lock PATH` takes a POSIX lock. `locker PATH` answers which other
//! process holds a lock on the file, and `byte-locker PATH OFFSET` which one holds a lock on that
//! byte. `close-all DIRECTORY` closes all descriptors from 3 on, and opens files of the program in
//! their place. `check-files` checks that these files are unchanged. `append MIB` writes to every
//! writable file that is open, except the pool, up to MIB MiB or until a write fails.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Mutex;

use anyhow::Context;
use integration_tests::locks::{self, Extent};
use integration_tests::program_files;

use crate::Words;

/// The number of files of the program. It is higher than the number of the profiler's descriptors,
/// so that the files reuse all their numbers.
const FILES: usize = 96;

static OPEN: Mutex<Vec<File>> = Mutex::new(Vec::new());

pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    let path = || words.first().map(Path::new).context("which file?");
    Some(match name {
        "init" => crate::begin::init().map(|status| format!("ok {status}")),
        "lock" => path().and_then(lock),
        "locker" => path().and_then(|path| locker(path, Extent::File)),
        "byte-locker" => path().and_then(|path| {
            let offset = words.get(1).context("which byte?")?.parse()?;
            locker(path, Extent::Byte(offset))
        }),
        "close-all" => path().and_then(close_all),
        "check-files" => check_files(),
        "append" => words
            .first()
            .context("how much?")
            .and_then(|most| append(most.parse()?)),
        _ => return None,
    })
}

fn lock(path: &Path) -> anyhow::Result<String> {
    let file = File::options().read(true).write(true).open(path)?;
    locks::take(&file)?;
    OPEN.lock()
        .map_err(|_| anyhow::anyhow!("poisoned"))?
        .push(file);
    Ok("ok".to_owned())
}

fn locker(path: &Path, extent: Extent) -> anyhow::Result<String> {
    Ok(format!("ok {}", locks::holder(path, extent)?.unwrap_or(0)))
}

fn close_all(directory: &Path) -> anyhow::Result<String> {
    for number in 3..4096 {
        // SAFETY: takes a number. No value of this program closes a descriptor from 3 on.
        unsafe { libc::close(number) };
    }
    let mut open = OPEN.lock().map_err(|_| anyhow::anyhow!("poisoned"))?;
    open.extend(program_files::open(directory, FILES)?);
    let first = open.first().map_or(-1, AsRawFd::as_raw_fd);
    Ok(format!("ok {first}"))
}

fn check_files() -> anyhow::Result<String> {
    let mut open = OPEN.lock().map_err(|_| anyhow::anyhow!("poisoned"))?;
    program_files::check(&mut open)?;
    Ok("ok".to_owned())
}

/// Appends to every regular file that is open, except the pool of this process, whose size is
/// sealed. Answers how many bytes were written.
fn append(most: u64) -> anyhow::Result<String> {
    let mut written = 0_u64;
    let piece = vec![b'x'; 1 << 20];
    for number in 3..256 {
        let path = format!("/proc/self/fd/{number}");
        let is_pool = std::fs::read_link(&path)
            .is_ok_and(|name| name.to_string_lossy().starts_with("/memfd:profiler-pool"));
        let Some(mut file) = File::options()
            .append(true)
            .open(path)
            .ok()
            .filter(|_| !is_pool)
        else {
            continue;
        };
        if !file.metadata()?.is_file() {
            continue;
        }
        for _ in 0..most {
            match file.write(&piece) {
                Ok(0) | Err(_) => break,
                Ok(bytes) => written += u64::try_from(bytes)?,
            }
        }
    }
    Ok(format!("ok {written}"))
}
