//! Tests that a program inherits the same with and without `profiler record`.
//!
//! A program prints what the system says about it. It is started alone and below the command, from
//! the same prepared state.

use std::process::{Command, Stdio};

use anyhow::ensure;
use integration_tests::{own_process_tests, tools};

/// Prints the state of the process, and exits with 7.
const STATE: &str = "
import os
status = [line.split(':') for line in open('/proc/self/status')]
kept = {'SigBlk', 'SigIgn', 'Umask', 'Uid', 'Gid', 'Groups', 'NoNewPrivs', 'Seccomp', 'CapInh',
        'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'Cpus_allowed', 'Mems_allowed', 'NSpgid', 'NSsid'}
for name, value in status:
    if name in kept: print(name, value.strip())
print(open('/proc/self/limits').read())
stat = open('/proc/self/stat').read().rpartition(')')[2].split()
print('group, session, terminal, its group', stat[2:6])
print('priority, nice, real-time, policy', stat[15], stat[16], stat[37], stat[38])
print('adjustment', open('/proc/self/oom_score_adj').read())
print('slack', open('/proc/self/timerslack_ns').read()
      if os.access('/proc/self/timerslack_ns', os.R_OK) else '')
print('session keyring', [line for line in open('/proc/keys') if '_ses' in line]
      if os.path.exists('/proc/keys') else '')
print('streams', [os.path.exists('/proc/self/fd/%d' % stream) for stream in range(3)])
os._exit(7)
";

/// Starts the program in a state that `script`, a shell's script, prepares for `\"$@\"`. Returns
/// what it says and its exit code.
fn state(script: &str, is_recorded: bool) -> anyhow::Result<(String, Option<i32>)> {
    let directory = tempfile::tempdir()?;
    let command = tools::profiler()?;
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]);
    if is_recorded {
        shell.arg(command).args(["record", "-o", "out.json", "--"]);
    }
    // Not on standard output, which may be closed.
    let program = format!("import sys; sys.stdout = open('state', 'w')\n{STATE}")
        .replace("os._exit(7)", "sys.stdout.close(); os._exit(7)");
    shell.args(["python3", "-c", &program]);
    shell
        .env("XDG_CACHE_HOME", tools::cache()?)
        .current_dir(directory.path())
        .stderr(Stdio::null());
    let status = tools::with_default_signals(&mut shell).status()?;
    ensure!(
        directory.path().join("out.json").exists() == is_recorded,
        "no profile"
    );
    let said = std::fs::read_to_string(directory.path().join("state"))?;
    Ok((said, status.code()))
}

fn inherits(script: &str) -> anyhow::Result<()> {
    let (alone, code) = state(script, false)?;
    ensure!(code == Some(7) && alone.contains("SigIgn"), "{alone}");
    let (recorded, code) = state(script, true)?;
    let lines = alone.lines().zip(recorded.lines());
    let differ: Vec<_> = lines
        .filter(|(alone, recorded)| alone != recorded)
        .collect();
    ensure!(differ.is_empty(), "{differ:?}");
    ensure!(code == Some(7), "{code:?}");
    Ok(())
}

own_process_tests! {
    a_program_inherits_the_usual_state: inherits(r#"exec "$@""#);
    a_program_inherits_that_signals_are_ignored:
        inherits(r#"trap '' HUP PIPE QUIT USR1 WINCH TTIN; exec "$@""#);
    a_program_inherits_that_children_are_ignored: inherits(r#"trap '' CHLD; exec "$@""#);
    a_program_inherits_the_limits_and_the_mask_of_files:
        inherits(r#"umask 027; ulimit -S -n 200; ulimit -S -c 0; ulimit -S -s 4096; exec "$@""#);
    a_program_inherits_its_priority: inherits(r#"exec nice -n 3 "$@""#);
    a_program_inherits_that_signals_are_blocked: inherits(
        r#"exec python3 -c 'import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {1, 10, 15, 17, 37})
os.execvp(sys.argv[1], sys.argv[1:])' "$@""#
    );
    a_program_inherits_that_streams_are_closed: inherits(r#"exec "$@" <&- >&-"#);
}
