//! The parent's connection to one worker: sends files to the worker and receives its index.

use std::collections::HashMap;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout};

use anyhow::{Result, bail};
use crossbeam_channel::Receiver;
use profiler_parent::core::marker::category;
use profiler_parent::scope;

use crate::frames::{FromWorker, Sum, ToWorker, WINDOW, receive, send};
use crate::words::WordIndex;

/// The result of one worker.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    /// Its words, if it sent all of them.
    pub(crate) index: Option<WordIndex>,
    pub(crate) sum: Sum,
    /// Number of files that could not be read.
    pub(crate) unread: u64,
    /// Number of files that the worker received.
    pub(crate) given: u64,
    /// One of the files that the worker has indexed.
    pub(crate) example: Option<PathBuf>,
    /// Why there is no index.
    pub(crate) failure: Option<String>,
}

/// The connection to one worker.
#[derive(Debug)]
pub(crate) struct Link<'a> {
    to: &'a mut ChildStdin,
    from: BufReader<ChildStdout>,
    /// The unfinished files of the worker, by job.
    out: HashMap<u64, PathBuf>,
    outcome: Outcome,
}

impl<'a> Link<'a> {
    pub(crate) fn new(name: String, to: &'a mut ChildStdin, from: ChildStdout) -> Self {
        let outcome = Outcome {
            name,
            ..Outcome::default()
        };
        Self {
            to,
            from: BufReader::new(from),
            out: HashMap::new(),
            outcome,
        }
    }

    /// Sends files to the worker until there are no more, and receives its index.
    pub(crate) fn work(mut self, files: &Receiver<PathBuf>) -> Outcome {
        match self.hand_out_all(files).and_then(|()| self.take_index()) {
            Ok(index) => self.outcome.index = Some(index),
            Err(error) => self.outcome.failure = Some(crate::sentence(&error)),
        }
        self.outcome
    }

    fn hand_out_all(&mut self, files: &Receiver<PathBuf>) -> Result<()> {
        let _scope = scope!("hand out", &category::IPC);
        loop {
            self.hand_out(files)?;
            if self.out.is_empty() {
                return send(self.to, &ToWorker::Finish);
            }
            match receive(&mut self.from)? {
                Some(FromWorker::Done { job, indexed }) => self.done(job, indexed),
                Some(_) => bail!("it sent its index before its last file was done"),
                None => bail!("it has gone"),
            }
        }
    }

    /// Fills the window. Waits for a file only if the worker has none.
    fn hand_out(&mut self, files: &Receiver<PathBuf>) -> Result<()> {
        while self.out.len() < WINDOW {
            let next = if self.out.is_empty() {
                files.recv().ok()
            } else {
                files.try_recv().ok()
            };
            let Some(path) = next else { break };
            self.outcome.given += 1;
            let job = self.outcome.given;
            send(
                self.to,
                &ToWorker::File {
                    job,
                    path: path.clone(),
                },
            )?;
            self.out.insert(job, path);
        }
        Ok(())
    }

    fn done(&mut self, job: u64, indexed: bool) {
        let path = self.out.remove(&job);
        match indexed {
            true => self.outcome.example = self.outcome.example.take().or(path),
            false => self.outcome.unread += 1,
        }
    }

    fn take_index(&mut self) -> Result<WordIndex> {
        let _scope = scope!("take index", &category::IPC);
        let mut index = WordIndex::default();
        loop {
            match receive(&mut self.from)? {
                Some(FromWorker::Words(words)) => {
                    words.iter().for_each(|(word, n)| index.add(word, *n))
                }
                Some(FromWorker::Sum(sum)) => {
                    self.outcome.sum = sum;
                    return Ok(index);
                }
                Some(FromWorker::Done { .. }) => bail!("it did a file that it was not given"),
                None => bail!("it has gone"),
            }
        }
    }
}
