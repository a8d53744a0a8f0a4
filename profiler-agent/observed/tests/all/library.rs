//! What the library needs, and what it replaces.

use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSymbol};
use profiler_observed::LIBRARY;
use profiler_observed::file::ObservedFile;
use profiler_observed::layout::Notes;

use crate::observed::{Session, test_program};

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
    use profiler_observed::file::ObservedFileError;
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

/// A file with two samples: one in page 0, and one in the pages 1 and 2. Page 2 does not look
/// claimed.
struct TwoSamples {
    _directory: tempfile::TempDir,
    path: PathBuf,
    file: std::fs::File,
}

impl TwoSamples {
    fn new() -> Self {
        use profiler_observed::layout::{
            CONTROL_AT, FILE_BYTES, HEAD_BYTES, MAGIC, PAGE, RING_AT, RING_PAGES, SampleHead,
            VERSION,
        };
        use std::mem::offset_of;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = std::fs::File::create_new(&path).unwrap();
        file.set_len(FILE_BYTES as u64).unwrap();
        let samples = Self {
            _directory: directory,
            path,
            file,
        };
        let start = [MAGIC.to_ne_bytes(), u64::from(VERSION).to_ne_bytes()].concat();
        samples.write(0, &start);
        samples.write(CONTROL_AT, &[1, 1]);
        samples.write(CONTROL_AT + RING_PAGES, &[1, 1]);
        samples.write(RING_AT + offset_of!(SampleHead, claims), &[1]);
        let second = RING_AT + PAGE;
        let stack = (PAGE - HEAD_BYTES + 8) as u32;
        let at = |offset: usize| second + offset;
        samples.write(
            at(offset_of!(SampleHead, stack_bytes)),
            &stack.to_ne_bytes(),
        );
        samples.write(at(offset_of!(SampleHead, more_pages)), &1_u32.to_ne_bytes());
        samples.write(at(offset_of!(SampleHead, pages)), &2_u16.to_ne_bytes());
        samples.write(at(offset_of!(SampleHead, claims)), &[1, 1]);
        samples
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        std::os::unix::fs::FileExt::write_all_at(&self.file, bytes, at as u64).unwrap();
    }

    /// Reads the samples; calls `on_sample` with each. Returns their number, and up to which state
    /// the three pages are freed.
    fn drain(&self, observed: &mut ObservedFile, mut on_sample: impl FnMut()) -> (usize, [u8; 3]) {
        let count = observed.drain(|_, _| on_sample()).unwrap();
        let mut freed = [0; 3];
        let at = profiler_observed::layout::FREED_AT as u64;
        let file = std::fs::File::open(&self.path).unwrap();
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut freed, at).unwrap();
        (count, freed)
    }
}

/// The session reads the states of all pages in one call, but not at one instant.
#[test]
fn a_page_that_is_claimed_while_the_states_are_read_is_freed_once() {
    let samples = TwoSamples::new();
    let mut observed = ObservedFile::open(&samples.path).unwrap();
    let claim = || samples.write(profiler_observed::layout::CONTROL_AT + 2, &[1]);
    assert_eq!(samples.drain(&mut observed, claim), (2, [1, 1, 1]));
}

#[test]
fn a_page_that_a_sample_names_and_has_not_claimed_is_not_freed() {
    let samples = TwoSamples::new();
    let mut observed = ObservedFile::open(&samples.path).unwrap();
    let drained = samples.drain(&mut observed, || ());
    assert_eq!(drained, (1, [1, 1, 0]), "the second is none");
    assert!(!observed.has_samples().unwrap(), "nothing looks published");
}

/// Compiles an empty library, and copies it under 20 long names.
fn libraries_with_long_names(directory: &Path) -> Vec<String> {
    let source = directory.join("empty.c");
    std::fs::write(&source, "").unwrap();
    let library = directory.join("empty.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library);
    assert!(compiler.arg(&source).status().unwrap().success());
    let copy = |number: u32| {
        let path = directory.join(format!("{number:0200}.so"));
        std::fs::copy(&library, &path).unwrap();
        path.to_str().unwrap().to_owned()
    };
    (0..20).map(copy).collect()
}

#[test]
fn a_text_longer_than_its_first_part_is_whole_also_in_forked_children() {
    let directory = tempfile::tempdir().unwrap();
    let libraries = libraries_with_long_names(directory.path());
    let session = Session::new();
    let mut command = session.command(test_program());
    let preloaded = command.get_envs().find(|(name, _)| *name == "LD_PRELOAD");
    let preloaded = preloaded.and_then(|(_, value)| value).unwrap();
    let all = format!("{}:{}", preloaded.to_str().unwrap(), libraries.join(":"));
    let (output, programs) =
        session.run_command(command.env("LD_PRELOAD", all).args(["forks", "0"]));
    assert!(output.status.success());
    assert_eq!(programs.len(), 5);
    for program in &programs {
        assert_eq!(program.text, programs[0].text);
        assert_eq!(program.header.notes & Notes::TEXT_CUT.0, 0);
        for library in &libraries {
            let files = &program.text.files;
            assert!(
                files.iter().any(|(_, path)| path == library.as_bytes()),
                "{library}"
            );
        }
    }
}

#[test]
fn the_header_says_which_file_the_program_is() {
    use std::os::unix::fs::{MetadataExt, symlink};
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("link");
    symlink(test_program(), &link).unwrap();
    let session = Session::new();
    let (_, programs) = session.run_command(session.command(&link).args(["busy", "1"]));
    let program = &programs[0];
    assert_eq!(program.text.program, link.as_os_str().as_encoded_bytes());
    let about = std::fs::metadata(test_program()).unwrap();
    let found = (program.header.program_device, program.header.program_inode);
    assert_eq!(found, (about.dev(), about.ino()));
}
