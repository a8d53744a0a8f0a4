//! The forms of source paths that the Firefox Profiler knows.
//!
//! Debug information contains paths of the machine that compiled the code. For the sources of
//! Rust's standard library and of packages from a registry, the viewer knows a form that names the
//! published file. It shows only the short path of this form, and finds the file on every machine:
//!
//! | path in the debug information | form |
//! |---|---|
//! | `/rustc/REVISION/library/x.rs` | `git:github.com/rust-lang/rust:library/x.rs:REVISION` |
//! | `…/registry/src/REGISTRY/name-1.2.3/x.rs` | `cargo:REGISTRY:name-1.2.3:x.rs` |
//! | `/rust/deps/name-1.2.3/x.rs`, a package in Rust's library | `cargo:deps:name-1.2.3:x.rs` |
//!
//! Used by the writer of the processed format, by the answers to the viewer's requests, and by the
//! reader of profiles, which returns plain paths for the formats of other tools. Invariants: a path
//! is replaced only if the viewer's own patterns match the result; the conversions accept any text.

use std::borrow::Cow;
use std::fmt;

/// The repository of Rust's standard library.
const RUST_REPOSITORY: &str = "github.com/rust-lang/rust";
/// The directory that `rustc` writes in place of its own source directory.
const RUST_PREFIX: &str = "/rustc/";
/// The part of a path between Cargo's home directory and a registry.
const REGISTRIES: &str = "/registry/src/";
/// The directory that `rustc` writes in place of the registry of the standard library's packages.
const RUST_PACKAGES: &str = "/rust/deps/";
/// The last part of [`RUST_PACKAGES`], which stands for the registry in the viewer's form.
pub const RUST_REGISTRY: &str = "deps";

/// A source file that is published under a permanent name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishedSource<'a> {
    /// A file of Rust's standard library.
    Rust {
        /// The commit, or the version, of the compiler.
        revision: &'a str,
        /// The path in the repository.
        path: &'a str,
    },
    /// A file of a package in a registry.
    Package {
        /// The name of the registry's directory.
        registry: &'a str,
        /// Name and version of the package.
        package: &'a str,
        /// The path in the package.
        path: &'a str,
    },
}

impl<'a> PublishedSource<'a> {
    /// Recognises a path of debug information.
    pub fn of_path(path: &'a str) -> Option<Self> {
        if !path.starts_with('/') {
            return None;
        }
        let found = if let Some(rest) = path.strip_prefix(RUST_PREFIX) {
            let (revision, path) = rest.split_once('/')?;
            Self::Rust { revision, path }
        } else {
            let (registry, rest) = match path.strip_prefix(RUST_PACKAGES) {
                Some(rest) => (RUST_REGISTRY, rest),
                None => path.split_once(REGISTRIES)?.1.split_once('/')?,
            };
            let (package, path) = rest.split_once('/')?;
            Self::Package {
                registry,
                package,
                path,
            }
        };
        found.is_known_to_viewers().then_some(found)
    }

    /// Parses the viewer's form.
    pub fn of_form(form: &'a str) -> Option<Self> {
        let found = if let Some(rest) = form.strip_prefix("git:") {
            let (path, revision) = rest
                .strip_prefix(RUST_REPOSITORY)?
                .strip_prefix(':')?
                .split_once(':')?;
            Self::Rust { revision, path }
        } else {
            let (registry, rest) = form.strip_prefix("cargo:")?.split_once(':')?;
            let (package, path) = rest.split_once(':')?;
            Self::Package {
                registry,
                package,
                path,
            }
        };
        found.is_known_to_viewers().then_some(found)
    }

    /// Whether the viewer's patterns match the form. The viewer shows a form that does not match as
    /// a whole, which is longer than the path.
    fn is_known_to_viewers(self) -> bool {
        let is_part = |text: &str| !text.is_empty() && !text.contains(':');
        match self {
            Self::Rust { revision, path } => {
                let is_revision = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
                !revision.is_empty() && revision.bytes().all(is_revision) && is_part(path)
            }
            Self::Package {
                registry,
                package,
                path,
            } => is_part(registry) && is_package(package) && is_part(path),
        }
    }
}

/// The viewer's form.
impl fmt::Display for PublishedSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rust { revision, path } => write!(f, "git:{RUST_REPOSITORY}:{path}:{revision}"),
            Self::Package {
                registry,
                package,
                path,
            } => write!(f, "cargo:{registry}:{package}:{path}"),
        }
    }
}

/// Whether a directory is named as a package with a version of three numbers: the viewer knows no
/// other versions.
fn is_package(directory: &str) -> bool {
    let Some((name, version)) = directory.rsplit_once('-') else {
        return false;
    };
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    !name.is_empty()
        && name.bytes().all(is_name_byte)
        && version.split('.').count() == 3
        && version.split('.').all(is_number)
}

/// The form of a path for the viewer: the path itself if the viewer knows no form for it.
pub fn viewer_form(path: &str) -> Cow<'_, str> {
    match PublishedSource::of_path(path) {
        Some(published) => Cow::Owned(published.to_string()),
        None => Cow::Borrowed(path),
    }
}

/// The path for tools that do not know the viewer's forms: the path of the debug information for
/// Rust's standard library, and `name-1.2.3/src/lib.rs` for packages. `path` may have either form.
pub fn plain_path(path: &str) -> Cow<'_, str> {
    match PublishedSource::of_form(path).or_else(|| PublishedSource::of_path(path)) {
        Some(PublishedSource::Rust { revision, path }) => {
            Cow::Owned(format!("{RUST_PREFIX}{revision}/{path}"))
        }
        Some(PublishedSource::Package { package, path, .. }) => {
            Cow::Owned(format!("{package}/{path}"))
        }
        None => Cow::Borrowed(path),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REVISION: &str = "59807616e1fa2540724bfbac14d7976d7e4a3860";

    #[test]
    fn published_sources_get_the_viewers_form_and_a_short_plain_path() {
        for (path, form, plain) in [
            (
                format!("/rustc/{REVISION}/library/std/src/rt.rs"),
                format!("git:github.com/rust-lang/rust:library/std/src/rt.rs:{REVISION}"),
                format!("/rustc/{REVISION}/library/std/src/rt.rs"),
            ),
            (
                "/rustc/1.95.0/library/core/src/ops/function.rs".into(),
                "git:github.com/rust-lang/rust:library/core/src/ops/function.rs:1.95.0".into(),
                "/rustc/1.95.0/library/core/src/ops/function.rs".into(),
            ),
            (
                "/home/u/.cargo/registry/src/a.registry-0123/tokio-1.6.1/src/runtime/mod.rs".into(),
                "cargo:a.registry-0123:tokio-1.6.1:src/runtime/mod.rs".into(),
                "tokio-1.6.1/src/runtime/mod.rs".into(),
            ),
            (
                "/rust/deps/hashbrown-0.16.1/src/map.rs".into(),
                "cargo:deps:hashbrown-0.16.1:src/map.rs".into(),
                "hashbrown-0.16.1/src/map.rs".into(),
            ),
            (
                "/opt/cargo/registry/src/r/a-2-b-10.20.30/lib.rs".into(),
                "cargo:r:a-2-b-10.20.30:lib.rs".into(),
                "a-2-b-10.20.30/lib.rs".into(),
            ),
        ] {
            assert_eq!(viewer_form(&path), form);
            assert_eq!(viewer_form(&form), form);
            assert_eq!(
                PublishedSource::of_form(&form),
                PublishedSource::of_path(&path)
            );
            assert_eq!(
                (plain_path(&path), plain_path(&form)),
                (plain.as_str().into(), plain.as_str().into())
            );
        }
    }

    #[test]
    fn a_form_is_not_converted_a_second_time() {
        let form = viewer_form("/c/registry/src/r/a-1.2.3/registry/src/r/b-1.2.3/lib.rs");
        assert_eq!(form, "cargo:r:a-1.2.3:registry/src/r/b-1.2.3/lib.rs");
        assert_eq!(
            viewer_form(&format!("{form}/registry/src/r/c-1.2.3/x")),
            format!("{form}/registry/src/r/c-1.2.3/x")
        );
    }

    proptest! {
        #[test]
        fn both_forms_of_any_text_have_the_same_plain_path(
            path in "(/rustc/|/rust/deps/|/r/registry/src/|git:github.com/rust-lang/rust:|cargo:)?[a:/.0-9-]{0,24}",
        ) {
            let form = viewer_form(&path);
            prop_assert_eq!(viewer_form(&form), form.as_ref());
            prop_assert_eq!(plain_path(&form), plain_path(&path));
        }
    }

    #[test]
    fn a_path_that_the_viewers_patterns_do_not_match_is_kept() {
        for path in [
            "",
            "/",
            "src/main.rs",
            "/home/u/project/src/main.rs",
            "/rustc/",
            "/rustc/abc",
            "/rustc//library/std/src/rt.rs",
            "/rustc/abc/",
            "/rustc/a:b/library/x.rs",
            "/rustc/abc/library/a:b.rs",
            "/home/rustc/abc/library/x.rs",
            "/c/registry/src/r",
            "/c/registry/src/r/a-1.2.3",
            "/c/registry/src/r/a-1.2.3/",
            "/c/registry/src/r/a-1.2/src/lib.rs",
            "/c/registry/src/r/a-1.2.3-rc.1/src/lib.rs",
            "/c/registry/src/r/a-1.2.3+zstd.1.5.7/src/lib.rs",
            "/c/registry/src/r/1.2.3/src/lib.rs",
            "/c/registry/src/r/-1.2.3/src/lib.rs",
            "/c/registry/src/r:s/a-1.2.3/src/lib.rs",
            "/c/registry/src/r/a-1.2.3/src/a:b.rs",
            "git:github.com/another/repository:src/lib.rs:abc",
            "hg:hg.example/tree:widget/app.cpp:abc",
            "cargo:r:a:src/lib.rs",
        ] {
            assert_eq!(
                (viewer_form(path), plain_path(path)),
                (path.into(), path.into())
            );
        }
    }
}
