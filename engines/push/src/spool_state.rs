//! The state of a directory in the spool: whose batches it has, and which of them each destination
//! has got.
//!
//! Used by the directories of a spool. A batch has the service, the version and the host of the
//! pusher that has captured it, also if another one sends it after an update. Invariants: a change
//! needs no further room on the disk, unless the text grows beyond its blocks; a damaged state
//! counts as empty, so bodies are sent again, with the same identifiers.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use profiler_sys::OwnFile;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::PushIdentity;
use super::batch::ENCODER_VERSION;

/// The name of the file.
pub(super) const STATE: &str = "state";
/// The most bytes of it that are read.
const MAX_BYTES: u64 = 1 << 20;
/// The text is filled up with spaces to a multiple of this length.
const BLOCK: usize = 4096;

/// What a destination has of a directory: all batches before `next`, and these bodies of `next`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BatchProgress {
    pub(super) next: u64,
    pub(super) done: FinishedBodies,
}

/// The bodies of a batch that a destination has accepted or refused: the first bodies of the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FinishedBodies {
    /// The number of these bodies.
    pub(super) bodies: u64,
    /// The number of them that the destination has refused, completely or in part.
    pub(super) refused: u64,
}

impl BatchProgress {
    /// What the destination has of a batch; `None` if it has all.
    pub(super) fn of_batch(self, number: u64) -> Option<FinishedBodies> {
        match number.cmp(&self.next) {
            Ordering::Less => None,
            Ordering::Equal => Some(self.done),
            Ordering::Greater => Some(FinishedBodies::default()),
        }
    }
}

/// The contents of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SpoolState {
    /// The version of the encoder that has made the finished bodies.
    encoder: u32,
    /// `None` if it is not known, because the state was missing or damaged.
    pub(super) identity: Option<PushIdentity>,
    /// The addresses of the pusher that has captured the batches, without secrets.
    pub(super) destinations: Vec<String>,
    /// By address, also of destinations of later pushers.
    pub(super) progress: BTreeMap<String, BatchProgress>,
}

/// That of a directory whose state is missing or damaged.
impl Default for SpoolState {
    fn default() -> Self {
        Self {
            encoder: ENCODER_VERSION,
            identity: None,
            destinations: Vec::new(),
            progress: BTreeMap::new(),
        }
    }
}

impl SpoolState {
    /// That of a new directory.
    pub(super) fn new(identity: PushIdentity, destinations: Vec<String>) -> Self {
        Self {
            encoder: ENCODER_VERSION,
            identity: Some(identity),
            destinations,
            progress: BTreeMap::new(),
        }
    }

    /// Reads the file in a directory. `None` if there is none, or if it is damaged. If another
    /// version of the encoder has made bodies of a batch, the batch begins anew: its bodies are
    /// divided in another way.
    ///
    /// # Errors
    /// The file exists, and cannot be opened or read.
    pub(super) fn read(home: &Path) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NOFOLLOW);
        let file = match options.open(home.join(STATE)) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text).ok().map(Self::of_present))
    }

    fn of_present(mut self) -> Self {
        if self.encoder != ENCODER_VERSION {
            self.encoder = ENCODER_VERSION;
            let all = self.progress.values_mut();
            all.for_each(|progress| progress.done = FinishedBodies::default());
        }
        self
    }

    /// Stores it in a new directory, before its first batch.
    pub(super) fn create(&self, home: &Path) -> io::Result<()> {
        self.put(home, OpenOptions::new().create_new(true))?
            .get()?
            .sync_all()
    }

    /// Replaces the file in a directory.
    pub(super) fn write(&self, home: &Path) -> io::Result<()> {
        self.put(home, OpenOptions::new().create(true)).map(drop)
    }

    /// Opened for each use, because the program may close descriptors.
    fn put(&self, home: &Path, options: &mut OpenOptions) -> io::Result<OwnFile> {
        let mut text = serde_json::to_vec(self)?;
        text.resize(text.len().next_multiple_of(BLOCK), b' ');
        let options = options.write(true).truncate(false).mode(0o600);
        let file = options
            .custom_flags(libc::O_NOFOLLOW)
            .open(home.join(STATE))?;
        let file = OwnFile::from(file);
        file.get()?.write_all_at(&text, 0)?;
        file.get()?.set_len(text.len() as u64)?;
        Ok(file)
    }
}

/// Whether an error says that there is no such file, or that it is a link.
fn is_absent(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || Errno::from_io_error(error) == Some(Errno::LOOP)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn progress(next: u64, bodies: u64) -> BatchProgress {
        let refused = bodies / 2;
        let done = FinishedBodies { bodies, refused };
        BatchProgress { next, done }
    }

    fn with(progress: BatchProgress) -> SpoolState {
        let address = "otlp+http://a".to_owned();
        let mut state = SpoolState::new(PushIdentity::default(), vec![address.clone()]);
        state.progress.insert(address, progress);
        state
    }

    #[test]
    fn what_replaces_a_damaged_state_has_no_identity_and_keeps_finished_bodies() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(STATE), "damaged").unwrap();
        assert_eq!(SpoolState::read(home.path()).unwrap(), None);
        let mut state = SpoolState::default();
        let address = "otlp+http://a".to_owned();
        state.progress.insert(address.clone(), progress(0, 3));
        state.write(home.path()).unwrap();
        let read = SpoolState::read(home.path()).unwrap().unwrap();
        assert_eq!(read.identity, None);
        assert_eq!(read.progress.get(&address), Some(&progress(0, 3)));
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(SpoolState::read(home.path()).unwrap(), None);
        let identity = PushIdentity {
            service: Some("a \"shop\"\n".to_owned()),
            version: Some("1.4.2".to_owned()),
            host: None,
        };
        let many = (0..1000).map(|number| (format!("otlp+http://{number}"), progress(number, 2)));
        let named = SpoolState::new(identity, vec!["otlp+http://b".to_owned()]);
        for state in [
            SpoolState::new(PushIdentity::default(), Vec::new()),
            with(progress(3, 2)),
            with(progress(u64::MAX, u64::MAX)),
            SpoolState {
                progress: many.collect(),
                ..named.clone()
            },
            named,
            with(progress(0, 0)),
        ] {
            state.write(home.path()).unwrap();
            assert_eq!(SpoolState::read(home.path()).unwrap(), Some(state));
        }
        let exists = with(progress(0, 0)).create(home.path()).unwrap_err();
        assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_damaged_state_is_none() {
        let home = tempfile::tempdir().unwrap();
        with(progress(3, 2)).write(home.path()).unwrap();
        let whole = fs::read_to_string(home.path().join(STATE)).unwrap();
        let halves = [&whole[..40], &whole[40..]];
        for damage in [
            "",
            "x",
            "[1]",
            "\u{0}",
            &"9".repeat(74),
            halves[0],
            halves[1],
        ] {
            fs::write(home.path().join(STATE), damage).unwrap();
            let read = SpoolState::read(home.path()).unwrap();
            assert_eq!(read, None, "{damage:?}");
        }
    }

    #[test]
    fn a_state_that_cannot_be_read_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join(STATE)).unwrap();
        SpoolState::read(home.path()).unwrap_err();
    }

    #[test]
    fn a_batch_begins_anew_after_another_version_of_the_encoder() {
        let home = tempfile::tempdir().unwrap();
        let mut other = with(progress(3, 2));
        other.encoder = ENCODER_VERSION + 1;
        other.write(home.path()).unwrap();
        let read = SpoolState::read(home.path()).unwrap();
        assert_eq!(read, Some(with(progress(3, 0))));
    }
}
