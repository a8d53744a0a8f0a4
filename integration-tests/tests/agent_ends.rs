//! Tests of how the processes of a recorded program end, and of a session that lacks descriptors.
//!
//! The exit code is that of the last program of the first process. A process that cannot be
//! recorded at the moment is recorded later, or is listed as not recorded.

use integration_tests::foreign::Workplace;
use integration_tests::{own_process, tools};

#[test]
fn the_exit_code_of_a_chain_of_programs_is_that_of_the_last() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    for _ in 0..20 {
        // The last program may end before or after the session begins to read its file.
        let recorded = place.record(&["env", "A=1", "nice", "sh", "-c", "exit 9"])?;
        let code = recorded.output.status.code();
        assert_eq!(code, Some(9), "{}", recorded.said());
    }
    Ok(())
}

#[test]
fn a_session_with_few_descriptors_lists_all_processes() -> anyhow::Result<()> {
    own_process!();
    const PROCESSES: usize = 60;
    let place = Workplace::new()?;
    let command = tools::profiler()?;
    let script = format!("for i in $(seq {PROCESSES}); do sleep 0.5 & done; wait; exit 7");
    let limited = "ulimit -n 48; exec \"$0\" record -o out.json --format gecko -- bash -c \"$1\"";
    let command = command.to_str().unwrap_or_default();
    let output = place.run(&["sh", "-c", limited, command, &script])?;
    let recorded = place.recorded(output);
    assert_eq!(recorded.output.status.code(), Some(7));
    let listed = recorded.verdicts("sleep")?.len();
    assert_eq!(listed, PROCESSES, "{}", recorded.said());
    assert_eq!(recorded.verdicts("bash")?.len(), 1);
    Ok(())
}
