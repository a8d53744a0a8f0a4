//! Tests of a pusher that has lost its directory in the spool: its program has closed all
//! descriptors, and another pusher has taken the directory over.

use super::*;

/// The files in the only directory of a spool.
fn files(spool: &Path) -> Vec<String> {
    let home = fs::read_dir(spool).unwrap().next().unwrap().unwrap();
    let files = fs::read_dir(home.path()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| !name.starts_with("owner")).collect();
    names.sort();
    names
}

/// Replaces the file of the lock, as a pusher does that has removed the directory and made it anew.
fn take_over(spool: &Path) {
    let home = fs::read_dir(spool).unwrap().next().unwrap().unwrap();
    let lock = home.path().join("lock");
    fs::remove_file(&lock).unwrap();
    fs::write(lock, "").unwrap();
}

#[test]
fn batches_that_another_pusher_has_taken_over_are_neither_sent_nor_removed() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(&[]);
    let destination = endpoint.destination();
    let to = std::slice::from_ref(&destination);
    let spool = open(directory.path(), NO_LIMIT, to);
    add(&spool, &["a", "b"]);
    let before = files(directory.path());
    take_over(directory.path());
    let mut sender = RunningSender::start(&spool, destination);
    let counts = sender.finish();
    assert_eq!((counts.sent.batches, counts.rejected.batches), (0, 1));
    assert_eq!(endpoint.received(), []);
    let error = sender.counts.lock().unwrap().error.clone().unwrap();
    assert!(error.contains("another pusher"), "{error}");
    fs::write(spool.unfinished_path().unwrap(), "c").unwrap();
    spool.add(1).unwrap_err();
    fs::remove_file(spool.unfinished_path().unwrap()).unwrap();
    spool.stop();
    assert_eq!(files(directory.path()), before);
}

#[test]
fn a_directory_without_batches_that_another_pusher_has_taken_over_stays() {
    let directory = tempfile::tempdir().unwrap();
    let spool = open(directory.path(), NO_LIMIT, &[]);
    take_over(directory.path());
    spool.stop();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}
