//! A profile from a running `record` command.

use std::io::Write;

use anyhow::{Context, Result, anyhow};

use crate::capture_socket::{Connection, Wanted, connect, receive_profile, send_request};

/// The most processes between a process and the command above it.
const MAX_DEPTH: usize = 64;

/// Writes the profile of the command with this number, or of the nearest one above the process.
pub(super) fn write(pid: u32, wanted: Wanted, file: &mut impl Write) -> Result<()> {
    let mut connection = connect_above(pid)?;
    send_request(connection.get_mut(), wanted).context("the recording does not answer")?;
    receive_profile(&mut connection, file)
}

/// Connects to the command with this number, or to the nearest one above the process.
fn connect_above(pid: u32) -> Result<Connection> {
    let above = std::iter::successors(Some(pid), |pid| parent_of(*pid));
    for number in above.take(MAX_DEPTH) {
        let connected = connect(number);
        let connected = connected.with_context(|| format!("cannot ask process {number}"))?;
        if let Some(connection) = connected {
            return Ok(connection);
        }
    }
    Err(anyhow!(
        "process {pid} is no `profiler record` of this user, and is below none"
    ))
}

/// The parent of a process. `None` for the first process, and if it is not known.
fn parent_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    parent.trim().parse().ok().filter(|parent| *parent != 0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_parent_of_a_process_is_known() {
        let own = parent_of(std::process::id());
        assert_eq!(own, Some(std::os::unix::process::parent_id()));
        assert_eq!(parent_of(1), None);
        assert_eq!(parent_of(u32::MAX), None);
    }
}
