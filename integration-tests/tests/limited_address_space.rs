//! Tests of captures in a host whose address space is limited (`ulimit -v`).
//!
//! Each capture runs in a process of its own, because a failed allocation would end it.

#![allow(unsafe_code)]

use anyhow::{Context, Result, ensure};
use integration_tests::own_process;
use integration_tests::own_process::{child, role};
use integration_tests::session;
use profiler_core::marker;
use profiler_parent::core::session::Features;
use profiler_parent::{CaptureError, Format};

const MIB: u64 = 1 << 20;
/// What the address space may grow by: from nothing to what every capture of this test needs.
const ROOMS: [u64; 10] = [0, 1, 2, 4, 8, 12, 16, 32, 64, 2048];

/// Lets the address space of this process grow by this number of bytes only.
fn limit_address_space(more: u64) -> Result<()> {
    let sizes = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = sizes.split(' ').next().context("no size")?.parse()?;
    // SAFETY: has no arguments that could be wrong.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) })?;
    let limit = libc::rlimit {
        rlim_cur: pages * page + more,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the system reads the limit, which lives through the call.
    let failed = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    ensure!(failed == 0, "{}", std::io::Error::last_os_error());
    Ok(())
}

fn parse(format: &str) -> Format {
    match format {
        "gecko" => Format::Gecko,
        _ => Format::Processed,
    }
}

/// Captures with little room for more memory, and says on standard error how it went.
fn capture_within(role: &str) -> Result<()> {
    let (format, mib) = role.split_once(' ').context("which role?")?;
    let session = session::start(|builder| builder.features(Features::default()))?;
    for _ in 0..10_000 {
        marker!("recorded");
    }
    let path = session.path("profile.json.gz");
    let capture = session.session()?.capture().format(parse(format));
    limit_address_space(mib.parse::<u64>()? * MIB)?;
    let saved = capture.save(&path);
    let is_there = path.exists();
    match saved {
        Ok(_) => ensure!(is_there, "no file"),
        Err(CaptureError::NoMemory { .. } | CaptureError::NoThread(_)) => {
            ensure!(!is_there, "a file in spite of the error");
            std::process::exit(3);
        }
        Err(error) => eprintln!("{error}"),
    }
    std::process::exit(0);
}

/// Whether a capture with this room succeeds, or is refused for lack of memory.
fn captures(format: &str, mib: u64) -> Result<bool> {
    let output = child(format!("{format} {mib}")).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Ok(true),
        Some(3) => Ok(false),
        _ => anyhow::bail!("{format} with {mib} MiB: {}: {said}", output.status),
    }
}

fn an_error_or_a_profile(format: &str) -> Result<()> {
    if let Some(role) = role() {
        return capture_within(&role.to_string_lossy());
    }
    let outcomes = ROOMS.map(|mib| captures(format, mib));
    println!("{format}: {outcomes:?}");
    let outcomes = outcomes.into_iter().collect::<Result<Vec<_>>>()?;
    ensure!(!outcomes[0] && outcomes[9], "{outcomes:?}");
    Ok(())
}

#[test]
fn a_capture_without_address_space_is_an_error_and_the_host_goes_on() -> Result<()> {
    own_process!();
    an_error_or_a_profile("processed")
}

#[test]
fn a_capture_in_the_gecko_format_without_address_space_is_an_error() -> Result<()> {
    own_process!();
    an_error_or_a_profile("gecko")
}
