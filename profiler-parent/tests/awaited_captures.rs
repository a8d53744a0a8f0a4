//! Tests of captures that are awaited without a runtime.
//!
//! The symbols of a capture tell that it has begun, and hold it until the test lets it go on.

use std::fs;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::mpsc::{self, Receiver, Sender};
use std::task::{Context, Poll, Waker};

use profiler_core::internal::reader::ModuleDefinition;
use profiler_core::marker;
use profiler_parent::capture::{CodeNames, Symbols};
use profiler_parent::{Capture, CaptureError, CaptureReport, Format, SavingCapture, Session};
use test_support::own_process;

use crate::awaiting::wait;

type Saved = Result<CaptureReport, CaptureError>;

fn poll_once(future: &mut SavingCapture) -> Poll<Saved> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Symbols that call a function when the capture looks for names.
struct Calls<F>(F);

impl<F: FnMut()> Symbols for Calls<F> {
    fn begin(&mut self, _modules: usize) {
        (self.0)();
    }

    fn resolve(
        &mut self,
        _module: &ModuleDefinition,
        _addresses: &[u64],
        _found: &mut dyn FnMut(u64, &CodeNames<'_>),
    ) {
    }
}

/// A capture that tells when it has begun, and then waits until it may go on.
fn held(capture: Capture) -> (Capture, Receiver<()>, Sender<()>) {
    let (tell, begun) = mpsc::channel();
    let (go_on, held) = mpsc::channel();
    let hold = move || {
        tell.send(()).unwrap();
        let _ = held.recv();
    };
    (capture.symbols(Calls(hold)), begun, go_on)
}

/// The names of the files in a directory.
fn files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn a_poll_does_not_wait_for_the_capture_and_the_task_is_woken_at_its_end() {
    own_process!();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json");
    let session = Session::builder().start().unwrap();
    marker!("awaited");
    let (capture, begun, go_on) = held(session.capture());
    let mut saving = capture.save_async(&path);
    assert!(begun.try_recv().is_err(), "it began without a poll");
    assert!(poll_once(&mut saving).is_pending());
    begun.recv().unwrap();
    assert!(poll_once(&mut saving).is_pending(), "it is held");
    go_on.send(()).unwrap();
    let (saved, _) = wait(Pin::new(&mut saving));
    let report = saved.unwrap();
    assert_eq!(report.path, path);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(report.bytes, text.len() as u64);
    assert!(text.contains("\"awaited\""));
    assert!(poll_once(&mut saving).is_pending(), "a poll after the end");
}

#[test]
fn a_task_is_polled_only_when_it_is_woken() {
    own_process!();
    let directory = tempfile::tempdir().unwrap();
    let session = Session::builder().start().unwrap();
    for format in [Format::Processed, Format::Gecko] {
        let capture = session.capture().format(format);
        let path = directory.path().join("profile.json.gz");
        let (saved, polls) = wait(pin!(capture.save_async(path)));
        assert!(saved.is_ok(), "{saved:?}");
        assert!(polls <= 2, "{polls} polls");
    }
}

#[test]
fn a_capture_whose_future_is_dropped_leaves_no_file() {
    own_process!();
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let session = Session::builder().start().unwrap();
    let (capture, begun, go_on) = held(session.capture());
    let mut saving = capture.save_async(at("dropped.json"));
    assert!(poll_once(&mut saving).is_pending());
    begun.recv().unwrap();
    // This one waits for the turn of the held capture.
    let mut queued = session.capture().save_async(at("queued.json"));
    assert!(poll_once(&mut queued).is_pending());
    drop((saving, queued));
    drop(session.capture().save_async(at("not begun.json")));
    go_on.send(()).unwrap();
    // Waits until the held capture is over.
    let (saved, _) = wait(pin!(session.capture().save_async(at("later.json"))));
    assert!(saved.is_ok(), "{saved:?}");
    assert_eq!(files(directory.path()), ["later.json"]);
}

#[test]
fn a_panic_of_the_symbols_is_one_of_the_task_that_waits() {
    own_process!();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json");
    let session = Session::builder().start().unwrap();
    let capture = session.capture().symbols(Calls(|| panic!("on purpose")));
    let mut saving = capture.save_async(&path);
    let panicked = catch_unwind(AssertUnwindSafe(|| wait(Pin::new(&mut saving)).0));
    let panic = panicked.unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
    assert!(!path.exists());
    let (saved, _) = wait(pin!(session.capture().save_async(&path)));
    assert!(saved.is_ok(), "later captures work: {saved:?}");
}

#[test]
fn a_capture_that_the_symbols_of_another_one_await_is_refused() {
    own_process!();
    let directory = tempfile::tempdir().unwrap();
    let session = Session::builder().start().unwrap();
    let (sender, refused) = mpsc::channel();
    let inner = directory.path().join("inner.json");
    let mut nested = Some((session.capture(), session.capture().save_async(&inner)));
    let awaits = move || {
        let (made_inside, made_outside) = nested.take().unwrap();
        let made_inside = made_inside.save_async(&inner);
        for mut saving in [made_inside, made_outside] {
            sender.send(wait(Pin::new(&mut saving)).0).unwrap();
        }
    };
    let outer = session.capture().symbols(Calls(awaits));
    let (saved, _) = wait(pin!(outer.save_async(directory.path().join("outer.json"))));
    assert!(saved.is_ok(), "{saved:?}");
    for refused in [refused.recv(), refused.recv()] {
        let refused = refused.unwrap();
        assert!(
            matches!(refused, Err(CaptureError::WithinCapture)),
            "{refused:?}"
        );
    }
    assert_eq!(files(directory.path()), ["outer.json"]);
}

#[test]
fn a_capture_of_a_session_that_is_over_is_an_error() {
    own_process!();
    let directory = tempfile::tempdir().unwrap();
    let session = Session::builder().start().unwrap();
    let saving = session
        .capture()
        .save_async(directory.path().join("late.json"));
    drop(session);
    let (saved, _) = wait(pin!(saving));
    assert!(matches!(saved, Err(CaptureError::SessionOver)), "{saved:?}");
    assert!(files(directory.path()).is_empty());
}
