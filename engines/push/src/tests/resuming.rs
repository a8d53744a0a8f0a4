//! Tests of a pusher that finds the batches of a dead one.

use super::*;

#[test]
fn an_endpoint_that_is_not_there_loses_nothing_and_the_next_pusher_sends_it() {
    let (directory, endpoint, destination, spool) =
        scene(&then_without_end(Act::Answer(200), Act::BreakOff));
    add(&spool, &["a", "b"]);
    add(&spool, &["c"]);
    let mut sender = RunningSender::start(&spool, destination.clone());
    assert!(until(|| sender.failed() > 0));
    sender.stop();
    assert_eq!(endpoint.accepted(), ["a"]);
    drop((sender, spool)); // its directory is no longer locked
    endpoint.acts.lock().unwrap().clear();
    let spool = open_to(&directory, &destination);
    add(&spool, &["d"]);
    let mut sender = RunningSender::start(&spool, destination);
    sender.finish();
    assert_eq!(
        endpoint.accepted(),
        ["a", "b", "c", "d"],
        "nothing is sent twice"
    );
    drop((sender, spool));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_batch_of_which_a_part_was_refused_before_its_pusher_died_counts_as_rejected() {
    let (directory, endpoint, destination, spool) =
        scene(&then_without_end(Act::Answer(400), Act::BreakOff));
    add(&spool, &["a", "b"]);
    let mut sender = RunningSender::start(&spool, destination.clone());
    assert!(until(|| sender.failed() > 1), "a was refused, b waits");
    sender.stop();
    drop((sender, spool));
    endpoint.acts.lock().unwrap().clear();
    let spool = open_to(&directory, &destination);
    let counts = RunningSender::start(&spool, destination).finish();
    assert_eq!(endpoint.accepted(), ["b"]);
    assert_eq!((counts.rejected.batches, counts.sent.batches), (1, 0));
}

#[test]
fn push_spool_takes_the_batches_of_a_dead_pusher_and_leaves_those_of_a_living_one() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(&[]);
    let destination = endpoint.destination();
    let options = PushOptions::to(destination.clone()).spool_limit(ByteLimit::new(1));
    let living = open_to(&directory, &destination);
    add(&living, &["not a profile"]);
    let keep = OtherDestinations::Keep;
    let send = || push_spool(directory.path(), &options, Duration::from_secs(60), keep).unwrap();
    let report = send();
    assert_eq!(report.used_directories, 1);
    let [report] = report.destinations.try_into().unwrap();
    assert_eq!(report.rejected.batches, 0, "its pusher lives");
    drop(living);
    let [report] = send().destinations.try_into().unwrap();
    assert_eq!((report.rejected.batches, report.lost.batches), (1, 0));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_spool_that_does_not_exist_is_an_error_and_is_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let spool = directory.path().join("spool");
    let options = PushOptions::to(PushDestination::parse("otlp+http://host").unwrap());
    let keep = OtherDestinations::Keep;
    let error = push_spool(&spool, &options, Duration::ZERO, keep).unwrap_err();
    assert!(matches!(error, PushError::Spool { .. }), "{error}");
    assert!(!spool.exists());
}

/// Leaves a batch for these destinations in a spool.
fn leave(directory: &Path, to: &[PushDestination]) {
    add(&open(directory, NO_LIMIT, to), &["not a profile"]);
}

#[test]
fn a_batch_stays_in_a_spool_for_a_destination_that_lacks_it_unless_it_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let [one, other] = ["otlp+http://127.0.0.1:1", "otlp+http://127.0.0.1:2"]
        .map(|address| PushDestination::parse(address).unwrap());
    leave(directory.path(), &[one.clone(), other.clone()]);
    let send = |to: &PushDestination, others| {
        let options = PushOptions::to(to.clone());
        let time = Duration::from_secs(60);
        let report = push_spool(directory.path(), &options, time, others).unwrap();
        let files = fs::read_dir(directory.path()).unwrap().count();
        (report.kept_batches, files)
    };
    assert_eq!(send(&one, OtherDestinations::Keep), (1, 1));
    assert_eq!(send(&one, OtherDestinations::Keep), (1, 1));
    assert_eq!(send(&other, OtherDestinations::Keep), (0, 0));
    leave(directory.path(), &[one.clone(), other]);
    assert_eq!(send(&one, OtherDestinations::Replace), (0, 0));
}

#[test]
fn an_endpoint_that_refuses_the_credentials_gets_no_more_of_a_spool_and_loses_nothing() {
    for status in [301, 308, 401, 403, 404, 405, 407, 421, 501] {
        let (_directory, endpoint, destination, spool) = scene(&[Act::Answer(status)]);
        add(&spool, &["a", "b"]);
        add(&spool, &["c"]);
        let mut sender = RunningSender::for_leftovers(&spool, destination.clone());
        sender.thread.take().unwrap().join().unwrap();
        assert_eq!(endpoint.received().len(), 1);
        assert_eq!(spool.counts(FIRST).0.batches, 2, "they wait");
        RunningSender::start(&spool, destination).finish();
        assert_eq!(endpoint.accepted(), ["a", "b", "c"]);
    }
}

/// The names of the batches in a spool.
fn batches(spool: &Path) -> Vec<String> {
    let homes = fs::read_dir(spool).unwrap();
    let files = homes.flat_map(|home| fs::read_dir(home.unwrap().path()).unwrap());
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.ends_with(".json.gz")).collect();
    names.sort();
    names
}

#[test]
fn a_batch_stays_for_its_engine_while_another_one_refuses_it_and_gets_it() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(&[Act::Answer(401)]);
    let first = PushDestination::parse("otlp+http://127.0.0.1:1").unwrap();
    for bodies in [&["a", "b"][..], &["c"]] {
        add(&open_to(&directory, &first), bodies);
    }
    let before = batches(directory.path());
    assert_eq!(before.len(), 2);
    let other = endpoint.destination();
    let to = std::slice::from_ref(&other);
    let send = |keeps| {
        let spool = Arc::new(Spool::open_leftovers(directory.path(), to, keeps).unwrap());
        spool.set_phase(SpoolPhase::Draining(now() + LONG));
        let mut sender = RunningSender::for_leftovers(&spool, other.clone());
        sender.thread.take().unwrap().join().unwrap();
        let sent = spool.counts(FIRST).1.sent.batches;
        (sent, spool.kept())
    };
    assert_eq!(send(true), (0, 0), "refused");
    assert_eq!(batches(directory.path()), before);
    assert_eq!(send(true), (2, 2));
    assert_eq!(batches(directory.path()), before);
    assert_eq!(send(true), (0, 2), "it has got them");
    assert_eq!(send(false), (0, 0));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    assert_eq!(endpoint.accepted(), ["a", "b", "c"]);
    assert_eq!(endpoint.received().len(), 4, "each is sent once");
}
