//! Tests of the beginning and end of sessions and of children.
//!
//! A session leaves no thread, descriptor, mapping or file behind, and its end waits for no child.
//! Children outlive their session and can still be waited for and killed.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use integration_tests::helper_process::HelperProcess;
use integration_tests::own::{
    Possessions, all_threads_have_names, no_profiler_thread_remains, state_of, thread_names,
};
use integration_tests::own_process;
use integration_tests::patience::{LONG, Stopwatch, until};
use integration_tests::session;
use profiler_parent::{CaptureError, Session, SessionError};

const CHILD: &str = env!("CARGO_BIN_EXE_child");

#[test]
fn a_thousand_sessions_leave_no_thread_descriptor_or_mapping() -> anyhow::Result<()> {
    own_process!();
    for _ in 0..3 {
        one_session(true)?;
    }
    no_profiler_thread_remains()?;
    let before = Possessions::count();
    for round in 0..1_000 {
        one_session(round % 100 == 0)?;
    }
    assert!(
        until(|| Possessions::count().within(&before)),
        "{before:?}, then {:?}",
        Possessions::count()
    );
    Ok(())
}

fn one_session(with_child: bool) -> anyhow::Result<()> {
    let session = Session::builder().start()?;
    integration_tests::marks::record(0, 0);
    if with_child {
        let mut helper = HelperProcess::spawn(&session, CHILD, "child", "init")?;
        helper.ask("mark 3")?;
        assert!(helper.end("exit 0")?.success());
    }
    session.stop();
    Ok(())
}

#[test]
fn a_child_costs_the_parent_no_thread() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let _first = HelperProcess::spawn(&session, CHILD, "first", "init")?;
    let own_threads = || {
        all_threads_have_names()?;
        let mut names = thread_names();
        names.retain(|name| name.starts_with("profiler-"));
        names.sort();
        anyhow::Ok(names)
    };
    let before = own_threads()?;
    let mut helpers = HelperProcess::spawn_many(&session, CHILD, 8)?;
    helpers.push(HelperProcess::spawn_untrusted(
        &session,
        CHILD,
        "untrusted",
        "init",
    )?);
    assert!(until(|| own_threads().is_ok_and(|names| names == before)));
    Ok(())
}

#[test]
fn children_outlive_the_session_and_can_be_waited_for_and_killed() -> anyhow::Result<()> {
    own_process!();
    let mut session = session::start(|builder| builder)?;
    let mut helpers = HelperProcess::spawn_many(&session, CHILD, 4)?;
    HelperProcess::ask_all(&mut helpers, "hold 2 100")?;
    assert!(helpers[3].freeze());
    session.end();
    assert_eq!(
        state_of(helpers[3].pid()),
        Some('T'),
        "the end of the session waited for the frozen child"
    );
    no_profiler_thread_remains()?;
    helpers[3].signal(libc::SIGCONT);
    for helper in &mut helpers {
        helper.ask("mark 10")?;
        assert!(helper.stops_recording());
    }
    assert_eq!(helpers[0].end("exit 5")?.code(), Some(5));
    assert!(helpers[0].child.has_ended() && !helpers[2].child.has_ended());
    helpers[2].tell("exit 4")?;
    assert!(
        until(|| helpers[2].child.has_ended()),
        "the end is noticed only by a wait"
    );
    assert_eq!(helpers[2].child.wait()?.code(), Some(4));
    helpers[1].child.kill()?;
    assert!(!helpers[1].child.wait().expect("a status").success());
    assert!(
        helpers[1].child.has_ended() && helpers[1].child.kill().is_ok(),
        "it has not ended, or cannot be killed again"
    );
    Ok(())
}

#[test]
fn a_wait_for_a_child_returns_its_status_although_the_session_ends_meanwhile() -> anyhow::Result<()>
{
    own_process!();
    let mut session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    let pid = helper.pid().cast_signed();
    assert!(!helper.child.has_ended());
    let _stdin = helper.child.stdin.take(); // `wait` would close it, and the child would end
    let status = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| helper.child.wait());
        std::thread::sleep(Duration::from_millis(50));
        session.end();
        std::thread::sleep(Duration::from_millis(50));
        // SAFETY: the child ends only by this signal, so the number still names it.
        #[allow(unsafe_code)]
        unsafe {
            libc::kill(pid, libc::SIGTERM);
        }
        waiting.join().expect("no panic")
    });
    assert!(!status?.success());
    Ok(())
}

#[test]
fn a_child_can_be_killed_at_the_very_moment_at_which_its_session_ends() -> anyhow::Result<()> {
    own_process!();
    for _ in 0..20 {
        let mut session = session::start(|builder| builder)?;
        let mut helper = HelperProcess::spawn(&session, CHILD, "child", "init")?;
        let signals = helper.child.signals();
        let killed = std::thread::scope(|scope| {
            let killing = scope.spawn(|| {
                // After the loop the session no longer watches the child, which has not ended.
                while signals.send(libc::SIGCONT)? {}
                helper.child.kill()
            });
            session.end();
            killing.join().expect("no panic")
        });
        killed?;
        assert_eq!(
            helper.child.wait()?.signal(),
            Some(libc::SIGKILL),
            "it was not killed"
        );
    }
    Ok(())
}

#[test]
fn a_capture_after_the_end_of_its_session_says_so_and_leaves_the_file() -> anyhow::Result<()> {
    own_process!();
    let mut session = session::start(|builder| builder)?;
    let path = session.path("good.json");
    std::fs::write(&path, "a good profile")?;
    let captures = [session.session()?.capture(), session.gecko_capture()?];
    session.end();
    for capture in captures {
        let saved = capture.save(&path);
        assert!(matches!(saved, Err(CaptureError::SessionOver)), "{saved:?}");
        assert_eq!(std::fs::read_to_string(&path)?, "a good profile");
    }
    Ok(())
}

#[test]
fn a_capture_whose_session_ends_says_so_and_leaves_no_file() -> anyhow::Result<()> {
    own_process!();
    let mut session = session::start(|builder| builder)?;
    let helper = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    assert!(helper.freeze());
    let capture = session.gecko_capture()?;
    let mut events = capture.events();
    let path = session.path("late.json");
    let watch = Stopwatch::start();
    let saved = std::thread::scope(|scope| {
        let saving = scope.spawn(|| capture.save(&path));
        let _ = events.next(); // the requests were sent
        session.end();
        saving.join().expect("no panic")
    });
    assert!(matches!(saved, Err(CaptureError::SessionOver)), "{saved:?}");
    assert!(watch.elapsed() < LONG, "it waited for the frozen child");
    let directory = path.parent().expect("a directory");
    assert_eq!(
        std::fs::read_dir(directory)?.count(),
        0,
        "a partial file remains"
    );
    Ok(())
}

#[test]
fn exit_codes_kills_and_pipes_are_as_with_any_command() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    assert_eq!(helper.ask("mark 1")?, "ok");
    assert_eq!(helper.end("exit 42")?.code(), Some(42));
    assert_eq!(
        helper.child.wait()?.code(),
        Some(42),
        "a second wait differs"
    );
    assert!(
        helper.child.has_ended() && helper.child.kill().is_ok(),
        "it has not ended, or cannot be killed again"
    );
    let mut reader = HelperProcess::spawn(&session, CHILD, "reader", "init")?;
    assert!(
        reader.child.wait().expect("a status").success(),
        "`wait` does not close its input, which ends it"
    );
    Ok(())
}

#[test]
fn a_program_that_cannot_be_started_leaves_nothing() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    session.environment()?;
    session.capture()?; // all threads of the session have started
    let before = Possessions::count_named()?;
    for _ in 0..5 {
        let error = session
            .spawn("missing", std::process::Command::new("/no/such/program"))
            .unwrap_err();
        assert!(error.to_string().contains("/no/such/program"), "{error}");
    }
    assert_eq!(session.processes().len(), 1);
    assert!(
        until(|| Possessions::count().within(&before)),
        "{before:?}, then {:?}",
        Possessions::count()
    );
    Ok(())
}

#[test]
fn a_process_has_one_session_at_a_time() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    assert!(matches!(
        Session::builder().start(),
        Err(SessionError::AlreadyRunning)
    ));
    let mut helper = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    helper.ask("mark 2")?;
    let (_, profile) = session.capture()?;
    assert_eq!(
        profile.process("child")?.counts()?.delivered,
        2,
        "the refused session changed the first one"
    );
    Ok(())
}
