//! Tests of the environment variable in real child processes, with one thread and with two.
//!
//! They run without the usual test harness, which starts threads. The program starts itself again
//! as the child, and the child prints what it has found.

use std::process::Command;

use ipc_protocol::environment::{self, ChildEnvironment, InheritedHandle, Server, Token, VARIABLE};
use ipc_protocol::message::PROTOCOL_VERSION;
use profiler_sys::FileIdentity;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("child") => child(),
        Some("child-with-threads") => child_with_threads(),
        _ => parent(),
    }
}

fn parent() {
    let removed = if cfg!(all(target_os = "linux", not(profiler_portable))) {
        "gone"
    } else {
        "there"
    };
    check(
        "a_single_threaded_child_removes_the_variable",
        "child",
        Some(&sample().to_value()),
        &format!("taken {removed}"),
    );
    check(
        "a_child_with_threads_leaves_the_variable",
        "child-with-threads",
        Some(&sample().to_value()),
        "taken there",
    );
    check(
        "without_the_variable_there_is_no_parent",
        "child",
        None,
        "none gone",
    );
    check(
        "a_malformed_variable_is_an_error",
        "child",
        Some(&format!("{PROTOCOL_VERSION};nonsense")),
        &format!("malformed {removed}"),
    );
    check(
        "another_version_is_an_error",
        "child",
        Some(&format!("{};nonsense", PROTOCOL_VERSION + 1)),
        &format!("wrong version {removed}"),
    );
}

fn check(rule: &str, role: &str, value: Option<&str>, expected: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(role).env_remove(VARIABLE);
    if let Some(value) = value {
        command.env(VARIABLE, value);
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{rule}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        expected,
        "{rule}"
    );
    println!("test {rule} ... ok");
}

fn sample() -> ChildEnvironment {
    ChildEnvironment {
        pool: InheritedHandle::Descriptor {
            number: 3,
            identity: FileIdentity {
                device: 5,
                inode: 4,
            },
        },
        part_file: Some(InheritedHandle::Path("/nowhere".into())),
        token: Token::from_bytes([7; Token::BYTES]),
        server: Server::Named("/tmp/nowhere/socket".into()),
    }
}

fn child() {
    let found = match environment::take() {
        Ok(Some(found)) => {
            if found == sample() {
                "taken"
            } else {
                "other"
            }
        }
        Ok(None) => "none",
        Err(environment::EnvironmentError::WrongVersion { .. }) => "wrong version",
        Err(environment::EnvironmentError::Malformed(_)) => "malformed",
        Err(_) => "error",
    };
    let variable = if std::env::var_os(VARIABLE).is_some() {
        "there"
    } else {
        "gone"
    };
    println!("{found} {variable}");
}

fn child_with_threads() {
    let (done, waits) = std::sync::mpsc::channel::<()>();
    let other = std::thread::Builder::new()
        .spawn(move || waits.recv().is_err())
        .unwrap();
    child();
    drop(done);
    assert!(other.join().unwrap());
}
