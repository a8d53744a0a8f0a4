//! The name of an output file that the user has not named.
//!
//! Used by the subcommands that write files. Invariant: a name that the command has chosen replaces
//! no file, also if another command chooses a name at the same time.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use tempfile::TempPath;

/// The file that a subcommand writes: the one that the user has named, or the first of `STEM.ENDING`,
/// `STEM-2.ENDING` and so on that does not exist.
#[derive(Clone, Debug)]
pub(crate) struct OutputName {
    named: Option<PathBuf>,
    stem: PathBuf,
    ending: String,
}

impl OutputName {
    /// The named file, or a profile of this name.
    pub(crate) fn of_profile(named: Option<&Path>, stem: &str) -> Self {
        Self {
            named: named.map(Path::to_owned),
            stem: stem.into(),
            ending: ".json.gz".to_owned(),
        }
    }

    /// The named file, or the name of a profile with another ending.
    pub(crate) fn beside(named: Option<&Path>, file: &Path, ending: &str) -> Self {
        Self {
            named: named.map(Path::to_owned),
            stem: file.with_file_name(stem_of(file)),
            ending: ending.to_owned(),
        }
    }

    /// A file in another directory, with the name of this one.
    pub(crate) fn kept_in(directory: &Path, file: &Path) -> Self {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let is_profile = |ending: &&&str| name.ends_with(**ending);
        let ending = [".json.gz", ".json", ".gz"].iter().find(is_profile);
        let ending = ending.copied().unwrap_or_default();
        let stem = name.strip_suffix(ending).unwrap_or(&name);
        Self {
            named: None,
            stem: directory.join(stem),
            ending: ending.to_owned(),
        }
    }

    /// The file that would be written now.
    pub(crate) fn now(&self) -> PathBuf {
        let free = || self.names().find(|name| name.symlink_metadata().is_err());
        self.named.clone().or_else(free).unwrap_or_default()
    }

    /// Lets `write` write the file. Returns its path, and what `write` returns.
    ///
    /// # Errors
    /// That of `write`, or of naming the file. It is removed then.
    pub(crate) fn write<T, E>(
        &self,
        write: impl FnOnce(&Path) -> Result<T, E>,
    ) -> Result<(PathBuf, T)>
    where
        E: Into<anyhow::Error>,
    {
        if let Some(named) = &self.named {
            return Ok((named.clone(), write(named).map_err(Into::into)?));
        }
        let unnamed = self.unnamed();
        let written = match write(&unnamed) {
            Ok(written) => written,
            Err(error) => return Err(self.told(error.into(), &unnamed)),
        };
        let claimed = TempPath::try_from_path(&unnamed).and_then(|path| self.claim(path));
        let path = claimed.map_err(|error| {
            let name = self.now();
            anyhow!("cannot create {}: {error}", name.display())
        })?;
        Ok((path, written))
    }

    fn names(&self) -> impl Iterator<Item = PathBuf> + '_ {
        std::iter::once(self.name(""))
            .chain((2..).map(|number: u32| self.name(&format!("-{number}"))))
    }

    fn name(&self, number: &str) -> PathBuf {
        let mut name = OsString::from(&self.stem);
        name.push(number);
        name.push(&self.ending);
        name.into()
    }

    /// The hidden name of the file until it is complete.
    fn unnamed(&self) -> PathBuf {
        let name = self.stem.file_name().unwrap_or_default();
        let mut hidden = OsString::from(".");
        hidden.push(name);
        let (pid, random) = (std::process::id(), fastrand::u64(..));
        hidden.push(format!("-{pid}-{random:016x}{}", self.ending));
        self.stem.with_file_name(hidden)
    }

    /// Gives a file the first free name.
    fn claim(&self, mut path: TempPath) -> io::Result<PathBuf> {
        for name in self.names() {
            if name.symlink_metadata().is_ok() {
                continue;
            }
            match path.persist_noclobber(&name) {
                Ok(()) => return Ok(name),
                Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => {
                    path = refused.path;
                }
                Err(refused) => match claim_by_an_empty_file(&name, &refused.path) {
                    Ok(()) => return Ok(name),
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        path = refused.path;
                    }
                    Err(error) => return Err(error),
                },
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// An error about the file, with the name that it would have.
    fn told(&self, error: anyhow::Error, unnamed: &Path) -> anyhow::Error {
        let unnamed = unnamed.display().to_string();
        let told: Vec<String> = error.chain().map(ToString::to_string).collect();
        let Some(place) = told.iter().position(|text| text.contains(&unnamed)) else {
            return error;
        };
        let name = self.now().display().to_string();
        let mut told = told.into_iter().enumerate().rev();
        let renamed = |(number, text): (usize, String)| match number == place {
            true => text.replace(&unnamed, &name),
            false => text,
        };
        let cause = told.next().map(renamed).unwrap_or_default();
        told.map(renamed)
            .fold(anyhow!(cause), anyhow::Error::context)
    }
}

/// Gives a file a name on a file system that can neither link files nor rename them without
/// replacing others: creates an empty file of that name, which only this command replaces.
fn claim_by_an_empty_file(name: &Path, file: &Path) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).open(name)?;
    let renamed = std::fs::rename(file, name);
    if renamed.is_err() {
        let _ = std::fs::remove_file(name);
    }
    renamed
}

/// The name of a profile without its ending.
fn stem_of(file: &Path) -> OsString {
    let name = file
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = stem
        .strip_suffix(".json")
        .or(stem.strip_suffix(".cpuprofile"))
        .unwrap_or(stem);
    stem.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_directory(directory: &Path) -> OutputName {
        OutputName::beside(None, &directory.join("a.json.gz"), ".folded")
    }

    #[test]
    fn a_file_that_appears_while_the_profile_is_written_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let output = in_directory(directory.path());
        let chosen = output.now();
        let written = output.write(|path| {
            std::fs::write(&chosen, "another command's")?;
            std::fs::write(path, "ours")
        });
        let (path, ()) = written.unwrap();
        assert_eq!(path, directory.path().join("a-2.folded"));
        assert_eq!(std::fs::read_to_string(path).unwrap(), "ours");
        let kept = std::fs::read_to_string(chosen).unwrap();
        assert_eq!(kept, "another command's");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 2);
    }

    #[test]
    fn an_error_has_the_name_that_the_file_would_have() {
        let directory = Path::new("/no/such");
        let failed = |path: &Path| -> io::Result<()> {
            Err(io::Error::other(format!(
                "cannot create {}",
                path.display()
            )))
        };
        let error = in_directory(directory).write(failed).unwrap_err();
        assert_eq!(error.to_string(), "cannot create /no/such/a.folded");
    }
}
