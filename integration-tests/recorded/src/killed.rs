//! A child that is killed, and the profile of what it has recorded.

use std::fs::{self, File};
use std::path::PathBuf;

use profiler_parent::Session;
use tempfile::TempDir;
use test_support::own_process;
use test_support::patience::until;

/// The session of a child that was killed.
#[derive(Debug)]
pub struct KilledChild {
    /// The session. It is dropped before the directory.
    pub session: Session,
    directory: TempDir,
}

impl KilledChild {
    /// Runs the calling test once more as the child `killed`, which calls `record` with the path of
    /// a file, and kills it as soon as it calls [`wait_to_be_killed`] with that path.
    pub fn of_this_test(record: fn(PathBuf) -> !) -> Self {
        if let Some(ready) = own_process::role() {
            record(ready.into());
        }
        let directory = tempfile::tempdir().unwrap();
        let ready = directory.path().join("ready");
        let session = Session::builder().start().unwrap();
        let command = own_process::child(&ready);
        let mut child = session.spawn("killed", command).unwrap();
        assert!(until(|| ready.exists()), "the child is not ready");
        child.kill().unwrap();
        child.wait().unwrap();
        Self { session, directory }
    }

    /// Captures, and returns the path of the profile.
    pub fn capture(&self) -> PathBuf {
        let path = self.directory.path().join("profile.json");
        self.session.capture().save(&path).unwrap();
        path
    }

    /// Captures, and returns the text of the profile.
    pub fn profile(&self) -> String {
        fs::read_to_string(self.capture()).unwrap()
    }
}

/// Makes the file that says that the child has recorded everything, and waits until the child is
/// killed.
pub fn wait_to_be_killed(ready: PathBuf) -> ! {
    File::create(ready).unwrap();
    loop {
        std::thread::park();
    }
}
