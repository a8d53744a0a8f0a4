//! Finds the file of a module, and the files with its debug information.
//!
//! Used by [`super::module`]. Invariants: only regular files of file systems that store files are
//! opened for reading, so no path can block this process (a FIFO), access a device, or read a file
//! of the kernel; a debug file is used only if its build id or its checksum matches the module.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use profiler_sys::ForeignFile;

use super::bytes::Source;
use super::image::Image;
use super::problem::Problem;
use super::reading::Reading;

/// An open file and its path.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) source: Source,
}

/// The file of a module.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) file: Opened,
    /// The file cannot be verified to be the one that the process ran.
    pub(super) unverified: bool,
}

/// Finds the file that the process ran.
pub(super) fn module(path: &str, build_id: &[u8], options: &Reading) -> Result<Found, Problem> {
    if path == "[vdso]" {
        let image =
            profiler_sys::vdso_image().map_err(|error| unreadable(Path::new(path), &error))?;
        let source = Source::memory(image, options.file_limit, &options.budget);
        return verified(
            Opened {
                path: path.into(),
                source,
            },
            build_id,
        );
    }
    let kept = options.kept.of(path);
    let path = on_disk(path);
    let mut kept = kept.iter().filter_map(|file| file.try_clone().ok());
    let kept = kept.find_map(|file| {
        let source = Source::file(file, options.file_limit, &options.budget);
        let path = path.to_owned();
        verified(Opened { path, source }, build_id).ok()
    });
    if let Some(found) = kept {
        let unverified = false; // it is the file that the process has loaded
        return Ok(Found {
            unverified,
            ..found
        });
    }
    let own = open(path, options).and_then(|file| verified(file, build_id));
    if build_id.is_empty() {
        return own;
    }
    own.or_else(|problem| {
        let inside = path.strip_prefix("/").unwrap_or(path);
        let elsewhere =
            |root: &PathBuf| verified(open(&root.join(inside), options).ok()?, build_id).ok();
        options.roots.iter().find_map(elsewhere).ok_or(problem)
    })
}

/// The current or former path of a module's file: the kernel adds `(deleted)` to the path of a file
/// that was unlinked. The path may now name another file.
pub(super) fn on_disk(path: &str) -> &Path {
    Path::new(path.strip_suffix(" (deleted)").unwrap_or(path))
}

/// Checks the build id of a file against that of the process.
fn verified(file: Opened, build_id: &[u8]) -> Result<Found, Problem> {
    let image = Image::parse(file.source.bytes()).map_err(|error| Problem::NotElf {
        path: file.path.clone(),
        reason: error.to_string(),
    })?;
    if image.build_id() != build_id {
        return Err(Problem::Replaced(file.path));
    }
    Ok(Found {
        file,
        unverified: build_id.is_empty(),
    })
}

/// Finds the separate file with the debug information of `image`.
pub(super) fn debug_file(image: &Image<'_>, own: &Path, options: &Reading) -> Option<Opened> {
    let build_id = image.build_id();
    by_build_id(build_id, options).or_else(|| {
        let link = image.debug_link()?;
        let name = as_path(link.name);
        let folder = own.parent()?;
        let inside = folder.strip_prefix("/").unwrap_or(folder);
        let near = [folder.join(&name), folder.join(".debug").join(&name)];
        let far = options
            .debug_roots
            .iter()
            .map(|root| root.join(inside).join(&name));
        near.into_iter()
            .chain(far)
            .filter(|path| path != own)
            .find_map(|path| {
                let file = open(&path, options).ok()?;
                let image = Image::parse(file.source.bytes()).ok()?;
                let same =
                    image.build_id() == build_id && checksum(&path, options).ok()? == link.proof;
                same.then_some(file)
            })
    })
}

/// Finds the file shared by several debug files.
pub(super) fn shared_file(image: &Image<'_>, own: &Path, options: &Reading) -> Option<Opened> {
    let link = image.shared_link()?;
    let beside = own.parent()?.join(as_path(link.name));
    let has_id = |file: &Opened| {
        Image::parse(file.source.bytes()).is_ok_and(|image| image.build_id() == link.proof)
    };
    open(&beside, options)
        .ok()
        .filter(has_id)
        .or_else(|| by_build_id(link.proof, options))
}

/// `ROOT/.build-id/xx/yyyy.debug`.
fn by_build_id(build_id: &[u8], options: &Reading) -> Option<Opened> {
    let (first, rest) = build_id
        .split_first()
        .filter(|(_, rest)| !rest.is_empty())?;
    let mut name = format!(".build-id/{first:02x}/");
    rest.iter()
        .try_for_each(|byte| write!(name, "{byte:02x}"))
        .ok()?;
    name.push_str(".debug");
    options.debug_roots.iter().find_map(|root| {
        let file = open(&root.join(&name), options).ok()?;
        let same = Image::parse(file.source.bytes()).ok()?.build_id() == build_id;
        same.then_some(file)
    })
}

/// Opens a regular file for reading.
pub(super) fn open(path: &Path, options: &Reading) -> Result<Opened, Problem> {
    let file = open_regular(path)?;
    Ok(Opened {
        path: path.to_owned(),
        source: Source::file(file, options.file_limit, &options.budget),
    })
}

fn open_regular(path: &Path) -> Result<ForeignFile, Problem> {
    match profiler_sys::open_regular(path) {
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(Problem::NotAFile(path.to_owned())),
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Problem {
    Problem::Unreadable {
        path: path.to_owned(),
        reason: error.kind(),
    }
}

/// The checksum of a whole file, as used in debug links.
fn checksum(path: &Path, options: &Reading) -> io::Result<u32> {
    let file = open_regular(path).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut file = file.take(options.file_limit);
    let mut sum = flate2::Crc::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut buffer)?;
        match buffer.get(..read) {
            Some([]) | None => return Ok(sum.sum()),
            Some(bytes) if options.budget.take(bytes.len() as u64) => sum.update(bytes),
            Some(_) => return Err(io::ErrorKind::FileTooLarge.into()),
        }
    }
}

/// The path from bytes in a file.
pub(super) fn as_path(name: &[u8]) -> PathBuf {
    profiler_sys::path_of(name)
}
