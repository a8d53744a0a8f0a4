//! Commands and beginnings that set a limit of the system: on descriptors, threads, file size or
//! memory.
//!
//! `without-KIND` as a beginning sets the limit before the profiler starts. `without KIND` as a
//! command sets it afterwards. After a limit on descriptors or threads, none is available.

#![allow(unsafe_code)]

use anyhow::{Context, ensure};

use crate::Words;

type Limit = fn() -> anyhow::Result<()>;

const LIMITS: &[(&str, Limit)] = &[
    ("free-descriptors", no_free_descriptors),
    ("descriptors", || set(libc::RLIMIT_NOFILE, 4)),
    ("threads", no_threads),
    ("file-size", || set(libc::RLIMIT_FSIZE, 0)),
    ("memory", || {
        set(libc::RLIMIT_AS, used_address_space()? + (4 << 20))
    }),
    ("hoard", || {
        set(libc::RLIMIT_AS, used_address_space()? + (256 << 20))
    }),
];

/// `without-KIND`. Returns `None` if the name is not a beginning of this family.
pub(crate) fn begin(name: &str) -> Option<anyhow::Result<String>> {
    let kind = name.strip_prefix("without-")?;
    Some(limit(kind).and_then(|()| crate::begin::begin("init")))
}

/// `without KIND`.
pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    let kind = || words.first().context("without what?");
    (name == "without").then(|| {
        kind()
            .and_then(|kind| limit(kind))
            .map(|()| "ok".to_owned())
    })
}

fn limit(kind: &str) -> anyhow::Result<()> {
    LIMITS
        .iter()
        .find(|(known, _)| *known == kind)
        .context("no such limit")?
        .1()
}

fn set(what: libc::__rlimit_resource_t, most: u64) -> anyhow::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: reads a local, which lives through the call.
    let failed = unsafe { libc::setrlimit(what, &limit) };
    ensure!(failed == 0, "cannot set the limit");
    Ok(())
}

/// Opens files until no descriptor is left to this program.
fn no_free_descriptors() -> anyhow::Result<()> {
    set(libc::RLIMIT_NOFILE, 64)?;
    while let Ok(file) = std::fs::File::open("/dev/null") {
        std::mem::forget(file);
    }
    Ok(())
}

/// Forbids new threads. The limit does not apply to root, so root becomes another user.
fn no_threads() -> anyhow::Result<()> {
    const UNPRIVILEGED: libc::uid_t = 65534;
    set(libc::RLIMIT_NPROC, 0)?;
    if rustix::process::geteuid().is_root() {
        // SAFETY: takes only numbers, and changes all threads of the process.
        let failed = unsafe { libc::setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED) };
        ensure!(failed == 0, "cannot change the user");
    }
    ensure!(
        std::thread::Builder::new().spawn(|| ()).is_err(),
        "a thread can still be started"
    );
    Ok(())
}

fn used_address_space() -> anyhow::Result<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = pages.split(' ').next().context("no size")?.parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}
