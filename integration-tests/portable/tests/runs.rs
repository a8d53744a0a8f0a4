//! The application runs without a session.

use std::process::Command;

#[test]
fn an_application_for_several_systems_runs_without_a_session() {
    let mut application = Command::new(env!("CARGO_BIN_EXE_portable-application"));
    for variable in ["MULTIPROCESS_PROFILER", "MULTIPROCESS_PROFILER_SESSION"] {
        application.env_remove(variable);
    }
    let output = application.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "NoParent");
}
