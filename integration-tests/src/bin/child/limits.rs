//! A process that has used up what the system lets it have.
//!
//! `without-KIND` as a beginning: first the limit, then the profiler. `without KIND` as a command: the
//! other way round. After a limit on descriptors or threads none is left, whatever was open.

#![allow(unsafe_code)]

use anyhow::{Context, ensure};

use crate::Words;

type Limit = fn() -> anyhow::Result<()>;

const LIMITS: &[(&str, Limit)] = &[
    ("descriptors", no_descriptors),
    ("threads", no_threads),
    ("file-size", || set(libc::RLIMIT_FSIZE, 0)),
    ("memory", || set(libc::RLIMIT_AS, used_address_space()? + (4 << 20))),
    ("hoard", || set(libc::RLIMIT_AS, used_address_space()? + (256 << 20))),
];

/// `without-KIND`: `None` if it is no beginning of this family.
pub(crate) fn begin(name: &str) -> Option<anyhow::Result<String>> {
    let kind = name.strip_prefix("without-")?;
    Some(limit(kind).and_then(|()| crate::begin::begin("init")))
}

/// `without KIND`.
pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    let kind = || words.first().context("without what?");
    (name == "without").then(|| kind().and_then(|kind| limit(kind)).map(|()| "ok".to_owned()))
}

fn limit(kind: &str) -> anyhow::Result<()> {
    LIMITS.iter().find(|(known, _)| *known == kind).context("no such limit")?.1()
}

fn set(what: libc::__rlimit_resource_t, most: u64) -> anyhow::Result<()> {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: reads a local.
    let failed = unsafe { libc::setrlimit(what, &limit) };
    ensure!(failed == 0, "cannot set the limit");
    Ok(())
}

/// Opens files until there is no number left.
fn no_descriptors() -> anyhow::Result<()> {
    set(libc::RLIMIT_NOFILE, 64)?;
    while let Ok(file) = std::fs::File::open("/dev/null") {
        std::mem::forget(file);
    }
    Ok(())
}

/// The system lets the superuser have all threads that it wants, so become somebody else.
fn no_threads() -> anyhow::Result<()> {
    const NOBODY: libc::uid_t = 65534;
    set(libc::RLIMIT_NPROC, 0)?;
    if rustix::process::geteuid().is_root() {
        // SAFETY: plain numbers; all threads of this process change with it.
        let failed = unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) };
        ensure!(failed == 0, "cannot become somebody else");
    }
    ensure!(std::thread::Builder::new().spawn(|| ()).is_err(), "there is still a thread to be had");
    Ok(())
}

fn used_address_space() -> anyhow::Result<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = pages.split(' ').next().context("no size")?.parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}
