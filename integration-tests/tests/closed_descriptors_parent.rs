//! Test of a parent whose program closes all descriptors from 3 on, and reuses their numbers for
//! its own files.
//!
//! The profiler neither uses nor closes these files, and the parent still learns that its children
//! end. `own_process!()` is required here, because the test closes the descriptors of its process.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::mem::forget;

use anyhow::{Context, ensure};
use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::session;
use profiler_parent::Format;

const CHILD: &str = env!("CARGO_BIN_EXE_child");
/// The position of every file, which the profiler must not change.
const OFFSET: u64 = 7;

/// What the file with this number contains.
fn content(number: usize) -> String {
    format!("file {number:4} of the program")
}

fn open_files(directory: &std::path::Path) -> anyhow::Result<Vec<File>> {
    std::fs::create_dir(directory)?;
    let open = |number: usize| {
        let path = directory.join(number.to_string());
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        write!(file, "{}", content(number))?;
        file.seek(SeekFrom::Start(OFFSET))?;
        anyhow::Ok(file)
    };
    (0..200).map(open).collect()
}

/// Checks that all files are open and that their offsets and contents are unchanged.
fn check(files: &mut [File], when: &str) -> anyhow::Result<()> {
    for (number, file) in files.iter_mut().enumerate() {
        let at = file
            .stream_position()
            .with_context(|| format!("{when}: file {number} is not open"))?;
        ensure!(at == OFFSET, "{when}: the offset of file {number} is {at}");
        let mut text = String::new();
        file.rewind()?;
        file.read_to_string(&mut text)?;
        file.seek(SeekFrom::Start(OFFSET))?;
        ensure!(
            text == content(number),
            "{when}: file {number} reads {text:?}"
        );
    }
    Ok(())
}

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
    let mut files = open_files(&files)?;
    // The children end, because their standard input is closed. Their handles own descriptors that
    // are closed already, and must not be dropped.
    let mut children: Vec<_> = children
        .into_iter()
        .map(std::mem::ManuallyDrop::new)
        .collect();
    check(&mut files, "at first")?;
    let _ = session
        .session()?
        .capture()
        .format(Format::Gecko)
        .save(session.path("gecko.json"));
    check(&mut files, "after a capture")?;
    let _ = session
        .session()?
        .capture()
        .format(Format::Processed)
        .save(session.path("processed.json"));
    check(&mut files, "after another capture")?;
    for helper in &mut children {
        helper.child.wait()?;
    }
    assert!(children.iter().all(|helper| helper.child.has_ended()));
    check(&mut files, "after children ended")?;
    let mut late = HelperProcess::spawn(&session, CHILD, "late", "init")
        .context("a child spawned after the descriptors were closed")?;
    assert!(late.end("exit 0")?.success());
    check(&mut files, "after a child that came later")?;
    session.end();
    check(&mut files, "after the session")?;
    Ok(())
}
