//! Tests of a pusher that has lost its directory in the spool: its program has closed all
//! descriptors, and another pusher has taken the directory over.

use std::path::PathBuf;

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

/// Replaces the mark of the pusher, as another pusher does that takes the directory over. It has
/// ended meanwhile, so the directory is not locked.
fn take_over(spool: &Path) {
    let home = fs::read_dir(spool).unwrap().next().unwrap().unwrap();
    let files = fs::read_dir(home.path()).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let is_mark = |path: &PathBuf| {
        path.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("owner")
    };
    paths
        .filter(is_mark)
        .for_each(|mark| fs::remove_file(mark).unwrap());
}

#[test]
fn batches_that_another_pusher_has_taken_over_are_neither_sent_nor_removed() {
    let (directory, endpoint, destination, spool) = scene(&[]);
    add(&spool, &["a", "b"]);
    let before = files(directory.path());
    take_over(directory.path());
    let mut sender = RunningSender::start(&spool, destination);
    let counts = sender.finish();
    assert_eq!((counts.sent.batches, counts.rejected.batches), (0, 1));
    assert_eq!(endpoint.received(), []);
    let error = sender.counts.lock().unwrap().error.clone().unwrap();
    assert!(error.contains("another pusher"), "{error}");
    spool.stop();
    assert_eq!(files(directory.path()), before);
}

#[test]
fn a_pusher_without_its_directory_makes_another_one() {
    let (directory, endpoint, destination, spool) = scene(&[]);
    add(&spool, &["a"]);
    let unfinished = spool.unfinished_path().unwrap();
    fs::write(&unfinished, "b").unwrap();
    take_over(directory.path());
    let error = spool.add(1).unwrap_err();
    assert!(error.to_string().contains("another pusher"), "{error}");
    fs::remove_file(unfinished).unwrap();
    let lost = files(directory.path());
    // The capture of the next period.
    add(&spool, &["c"]);
    let mut sender = RunningSender::start(&spool, destination);
    let counts = sender.finish();
    assert_eq!(endpoint.accepted(), ["c"]);
    assert_eq!((counts.sent.batches, counts.rejected.batches), (1, 1));
    spool.stop();
    assert_eq!(files(directory.path()), lost, "the new one is removed");
}

#[test]
fn a_pusher_whose_spool_was_removed_makes_it_again() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(&[]);
    let destination = endpoint.destination();
    let path = directory.path().join("spool");
    let spool = open(&path, NO_LIMIT, std::slice::from_ref(&destination));
    add(&spool, &["a"]);
    fs::remove_dir_all(&path).unwrap();
    add(&spool, &["b"]);
    let counts = RunningSender::start(&spool, destination).finish();
    assert_eq!(endpoint.accepted(), ["b"]);
    assert_eq!((counts.sent.batches, counts.rejected.batches), (1, 1));
}

#[test]
fn a_directory_without_batches_that_another_pusher_has_taken_over_stays() {
    let directory = tempfile::tempdir().unwrap();
    let spool = open(directory.path(), NO_LIMIT, &[]);
    take_over(directory.path());
    spool.stop();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn a_body_is_not_sent_again_after_another_pusher_has_taken_its_batch_over() {
    let (directory, endpoint, destination, spool) = scene(&[Act::AskAgain(503); 1000]);
    add(&spool, &["a"]);
    let mut sender = RunningSender::start(&spool, destination);
    assert!(until(|| sender.failed() > 0));
    take_over(directory.path());
    let counts = sender.finish();
    assert_eq!((counts.sent.batches, counts.rejected.batches), (0, 1));
    assert_eq!(endpoint.accepted(), [] as [&str; 0]);
}
