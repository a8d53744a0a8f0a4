//! A worker: indexes the files that its parent hands it, on two threads.
//!
//! The main thread receives jobs on standard input, and the indexers report each finished file.
//! After the last file the main thread sends the index, then waits for the end of its input: until
//! then the parent may request this process's part of the profile.

use std::fs::File;
use std::io::{self, Read, StdinLock, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::{self, Builder, ScopedJoinHandle};

use anyhow::{Context, Result, anyhow};
use crossbeam_channel::{Receiver, Sender, bounded};
use profiler_child::core::marker::{MarkerOptions, category};
use profiler_child::core::time::Timestamp;
use profiler_child::{marker, scope, text_marker};

use crate::frames::{FromWorker, Sum, ToWorker, WINDOW, receive, send};
use crate::markers::{BYTES_READ, FILES, FileMarker, WORDS};
use crate::words::{WordCounter, WordIndex};

/// Number of threads that read and count.
pub(crate) const INDEXERS: usize = 2;

/// Number of bytes of a file that are read at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// Number of words per frame, so that a frame stays far below its limit.
const WORDS_PER_FRAME: usize = 1000;

#[derive(Debug)]
struct Job {
    number: u64,
    path: PathBuf,
}

/// The result of one indexer.
#[derive(Debug, Default)]
struct Tally {
    index: WordIndex,
    sum: Sum,
}

/// Indexes files until the parent has no more, then waits until the parent has taken the profile.
pub(crate) fn run() -> Result<ExitCode> {
    if let profiler_child::Status::Off(error) = profiler_child::init() {
        eprintln!("a worker is not profiled: {error}"); // it runs on
    }
    BYTES_READ.register();
    let mut stdin = io::stdin().lock();
    let Some(tallies) = index_all(&mut stdin)? else {
        return Ok(ExitCode::FAILURE);
    };
    send_index(merge(tallies))?;
    io::copy(&mut stdin, &mut io::sink())?;
    Ok(ExitCode::SUCCESS)
}

/// The results of the indexers; `None` if the parent has exited before the end.
fn index_all(stdin: &mut StdinLock<'_>) -> Result<Option<Vec<Tally>>> {
    let (jobs, queue) = bounded(WINDOW);
    thread::scope(|scope| {
        let start = |number| {
            let queue = queue.clone();
            let thread = Builder::new().name(format!("indexer {number}"));
            thread
                .spawn_scoped(scope, move || index_files(&queue))
                .context("cannot start a thread")
        };
        let indexers = (1..=INDEXERS).map(start).collect::<Result<Vec<_>>>()?;
        let is_complete = take_jobs(stdin, jobs)?;
        let tallies = indexers.into_iter().map(join).collect::<Result<Vec<_>>>()?;
        Ok(is_complete.then_some(tallies))
    })
}

fn join(indexer: ScopedJoinHandle<'_, Result<Tally>>) -> Result<Tally> {
    indexer.join().map_err(|_| anyhow!("an indexer panicked"))?
}

/// Passes the parent's jobs to the indexers. Returns `false` if the parent has exited before the
/// end.
fn take_jobs(stdin: &mut StdinLock<'_>, jobs: Sender<Job>) -> Result<bool> {
    let _scope = scope!("take jobs", &category::IPC);
    loop {
        match receive(stdin)? {
            Some(ToWorker::File { job, path }) => jobs.send(Job { number: job, path })?,
            Some(ToWorker::Finish) => return Ok(true),
            None => return Ok(false),
        }
    }
}

/// Aborts the process if its thread panics. Otherwise the parent would wait without end for the
/// file of an indexer that panicked.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

fn index_files(queue: &Receiver<Job>) -> Result<Tally> {
    let _abort = AbortOnPanic;
    let _scope = scope!("index files", &WORDS);
    let mut tally = Tally::default();
    let mut block = vec![0; BLOCK_BYTES];
    for job in queue {
        let indexed = index_file(&job.path, &mut tally, &mut block);
        if let Err(error) = &indexed {
            let text = format!("{}: {error}", job.path.display());
            text_marker!(
                "cannot read",
                &category::IO,
                MarkerOptions::default(),
                &text
            );
        }
        report(&FromWorker::Done {
            job: job.number,
            indexed: indexed.is_ok(),
        })?;
    }
    Ok(tally)
}

/// Counts the words of one file. A file with a zero byte in its first block is not text: the rest
/// of it is not read, and it has no words.
fn index_file(path: &Path, tally: &mut Tally, block: &mut [u8]) -> io::Result<()> {
    let start = Timestamp::now();
    let mut file = File::open(path)?;
    let mut counter = WordCounter::new(&mut tally.index);
    let mut bytes = 0;
    loop {
        tally.sum.reads += 1;
        let piece = read_block(&mut file, block)?;
        let is_binary = bytes == 0 && piece.contains(&0);
        tally.sum.counts += 1;
        bytes += piece.len() as u64;
        {
            let _scope = scope!("count", WORDS.sub(1));
            counter.feed(if is_binary { &[] } else { piece });
        }
        if is_binary || piece.len() < BLOCK_BYTES {
            break;
        }
    }
    let words = counter.finish();
    tally.sum += Sum {
        files: 1,
        bytes,
        words,
        ..Sum::default()
    };
    let path = &path.to_string_lossy();
    let options = MarkerOptions::interval_until_now_from(start);
    marker!("File", &FILES, options, &FileMarker { path, bytes, words });
    Ok(())
}

/// Reads until the block is full or the file ends.
fn read_block<'a>(file: &mut File, block: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let _scope = scope!("read", category::IO.sub(1));
    let mut filled = 0;
    while filled < block.len() {
        match file.read(&mut block[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    BYTES_READ.add(filled as i64);
    Ok(&block[..filled])
}

fn merge(tallies: Vec<Tally>) -> Tally {
    let _scope = scope!("merge", WORDS.sub(2));
    let mut all = Tally::default();
    for tally in tallies {
        all.index.merge(tally.index);
        all.sum += tally.sum;
    }
    all
}

fn send_index(tally: Tally) -> Result<()> {
    let _scope = scope!("send index", &category::IPC);
    let mut words = tally.index.into_words();
    loop {
        let some: Vec<_> = words.by_ref().take(WORDS_PER_FRAME).collect();
        if some.is_empty() {
            return report(&FromWorker::Sum(tally.sum));
        }
        report(&FromWorker::Words(some))?;
    }
}

/// Sends a message under the lock of standard output, so messages of different threads do not mix.
fn report(message: &FromWorker) -> Result<()> {
    let mut stdout = io::stdout().lock();
    send(&mut stdout, message)?;
    Ok(stdout.flush()?)
}
