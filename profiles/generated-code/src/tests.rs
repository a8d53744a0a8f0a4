//! Tests of the look-up in files that this process writes for itself.

use std::fs::{File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use profiler_core::ids::ProcessId;
use profiler_core::internal::sys::process_id;
use profiler_core::time::UnixNs;
use test_support::own_process;
use test_support::patience::until;

use super::file_kind::FileKind;
use super::look_up::{Budget, Candidate};
use super::places::Places;
use super::*;

const SECOND: u64 = 1_000_000_000;

/// The limits of tests that do not reach them.
const LIMITS: LookUpLimits = LookUpLimits {
    bytes: 1 << 30,
    patience: Duration::from_secs(120),
};

/// The generated code of this process.
fn own_code() -> GeneratedCode {
    GeneratedCode {
        pid: process_id(),
        forked_from: None,
        files: None,
        ended: None,
        is_trusted: true,
    }
}

/// The notes on a process that ran here.
fn files(noted: sys::Whereabouts) -> Option<Arc<ProcessFiles>> {
    Some(Arc::new(ProcessFiles::new(noted)))
}

fn own_whereabouts() -> sys::Whereabouts {
    sys::whereabouts(process_id()).unwrap()
}

/// The names of some addresses, and the remarks.
fn resolve(code: &GeneratedCode, addresses: &[u64]) -> (Vec<String>, String) {
    let look_up = code.resolve(addresses, LIMITS);
    let names = addresses.iter().filter_map(|address| {
        let name = look_up.name_at(*address)?;
        let file = name.file.unwrap_or("-");
        Some(format!("{address:x} {} {file}", name.function))
    });
    let remarks = look_up.remarks.iter().chain(&look_up.unreachable);
    let remarks: Vec<&str> = remarks.map(String::as_str).collect();
    (names.collect(), remarks.join("; "))
}

/// The path of a file of this process.
fn path_of(kind: FileKind) -> PathBuf {
    let name = kind.name(own_whereabouts().own_pid);
    PathBuf::from("/tmp").join(name)
}

/// A file that is removed when the value is dropped.
struct Removed(PathBuf);

impl Removed {
    fn write(&self, bytes: impl AsRef<[u8]>) {
        std::fs::write(&self.0, bytes).unwrap();
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A jitdump with one function.
fn jitdump(name: &str, start: u64, size: u64) -> Vec<u8> {
    let pid = process_id().get();
    let header: [u32; 10] = [0x4a69_5444, 1, 40, 62, 0, pid, 0, 0, 0, 0];
    let body = 40 + name.len() as u32 + 1;
    let record: [u32; 6] = [0, 16 + body, 0, 0, pid, pid];
    let numbers = [start, start, size, 1];
    let words = header
        .iter()
        .chain(&record)
        .flat_map(|word| word.to_ne_bytes());
    let numbers = numbers.iter().flat_map(|number| number.to_ne_bytes());
    words
        .chain(numbers)
        .chain(name.bytes())
        .chain([0])
        .collect()
}

#[test]
fn files_of_the_process_give_names() {
    own_process!(); // the files have the number of the process
    let code = own_code();
    let addresses = [0x1000, 0x2000];
    let map = Removed(path_of(FileKind::PerfMap));
    let dump = Removed(path_of(FileKind::Jitdump));
    assert_eq!(resolve(&code, &addresses), (Vec::new(), String::new()));

    map.write("1000 10 py::f:/a.py\nx\n2000 10 g\n2000 10 h\n3000 10 torn");
    let (names, remarks) = resolve(&code, &addresses);
    assert_eq!(names, ["1000 f /a.py", "2000 h -"]);
    assert!(remarks.starts_with("1 entry of "), "{remarks}");
    let limits = LookUpLimits {
        bytes: 20,
        ..LIMITS
    };
    let look_up = code.resolve(&addresses, limits);
    assert!(look_up.name_at(0x1000).is_some() && look_up.name_at(0x2000).is_none());
    assert!(look_up.remarks.concat().contains("limit on the bytes"));
    assert_eq!(look_up.bytes, 20);

    dump.write(jitdump("py::new:/b.py", 0x2000, 8));
    let (names, _) = resolve(&code, &addresses);
    assert_eq!(names, ["1000 f /a.py", "2000 new /b.py"]);
}

#[test]
fn files_that_may_be_of_others_are_refused() {
    own_process!();
    let map = Removed(path_of(FileKind::PerfMap));
    map.write("1000 10 f\n");
    let code = own_code();
    let refused = |code: &GeneratedCode, why: &str| {
        let (names, remarks) = resolve(code, &[0x1000]);
        let is_refused = remarks.contains("is not used") && remarks.contains(why);
        assert!(names.is_empty() && is_refused, "{why}: {remarks}");
    };
    let dead = GeneratedCode {
        files: files(own_whereabouts()),
        ended: Some(UnixNs(sys::unix_now().0 - 10 * SECOND)),
        ..own_code()
    };
    refused(&dead, "after the end");
    std::fs::set_permissions(&map.0, Permissions::from_mode(0o666)).unwrap();
    refused(&code, "every user");
    std::fs::set_permissions(&map.0, Permissions::from_mode(0o600)).unwrap();
    let other = Removed(map.0.with_extension("link"));
    std::fs::hard_link(&map.0, &other.0).unwrap();
    refused(&code, "more than one name");
    drop(other);
    assert_eq!(resolve(&code, &[0x1000]).0, ["1000 f -"]);
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = File::options().write(true).open(&map.0).unwrap();
    file.set_modified(old).unwrap();
    refused(&code, "older");
}

#[test]
fn nothing_but_a_file_is_opened() {
    own_process!();
    let map = Removed(path_of(FileKind::PerfMap));
    let untrusted = GeneratedCode {
        is_trusted: false,
        files: files(own_whereabouts()),
        ..own_code()
    };
    let refused = || {
        for code in [&own_code(), &untrusted] {
            let (names, remarks) = resolve(code, &[0x1000]);
            assert!(names.is_empty());
            assert!(remarks.contains("not a regular file"), "{remarks}");
        }
    };
    symlink("/dev/null", &map.0).unwrap();
    refused();
    std::fs::remove_file(&map.0).unwrap();
    // To open a pipe would wait for a writer.
    let pipe = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &map.0,
        pipe,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    refused();
    std::fs::remove_file(&map.0).unwrap();
    std::fs::create_dir(&map.0).unwrap();
    refused();
    std::fs::remove_dir(&map.0).unwrap();
}

#[test]
fn a_sparse_jitdump_of_the_largest_size_costs_only_what_is_read() {
    own_process!();
    let dump = Removed(path_of(FileKind::Jitdump));
    dump.write(jitdump("f", 0x1000, 8));
    let file = File::options().write(true).open(&dump.0).unwrap();
    file.set_len(FileKind::Jitdump.largest() + 1).unwrap();
    let look_up = own_code().resolve(&[0x1000], LIMITS);
    assert_eq!(&*look_up.name_at(0x1000).unwrap().function, "f");
    assert!(look_up.bytes < 1 << 16, "{}", look_up.bytes);
    let remarks = look_up.remarks.concat();
    assert!(
        remarks.contains("1 entry") && remarks.contains("too large"),
        "{remarks}"
    );
}

#[test]
fn a_file_that_grows_is_read_up_to_the_size_that_it_had() {
    own_process!();
    let map = Removed(path_of(FileKind::PerfMap));
    map.write("1000 10 f\n");
    let places = Places::of(&own_code());
    let name = FileKind::PerfMap.name(own_whereabouts().own_pid);
    let found = Candidate::find(FileKind::PerfMap, &name, &places.all[0]);
    map.write("1000 10 f\n2000 10 g\n");
    let mut ranges = NamedRanges::new(&[0x1000, 0x2000]);
    let mut budget = Budget::new(LIMITS);
    let file = found.unwrap().unwrap();
    file.read(&mut budget, &mut ranges).unwrap();
    assert_eq!(ranges.name_at(0x1000), Some("f"));
    assert_eq!(ranges.name_at(0x2000), None);
}

#[test]
fn a_jitdump_of_another_process_does_not_hide_the_right_one() {
    own_process!();
    let directory = tempfile::tempdir().unwrap();
    let wrong = Removed(path_of(FileKind::Jitdump));
    wrong.write([7; 100]);
    let right = directory.path().join(wrong.0.file_name().unwrap());
    std::fs::write(right, jitdump("f", 0x7000, 8)).unwrap();
    let noted = sys::Whereabouts {
        directory: Some(directory.path().to_owned()),
        ..own_whereabouts()
    };
    let code = GeneratedCode {
        files: files(noted),
        ended: Some(sys::unix_now()),
        ..own_code()
    };
    assert_eq!(resolve(&code, &[0x7000]).0, ["7000 f -"]);
}

#[test]
fn a_process_that_has_ended_is_found_by_the_paths_that_it_shared() {
    own_process!();
    let directory = tempfile::tempdir().unwrap();
    let name = path_of(FileKind::Jitdump);
    let name = name.file_name().unwrap();
    std::fs::write(directory.path().join(name), jitdump("f", 0x7000, 8)).unwrap();
    let dead = |shares_paths, is_trusted| {
        let noted = sys::Whereabouts {
            shares_paths,
            directory: Some(directory.path().to_owned()),
            ..own_whereabouts()
        };
        let code = GeneratedCode {
            files: files(noted),
            ended: Some(sys::unix_now()),
            is_trusted,
            ..own_code()
        };
        resolve(&code, &[0x7000])
    };
    let named = (vec!["7000 f -".to_owned()], String::new());
    assert_eq!(dead(true, true), named);
    let (names, remarks) = dead(false, true);
    assert!(
        names.is_empty() && remarks.contains("of their own"),
        "{remarks}"
    );
    let nothing = (Vec::new(), String::new());
    assert_eq!(dead(true, false), nothing, "it is not trusted");
}

#[test]
fn a_process_with_other_mounts_is_found_by_the_directory_that_was_kept_open() {
    own_process!();
    let map = Removed(path_of(FileKind::PerfMap));
    map.write("1000 10 f\n");
    let noted = sys::Whereabouts {
        shares_paths: false,
        directory: None,
        ..own_whereabouts()
    };
    let files = Arc::new(ProcessFiles::new(noted));
    files.keep_directory(process_id());
    assert!(until(|| files.temporary().is_some()));
    let dead = GeneratedCode {
        files: Some(files),
        ended: Some(sys::unix_now()),
        ..own_code()
    };
    assert_eq!(
        resolve(&dead, &[0x1000]),
        (vec!["1000 f -".to_owned()], String::new())
    );
}

#[test]
fn only_trusted_processes_are_looked_up_through_their_own_root_directory() {
    let places = |is_trusted| {
        let code = GeneratedCode {
            files: files(own_whereabouts()),
            is_trusted,
            ..own_code()
        };
        let places = Places::of(&code);
        let paths = places.all.iter().map(|place| place.directory.path_to(""));
        paths.collect::<Vec<_>>()
    };
    let root = format!("/proc/{}/root/tmp/", process_id());
    assert_eq!(
        places(true),
        [PathBuf::from(root)],
        "the same directory is there once"
    );
    assert_eq!(places(false), [PathBuf::from("/tmp/")]);
}

#[test]
fn a_number_that_another_process_has_now_is_not_followed() {
    let own = own_whereabouts();
    let start = profiler_core::ids::ProcessStart::new(own.start.get() + 1);
    let noted = sys::Whereabouts {
        start,
        shares_paths: false,
        ..own
    };
    let reused = GeneratedCode {
        files: files(noted),
        ..own_code()
    };
    assert!(Places::of(&reused).all.is_empty());
    assert!(!Places::of(&own_code()).all.is_empty());
    let unknown = GeneratedCode {
        pid: ProcessId::new(std::os::unix::process::parent_id()),
        ..own_code()
    };
    let places = Places::of(&unknown);
    assert!(places.all.is_empty() && places.unreachable().is_none());
}
