//! Decides which file names a profile may ask for without debug information.
//!
//! Called by [`super::source`]. A profile is a file of any origin, and its table of sources can
//! contain any path, also that of a private key. Invariant: a name is accepted only if it has the
//! extension of a source file, and no part of it is hidden, except the directories of Cargo and
//! rustup.

use std::path::{Component, Path};

use profiler_symbols::source_path::PublishedSource;

/// The extensions of source files, in lower case.
const EXTENSIONS: &[&str] = &[
    "adb", "ads", "asm", "c", "c++", "cc", "cjs", "cpp", "cs", "cu", "cuh", "cxx", "d", "f", "f90",
    "go", "h", "h++", "hh", "hpp", "hs", "hxx", "inc", "inl", "ipp", "java", "js", "jsx", "kt",
    "m", "mjs", "ml", "mm", "nim", "py", "pyx", "rs", "s", "swift", "tcc", "tpp", "ts", "tsx",
    "zig",
];
/// Hidden directories that contain published sources.
const HIDDEN_WITH_SOURCES: &[&str] = &[".cargo", ".rustup"];

/// The reason why a name that only the profile contains is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SourceNameError {
    /// It has no extension of a source file.
    #[error("only the profile names the file {0}, and its extension is not that of a source file")]
    Extension(String),
    /// It is hidden, or in a hidden directory.
    #[error("only the profile names the file {0}, which is hidden or in a hidden directory")]
    Hidden(String),
}

/// Checks a path, or the viewer's form of a published file.
pub(super) fn check_source_name(name: &str) -> Result<(), SourceNameError> {
    let path = match PublishedSource::of_form(name) {
        Some(PublishedSource::Rust { path, .. } | PublishedSource::Package { path, .. }) => path,
        None => name,
    };
    let path = Path::new(path);
    if path.components().any(is_hidden) {
        return Err(SourceNameError::Hidden(name.to_owned()));
    }
    if !has_source_extension(path) {
        return Err(SourceNameError::Extension(name.to_owned()));
    }
    Ok(())
}

fn has_source_extension(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| {
        let extension = extension.to_ascii_lowercase();
        EXTENSIONS.contains(&extension.as_str())
    })
}

fn is_hidden(part: Component<'_>) -> bool {
    let Component::Normal(name) = part else {
        return false;
    };
    let is_known = HIDDEN_WITH_SOURCES.iter().any(|known| name == *known);
    name.as_encoded_bytes().starts_with(b".") && !is_known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_source_file_is_accepted() {
        for name in [
            "/home/u/project/src/main.rs",
            "/build/glibc/csu/../sysdeps/x86_64/start.S",
            "/home/u/.cargo/registry/src/r/a-1.2.3/src/lib.rs",
            "/home/u/.rustup/toolchains/t/lib/rustlib/src/rust/library/std/src/rt.rs",
            "cargo:r:tokio-1.6.1:src/lib.rs",
            "git:github.com/rust-lang/rust:library/std/src/rt.rs:0123abc",
        ] {
            assert_eq!(check_source_name(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_name_of_another_file_is_refused() {
        for name in [
            "/etc/passwd",
            "/home/u/notes.txt",
            "/home/u/.cargo/credentials.toml",
            "/home/u/project/rs",
            "cargo:r:tokio-1.6.1:Cargo.toml",
            "git:github.com/rust-lang/rust:config.toml:0123abc",
            "",
        ] {
            let refused = Err(SourceNameError::Extension(name.to_owned()));
            assert_eq!(check_source_name(name), refused, "{name}");
        }
        for name in [
            "/home/u/.ssh/id_rsa",
            "/home/u/.ssh/key.c",
            "/home/u/project/../.config/secret.py",
            "/home/u/.hidden.rs",
            "/home/u/.rs",
            "/home/u/.cargo/.hidden/a.rs",
            "cargo:r:tokio-1.6.1:.git/a.rs",
        ] {
            let refused = Err(SourceNameError::Hidden(name.to_owned()));
            assert_eq!(check_source_name(name), refused, "{name}");
        }
    }
}
