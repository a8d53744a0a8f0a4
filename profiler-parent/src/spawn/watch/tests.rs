//! Tests of the exit watcher with real processes.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crossbeam_channel::{Receiver, unbounded};

use super::*;

type Exits = Receiver<(u32, Option<ExitStatus>)>;

/// Longer than any step of these tests takes; only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(120);

fn watcher() -> (ExitWatcher<u32>, Exits) {
    let (reports, exits) = unbounded();
    let watcher =
        ExitWatcher::start(move |key, status| reports.send((key, status)).unwrap()).unwrap();
    (watcher, exits)
}

fn shell(script: &str) -> Child {
    Command::new("/bin/sh")
        .args(["-c", script])
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

/// An input that ends with this process: no program that reads it outlives a test that fails.
fn endless() -> Stdio {
    static PIPE: OnceLock<(io::PipeReader, io::PipeWriter)> = OnceLock::new();
    let (reader, _) = PIPE.get_or_init(|| io::pipe().unwrap());
    reader.try_clone().unwrap().into()
}

fn sleeper() -> Child {
    Command::new("cat").stdin(endless()).spawn().unwrap()
}

fn state_of(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[test]
fn an_exit_is_reported_with_its_status() {
    let (watcher, exits) = watcher();
    watcher.watch(7, shell("exit 3")).unwrap();
    let (key, status) = exits.recv_timeout(PATIENCE).unwrap();
    assert_eq!((key, status.unwrap().code()), (7, Some(3)));
}

#[test]
fn a_killed_child_is_reported_with_its_signal_and_leaves_no_zombie() {
    let (watcher, exits) = watcher();
    let child = sleeper();
    let pid = child.id();
    watcher.watch(1, child).unwrap();
    assert!(watcher.kill(&1).unwrap());
    let (_, status) = exits.recv_timeout(PATIENCE).unwrap();
    assert_eq!(status.unwrap().signal(), Some(9));
    assert_eq!(status.unwrap().code(), None);
    assert_ne!(state_of(pid), Some('Z'));
}

#[test]
fn a_child_that_ended_before_it_was_watched_is_reported() {
    let (watcher, exits) = watcher();
    let mut child = Command::new("/bin/sh")
        .args(["-c", "exit 4"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut end = child.stdout.take().unwrap();
    std::io::copy(&mut end, &mut std::io::sink()).unwrap(); // until it has ended
    watcher.watch(1, child).unwrap();
    assert_eq!(
        exits.recv_timeout(PATIENCE).unwrap().1.unwrap().code(),
        Some(4)
    );
}

#[test]
fn many_children_are_reported_once_each() {
    let (watcher, exits) = watcher();
    for key in 0..30 {
        watcher.watch(key, shell(&format!("exit {key}"))).unwrap();
    }
    let mut reports: Vec<_> = (0..30)
        .map(|_| exits.recv_timeout(PATIENCE).unwrap())
        .collect();
    reports.sort_by_key(|(key, _)| *key);
    for (expected, (key, status)) in (0..30).zip(reports) {
        assert_eq!(
            (key, status.unwrap().code()),
            (expected, Some(i32::try_from(expected).unwrap()))
        );
    }
    drop(watcher);
    assert!(exits.try_recv().is_err());
}

#[test]
fn a_duplicate_key_is_refused_and_the_child_is_returned() {
    let (watcher, _exits) = watcher();
    watcher.watch(1, sleeper()).unwrap();
    let WatchError { mut child, error } = watcher.watch(1, sleeper()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    child.kill().unwrap();
    child.wait().unwrap();
    watcher.stop();
    for (_, mut child) in watcher.take_children() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn running_children_are_returned_alive_after_a_stop() {
    let (watcher, exits) = watcher();
    watcher.watch(5, sleeper()).unwrap();
    watcher.stop();
    let mut left = watcher.take_children();
    let (key, mut child) = left.pop().unwrap();
    assert_eq!((key, child.try_wait().unwrap()), (5, None));
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert!(
        exits.recv().is_err(),
        "the thread has ended and dropped its callback"
    );
}

#[test]
fn a_stopped_watcher_kills_the_children_that_it_still_has() {
    let (watcher, _exits) = watcher();
    watcher.watch(5, sleeper()).unwrap();
    watcher.stop();
    assert!(watcher.kill(&5).unwrap());
    let (_, mut child) = watcher.take_children().pop().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert!(!watcher.kill(&5).unwrap(), "the child was taken");
}

#[test]
fn a_child_that_is_not_watched_is_not_killed() {
    let (watcher, exits) = watcher();
    assert!(!watcher.kill(&1).unwrap());
    watcher.watch(1, shell("exit 0")).unwrap();
    exits.recv_timeout(PATIENCE).unwrap();
    assert!(!watcher.kill(&1).unwrap());
}

#[test]
fn the_callback_may_call_the_watcher_and_may_panic() {
    let (reports, exits) = unbounded();
    let shared: Arc<Mutex<Option<ExitWatcher<u32>>>> = Arc::default();
    let inner = Arc::clone(&shared);
    let watcher = ExitWatcher::start(move |key, _| {
        if key == 1 {
            let watcher = inner.lock().unwrap();
            watcher.as_ref().unwrap().watch(2, shell("exit 0")).unwrap();
            drop(watcher);
            panic!("the callback's own fault");
        }
        reports.send(key).unwrap();
    });
    *shared.lock().unwrap() = Some(watcher.unwrap());
    shared
        .lock()
        .unwrap()
        .as_ref()
        .unwrap()
        .watch(1, shell("exit 0"))
        .unwrap();
    assert_eq!(exits.recv_timeout(PATIENCE), Ok(2));
    drop(shared.lock().unwrap().take());
}

#[test]
fn an_exit_status_taken_by_the_host_is_reported_as_unknown() {
    let (watcher, exits) = watcher();
    let child = sleeper();
    let pid = rustix::process::Pid::from_child(&child);
    watcher.watch(1, child).unwrap();
    // The host reaps it first, as `waitpid(-1)` in a SIGCHLD handler does. In either order the exit
    // is reported once.
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let taken = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).is_ok();
    let (_, status) = exits.recv_timeout(PATIENCE).unwrap();
    assert_eq!(status.is_none(), taken);
}

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[test]
fn a_dropped_watcher_leaves_no_descriptors() {
    // Only watchers use descriptors of this kind; other tests have some, too. So this counts only
    // what one watcher adds over many rounds.
    let own = || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap();
        let links = links.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        links
            .filter(|link| link.to_string_lossy().contains("anon_inode"))
            .count()
    };
    let before = own();
    for _ in 0..100 {
        let (watcher, exits) = watcher();
        watcher.watch(1, shell("exit 0")).unwrap();
        exits.recv_timeout(PATIENCE).unwrap();
    }
    assert!(own() < before + 90, "{} descriptors", own() - before);
}

/// Watches a process that is a child of this one, but not of the watcher.
#[cfg(all(target_os = "linux", not(profiler_portable)))]
fn watch_as_other(watcher: &ExitWatcher<u32>, child: &Child) {
    let pid = ProcessId::new(child.id());
    let number = rustix::process::Pid::from_child(child);
    let flags = rustix::process::PidfdFlags::empty();
    let process = rustix::process::pidfd_open(number, flags).unwrap();
    let start = crate::sys::facts_of(pid).unwrap().start;
    watcher
        .watch_other(1, OwnDescriptor::new(process), pid, start)
        .unwrap();
}

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[test]
fn the_status_of_another_process_is_read_and_not_taken() {
    let (watcher, exits) = watcher();
    let mut child = sleeper();
    watch_as_other(&watcher, &child);
    child.kill().unwrap();
    // No process has waited for it, so the system still shows its status.
    let (key, status) = exits.recv_timeout(PATIENCE).unwrap();
    assert_eq!(key, 1);
    assert_eq!(status.and_then(|status| status.signal()), Some(9));
    assert_eq!(state_of(child.id()), Some('Z'), "its status was taken");
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[test]
fn another_process_is_not_among_the_children_that_remain() {
    let (watcher, exits) = watcher();
    let mut child = sleeper();
    watch_as_other(&watcher, &child);
    watcher.stop();
    assert_eq!(watcher.take_children().len(), 0);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(exits.try_recv().is_err());
}

/// Starts a process that is not a child of this one: the shell that has started it has ended.
#[cfg(all(target_os = "linux", not(profiler_portable)))]
fn stranger() -> ProcessId {
    let mut shell = Command::new("/bin/sh");
    // A shell gives a program in the background another input.
    shell.args(["-c", "exec 3<&0; cat <&3 3<&- >/dev/null 2>&1 & echo $!"]);
    let output = shell.stdin(endless()).output().unwrap();
    let number = String::from_utf8(output.stdout).unwrap();
    ProcessId::new(number.trim().parse().unwrap())
}

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[test]
fn the_end_of_a_process_that_is_not_a_child_is_reported_once() {
    let (watcher, exits) = watcher();
    let pid = stranger();
    let facts = crate::sys::facts_of(pid).unwrap();
    assert_ne!(facts.parent.get(), std::process::id());
    let number = i32::try_from(pid.get()).unwrap();
    let number = rustix::process::Pid::from_raw(number).unwrap();
    let flags = rustix::process::PidfdFlags::empty();
    let process = rustix::process::pidfd_open(number, flags).unwrap();
    watcher
        .watch_other(1, OwnDescriptor::new(process), pid, facts.start)
        .unwrap();
    assert!(watcher.kill(&1).unwrap());
    let (key, status) = exits.recv_timeout(PATIENCE).unwrap();
    assert_eq!(key, 1);
    // Another process takes the status, and not every system tells it afterwards.
    assert!(status.is_none_or(|status| status.signal() == Some(9)));
    assert!(!watcher.kill(&1).unwrap(), "it is watched after its end");
    drop(watcher);
    assert!(exits.recv().is_err(), "it is reported twice");
}

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[test]
fn a_handle_is_opened_again_only_for_the_same_process() {
    let mut child = sleeper();
    let pid = ProcessId::new(child.id());
    let start = crate::sys::facts_of(pid).unwrap().start;
    assert!(ChildHandle::reopen(pid, start).is_some_and(|handle| handle.is_ours()));
    let later = ProcessStart::new(start.get() + 1);
    assert!(ChildHandle::reopen(pid, later).is_none());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ChildHandle::reopen(pid, start).is_none());
}
