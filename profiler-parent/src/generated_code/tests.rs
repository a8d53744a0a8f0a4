//! Tests of the look-up in files that this process writes for itself.

use std::fs::{File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use profiler_core::internal::sys::process_id;
use test_support::own_process;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// The generated code of this process.
fn own_code() -> GeneratedCode {
    GeneratedCode {
        pid: process_id(),
        noted: None,
        ended: None,
        is_trusted: true,
    }
}

/// The names of some addresses, and the remarks.
fn resolve(code: &GeneratedCode, addresses: &[u64]) -> (Vec<String>, String) {
    let mut names = Vec::new();
    let mut left = MOST_BYTES;
    let remarks = code.resolve(addresses, &mut left, &mut |address, name| {
        let file = name.file.unwrap_or("-");
        names.push(format!("{address:x} {} {file}", name.function));
    });
    (names, remarks.join("; "))
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
fn files_of_the_process_give_names_and_files_of_others_do_not() {
    own_process!(); // the files have the number of the process
    let code = own_code();
    let addresses = [0x1000, 0x2000];
    let map = Removed(format!("/tmp/perf-{}.map", process_id()).into());
    let dump = Removed(format!("/tmp/jit-{}.dump", process_id()).into());
    assert_eq!(resolve(&code, &addresses), (Vec::new(), String::new()));

    map.write("1000 10 py::f:/a.py\nx\n2000 10 g\n2000 10 h\n");
    let (names, remarks) = resolve(&code, &addresses);
    assert_eq!(names, ["1000 f /a.py", "2000 h -"]);
    assert!(remarks.starts_with("1 entries of "), "{remarks}");
    let untrusted = GeneratedCode {
        is_trusted: false,
        ..own_code()
    };
    assert_eq!(resolve(&untrusted, &addresses).0.len(), 2);
    let mut left = 10;
    let remarks = code.resolve(&addresses, &mut left, &mut |_, _| panic!("read"));
    assert!(remarks.concat().contains("limit on bytes"), "{remarks:?}");

    dump.write(jitdump("py::new:/b.py", 0x2000, 8));
    let (names, _) = resolve(&code, &addresses);
    assert_eq!(names, ["1000 f /a.py", "2000 new /b.py"]);
    drop(dump);

    let refused = |code: &GeneratedCode| {
        let (names, remarks) = resolve(code, &addresses);
        assert!(
            names.is_empty() && remarks.contains("is not used"),
            "{remarks}"
        );
        remarks
    };
    let ended = UnixNs(sys::unix_now().0 - 10 * SECOND);
    let dead = GeneratedCode {
        noted: sys::whereabouts(process_id()).map(Arc::new),
        ended: Some(ended),
        ..own_code()
    };
    assert!(refused(&dead).contains("after the end"));
    std::fs::set_permissions(&map.0, Permissions::from_mode(0o666)).unwrap();
    assert!(refused(&code).contains("every user"));
    std::fs::set_permissions(&map.0, Permissions::from_mode(0o600)).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = File::options().write(true).open(&map.0).unwrap();
    file.set_modified(old).unwrap();
    assert!(refused(&code).contains("older"));

    std::fs::remove_file(&map.0).unwrap();
    symlink("/dev/null", &map.0).unwrap();
    assert!(refused(&code).contains("not a regular file"));
    assert!(refused(&untrusted).contains("not a regular file"));
}

#[test]
fn a_process_that_has_ended_is_found_by_the_paths_that_it_shared() {
    own_process!(); // the files have the number of the process
    let directory = tempfile::tempdir().unwrap();
    let name = format!("jit-{}.dump", process_id());
    std::fs::write(directory.path().join(name), jitdump("f", 0x7000, 8)).unwrap();
    let own = sys::whereabouts(process_id()).unwrap();
    let dead = |shares_paths, is_trusted| {
        let noted = Whereabouts {
            shares_paths,
            directory: Some(directory.path().to_owned()),
            ..own.clone()
        };
        let code = GeneratedCode {
            noted: Some(Arc::new(noted)),
            ended: Some(sys::unix_now()),
            is_trusted,
            ..own_code()
        };
        resolve(&code, &[0x7000])
    };
    let nothing = || (Vec::new(), String::new());
    assert_eq!(
        dead(true, true),
        (vec!["7000 f -".to_owned()], String::new())
    );
    let elsewhere = dead(false, true);
    assert_eq!(elsewhere, (Vec::new(), UNREACHABLE.to_owned()));
    assert_eq!(dead(true, false), nothing(), "it is not trusted");
}

#[test]
fn a_number_that_another_process_has_now_is_not_followed() {
    let own = sys::whereabouts(process_id()).unwrap();
    let start = profiler_core::ids::ProcessStart::new(own.start.get() + 1);
    let noted = Whereabouts {
        start,
        shares_paths: false,
        ..own
    };
    let reused = GeneratedCode {
        noted: Some(Arc::new(noted)),
        ..own_code()
    };
    assert!(reused.places().is_empty());
    assert!(!own_code().places().is_empty());
}
