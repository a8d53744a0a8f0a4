//! Tests of the search for source files, in directories made for the test.

use std::os::unix::fs::symlink;

use super::*;
use crate::toolchains::MANIFEST;

const COMMIT: &str = "59807616e1fa2540724bfbac14d7976d7e4a3860";

/// A home directory with a registry and a toolchain.
struct Home {
    directory: tempfile::TempDir,
    files: SourceFiles,
}

impl Home {
    fn new() -> Self {
        // The default name of a temporary directory is hidden.
        let directory = tempfile::Builder::new().prefix("home").tempdir().unwrap();
        let files = SourceFiles {
            registries: Some(directory.path().join("cargo/registry/src")),
            toolchains: Toolchains::new(Some(directory.path().join("rustup/toolchains"))),
        };
        let home = Self { directory, files };
        home.put(
            "cargo/registry/src/a.registry-01/tokio-1.6.1/src/lib.rs",
            "// tokio",
        );
        home.put(
            &format!("rustup/toolchains/one/{MANIFEST}"),
            "[pkg.rust-src]\nversion = \"1.94.0 (0123456 2026-03-01)\"\n\n[pkg.rustc]\nversion = \"1.95.0 (59807616e 2026-04-14)\"\n",
        );
        home.put(
            "rustup/toolchains/one/lib/rustlib/src/rust/library/std/src/rt.rs",
            "// std",
        );
        home
    }

    fn put(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn read(&self, path: impl AsRef<Path>) -> Result<String, String> {
        self.read_named(path, NamedBy::DebugInformation)
    }

    fn read_named(&self, path: impl AsRef<Path>, named_by: NamedBy) -> Result<String, String> {
        let found = self.files.read(path.as_ref().to_str().unwrap(), named_by);
        found.map_err(|error| error.to_string())
    }
}

#[test]
fn a_published_file_is_read_where_this_user_has_it() {
    let home = Home::new();
    let read = |path: &str| home.read(path);
    assert_eq!(
        read("cargo:a.registry-01:tokio-1.6.1:src/lib.rs").unwrap(),
        "// tokio"
    );
    let path = "/another/machine/registry/src/a.registry-01/tokio-1.6.1/src/lib.rs";
    assert_eq!(read(path).unwrap(), "// tokio");
    let rust = |revision| format!("git:github.com/rust-lang/rust:library/std/src/rt.rs:{revision}");
    for revision in [COMMIT, "1.95.0"] {
        assert_eq!(read(&rust(revision)).unwrap(), "// std");
        assert_eq!(
            read(&format!("/rustc/{revision}/library/std/src/rt.rs")).unwrap(),
            "// std"
        );
    }
    for (revision, why) in [
        ("0123456789abcdef", "another commit"),
        ("1.94.0", "another version"),
        ("5980761", "too short"),
    ] {
        assert!(
            read(&rust(revision))
                .unwrap_err()
                .contains("is not on this machine"),
            "{why}"
        );
    }
    home.put(
        "cargo/registry/src/a.registry-01/hashbrown-0.16.1/src/map.rs",
        "// from a registry",
    );
    assert_eq!(
        read("cargo:deps:hashbrown-0.16.1:src/map.rs").unwrap(),
        "// from a registry"
    );
    let vendored =
        format!("rustup/toolchains/one/{RUST_SOURCES}/{RUST_VENDORED}/hashbrown-0.16.1/src/map.rs");
    home.put(&vendored, "// from the toolchain");
    assert_eq!(
        read("cargo:deps:hashbrown-0.16.1:src/map.rs").unwrap(),
        "// from the toolchain"
    );
}

#[test]
fn a_published_name_cannot_lead_out_of_its_directory() {
    let home = Home::new();
    let secret = home.put("cargo/registry/src/secret.rs", "a secret");
    home.put("cargo/registry/src/a.registry-01/evil-1.0.0/src/lib.rs", "");
    // The files at which the last two forms would end.
    home.put("cargo/registry/evil-1.0.0/secret.rs", "a secret");
    home.put("cargo/tokio-1.6.1/src/lib.rs", "a secret");
    for form in [
        "cargo:a.registry-01:evil-1.0.0:../../secret.rs",
        "cargo:a.registry-01:evil-1.0.0:src/../../../secret.rs",
        "cargo:..:evil-1.0.0:secret.rs",
        "cargo:../..:tokio-1.6.1:src/lib.rs",
    ] {
        let problem = home.read(form).unwrap_err();
        assert!(
            problem.contains("is not on this machine"),
            "{form}: {problem}"
        );
    }
    let absolute = format!("cargo:a.registry-01:evil-1.0.0:{}", secret.display());
    assert!(home.read(absolute).is_err());
    let link = home
        .directory
        .path()
        .join("cargo/registry/src/a.registry-01/evil-1.0.0/src/link.rs");
    symlink(&secret, &link).unwrap();
    let through_root = format!("/proc/self/root{}", link.display());
    for path in [
        "cargo:a.registry-01:evil-1.0.0:src/link.rs",
        link.to_str().unwrap(),
        &through_root,
    ] {
        let problem = home.read(path).unwrap_err();
        assert!(
            problem.ends_with("leads to another directory"),
            "{path}: {problem}"
        );
    }
    let own = link.with_file_name("../src/lib.rs");
    assert_eq!(home.read(own).unwrap(), "", "a file of the same package");
}

#[test]
fn only_text_in_regular_files_of_moderate_size_is_read() {
    let home = Home::new();
    let file = home.put("main.rs", "fn main() {}");
    assert_eq!(home.read(&file).unwrap(), "fn main() {}");
    let latin = home.put("latin.c", b"/* \xe9 */");
    assert_eq!(home.read(latin).unwrap(), "/* \u{fffd} */");
    let refused = |path: &Path| home.read(path).unwrap_err();
    assert!(refused(Path::new("src/main.rs")).contains("does not begin at the root"));
    assert!(refused(home.directory.path()).ends_with("is not a regular file"));
    assert!(refused(Path::new("/dev/zero")).ends_with("is not a regular file"));
    assert!(refused(&home.directory.path().join("missing.rs")).contains("is not on this machine"));
    assert!(refused(&home.put("binary", b"\x7fELF\0")).ends_with("is not a text file"));
    let pipe = home.directory.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    assert!(refused(&pipe).ends_with("is not a regular file"));
    let large = home.put("large.rs", "");
    fs::File::options()
        .write(true)
        .open(&large)
        .unwrap()
        .set_len(LARGEST_SOURCE + 1)
        .unwrap();
    assert!(refused(&large).contains("bytes, more than"));
}

#[test]
fn a_file_of_the_kernel_is_not_read() {
    let home = Home::new();
    for path in ["/proc/self/status", "/proc/self/environ", "/proc/version"] {
        let problem = home.read(path).unwrap_err();
        assert!(problem.ends_with("is not a regular file"), "{problem}");
    }
}

#[test]
fn a_link_that_only_the_profile_names_cannot_lead_to_a_file_that_is_no_source_file() {
    let home = Home::new();
    let source = home.put("project/main.c", "int main;");
    let text = home.put("notes.txt", "a secret");
    let hidden = home.put(".ssh/key.c", "a secret");
    for (file, refused) in [
        (&source, None),
        (&text, Some("extension")),
        (&hidden, Some("hidden")),
    ] {
        let link = home.directory.path().join("link.c");
        symlink(file, &link).unwrap();
        let read = home.read_named(&link, NamedBy::Profile);
        match refused {
            None => assert_eq!(read.unwrap(), "int main;"),
            Some(reason) => {
                let problem = read.unwrap_err();
                assert!(problem.contains(reason), "{problem}");
                assert_eq!(
                    home.read(&link).unwrap(),
                    "a secret",
                    "debug information names it"
                );
            }
        }
        fs::remove_file(&link).unwrap();
    }
}
