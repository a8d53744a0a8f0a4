//! Where the password comes from: a file, or a variable of the environment.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use super::FleetError;

/// The longest password, in bytes.
const MOST_BYTES: u64 = 4096;

/// Where the password of a store's user is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PasswordSource {
    /// There is none.
    None,
    /// The first line of a file.
    File(PathBuf),
    /// A variable of the environment.
    Variable(OsString),
}

impl PasswordSource {
    /// Reads the password.
    pub(super) fn read(&self) -> Result<Option<Password>, FleetError> {
        let (from, text) = match self {
            Self::None => return Ok(None),
            Self::File(path) => (path.display().to_string(), first_line(path)),
            Self::Variable(name) => (
                format!("${}", name.to_string_lossy()),
                std::env::var(name).map_err(|error| error_of_variable(&error)),
            ),
        };
        let why = match text {
            Ok(text) if text.bytes().all(|byte| (b' '..0x7f).contains(&byte)) => {
                return Ok(Some(Password(text)));
            }
            Ok(_) => "it has characters that a request cannot have".to_owned(),
            Err(why) => why,
        };
        Err(FleetError::Password { from, why })
    }
}

/// The error of a variable, without its value.
fn error_of_variable(error: &std::env::VarError) -> String {
    match error {
        std::env::VarError::NotPresent => "it is not set",
        std::env::VarError::NotUnicode(_) => "it is not Unicode",
    }
    .to_owned()
}

fn first_line(path: &std::path::Path) -> Result<String, String> {
    let mut text = String::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    let read = file.take(MOST_BYTES).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// A password, which is never shown.
pub(super) struct Password(pub(super) String);

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line_of_a_file_and_is_never_shown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        std::fs::write(&path, "open sesame\n# of the reader\n").unwrap();
        let read = PasswordSource::File(path.clone()).read().unwrap().unwrap();
        assert_eq!(read.0, "open sesame");
        assert_eq!(format!("{read:?}"), "Password");
        std::fs::write(&path, "sec\u{7}ret").unwrap();
        let error = PasswordSource::File(path).read().unwrap_err().to_string();
        assert!(!error.contains("sec\u{7}ret"), "{error}");
        let error = PasswordSource::Variable("NO_SUCH_VARIABLE".into()).read();
        let error = error.unwrap_err().to_string();
        assert!(
            error.ends_with("$NO_SUCH_VARIABLE: it is not set"),
            "{error}"
        );
    }
}
