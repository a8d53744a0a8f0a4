//! Tests of `profiler_child::init()` in a program that is built with `profiler-startup`.

use std::process::Stdio;

use profiler_parent::Session;
use test_support::own_process;

use crate::support::{AppDirectory, Application, appears, run};

#[test]
fn without_the_variable_it_does_what_a_child_does() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    let lines = place.run(None, "init mark one action finish exit")?;
    assert_eq!(lines, ["NoParent", "default", "nothing written"]);
    assert!(place.files()?.is_empty());
    Ok(())
}

#[test]
fn the_profile_is_written_at_the_end_of_main_and_in_exit() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    for (file, end) in [("main.json", ""), ("exit.json", "exit")] {
        let words = format!("init mark one {end}");
        assert_eq!(place.run(Some(file), &words)?, ["Started"]);
        assert_eq!(place.profile(file)?.texts(), ["one"]);
    }
    assert_eq!(place.files()?, ["exit.json", "main.json"]);
    Ok(())
}

#[test]
fn a_profile_that_is_finished_earlier_is_not_written_again() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    let words = "init mark one finish mark two finish exit";
    let lines = place.run(Some("out.json"), words)?;
    let written = format!("written: {}", place.path("out.json").display());
    assert_eq!(lines, ["Started", &written, "nothing written"]);
    assert_eq!(place.profile("out.json")?.texts(), ["one"]);
    Ok(())
}

#[test]
fn a_signal_writes_the_profile_and_the_exit_does_not() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    let words = "init mark one line mark two exit";
    let mut application = Application::start(place.command(Some("out.json,at=signal"), words))?;
    assert_eq!(application.line()?, "Started");
    // The marker may not be recorded yet.
    let has_one = || {
        let signalled = application.signal();
        signalled
            .and_then(|()| appears(&place.path("out.json")))
            .is_ok()
            && place
                .profile("out.json")
                .is_ok_and(|profile| profile.texts() == ["one"])
    };
    assert!(test_support::patience::until(has_one));
    application.go_on()?;
    application.end()?;
    assert_eq!(place.profile("out.json")?.texts(), ["one"]);
    Ok(())
}

#[test]
fn a_forked_process_exits_without_writing_the_profile() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    let words = "init mark one fork exists out.json mark two exit";
    assert_eq!(place.run(Some("out.json"), words)?, ["Started", "false"]);
    assert_eq!(place.profile("out.json")?.texts(), ["one", "two"]);
    Ok(())
}

#[test]
fn the_processes_below_are_in_the_profile() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    let lines = place.run(Some("out.json"), "init mark above run join mark below exit")?;
    assert_eq!(lines, ["Started", "Recording"]);
    let profile = place.profile("out.json")?;
    assert_eq!(
        (profile.len(), profile.texts()),
        (2, vec!["above", "below"])
    );
    assert_eq!(place.files()?, ["out.json"]);
    Ok(())
}

#[test]
fn a_value_that_is_not_understood_leaves_the_program_alone() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    let lines = place.run(Some("out.json,limit=64X"), "init mark one exit")?;
    assert!(lines[0].starts_with("Off(Startup("), "{lines:?}");
    assert!(place.files()?.is_empty());
    Ok(())
}

#[test]
fn a_process_of_a_session_starts_none_of_its_own() -> anyhow::Result<()> {
    own_process!();
    let place = AppDirectory::new()?;
    let session = Session::builder().start()?;
    let mut spawned = place.command(Some("own.json"), "join mark spawned variables exit");
    spawned.stdout(Stdio::piped());
    let mut spawned = session.spawn("spawned", spawned)?;
    let said = std::io::read_to_string(spawned.stdout.take().unwrap())?;
    let variables = "MULTIPROCESS_PROFILER_SESSION";
    assert_eq!(said.lines().collect::<Vec<_>>(), ["Recording", variables]);
    spawned.wait()?;
    let mut prepared = place.command(Some("own.json"), "join mark prepared exit");
    session.prepare(&mut prepared)?;
    assert_eq!(run(prepared)?.0, ["Recording"]);
    // The variable is for programs that no session records: the same with it.
    let mut joined = place.command(Some("own.json"), "join mark joined exit");
    joined.envs(session.environment()?);
    assert_eq!(run(joined)?.0, ["Recording"]);
    session.capture().save(place.path("all.json"))?;
    assert_eq!(place.files()?, ["all.json"]);
    let texts = ["joined", "prepared", "spawned"];
    assert_eq!(place.profile("all.json")?.texts(), texts);
    Ok(())
}
