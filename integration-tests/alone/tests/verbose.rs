//! Tests of `MULTIPROCESS_PROFILER_VERBOSE`.

use std::fs::File;
use std::process::{Command, Stdio};

use crate::support::{AppDirectory, run};

/// Adds the variable that asks for the reason.
fn verbose(mut command: Command) -> Command {
    command.env("MULTIPROCESS_PROFILER_VERBOSE", "1");
    command
}

/// Runs the application, and returns the one line that it prints to standard error.
fn reason(command: Command) -> anyhow::Result<String> {
    let (_, errors) = run(verbose(command))?;
    let lines: Vec<_> = errors.lines().collect();
    let [line] = lines[..] else {
        anyhow::bail!("{errors}");
    };
    assert!(line.starts_with("profiler: alone-application ["), "{line}");
    Ok(line.to_owned())
}

#[test]
fn the_reason_is_one_line_and_only_on_request() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    place.run(None, "init exit")?; // prints nothing
    let line = reason(place.command(None, "init exit"))?;
    assert!(line.contains("off: no session"), "{line}");
    let mut off = place.command(None, "init exit");
    off.env("MULTIPROCESS_PROFILER_VERBOSE", "0");
    assert_eq!(run(off)?.1, "");
    Ok(())
}

#[test]
fn each_reason_is_named() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    let line = reason(place.command(Some("out.json,limit=64X"), "init exit"))?;
    assert!(line.contains("limit=\"64X\""), "{line}");
    let line = reason(place.command(Some("missing/out.json"), "init exit"))?;
    assert!(line.contains("missing/out.json"), "{line}");
    let mut malformed = place.command(None, "init exit");
    malformed.env("MULTIPROCESS_PROFILER_SESSION", "nonsense");
    let line = reason(malformed)?;
    assert!(
        line.contains("MULTIPROCESS_PROFILER_SESSION is malformed"),
        "{line}"
    );
    // That of `Session::from_env` is returned, not printed.
    let quiet = verbose(place.command(Some("out.json,limit=64X"), "guard exit"));
    assert_eq!(run(quiet)?.1, "");
    Ok(())
}

#[test]
fn a_program_that_records_prints_nothing() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    let (lines, errors) = run(verbose(
        place.command(Some("out.json"), "init mark one exit"),
    ))?;
    assert_eq!((lines, errors.as_str()), (vec!["Started".to_owned()], ""));
    Ok(())
}

#[test]
fn a_profile_that_cannot_be_written_at_the_exit_is_told() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    std::fs::create_dir(place.path("gone"))?;
    let mut command = verbose(place.command(Some("gone/out.json"), "init line exit"));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut application = command.spawn()?;
    let mut line = [0; 8];
    std::io::Read::read_exact(application.stdout.as_mut().unwrap(), &mut line)?;
    assert_eq!(&line, b"Started\n");
    std::fs::remove_dir(place.path("gone"))?;
    let ended = application.wait_with_output()?; // closes standard input
    assert!(ended.status.success(), "{ended:?}");
    let errors = String::from_utf8(ended.stderr)?;
    assert!(errors.contains("the profile is not written"), "{errors}");
    Ok(())
}

#[test]
fn a_closed_standard_error_does_no_harm() -> anyhow::Result<()> {
    let place = AppDirectory::new()?;
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    for errors in [Stdio::from(writer), Stdio::from(File::open("/dev/null")?)] {
        let mut command = verbose(place.command(None, "init exit"));
        command.stderr(errors);
        assert_eq!(run(command)?.0, ["NoParent"]);
    }
    Ok(())
}
