//! What the library needs, and what it replaces.

use object::{Object, ObjectSymbol};
use profiler_observed::LIBRARY;

use crate::observed::Session;

/// All of them are in glibc 2.2.5 and in musl, and none has a version here.
const NEEDED: [&str; 5] = ["bcmp", "dl_iterate_phdr", "memcpy", "memset", "strlen"];

#[test]
fn the_library_needs_few_old_functions_and_no_other_library() {
    let library = object::File::parse(LIBRARY).unwrap();
    let mut needed: Vec<&str> = library
        .dynamic_symbols()
        .filter(|symbol| symbol.is_undefined())
        .map(|symbol| symbol.name().unwrap())
        .filter(|name| !name.is_empty())
        .collect();
    needed.sort_unstable();
    assert!(
        needed.iter().all(|name| NEEDED.contains(name)),
        "{needed:?}"
    );
    // With code for panics, it would need a function that does not exist.
    assert!(needed.contains(&"dl_iterate_phdr"), "{needed:?}");
    assert!(LIBRARY.len() < 80_000, "{} bytes", LIBRARY.len());
}

#[test]
fn a_program_without_a_session_runs_as_without_the_library() {
    let session = Session::new();
    let mut command = session.command(crate::observed::test_program());
    let (output, programs) = session.run_command(
        command
            .arg("traces")
            .env_remove(profiler_observed::VARIABLE),
    );
    assert!(output.status.success());
    assert_eq!(programs.len(), 0);
}

#[test]
fn a_program_gets_no_thread_and_no_descriptor() {
    let session = Session::new();
    let mut plain = std::process::Command::new(crate::observed::test_program());
    let plain = plain.arg("traces").output().unwrap().stdout;
    let (output, programs) = session.run(&["traces"]);
    let line = |text: &[u8]| {
        String::from_utf8_lossy(text)
            .lines()
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(line(&output.stdout), line(&plain));
    assert_eq!(programs.len(), 1);
}

#[test]
fn a_program_runs_without_a_directory_or_without_the_right_to_it() {
    let session = Session::new();
    std::fs::remove_dir(session.files()).unwrap();
    let mut command = session.command(crate::observed::test_program());
    assert!(command.args(["busy", "20"]).status().unwrap().success());
    std::fs::write(session.files(), "no directory").unwrap();
    assert!(command.status().unwrap().success());
}

#[test]
fn a_program_with_a_limit_for_files_is_left_alone() {
    let session = Session::new();
    let program = crate::observed::test_program();
    let mut shell = session.command("/bin/sh".as_ref());
    shell
        .arg("-c")
        .arg(format!("ulimit -f 8; exec {} busy 20", program.display()));
    let (output, programs) = session.run_command(&mut shell);
    assert!(output.status.success(), "{:?}", output.status);
    assert_eq!(programs.len(), 1, "the shell");
}

#[test]
fn a_file_that_is_not_finished_or_not_ours_is_told_apart() {
    use profiler_observed::file::{ObservedFile, ObservedFileError};
    use profiler_observed::layout::{FILE_BYTES, MAGIC, VERSION};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let with = |len: u64, start: &[u8]| {
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(len).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, start, 0).unwrap();
        ObservedFile::open(&path).unwrap_err()
    };
    let whole = FILE_BYTES as u64;
    assert!(matches!(with(0, b""), ObservedFileError::Unfinished));
    assert!(matches!(with(whole, b""), ObservedFileError::Unfinished));
    assert!(matches!(
        with(whole, b"something"),
        ObservedFileError::NotOurs
    ));
    assert!(matches!(with(whole - 1, b""), ObservedFileError::NotOurs));
    let later = [MAGIC.to_ne_bytes().as_slice(), &(VERSION + 1).to_ne_bytes()].concat();
    assert!(matches!(with(whole, &later), ObservedFileError::Version(_)));
    std::fs::remove_file(&path).unwrap();
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &path,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
    )
    .unwrap();
    assert!(
        matches!(ObservedFile::open(&path), Err(ObservedFileError::NotOurs)),
        "and no wait"
    );
}
