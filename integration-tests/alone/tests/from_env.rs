//! Tests of `Session::from_env`: the value is kept until the end of `main`.

use crate::support::{AppDirectory, Application, appears};

#[test]
fn without_the_variable_nothing_is_started() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    for value in [None, Some("")] {
        let lines = place.run(value, "guard mark one action variables finish")?;
        assert_eq!(lines[..2], ["not asked for", "default"]);
        assert_eq!(lines[3], "nothing written");
    }
    assert!(place.files()?.is_empty());
    Ok(())
}

#[test]
fn the_profile_is_written_when_the_value_is_dropped() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    let lines = place.run(Some("out.json,limit=16M"), "guard mark one mark two")?;
    assert_eq!(lines, ["started: Exit"]);
    assert_eq!(place.files()?, ["out.json"]);
    assert_eq!(place.profile("out.json")?.texts(), ["one", "two"]);
    Ok(())
}

#[test]
fn the_options_are_those_of_the_session() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    // A filter that no thread has.
    place.run(Some("out.json,filter=nobody"), "guard mark one")?;
    assert!(place.profile("out.json")?.texts().is_empty());
    let lines = place.run(Some("small.json,limit=1"), "guard")?;
    assert!(lines[0].contains("too small"), "{lines:?}");
    assert_eq!(place.files()?, ["out.json"]);
    Ok(())
}

#[test]
fn an_error_starts_nothing_and_names_the_part() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    for (value, part) in [
        ("out.json,limit=64X", "limit=\"64X\""),
        ("out.json,at=never", "at=\"never\""),
        ("limit=64M", "out.json.gz"),
        ("missing/out.json", "missing/out.json"),
        ("out.json,nonsense", "\"nonsense\""),
    ] {
        let lines = place.run(Some(value), "guard mark one finish")?;
        let [error, finished] = &lines[..] else {
            anyhow::bail!("{lines:?}");
        };
        assert!(
            error.starts_with("error: ") && error.contains(part),
            "{error}"
        );
        assert_eq!(finished, "nothing written");
    }
    assert!(place.files()?.is_empty());
    Ok(())
}

#[test]
fn a_profile_can_be_written_on_demand_and_the_result_of_the_last_one_is_returned()
-> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    let file = place.path("out.json");
    let words = "guard mark one save line mark two finish";
    let mut application = Application::start(place.command(Some("out.json"), words))?;
    assert_eq!(application.line()?, "started: Exit");
    let written = format!("written: {}", file.display());
    assert_eq!(application.line()?, written);
    assert_eq!(place.profile("out.json")?.texts(), ["one"]);
    application.go_on()?;
    assert_eq!(application.line()?, written);
    assert_eq!(place.profile("out.json")?.texts(), ["one", "two"]);
    application.end()
}

#[test]
fn each_signal_writes_a_profile_while_recording_goes_on() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    let file = place.path("out.json");
    let words = "guard mark one line mark two line mark three";
    let mut application = Application::start(place.command(Some("out.json,at=signal"), words))?;
    assert_eq!(application.line()?, "started: Signal");
    application.signal()?;
    appears(&file)?;
    application.go_on()?;
    // The application may not have recorded the second marker yet.
    let has_two = || {
        let _ = std::fs::remove_file(&file);
        let signalled = application.signal().and_then(|()| appears(&file));
        signalled.is_ok_and(|()| {
            let profile = place.profile("out.json");
            profile.is_ok_and(|profile| profile.texts() == ["one", "two"])
        })
    };
    assert!(test_support::patience::until(has_two));
    application.go_on()?;
    application.end()?;
    let profile = place.profile("out.json")?;
    assert_eq!(profile.texts(), ["one", "two"], "the end writes nothing");
    Ok(())
}

#[test]
fn a_signal_before_the_end_is_not_lost_and_one_after_it_does_no_harm() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    let words = "guard mark one signal finish action signal mark two";
    let lines = place.run(Some("out.json,at=signal"), words)?;
    let written = format!("written: {}", place.path("out.json").display());
    assert_eq!(lines, ["started: Signal", &written, "handled"]);
    assert_eq!(place.profile("out.json")?.texts(), ["one"]);
    let lines = place.run(Some("none.json,at=signal"), "guard mark one finish")?;
    assert_eq!(lines, ["started: Signal", "nothing written"]);
    assert_eq!(place.files()?, ["out.json"]);
    Ok(())
}

#[test]
fn a_signal_that_the_program_uses_is_left_to_it() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    for (treatment, action) in [
        ("handle", "handled"),
        ("ignore", "ignored"),
        ("block", "default"),
    ] {
        let words = format!("guard {treatment} action");
        let lines = place.run(Some("out.json,at=signal"), &words)?;
        assert!(lines[0].starts_with("error: "), "{lines:?}");
        assert!(lines[0].contains("SIGUSR2"), "{lines:?}");
        assert_eq!(lines[1], action);
    }
    assert!(place.files()?.is_empty());
    Ok(())
}

#[test]
fn after_the_time_the_profile_is_written_and_recording_ends() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    let words = "guard await-end exists out.json mark late save finish";
    let lines = place.run(Some("out.json,at=0.01s"), words)?;
    let written = format!("written: {}", place.path("out.json").display());
    let over = "error: the session is over";
    assert_eq!(lines, ["started: After(10ms)", "true", over, &written]);
    assert!(!place.profile("out.json")?.texts().contains(&"late"));
    Ok(())
}

#[test]
fn a_program_that_ends_before_the_time_has_a_profile() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    place.run(Some("out.json,at=3600s"), "guard mark one")?;
    assert_eq!(place.profile("out.json")?.texts(), ["one"]);
    Ok(())
}

#[test]
fn a_forked_process_neither_writes_the_profile_nor_ends_the_session() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    for at in ["exit", "3600s"] {
        let (value, file) = (format!("{at}.json,at={at}"), format!("{at}.json"));
        let words = format!("guard mark one fork exists {file} mark two save");
        let lines = place.run(Some(&value), &words)?;
        assert_eq!(lines[1], "false", "{at}");
        assert!(lines[2].starts_with("written"), "{lines:?}");
        assert_eq!(place.profile(&file)?.texts(), ["one", "two"], "{at}");
    }
    let lines = place.run(Some("signal.json,at=signal"), "guard fork signal finish")?;
    assert!(lines[1].starts_with("written"), "{lines:?}");
    Ok(())
}

#[test]
fn in_a_forked_process_the_signal_has_its_default_action() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    let lines = place.run(
        Some("out.json,at=signal"),
        "guard mark one fork-signal finish",
    )?;
    let ended = format!("Some({})", libc::SIGUSR2);
    assert_eq!(lines, ["started: Signal", &ended, "nothing written"]);
    Ok(())
}

#[test]
fn processes_below_a_program_that_begins_with_one_thread_are_in_its_profile() -> anyhow::Result<()>
{
    let place = AppDirectory::new()?;
    let words = "guard mark above run join mark below variables";
    let lines = place.run(Some("out.json"), words)?;
    let variables = "MULTIPROCESS_PROFILER_SESSION";
    assert_eq!(lines, ["started: Exit", "Recording", variables]);
    let profile = place.profile("out.json")?;
    assert_eq!(
        (profile.len(), profile.texts()),
        (2, vec!["above", "below"])
    );
    Ok(())
}

#[test]
fn processes_below_a_program_that_begins_with_threads_write_profiles_of_their_own()
-> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    let words = "guard threads mark above run guard mark below";
    place.run(Some("%p.json"), words)?;
    let files = place.files()?;
    assert_eq!(files.len(), 2, "{files:?}");
    let mut all = Vec::new();
    for file in &files {
        let profile = place.profile(file)?;
        all.extend(profile.texts().into_iter().map(str::to_owned));
    }
    all.sort();
    assert_eq!(all, ["above", "below"]);
    Ok(())
}
