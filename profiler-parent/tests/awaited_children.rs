//! Tests of children whose end is awaited without a runtime.

use std::future::Future;
use std::io::Write;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::task::{Context, Poll, Waker};

use profiler_parent::{ProfiledChild, Session};
use test_support::own_process;

use crate::awaiting::wait;

/// A child that ends with code 7 when its standard input has ended.
fn child(session: &Session) -> ProfiledChild {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "cat > /dev/null; exit 7"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    session.spawn("waits for its input", command).unwrap()
}

/// Whether one poll of the end is ready.
fn is_over(child: &mut ProfiledChild) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(child.wait_async()).poll(&mut context) {
        Poll::Pending => false,
        Poll::Ready(ended) => {
            assert!(ended.is_ok(), "{ended:?}");
            true
        }
    }
}

/// The number of threads of the profiler that wait for children.
#[cfg(target_os = "linux")]
fn waiting_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
    };
    tasks
        .map(name)
        .filter(|name| name == "profiler-wait\n")
        .count()
}

#[test]
fn an_awaited_child_returns_its_status_once_it_has_ended_and_again_later() {
    own_process!();
    let session = Session::builder().start().unwrap();
    let mut child = child(&session);
    let mut input = child.stdin.take().unwrap();
    assert!(!is_over(&mut child), "it waits for its input");
    input.write_all(b"x").unwrap();
    drop(input);
    for _ in 0..2 {
        let (status, polls) = wait(pin!(child.wait_async()));
        assert_eq!(status.unwrap().code(), Some(7));
        assert!(polls <= 2, "{polls} polls");
    }
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

#[test]
fn awaiting_closes_the_input_of_the_child_as_waiting_does() {
    own_process!();
    let session = Session::builder().start().unwrap();
    let mut child = child(&session);
    let (status, _) = wait(pin!(child.wait_async()));
    assert_eq!(status.unwrap().code(), Some(7));
}

#[cfg(target_os = "linux")]
#[test]
fn a_child_that_is_awaited_many_times_costs_one_thread() {
    own_process!();
    let session = Session::builder().start().unwrap();
    let mut child = child(&session);
    let input = child.stdin.take();
    for _ in 0..10 {
        assert!(!is_over(&mut child));
    }
    assert!(waiting_threads() <= 1, "{} threads", waiting_threads());
    drop(input);
    let (status, _) = wait(pin!(child.wait_async()));
    assert_eq!(status.unwrap().code(), Some(7));
}

#[test]
fn a_child_that_outlives_its_session_can_still_be_awaited() {
    own_process!();
    let session = Session::builder().start().unwrap();
    let [mut awaited, mut later] = [child(&session), child(&session)];
    let inputs = [awaited.stdin.take(), later.stdin.take()];
    assert!(!is_over(&mut awaited));
    drop(session);
    assert!(!is_over(&mut awaited) && !is_over(&mut later));
    drop(inputs);
    for mut child in [awaited, later] {
        let (status, _) = wait(pin!(child.wait_async()));
        assert_eq!(status.unwrap().code(), Some(7));
    }
}
