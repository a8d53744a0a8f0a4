//! Test of a parent whose program closes all descriptors from 3 on, and reuses their numbers for
//! its own files.
//!
//! The profiler neither uses nor closes these files, and the parent still learns that its children
//! end. `own_process!()` is required here, because the test closes the descriptors of its process.

#![allow(unsafe_code)]

use std::mem::forget;

use anyhow::Context;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::program_files;
use integration_tests::session;
use profiler_parent::Format;

const CHILD: &str = env!("CARGO_BIN_EXE_child");

#[test]
fn a_parent_that_closes_all_descriptors_keeps_its_files_and_notices_ends_of_children()
-> anyhow::Result<()> {
    own_process!();
    let mut session = session::start(|builder| builder)?;
    let mut helpers = vec![
        HelperProcess::spawn(&session, CHILD, "trusted", "init")?,
        HelperProcess::spawn_untrusted(&session, CHILD, "untrusted", "init")?,
        HelperProcess::spawn(&session, CHILD, "third", "init")?,
    ];
    HelperProcess::ask_all(&mut helpers, "record 1 100")?;
    // The descriptors of the pipes are closed by number below, so their owners must not drop them.
    let children: Vec<_> = helpers
        .into_iter()
        .map(|mut helper| {
            forget((helper.child.stdin.take(), helper.child.stderr.take()));
            helper
        })
        .collect();
    let files = session.path("files");
    // SAFETY: the arguments are plain numbers. The values that own descriptors of this test are
    // forgotten; the profiler's own descriptors are the subject of the test.
    let failed = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    assert_eq!(failed, 0);
    std::fs::create_dir(&files)?;
    let mut files = program_files::open(&files, 200)?;
    // The children end, because their standard input is closed. Their handles own descriptors that
    // are closed already, and must not be dropped.
    let mut children: Vec<_> = children
        .into_iter()
        .map(std::mem::ManuallyDrop::new)
        .collect();
    program_files::check(&mut files).context("at first")?;
    let _ = session.gecko_capture()?.save(session.path("gecko.json"));
    program_files::check(&mut files).context("after a capture")?;
    let _ = session
        .session()?
        .capture()
        .format(Format::Processed)
        .save(session.path("processed.json"));
    program_files::check(&mut files).context("after another capture")?;
    for helper in &mut children {
        helper.child.wait()?;
    }
    assert!(children.iter().all(|helper| helper.child.has_ended()));
    program_files::check(&mut files).context("after children ended")?;
    let mut late = HelperProcess::spawn(&session, CHILD, "late", "init")
        .context("a child spawned after the descriptors were closed")?;
    assert!(late.end("exit 0")?.success());
    program_files::check(&mut files).context("after a child that came later")?;
    session.end();
    program_files::check(&mut files).context("after the session")?;
    Ok(())
}
