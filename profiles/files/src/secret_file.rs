//! Secrets that users keep in files or in variables of the environment: the token of the metrics,
//! the password of a store, and the secrets of the destinations of a pusher.
//!
//! Made by applications and by the command. Invariants: a secret is in no argument, no message and
//! no debug output; a file has its name only when it has its token.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
#[cfg(unix)]
use std::fs::Metadata;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use profiler_sys::new_secret;
use tempfile::NamedTempFile;

/// The longest file with a secret.
const MAX_FILE: u64 = 64 << 10;
/// The shortest token. A shorter one can be guessed.
const LEAST_BYTES: usize = 16;
/// The longest token.
const MAX_BYTES: usize = 1024;
/// The permission bits of other users. A file with a token has none of them.
#[cfg(unix)]
const OTHERS: u32 = 0o007;
/// The permission bit of the group to write.
#[cfg(unix)]
const GROUP_WRITES: u32 = 0o020;

/// A token or a password.
///
/// `Debug` output omits it. The command reads secrets from files or environment variables only,
/// because other users can read its arguments.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hidden")
    }
}

/// The reason why a secret cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot take a secret from {origin}: {reason}")]
pub struct SecretError {
    /// The file or the environment variable.
    pub origin: String,
    /// The problem, in words.
    pub reason: String,
}

impl Secret {
    /// A secret that the application already has. A pusher refuses one with control characters,
    /// such as a line break.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// Reads a secret from a file, without the line break at its end.
    ///
    /// # Errors
    /// [`SecretError`], also if it is empty or has control characters.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, SecretError> {
        let path = path.as_ref();
        let text = text_of_file(path).map(|text| text.trim_end_matches(['\r', '\n']).to_owned());
        Self::checked(path.display().to_string(), text, is_fit_for_header)
    }

    /// Takes a secret from an environment variable.
    ///
    /// # Errors
    /// [`SecretError`], also if it is empty or has control characters.
    pub fn from_environment(variable: &str) -> Result<Self, SecretError> {
        let text = text_of_variable(variable.as_ref());
        Self::checked(variable.to_owned(), text, is_fit_for_header)
    }

    fn checked(
        origin: String,
        text: Result<String, String>,
        check: fn(&str) -> Result<(), &'static str>,
    ) -> Result<Self, SecretError> {
        let checked = text.and_then(|text| match check(&text) {
            Ok(()) => Ok(Self(text)),
            Err(reason) => Err(reason.to_owned()),
        });
        checked.map_err(|reason| SecretError { origin, reason })
    }

    /// The secret as text. The caller must protect the text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

fn is_fit_for_header(text: &str) -> Result<(), &'static str> {
    match text.is_empty() || text.chars().any(char::is_control) {
        true => Err("it is empty, or has control characters"),
        false => Ok(()),
    }
}

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
    ///
    /// # Errors
    /// [`SecretError`], also if it has other characters than those of ASCII that are printed.
    pub fn read(&self) -> Result<Option<Secret>, SecretError> {
        let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
        let (origin, text) = match self {
            Self::None => return Ok(None),
            Self::File(path) => (
                path.display().to_string(),
                text_of_file(path).map(first_line),
            ),
            Self::Variable(name) => (
                format!("${}", name.to_string_lossy()),
                text_of_variable(name),
            ),
        };
        Secret::checked(origin, text, is_printed).map(Some)
    }
}

fn is_printed(text: &str) -> Result<(), &'static str> {
    match text.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
        true => Ok(()),
        false => Err("it has characters that a request cannot have"),
    }
}

/// The text of a variable, or the problem, without the value.
fn text_of_variable(name: &OsStr) -> Result<String, String> {
    let text = std::env::var(name).map_err(|error| match error {
        std::env::VarError::NotPresent => "it is not set",
        std::env::VarError::NotUnicode(_) => "it is not Unicode",
    });
    text.map_err(str::to_owned)
}

fn text_of_file(path: &Path) -> Result<String, String> {
    let text = File::open(path).and_then(text_of);
    text.map_err(|error| error.to_string())
}

/// The text in an open file.
fn text_of(file: File) -> io::Result<String> {
    let mut text = String::new();
    let read = file.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if read as u64 > MAX_FILE {
        return Err(ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

/// The reason why there is no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read or made.
    #[error("cannot read the token in {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// It is a pipe, a device or a directory.
    #[error("{0} is not a regular file")]
    NotAFile(PathBuf),
    /// Other users can read or change the file, so its token is no secret.
    #[error("other users can read or change {0}: chmod 600 or 640")]
    NotPrivate(PathBuf),
    /// The file belongs to another user, who can read and change it.
    #[error("{0} belongs to another user: chown it to this user or to root")]
    OfAnotherUser(PathBuf),
    /// The text is not a token.
    #[error(
        "a token has 16 to 1024 letters, digits and characters of -._~, and {0} has another text"
    )]
    NotAToken(PathBuf),
    /// The system returned no random bytes.
    #[error("no random bytes: {0}")]
    NoRandomness(#[source] io::Error),
}

/// The secret that a scraper sends: in the header `Authorization: Bearer TOKEN`, or in the path
/// `/TOKEN/metrics`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsToken(Secret);

impl MetricsToken {
    /// A random token of 128 bits.
    ///
    /// # Errors
    /// [`TokenError::NoRandomness`].
    pub fn generate() -> Result<Self, TokenError> {
        Ok(Self(Secret(
            new_secret().map_err(TokenError::NoRandomness)?,
        )))
    }

    /// The token in this file, which Prometheus reads, too (`credentials_file`). If there is no
    /// such file, makes one with a random token, which only this user can read (mode 0600). Of
    /// several processes that make it at the same time, all have the token of the first. White
    /// space around the token is left out.
    ///
    /// # Errors
    /// [`TokenError`]. A file that other users can read or change is refused; its group may read
    /// it. Its owner must be this user or root.
    pub fn of_file(path: impl AsRef<Path>) -> Result<Self, TokenError> {
        let path = path.as_ref();
        let refused = |source| TokenError::File {
            path: path.to_owned(),
            source,
        };
        match open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let token = Self::generate()?;
                match token.write_to_new(path) {
                    Ok(()) => Ok(token),
                    // Another process was faster.
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                        Self::read(open(path).map_err(refused)?, path)
                    }
                    Err(error) => Err(refused(error)),
                }
            }
            opened => Self::read(opened.map_err(refused)?, path),
        }
    }

    /// Makes a file with this token that only this user can read. Does not change an existing file.
    fn write_to_new(&self, path: &Path) -> io::Result<()> {
        let directory = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let mut file = NamedTempFile::new_in(directory.unwrap_or_else(|| Path::new(".")))?;
        writeln!(file, "{}", self.reveal())?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path)?;
        Ok(())
    }

    fn read(file: File, path: &Path) -> Result<Self, TokenError> {
        let refused = |source| TokenError::File {
            path: path.to_owned(),
            source,
        };
        let metadata = file.metadata().map_err(refused)?;
        if !metadata.is_file() {
            return Err(TokenError::NotAFile(path.to_owned()));
        }
        #[cfg(unix)]
        check_access(&metadata, path)?;
        let token = match text_of(file) {
            Ok(text) => Self::parse(text.trim()),
            Err(error) if error.kind() == ErrorKind::InvalidData => None,
            Err(error) => return Err(refused(error)),
        };
        token.ok_or_else(|| TokenError::NotAToken(path.to_owned()))
    }

    fn parse(text: &str) -> Option<Self> {
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let is_token = (LEAST_BYTES..=MAX_BYTES).contains(&text.len()) && text.bytes().all(is_fit);
        is_token.then(|| Self(Secret::new(text)))
    }

    /// The token as text. The caller must protect the text.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }
}

/// Opens a file without waiting for the writer of a pipe.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    options.open(path)
}

/// Checks that no other user than root can read or change a file, except that its group may read
/// it.
#[cfg(unix)]
fn check_access(metadata: &Metadata, path: &Path) -> Result<(), TokenError> {
    use std::os::unix::fs::MetadataExt;
    if metadata.mode() & (OTHERS | GROUP_WRITES) != 0 {
        return Err(TokenError::NotPrivate(path.to_owned()));
    }
    let own = rustix::process::geteuid().as_raw();
    match [own, 0].contains(&metadata.uid()) {
        true => Ok(()),
        false => Err(TokenError::OfAnotherUser(path.to_owned())),
    }
}

#[cfg(all(test, unix))]
mod tests;
