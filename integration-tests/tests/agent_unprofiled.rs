//! Tests of `profiler record` with programs that do not load the library, and with unusual programs
//! that load it.
//!
//! The programs are unharmed. Those that are not recorded are named with the reason;
//! `agent_outside` tests those that are observed from outside.

use std::os::unix::fs::PermissionsExt;

use integration_tests::foreign::{Workplace, is_installed};
use integration_tests::own_process;

use crate::agent_record::{SPIN, does_the_same, has_used, text};

/// Runs its arguments as a shell command and returns the exit code.
const RUNS: &str = r#"
#include <stdlib.h>
#include <sys/wait.h>
int main(int count, char **words) {
    int status = count > 1 ? system(words[1]) : 0;
    return WEXITSTATUS(status);
}
"#;

/// Takes another user, then runs its argument as a shell command and returns the exit code.
const DROPS: &str = r#"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    if (count < 2 || setuid(65534)) return 99;
    int status = system(words[1]);
    return WEXITSTATUS(status);
}
"#;

#[test]
fn a_static_program_that_ends_at_once_is_unharmed_and_named_with_the_reason() -> anyhow::Result<()>
{
    own_process!();
    let place = Workplace::new()?;
    let runs = place.compile("runs", RUNS, &["-static"])?;
    let alone = place.record(&[text(&runs)])?;
    assert_eq!(alone.output.status.code(), Some(0));
    assert!(!alone.has_profile());
    assert!(
        alone
            .said()
            .contains("runs recorded nothing: it is statically linked"),
        "{}",
        alone.said()
    );
    // The shell and the program below it are recorded, and so is the program while they run.
    let spin = place.compile("spin", SPIN, &[])?;
    let below = format!("echo text; {} 400; exit 5", text(&spin));
    let recorded = does_the_same(&place, &[text(&runs), &below])?;
    assert_eq!(recorded.verdicts("spin")?, ["complete"]);
    assert_eq!(recorded.verdicts("runs")?, ["complete"]);
    Ok(())
}

#[test]
fn a_program_for_musl_does_the_same_and_is_recorded() -> anyhow::Result<()> {
    own_process!();
    if !is_installed("musl-gcc") {
        return Ok(());
    }
    let place = Workplace::new()?;
    let source = place.path().join("runs.c");
    std::fs::write(&source, RUNS)?;
    let runs = place.compile_file("musl-gcc", "runs", &source, &[])?;
    let recorded = does_the_same(&place, &[text(&runs)])?;
    let profile = recorded.profile()?;
    assert!(profile.process("runs").is_ok(), "{}", recorded.said());
    Ok(())
}

#[test]
fn a_program_with_other_rights_is_unharmed_and_recorded_from_outside() -> anyhow::Result<()> {
    own_process!();
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can make a program of another user");
        return Ok(());
    }
    let place = Workplace::new()?;
    let program = place.compile("rights", SPIN, &[])?;
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755))?;
    std::os::unix::fs::chown(&program, Some(65534), None)?;
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755))?;
    let recorded = does_the_same(&place, &[text(&program), "1000"])?;
    let is_recorded = has_used(&recorded.profile()?, "rights", 970_000_000);
    assert!(is_recorded, "{}", recorded.said());
    Ok(())
}

#[test]
fn a_program_with_a_sanitizer_does_the_same_and_is_recorded() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    for sanitizer in ["address", "thread", "undefined"] {
        let option = format!("-fsanitize={sanitizer}");
        let Ok(program) = place.compile("checked", SPIN, &[&option]) else {
            eprintln!("left out: the compiler has no sanitizer {sanitizer}");
            continue;
        };
        let recorded = does_the_same(&place, &[text(&program), "300"])?;
        let is_recorded = has_used(&recorded.profile()?, "checked", 291_000_000);
        assert!(is_recorded, "{sanitizer}: {}", recorded.said());
    }
    Ok(())
}

#[test]
fn a_program_that_root_has_started_changes_its_user_without_a_word() -> anyhow::Result<()> {
    own_process!();
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can change the user");
        return Ok(());
    }
    let place = Workplace::new()?;
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755))?;
    let cache = place.path().join("cache");
    std::fs::create_dir(&cache)?;
    std::fs::set_permissions(&cache, PermissionsExt::from_mode(0o755))?;
    let drops = place.compile("drops", DROPS, &[])?;
    let program = [text(&drops), "ls / >/dev/null; id -u"];
    let recorded = place.record_by(&[], &program, |command| {
        command.env("XDG_CACHE_HOME", &cache);
    })?;
    // The programs of the other user load the library: the loader reports nothing.
    assert_eq!(recorded.error_of_program(), "");
    assert_eq!(recorded.output.stdout, b"65534\n");
    assert_eq!(recorded.output.status.code(), Some(0));
    Ok(())
}

#[test]
fn the_agent_can_be_left_out() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let recorded = place.record_with(&["--no-agent"], &["sh", "-c", "echo \"[$LD_PRELOAD]\""])?;
    assert_eq!(recorded.output.stdout, b"[]\n");
    assert!(!recorded.has_profile());
    Ok(())
}

/// Whether a value contains the marker of this process, at any depth.
fn has_marker(value: &serde_json::Value, process: &str) -> bool {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            let is_it = fields.get("process").is_some_and(|name| *name == process)
                && fields.get("verdict").is_some_and(|verdict| {
                    verdict == "missing: not profiled: it is statically linked"
                });
            is_it || fields.values().any(|field| has_marker(field, process))
        }
        Value::Array(all) => all.iter().any(|one| has_marker(one, process)),
        _ => false,
    }
}

#[test]
fn a_process_that_is_not_recorded_is_a_marker_in_the_process_that_has_started_it()
-> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let runs = place.compile("runs", "int main(void) { return 0; }", &["-static"])?;
    let profile = place.path().join("out.json");
    for format in ["processed", "gecko"] {
        // The first shell is the root of the profile; the second one starts the program.
        // Looks see some of these programs, most of which end before they are observed.
        let many = format!("for i in $(seq 1000); do {}; done", text(&runs));
        let script = format!("sh -c '{many}; exit 3'; exit 4");
        let status = std::process::Command::new(integration_tests::tools::profiler()?)
            .args(["record", "-o", "out.json", "--format", format])
            .args(["--", "sh", "-c", &script])
            .env("XDG_CACHE_HOME", integration_tests::tools::cache()?)
            .current_dir(place.path())
            .status()?;
        assert_eq!(status.code(), Some(4));
        let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&profile)?)?;
        assert!(has_marker(&json, "runs"), "{format}");
        if format == "gecko" {
            continue;
        }
        let threads = json["threads"].as_array().into_iter().flatten();
        let shown: Vec<_> = threads
            .filter(|thread| has_marker(thread, "runs"))
            .collect();
        let info = integration_tests::tools::info(&profile)?;
        let rows = info["processes"].as_array().into_iter().flatten();
        let starter = rows
            .clone()
            .find(|row| row["name"] == "runs")
            .map(|row| row["parent_pid"].to_string().replace('"', ""));
        let [thread] = &shown[..] else {
            panic!("{} threads: {info}", shown.len())
        };
        let pid = thread["pid"].to_string().replace('"', "");
        assert_eq!(Some(pid), starter, "{info}");
    }
    Ok(())
}
