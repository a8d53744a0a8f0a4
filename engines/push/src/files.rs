//! Pushes profiles that exist as files, and the batches that dead pushers have left in a spool.
//!
//! Called by `profiler push` and by applications. A file has the identifier of its content, so its
//! bodies have the same identifiers whenever and wherever it is pushed.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use profiler_export::ExportError;
use profiler_export::bodies::BodySink;
use profiler_sys::FileStamp;

use super::batch::{BatchId, SeriesId};
use super::clock::end_of;
use super::destination::{PushEngine, check};
use super::encoders::{BatchEncoder, EngineEncoder};
use super::error::PushError;
use super::options::{PushIdentity, PushOptions};
use super::pusher::Pusher;
use super::report::PushReport;
use super::spool::{BatchToSend, Spool, SpoolPhase};
use super::spool_access::prepare_spool;
use super::spool_directory::StoredBatch;

/// Pushes profiles to all destinations of the options, and returns what was sent. The options about
/// the period and the spool do not apply: no file is too large. A file that is named twice, or that
/// has the content of another one, is pushed once.
///
/// Attempts are repeated as by a [`Pusher`], for at most `timeout`. The report says what was sent
/// until then.
///
/// # Errors
/// [`PushError`]; nothing is sent then.
pub fn push_files(
    files: &[PathBuf],
    options: &PushOptions,
    timeout: Duration,
) -> Result<PushReport, PushError> {
    check(&options.destinations)?;
    let encoder = FilesEncoder::new(files, options.identity.clone());
    let spool = Spool::of_files(batches_of(files)?, &options.destinations);
    let pusher = Pusher::new(spool, options, None);
    send_all(pusher, options, Arc::new(encoder), timeout)
}

/// What happens to a batch in a spool once all destinations have it, if its pusher had others that
/// have not got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherDestinations {
    /// The batch stays in the spool.
    Keep,
    /// The batch is removed: the present destinations replace the others.
    Replace,
}

/// Sends the batches that dead pushers have left in a spool, without a session. The options about
/// the period, the spool and the identity do not apply: no batch is removed if the spool exceeds
/// its limit, and a batch has the service, the version and the host of its pusher. Batches of a
/// living pusher are left alone.
///
/// Attempts are repeated as by a [`Pusher`], for at most `timeout`. What was not sent by then stays
/// in the spool. If an endpoint redirects or answers with 401, 403, 404, 405, 407, 421 or 501, the
/// address or the credentials are wrong: the endpoint gets nothing more, and its batches stay, too.
///
/// # Errors
/// [`PushError`]; nothing is sent then. [`PushError::Spool`] if the directory does not exist.
pub fn push_spool(
    spool: &Path,
    options: &PushOptions,
    timeout: Duration,
    others: OtherDestinations,
) -> Result<PushReport, PushError> {
    check(&options.destinations)?;
    // A pusher makes a missing directory. Here, a missing directory is an error.
    let refused = |source| PushError::Spool {
        path: spool.to_owned(),
        source,
    };
    fs::metadata(spool).map_err(refused)?;
    prepare_spool(spool).map_err(refused)?;
    let keeps = others == OtherDestinations::Keep;
    let opened = Spool::open_leftovers(spool, &options.destinations, keeps);
    let encoder = EngineEncoder::of_batches(options.identity.clone());
    let mut pusher = Pusher::new(opened.map_err(refused)?, options, None);
    pusher.needs_access = true;
    send_all(pusher, options, Arc::new(encoder), timeout)
}

/// Sends the batches in the spool of a pusher for at most `timeout`.
fn send_all(
    mut pusher: Pusher,
    options: &PushOptions,
    encoder: Arc<dyn BatchEncoder>,
    timeout: Duration,
) -> Result<PushReport, PushError> {
    let until = end_of(timeout);
    // Before the first request, which ends with this time, too.
    let draining = SpoolPhase::Draining(until);
    pusher.progress.spool.set_phase(draining);
    pusher.start_senders(options, &encoder)?;
    pusher.drain(until);
    Ok(pusher.report())
}

/// Encodes files. A file that was changed or replaced since its identifier was computed is not
/// encoded: its bodies would have the identifiers of another content.
struct FilesEncoder {
    stamps: HashMap<PathBuf, Option<FileStamp>>,
    encoder: EngineEncoder,
}

impl FilesEncoder {
    /// Call this before the identifiers of the files are computed.
    fn new(files: &[PathBuf], identity: PushIdentity) -> Self {
        let paths = files.iter().filter_map(|file| fs::canonicalize(file).ok());
        Self {
            stamps: paths.map(|path| (path.clone(), stamp(&path))).collect(),
            encoder: EngineEncoder::of_files(identity),
        }
    }
}

impl BatchEncoder for FilesEncoder {
    fn encode(
        &self,
        engine: PushEngine,
        batch: &BatchToSend,
        bodies: &mut dyn BodySink,
    ) -> Result<(), ExportError> {
        let changed = || ExportError::Read {
            path: batch.path.clone(),
            source: io::Error::other("it has changed since it was chosen for pushing"),
        };
        let known = self.stamps.get(&batch.path).ok_or_else(changed)?;
        if known.is_none() || *known != stamp(&batch.path) {
            return Err(changed());
        }
        self.encoder.encode(engine, batch, bodies)
    }
}

/// The present stamp of a file.
fn stamp(path: &Path) -> Option<FileStamp> {
    Some(FileStamp::of(&fs::metadata(path).ok()?))
}

/// The identifier for a file with this content: two FNV-1a hashes of its bytes, with different
/// initial values. It does not protect against a file that was made to collide.
fn series_of(path: &Path) -> io::Result<SeriesId> {
    let mut file = File::open(path)?;
    let mut sums = [0xcbf2_9ce4_8422_2325_u64, 0x9e37_79b9_7f4a_7c15];
    let mut block = vec![0; 64 << 10];
    loop {
        let length = file.read(&mut block)?;
        if length == 0 {
            let [high, low] = sums;
            return Ok(SeriesId::of(u128::from(high) << 64 | u128::from(low)));
        }
        for byte in block.get(..length).unwrap_or_default() {
            sums = sums.map(|sum| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
        }
    }
}

/// The batches for these files, one for each content.
fn batches_of(files: &[PathBuf]) -> Result<Vec<StoredBatch>, PushError> {
    let mut contents = HashSet::new();
    let mut batches = Vec::new();
    for file in files {
        let batch = batch_of(file).map_err(|source| PushError::File {
            path: file.clone(),
            source,
        })?;
        if contents.insert(batch.id.series.clone()) {
            batches.push(batch);
        }
    }
    Ok(batches)
}

/// A file, as the only batch of its series.
fn batch_of(file: &Path) -> io::Result<StoredBatch> {
    Ok(StoredBatch {
        id: BatchId {
            series: series_of(file)?,
            number: 0,
        },
        path: fs::canonicalize(file)?,
        bytes: fs::metadata(file)?.len(),
        entries: 0,
    })
}

#[cfg(test)]
mod tests {
    use profiler_core::ids::ByteLimit;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use test_support::own_process;

    use super::*;
    use crate::PushDestination;
    use crate::queue::{BatchEnd, DestinationIndex};
    use profiler_export::bodies::EncodedBody;

    /// The files that are pushed of these.
    fn pushed(files: &[&PathBuf]) -> Vec<PathBuf> {
        let files: Vec<PathBuf> = files.iter().map(|file| (*file).clone()).collect();
        let batches = batches_of(&files).unwrap().into_iter();
        batches.map(|batch| batch.path).collect()
    }

    #[test]
    fn a_file_that_is_named_twice_is_one_batch_and_is_not_changed() {
        let directory = tempfile::tempdir().unwrap();
        let [file, same] = ["a", "b"].map(|name| directory.path().join(name));
        fs::write(&file, "content").unwrap();
        fs::write(&same, "content").unwrap();
        let pushed = pushed(&[&file, &file, &same]);
        assert_eq!(pushed, [fs::canonicalize(&file).unwrap()]);
        // A batch that all destinations have is no longer in the spool.
        let to = PushDestination::parse("otlp+http://127.0.0.1:1").unwrap();
        let batches = batches_of(std::slice::from_ref(&file)).unwrap();
        let spool = Spool::of_files(batches, std::slice::from_ref(&to));
        let batch = spool.take(DestinationIndex(0)).unwrap();
        spool.finish(DestinationIndex(0), &batch, BatchEnd::Sent);
        assert!(spool.bytes() == 0);
        for each in [&file, &same] {
            assert_eq!(fs::read_to_string(each).unwrap(), "content");
        }
    }

    /// Counts bodies.
    struct CountedBodies(usize);

    impl BodySink for CountedBodies {
        fn body(&mut self, _: EncodedBody<'_>) -> Result<(), ExportError> {
            self.0 += 1;
            Ok(())
        }
    }

    #[test]
    fn a_file_that_has_changed_or_was_replaced_is_not_encoded() {
        const PROFILE: &str =
            include_str!("../../../profiles/export/tests/corpus/profile_export/weighted.json");
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a");
        fs::write(&file, PROFILE).unwrap();
        let files = std::slice::from_ref(&file);
        let encoder = FilesEncoder::new(files, PushIdentity::default());
        let to = PushDestination::parse("otlp+http://127.0.0.1:1").unwrap();
        let spool = Spool::of_files(batches_of(files).unwrap(), std::slice::from_ref(&to));
        let batch = spool.take(DestinationIndex(0)).unwrap();
        let encode = || {
            let mut bodies = CountedBodies(0);
            let encoded = encoder.encode(PushEngine::Otlp, &batch, &mut bodies);
            encoded
                .map(|()| bodies.0)
                .map_err(|error| error.to_string())
        };
        assert!(encode().unwrap() > 0);
        fs::write(directory.path().join("b"), PROFILE).unwrap();
        fs::rename(directory.path().join("b"), &file).unwrap();
        assert!(encode().unwrap_err().contains("has changed"));
        fs::remove_file(&file).unwrap();
        assert!(encode().is_err());
    }

    #[test]
    fn more_files_than_a_process_has_descriptors_are_all_pushed() {
        own_process!(); // the limit is that of the process
        let limit = getrlimit(Resource::Nofile);
        let lowered = Rlimit {
            current: Some(40),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, lowered).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let files = (0..100).map(|number| {
            let file = directory.path().join(number.to_string());
            fs::write(&file, number.to_string()).unwrap();
            file
        });
        let files: Vec<_> = files.collect();
        let refused = PushDestination::parse("otlp+http://127.0.0.1:1").unwrap();
        let options = PushOptions::to(refused);
        let report = push_files(&files, &options, Duration::ZERO).unwrap();
        let [destination] = report.destinations.try_into().unwrap();
        assert_eq!(destination.waiting_batches, files.len() as u64);
    }

    #[test]
    fn a_symbolic_link_is_the_file_that_it_leads_to() {
        let directory = tempfile::tempdir().unwrap();
        let [file, link] = ["a", "b"].map(|name| directory.path().join(name));
        fs::write(&file, "content").unwrap();
        std::os::unix::fs::symlink("a", &link).unwrap();
        assert_eq!(pushed(&[&link]), [fs::canonicalize(&file).unwrap()]);
        assert_eq!(batches_of(&[link]).unwrap()[0].bytes, 7);
    }

    #[test]
    fn a_file_is_not_lost_because_it_is_beyond_the_limit_of_a_spool() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "more than a byte").unwrap();
        let refused = PushDestination::parse("otlp+http://127.0.0.1:1").unwrap();
        let options = PushOptions::to(refused).spool_limit(ByteLimit::new(1));
        let report = push_files(&[file.path().to_owned()], &options, Duration::ZERO).unwrap();
        let [destination] = report.destinations.try_into().unwrap();
        assert_eq!(destination.lost.batches, 0);
    }

    #[test]
    fn the_series_of_a_file_is_that_of_its_content() {
        let directory = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| directory.path().join(name));
        fs::write(&a, "one").unwrap();
        fs::write(&b, "one").unwrap();
        fs::write(&c, "two").unwrap();
        let series = |path| series_of(path).unwrap();
        assert_eq!(series(&a), series(&b));
        assert_ne!(series(&a), series(&c));
        assert_eq!(SeriesId::parse(&series(&a).to_string()), Some(series(&a)));
    }
}
