//! Tests of the spool and the sender with endpoints that fail in every way.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use profiler_core::ids::ByteLimit;
use rustix::io::Errno;
use tempfile::TempDir;
use test_support::patience::{HeldUp, LONG, patiently, until};

mod endpoint;
mod resuming;
mod stacks;
mod takeover;

use super::clock::now;
use super::destination::{PushDestination, PushEngine, Secret, check};
use super::encoders::BatchEncoder;
use super::http_client::HttpClient;
use super::pusher::open_spool;
use super::queue::{DestinationCounts, DestinationIndex};
use super::report::SendCounts;
use super::sender::Sender;
use super::spool::{BatchToSend, Spool, SpoolPhase};
use super::{OtherDestinations, PushError, PushIdentity, PushOptions, Pusher, push_spool};
use endpoint::{Act, Endpoint, Received, then_without_end};
use profiler_export::ExportError;
use profiler_export::bodies::{BodyKind, BodySink, EncodedBody};

const FIRST: DestinationIndex = DestinationIndex(0);
const NO_LIMIT: u64 = u64::MAX;

/// Each line of a batch is a body. Its number decides the kind.
struct Lines(fn(usize) -> BodyKind);

/// Each line is a body of spans.
const SPANS: Lines = Lines(|_| BodyKind::OtlpTraces);

impl BatchEncoder for Lines {
    fn encode(
        &self,
        _: PushEngine,
        batch: &BatchToSend,
        bodies: &mut dyn BodySink,
    ) -> Result<(), ExportError> {
        let text = fs::read_to_string(&batch.path)?;
        for (number, line) in text.lines().enumerate() {
            let (kind, bytes) = ((self.0)(number), line.as_bytes());
            bodies.body(EncodedBody { kind, bytes })?;
        }
        Ok(())
    }
}

fn open(directory: &Path, limit: u64, to: &[PushDestination]) -> Arc<Spool> {
    Arc::new(Spool::open(directory, limit, to, &PushIdentity::default()).unwrap())
}

fn open_to(directory: &TempDir, destination: &PushDestination) -> Arc<Spool> {
    let to = std::slice::from_ref(destination);
    open(directory.path(), NO_LIMIT, to)
}

/// An endpoint that first does this, and a spool for it in a new directory.
fn scene(acts: &[Act]) -> (TempDir, Endpoint, PushDestination, Arc<Spool>) {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(acts);
    let destination = endpoint.destination();
    let spool = open_to(&directory, &destination);
    (directory, endpoint, destination, spool)
}

/// Adds a batch with these bodies, one entry each.
fn add(spool: &Spool, bodies: &[&str]) {
    fs::write(spool.unfinished_path().unwrap(), bodies.join("\n")).unwrap();
    spool.add(bodies.len() as u64).unwrap();
}

/// As [`Lines`], but first fails in these ways, each time after the first body.
struct Failing(Mutex<VecDeque<fn() -> std::io::Error>>);

impl BatchEncoder for Failing {
    fn encode(
        &self,
        engine: PushEngine,
        batch: &BatchToSend,
        bodies: &mut dyn BodySink,
    ) -> Result<(), ExportError> {
        let failure = self.0.lock().unwrap().pop_front();
        let Some(failure) = failure else {
            return SPANS.encode(engine, batch, bodies);
        };
        let text = fs::read_to_string(&batch.path)?;
        let kind = BodyKind::OtlpTraces;
        let bytes = text.lines().next().unwrap().as_bytes();
        bodies.body(EncodedBody { kind, bytes })?;
        Err(failure().into())
    }
}

/// Sends the bodies `a` and `b` with an encoder that first fails in these ways.
fn send_after(failures: &[fn() -> std::io::Error]) -> (Vec<String>, DestinationCounts) {
    let (_directory, endpoint, destination, spool) = scene(&[]);
    add(&spool, &["a", "b"]);
    let encoder = Failing(Mutex::new(failures.iter().copied().collect()));
    let client = HttpClient::new(LONG);
    let mut sender = RunningSender::start_with(&spool, destination, client, Arc::new(encoder));
    let counts = sender.finish();
    (endpoint.accepted(), counts)
}

/// A sender that runs.
struct RunningSender {
    spool: Arc<Spool>,
    counts: Arc<Mutex<SendCounts>>,
    thread: Option<JoinHandle<()>>,
}

impl RunningSender {
    fn start(spool: &Arc<Spool>, destination: PushDestination) -> Self {
        Self::start_with(spool, destination, HttpClient::new(LONG), Arc::new(SPANS))
    }

    fn start_with(
        spool: &Arc<Spool>,
        destination: PushDestination,
        client: HttpClient,
        encoder: Arc<dyn BatchEncoder>,
    ) -> Self {
        Self::start_for(spool, destination, client, (encoder, false))
    }

    /// As `push_spool` starts it.
    fn for_leftovers(spool: &Arc<Spool>, destination: PushDestination) -> Self {
        let client = HttpClient::new(LONG);
        Self::start_for(spool, destination, client, (Arc::new(SPANS), true))
    }

    fn start_for(
        spool: &Arc<Spool>,
        destination: PushDestination,
        client: HttpClient,
        (encoder, needs_access): (Arc<dyn BatchEncoder>, bool),
    ) -> Self {
        let counts = Arc::<Mutex<SendCounts>>::default();
        let sender = Sender {
            index: FIRST,
            destination,
            spool: Arc::clone(spool),
            client,
            encoder,
            counts: Arc::clone(&counts),
            needs_access,
        };
        Self {
            spool: Arc::clone(spool),
            counts,
            thread: Some(
                std::thread::Builder::new()
                    .spawn(move || sender.run())
                    .unwrap(),
            ),
        }
    }

    /// Waits until nothing waits any more, and ends the sender.
    fn finish(&mut self) -> DestinationCounts {
        assert!(
            until(|| self.spool.counts(FIRST).0.batches == 0),
            "{:?}",
            self.counts
        );
        self.stop();
        self.spool.counts(FIRST).1
    }

    fn stop(&mut self) {
        self.spool.set_phase(SpoolPhase::Stopped);
        self.thread.take().unwrap().join().unwrap();
    }

    fn failed(&self) -> u64 {
        self.counts.lock().unwrap().failed_requests
    }
}

/// Sends two batches to an endpoint that first does this.
fn send_to(acts: &[Act]) -> (Endpoint, DestinationCounts, u64) {
    send_within(LONG, acts)
}

/// As [`send_to`], with a time-out for each request.
fn send_within(timeout: Duration, acts: &[Act]) -> (Endpoint, DestinationCounts, u64) {
    let (_directory, endpoint, destination, spool) = scene(acts);
    add(&spool, &["a", "b"]);
    add(&spool, &["c"]);
    let client = HttpClient::new(timeout);
    let mut sender = RunningSender::start_with(&spool, destination, client, Arc::new(SPANS));
    let counts = sender.finish();
    assert!(
        endpoint.acts.lock().unwrap().is_empty(),
        "all acts happened"
    );
    (endpoint, counts, sender.failed())
}

#[test]
fn bodies_are_sent_in_their_order_and_each_once() {
    let (endpoint, counts, failed) = send_to(&[]);
    assert_eq!(endpoint.accepted(), ["a", "b", "c"]);
    assert_eq!(
        (counts.sent.batches, counts.sent.entries, failed),
        (2, 3, 0)
    );
}

#[test]
fn no_connection_is_kept_after_a_request() {
    // The program may close its descriptor and use the number.
    let (endpoint, ..) = send_to(&[]);
    assert_eq!(endpoint.received().len(), 3);
    assert_eq!(endpoint.connections.load(Ordering::Relaxed), 3);
}

#[test]
fn a_body_is_sent_again_until_the_endpoint_takes_it_and_the_others_are_not() {
    for act in [
        Act::AskAgain(429),
        Act::AskAgain(503),
        Act::BreakOff,
        Act::Reset,
        Act::Babble,
    ] {
        let (endpoint, counts, failed) = send_to(&[Act::Answer(200), act]);
        assert_eq!(endpoint.accepted(), ["a", "b", "c"], "{act:?}");
        assert_eq!((counts.sent.entries, failed), (3, 1), "{act:?}");
    }
}

#[test]
fn a_body_that_an_endpoint_does_not_answer_is_sent_again_after_the_time_out() {
    patiently(|timeout| {
        let (endpoint, counts, failed) = send_within(timeout, &[Act::Answer(200), Act::BeSilent]);
        if failed > 1 {
            return Err(HeldUp("an answer".to_owned()).into());
        }
        assert_eq!(endpoint.accepted(), ["a", "b", "c"]);
        assert_eq!((counts.sent.entries, failed), (3, 1));
        Ok(())
    })
    .unwrap();
}

#[test]
fn an_attempt_has_the_identifier_of_the_one_before() {
    let (endpoint, ..) = send_to(&[Act::Answer(200), Act::BreakOff]);
    let keys: Vec<String> = endpoint
        .received()
        .into_iter()
        .map(|each| each.key)
        .collect();
    assert_eq!(keys.len(), 4);
    assert_eq!(keys[1], keys[2], "b, twice");
    let mut all = keys.clone();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 3, "{keys:?}");
}

#[test]
fn what_an_endpoint_refuses_is_counted_and_the_rest_is_sent() {
    let (endpoint, counts, _) = send_to(&[Act::Answer(400)]);
    assert_eq!(endpoint.accepted(), ["b", "c"]);
    assert_eq!((counts.rejected.entries, counts.sent.entries), (2, 1));
}

#[test]
fn a_batch_of_which_an_endpoint_refuses_a_part_counts_as_rejected_and_is_not_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(&[Act::RefuseSpans]);
    let destination = endpoint.destination().token(Secret::new("s3cret"));
    let spool = open_to(&directory, &destination);
    add(&spool, &["a", "b"]);
    add(&spool, &["c"]);
    let mut sender = RunningSender::start(&spool, destination);
    let counts = sender.finish();
    assert_eq!(endpoint.accepted(), ["a", "b", "c"]);
    assert_eq!((counts.rejected.batches, counts.sent.batches), (1, 1));
    let error = sender.counts.lock().unwrap().error.clone().unwrap();
    assert_eq!(error, "the endpoint has refused 3 items: old …");
}

#[test]
fn a_batch_waits_for_an_endpoint_that_does_not_take_the_credentials() {
    for status in [401, 403, 407] {
        let (endpoint, counts, _) = send_to(&[Act::Answer(200), Act::Answer(status)]);
        assert_eq!(endpoint.accepted(), ["a", "b", "c"], "{status}");
        assert_eq!((counts.sent.batches, counts.rejected.batches), (2, 0));
    }
}

/// The first line of a batch is a body of spans, and the others are profiles.
const SPANS_AND_PROFILES: Lines = Lines(|number| match number {
    0 => BodyKind::OtlpTraces,
    _ => BodyKind::OtlpProfiles,
});

#[test]
fn profiles_that_are_forbidden_stop_neither_spans_nor_later_batches() {
    let (_directory, endpoint, destination, spool) = scene(&[Act::Answer(200), Act::Answer(403)]);
    add(&spool, &["spans 1", "profile 1"]);
    add(&spool, &["spans 2", "profile 2"]);
    let (client, encoder) = (HttpClient::new(LONG), Arc::new(SPANS_AND_PROFILES));
    let counts = RunningSender::start_with(&spool, destination, client, encoder).finish();
    assert_eq!(endpoint.accepted(), ["spans 1", "spans 2", "profile 2"]);
    assert_eq!((counts.rejected.batches, counts.sent.batches), (1, 1));
    assert_eq!(endpoint.received().len(), 4, "nothing is sent again");
}

#[test]
fn a_pusher_that_ends_does_not_wait_for_the_right_to_send() {
    let (_directory, endpoint, destination, spool) =
        scene(&then_without_end(Act::Answer(401), Act::Answer(401)));
    add(&spool, &["a"]);
    let mut sender = RunningSender::start(&spool, destination);
    assert!(until(|| !endpoint.received().is_empty()));
    spool.set_phase(SpoolPhase::Draining(now() + LONG));
    sender.thread.take().unwrap().join().unwrap();
    assert_eq!(spool.counts(FIRST).0.batches, 1, "it still waits");
}

#[test]
fn an_answer_without_an_end_is_not_read_to_its_end() {
    let (endpoint, counts, _) = send_to(&[Act::TalkWithoutEnd]);
    assert_eq!(endpoint.accepted(), ["a", "b", "c"]);
    assert_eq!(counts.sent.batches, 2);
}

#[test]
fn a_full_spool_loses_the_oldest_batch_even_while_it_is_sent() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(&then_without_end(Act::Answer(200), Act::AskAgain(503)));
    let destination = endpoint.destination();
    let spool = open(directory.path(), 4, std::slice::from_ref(&destination));
    add(&spool, &["a", "b"]); // three bytes
    let mut sender = RunningSender::start(&spool, destination);
    assert!(until(|| sender.failed() > 0), "a was sent, b is not taken");
    add(&spool, &["c", "d"]);
    let is_next = |received: &Received| received.body == "c";
    assert!(until(|| endpoint.received().iter().any(is_next)));
    endpoint.acts.lock().unwrap().clear();
    let counts = sender.finish();
    assert_eq!(endpoint.accepted(), ["a", "c", "d"]);
    assert_eq!((counts.lost.entries, counts.sent.entries), (2, 2));
    let files = fs::read_dir(directory.path()).unwrap();
    let batches = files.flat_map(|home| fs::read_dir(home.unwrap().path()).unwrap());
    let left = batches.filter(|file| file.as_ref().unwrap().path().extension().is_some());
    assert_eq!(left.count(), 0);
}

#[test]
fn a_pusher_that_ends_does_not_wait_for_a_dead_endpoint() {
    let directory = tempfile::tempdir().unwrap();
    let destination = PushDestination::parse("otlp+http://127.0.0.1:1").unwrap();
    let spool = open_to(&directory, &destination);
    add(&spool, &["a"]);
    let mut sender = RunningSender::start(&spool, destination);
    assert!(until(|| sender.failed() > 0));
    spool.set_phase(SpoolPhase::Draining(now()));
    sender.thread.take().unwrap().join().unwrap();
    assert_eq!(spool.counts(FIRST).0.batches, 1, "it still waits");
}

#[test]
fn a_batch_that_cannot_be_read_is_counted_and_the_next_one_is_sent() {
    let (_directory, endpoint, destination, spool) = scene(&[]);
    fs::write(spool.unfinished_path().unwrap(), [0xff, 0xfe]).unwrap();
    spool.add(7).unwrap();
    add(&spool, &["a"]);
    let mut sender = RunningSender::start(&spool, destination);
    let counts = sender.finish();
    assert_eq!(endpoint.accepted(), ["a"]);
    assert_eq!((counts.rejected.entries, counts.sent.entries), (7, 1));
}

#[test]
fn a_batch_that_cannot_be_read_for_lack_of_descriptors_waits_and_its_bodies_are_sent_once() {
    let lack = || Errno::MFILE.into();
    let no_memory = || Errno::NOMEM.into();
    let (accepted, counts) = send_after(&[lack, no_memory, lack]);
    assert_eq!(accepted, ["a", "b"]);
    assert_eq!((counts.sent.batches, counts.rejected.batches), (1, 0));
}

#[test]
fn a_batch_that_fails_twice_without_a_clear_cause_is_given_up() {
    let failed = || Errno::IO.into();
    let panics = || panic!("this is a test");
    let (accepted, counts) = send_after(&[failed]);
    assert_eq!(accepted, ["a", "b"]);
    assert_eq!(counts.sent.batches, 1);
    let (accepted, counts) = send_after(&[panics, failed]);
    assert_eq!(accepted, ["a"]);
    assert_eq!((counts.sent.batches, counts.rejected.batches), (0, 1));
}

#[test]
fn a_request_ends_with_the_time_for_draining() {
    let (_directory, _endpoint, destination, spool) = scene(&[Act::BeSilent]);
    add(&spool, &["a"]);
    let end = now() + Duration::from_millis(300);
    spool.set_phase(SpoolPhase::Draining(end));
    let client = HttpClient::new(Duration::MAX);
    let mut sender = RunningSender::start_with(&spool, destination, client, Arc::new(SPANS));
    sender.thread.take().unwrap().join().unwrap(); // without the limit it has no end
    assert_eq!(spool.counts(FIRST).0.batches, 1, "it still waits");
}

#[test]
fn a_pusher_that_ends_does_not_wait_for_the_answer_to_a_request_that_is_under_way() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(&[Act::BeSilent]);
    let options = PushOptions::to(endpoint.destination()).request_timeout(Duration::MAX);
    let options = options.spool(directory.path());
    let (spool, _) = open_spool(&options).unwrap();
    let mut pusher = Pusher::new(spool, &options, None);
    let encoder: Arc<dyn BatchEncoder> = Arc::new(SPANS);
    pusher.start_senders(&options, &encoder).unwrap();
    add(&pusher.progress.spool, &["a"]);
    assert!(until(|| endpoint.received().len() == 1));
    pusher.drain(now()); // waiting for the request has no end
    assert_eq!(pusher.report().destinations[0].waiting_batches, 1);
}

#[test]
fn destinations_that_cannot_work_are_refused_before_anything_is_sent() {
    let destination = || PushDestination::parse("otlp+http://host").unwrap();
    let refused = |options: PushOptions| check(&options.destinations).is_err();
    let token = |token| destination().token(Secret::new(token));
    assert!(!refused(PushOptions::to(token("a"))));
    assert!(refused(PushOptions::to(token("a\n"))));
    assert!(refused(PushOptions::to(token("a")).and_to(token("b"))));
}
