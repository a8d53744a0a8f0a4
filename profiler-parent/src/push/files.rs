//! Pushes profiles that exist as files.
//!
//! Called by `profiler push` and by applications. A file has the identifier of its content, so its
//! bodies have the same identifiers whenever and wherever it is pushed.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::SeriesId;
use super::encoders::EngineEncoder;
use super::spool_home::batch_name;
use super::{BatchEncoder, PushError, PushOptions, PushReport, Pusher, spool_directory};

/// Pushes profiles to all destinations of the options, and returns what was sent. The options about
/// the period do not apply; a spool is not used.
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
    if options.destinations.is_empty() {
        return Err(PushError::NoDestination);
    }
    let (directory, temporary) = spool_directory(None)?;
    for file in files {
        add_file(&directory, file).map_err(|source| PushError::File {
            path: file.clone(),
            source,
        })?;
    }
    let encoder: Arc<dyn BatchEncoder> =
        Arc::new(EngineEncoder::of_files(options.identity.clone()));
    let mut pusher = Pusher::new(&directory, options, temporary)?;
    pusher.start_senders(options, &encoder)?;
    pusher.drain(Instant::now() + timeout);
    Ok(pusher.report())
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

/// Puts a copy of a file into a spool, as the only batch of its series.
fn add_file(spool: &Path, file: &Path) -> io::Result<()> {
    let home = spool.join(series_of(file)?.to_string());
    fs::create_dir_all(&home)?;
    let batch = home.join(batch_name(0, 0));
    // A link costs nothing, but is only possible within a file system.
    fs::hard_link(file, &batch).or_else(|_| fs::copy(file, &batch).map(|_| ()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
