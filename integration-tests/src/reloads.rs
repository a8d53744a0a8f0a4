//! Loads, calls and unloads a library repeatedly in a sampled process, each time at another
//! address, and counts the definitions that this adds.
//!
//! Used by a storm for the test and by a role of `figures`, each in a separate process.

#![allow(unsafe_code)]

use std::collections::{HashSet, VecDeque};
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use profiler_core::internal::reader::{Definitions, PoolReader};
use profiler_core::session;
use rustix::param::page_size;

use crate::own::start_sampling;
use crate::patience::Stopwatch;

/// Time spent in the library after each load, so that the sampler sees its addresses.
const WITHIN: Duration = Duration::from_millis(3);
/// The number of latest addresses at which the library cannot be loaded again. A process in which
/// nothing else is mapped loads the library at one address more than this.
const TAKEN: usize = 32;

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub struct Reloads {
    /// Definitions of files that were added after the library was first defined.
    pub added: usize,
    /// The number of different addresses at which the library was loaded.
    pub places: usize,
    /// The number of stacks that the sampler took.
    pub samples: u64,
}

/// Loads a library until it is defined, and then `loads` times more.
///
/// # Errors
/// If it cannot be loaded, or nothing is sampled.
pub fn play(loads: usize) -> Result<Reloads> {
    start_sampling()?;
    let mut places = Places::default();
    let first = until_defined(&mut places)?;
    for _ in 0..loads {
        load(&mut places)?;
    }
    let samples = session::sampling_stats()
        .context("nothing was sampled")?
        .taken;
    let added = files()?.len().saturating_sub(first);
    session::stop();
    Ok(Reloads {
        added,
        places: places.all.len(),
        samples,
    })
}

/// Loads the library until the sampler has seen it. Returns how many files are then defined.
fn until_defined(places: &mut Places) -> Result<usize> {
    for _ in 0..1000 {
        load(places)?;
        let files = files()?;
        if files.iter().any(|path| path.contains("libresolv")) {
            return Ok(files.len());
        }
    }
    anyhow::bail!("the sampler never saw the library")
}

/// The paths of all definitions of files.
fn files() -> Result<Vec<String>> {
    let file = session::pool_file().context("no pool")?;
    let definitions: Definitions = PoolReader::open(file)?.snapshot()?.definitions;
    Ok(definitions
        .modules()
        .into_iter()
        .map(|(_, module)| module.path.clone())
        .collect())
}

/// The addresses at which the library was loaded. Memory is mapped at the latest ones, so that the
/// library is loaded at another address.
#[derive(Debug, Default)]
struct Places {
    all: HashSet<usize>,
    /// Pages of the latest ones, the oldest first.
    taken: VecDeque<*mut c_void>,
}

impl Places {
    /// Adds an address in the library, which is unloaded by now, and maps a page there.
    fn add(&mut self, address: usize) -> Result<()> {
        self.all.insert(address);
        let size = page_size();
        let page = ptr::without_provenance_mut(address & !(size - 1));
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: new memory at an address where there is none.
        let mapped = unsafe { libc::mmap(page, size, libc::PROT_NONE, kind, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Ok(()); // another thread has mapped memory there
        }
        ensure!(mapped == page, "this kernel maps memory elsewhere");
        self.taken.push_back(mapped);
        if self.taken.len() > TAKEN {
            self.give_back();
        }
        Ok(())
    }

    fn give_back(&mut self) {
        if let Some(page) = self.taken.pop_front() {
            // SAFETY: mapped by `add`, and no code refers to it.
            unsafe { libc::munmap(page, page_size()) };
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        (0..self.taken.len()).for_each(|_| self.give_back());
    }
}

/// Loads the library, calls it for [`WITHIN`] and unloads it.
fn load(places: &mut Places) -> Result<()> {
    // SAFETY: a library of the system, whose start-up code does nothing.
    let library = unsafe { libc::dlopen(c"libresolv.so.2".as_ptr(), libc::RTLD_NOW) };
    ensure!(!library.is_null(), "no libresolv");
    // SAFETY: the library is open, and the name ends with a zero.
    let symbol = unsafe { libc::dlsym(library, c"ns_get16".as_ptr()) };
    ensure!(!symbol.is_null(), "no ns_get16");
    // SAFETY: `ns_get16` takes a pointer to two bytes and returns a number.
    let get16 =
        unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(*const u8) -> u32>(symbol) };
    let watch = Stopwatch::start();
    while watch.elapsed() < WITHIN {
        (0..1000).for_each(|_| _ = black_box(get16(black_box([1, 2]).as_ptr())));
    }
    // SAFETY: opened above, and nothing of it is used any more.
    unsafe { libc::dlclose(library) };
    places.add(symbol as usize)
}
