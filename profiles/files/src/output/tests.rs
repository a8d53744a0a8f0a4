//! Tests of the output file: its content, its permissions, and the targets that are refused.

use std::io::Read;

use tempfile::tempdir;

use super::*;

fn names_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_committed_file_contains_the_written_bytes() {
    let directory = tempdir().unwrap();
    let target = directory.path().join("profile.json");
    let mut file = ProfileFile::create(&target).unwrap();
    file.write_all(b"{}").unwrap();
    assert!(!target.exists(), "the target appears only at commit");
    assert_eq!(file.commit().unwrap(), 2);
    assert_eq!(std::fs::read(&target).unwrap(), b"{}");
    assert_eq!(names_in(directory.path()), ["profile.json"]);
}

#[test]
fn a_file_named_gz_is_compressed() {
    let directory = tempdir().unwrap();
    let target = directory.path().join("profile.json.gz");
    let text = "{\"a\":1}".repeat(100_000);
    let mut file = ProfileFile::create(&target).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let length = file.commit().unwrap();
    assert!(length < 100_000);
    assert_eq!(length, target.metadata().unwrap().len());
    let mut unpacked = String::new();
    flate2::read::GzDecoder::new(File::open(&target).unwrap())
        .read_to_string(&mut unpacked)
        .unwrap();
    assert_eq!(unpacked, text);
}

#[test]
fn a_compressed_profile_is_kept_as_it_is_or_unpacked_by_the_name_of_the_file() {
    let directory = tempdir().unwrap();
    let text = "{\"a\":1}".repeat(100_000);
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(text.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let target = directory.path().join(name);
        let mut file = ProfileFile::create_of_gzip(&target).unwrap();
        file.write_all(bytes).unwrap();
        file.commit().map(|_| std::fs::read(target).unwrap())
    };
    assert_eq!(write("profile.json.gz", &packed).unwrap(), packed);
    assert_eq!(write("profile.json", &packed).unwrap(), text.as_bytes());
    let part = packed.get(..packed.len() / 2).unwrap();
    assert!(write("part.json", part).is_err());
    assert!(!directory.path().join("part.json").exists());
}

#[test]
fn without_commit_the_temporary_file_is_removed_and_the_target_unchanged() {
    let directory = tempdir().unwrap();
    let target = directory.path().join("profile.json.gz");
    std::fs::write(&target, "the old one").unwrap();
    let mut file = ProfileFile::create(&target).unwrap();
    file.write_all(&[b'x'; 1_000_000]).unwrap();
    file.flush().unwrap();
    assert_eq!(names_in(directory.path()).len(), 2);
    drop(file);
    assert_eq!(names_in(directory.path()), ["profile.json.gz"]);
    assert_eq!(std::fs::read(&target).unwrap(), b"the old one");
}

#[test]
fn the_error_names_the_missing_directory() {
    let error = ProfileFile::create("/no/such/directory/profile.json").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("/no/such/directory/profile.json"),
        "{error}"
    );
    assert_eq!(error.source.kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_path_without_a_file_name_is_refused() {
    for name in ["", "/", ".."] {
        assert_eq!(
            ProfileFile::create(name).unwrap_err().source.kind(),
            io::ErrorKind::InvalidInput
        );
    }
}

#[test]
fn a_directory_at_the_target_is_refused_at_once() {
    let directory = tempdir().unwrap();
    let target = directory.path().join("taken");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("file"), "").unwrap();
    for target in [target, directory.path().join("new/")] {
        let error = ProfileFile::create(&target).unwrap_err();
        assert_eq!(
            (error.source.kind(), error.path),
            (io::ErrorKind::IsADirectory, target)
        );
    }
    assert_eq!(names_in(directory.path()), ["taken"]);
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn only_the_owner_can_read_the_file() {
        let directory = tempdir().unwrap();
        let target = directory.path().join("profile.json");
        std::fs::write(&target, "").unwrap();
        std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o666)).unwrap();
        let file = ProfileFile::create(&target).unwrap();
        for name in names_in(directory.path())
            .iter()
            .filter(|name| name.ends_with(".part"))
        {
            assert_eq!(mode(&directory.path().join(name)), 0o600);
        }
        file.commit().unwrap();
        assert_eq!(mode(&target), 0o600);
    }

    #[test]
    fn a_symbolic_link_at_the_target_is_replaced_not_followed() {
        let directory = tempdir().unwrap();
        let target = directory.path().join("profile.json");
        let victim = directory.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        symlink(&victim, &target).unwrap();
        let mut file = ProfileFile::create(&target).unwrap();
        file.write_all(b"{}").unwrap();
        file.commit().unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        assert!(target.symlink_metadata().unwrap().is_file());
        assert_eq!(std::fs::read(&target).unwrap(), b"{}");
    }

    #[test]
    fn devices_sockets_and_links_to_devices_are_refused_and_unchanged() {
        let directory = tempdir().unwrap();
        let link = directory.path().join("stdout");
        let socket = directory.path().join("socket");
        symlink("/proc/self/fd/1", &link).unwrap();
        let _bound = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for target in [&link, &socket, std::path::Path::new("/dev/null")] {
            let before = target.symlink_metadata().unwrap().file_type();
            let error = ProfileFile::create(target).unwrap_err();
            assert!(error.to_string().contains("not a file"), "{error}");
            assert_eq!(target.symlink_metadata().unwrap().file_type(), before);
        }
        assert_eq!(
            std::fs::read_dir(directory.path()).unwrap().count(),
            2,
            "no temporary file is left"
        );
    }

    #[test]
    fn an_unwritable_directory_is_an_error() {
        let directory = tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
        let as_root = std::fs::write(directory.path().join("probe"), "").is_ok();
        let made = ProfileFile::create(directory.path().join("profile.json"));
        assert_eq!(made.is_ok(), as_root, "{made:?}");
    }

    #[test]
    fn the_file_is_not_inherited_by_programs_started_meanwhile() {
        use std::os::fd::AsFd;
        let directory = tempdir().unwrap();
        let file = ProfileFile::create(directory.path().join("profile.json")).unwrap();
        let Sink::Plain(plain) = &file.sink else {
            unreachable!()
        };
        let flags = rustix::io::fcntl_getfd(plain.get_ref().as_file().as_fd()).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
}
