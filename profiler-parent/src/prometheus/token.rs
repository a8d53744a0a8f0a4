//! The token that a scraper must send, and the file that has it.
//!
//! Made by applications and by the command. Invariant: the token is in no argument, no message and
//! no debug output.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use ipc_protocol::environment::{EnvironmentError, Token};

/// The shortest token. A shorter one can be guessed.
const LEAST_BYTES: usize = 16;
/// The longest token.
const MOST_BYTES: usize = 1024;
/// The rights of others: to a file with a token they have none.
#[cfg(unix)]
const OTHERS: u32 = 0o007;
/// The right of the group to write.
#[cfg(unix)]
const GROUP_WRITES: u32 = 0o020;

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
    /// Other users can read or change the file, so its token is no secret.
    #[error("other users can read or change {0}: chmod 600 or 640")]
    NotPrivate(PathBuf),
    /// The text is not a token.
    #[error(
        "a token has 16 to 1024 letters, digits and characters of -._~, and {0} has another text"
    )]
    NotAToken(PathBuf),
    /// The system returned no random bytes.
    #[error(transparent)]
    NoRandomness(#[from] EnvironmentError),
}

/// The secret that a scraper sends: in the header `Authorization: Bearer TOKEN`, or in the path
/// `/TOKEN/metrics`.
#[derive(Clone, PartialEq, Eq)]
pub struct MetricsToken(String);

/// Omits the token.
impl fmt::Debug for MetricsToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetricsToken(hidden)")
    }
}

impl MetricsToken {
    /// A random token of 128 bits.
    ///
    /// # Errors
    /// [`TokenError::NoRandomness`].
    pub fn generate() -> Result<Self, TokenError> {
        Ok(Self(Token::generate()?.to_hex()))
    }

    /// The token in this file, which Prometheus reads, too (`credentials_file`). If there is no
    /// such file, makes one with a random token, which only this user can read (mode 0600). White
    /// space around the token is left out.
    ///
    /// # Errors
    /// [`TokenError`]. A file that other users can read or change is refused; its group may read
    /// it.
    pub fn of_file(path: impl AsRef<Path>) -> Result<Self, TokenError> {
        let path = path.as_ref();
        let refused = |source| TokenError::File {
            path: path.to_owned(),
            source,
        };
        match File::open(path) {
            Ok(file) => Self::read(file, path),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let token = Self::generate()?;
                let mut file = create_private(path).map_err(refused)?;
                writeln!(file, "{}", token.0).map_err(refused)?;
                Ok(token)
            }
            Err(error) => Err(refused(error)),
        }
    }

    fn read(file: File, path: &Path) -> Result<Self, TokenError> {
        let refused = |source| TokenError::File {
            path: path.to_owned(),
            source,
        };
        if !is_private(&file).map_err(refused)? {
            return Err(TokenError::NotPrivate(path.to_owned()));
        }
        let mut bytes = Vec::new();
        let most = 2 * MOST_BYTES as u64; // with white space
        file.take(most).read_to_end(&mut bytes).map_err(refused)?;
        let text = std::str::from_utf8(&bytes).ok();
        let token = text.and_then(|text| Self::parse(text.trim()));
        token.ok_or_else(|| TokenError::NotAToken(path.to_owned()))
    }

    fn parse(text: &str) -> Option<Self> {
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let is_token = (LEAST_BYTES..=MOST_BYTES).contains(&text.len()) && text.bytes().all(is_fit);
        is_token.then(|| Self(text.to_owned()))
    }

    /// The token as text. The caller must protect the text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Makes a file that only this user can read. An existing file is not opened.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Whether no other user can read or change a file.
#[cfg(unix)]
fn is_private(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(file.metadata()?.mode() & (OTHERS | GROUP_WRITES) == 0)
}

#[cfg(not(unix))]
fn is_private(_: &File) -> io::Result<bool> {
    Ok(true)
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn rights(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_is_made_once_for_this_user_alone_and_read_later() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let made = MetricsToken::of_file(&path).unwrap();
        assert_eq!(made.reveal().len(), 32);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(MetricsToken::of_file(&path).unwrap(), made);
        assert_eq!(format!("{made:?}"), "MetricsToken(hidden)");
    }

    #[test]
    fn a_file_that_others_can_read_or_change_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        MetricsToken::of_file(&path).unwrap();
        for mode in [0o604, 0o602, 0o620, 0o644] {
            rights(&path, mode);
            let refused = MetricsToken::of_file(&path);
            assert!(
                matches!(refused, Err(TokenError::NotPrivate(_))),
                "{mode:o}"
            );
        }
        rights(&path, 0o640);
        assert!(MetricsToken::of_file(&path).is_ok());
    }

    #[test]
    fn only_a_token_is_read_and_a_directory_and_a_missing_directory_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        for (text, is_token) in [
            ("  0123456789abcdef\n", true),
            ("A-._~6789abcdef0", true),
            ("0123456789abcde", false),
            ("0123456789abcdef/x", false),
            ("0123456789abcdef 0123456789abcdef", false),
            ("", false),
            (&"x".repeat(1025), false),
        ] {
            fs::write(&path, text).unwrap();
            rights(&path, 0o600);
            let read = MetricsToken::of_file(&path);
            assert_eq!(read.is_ok(), is_token, "{text:?}: {read:?}");
        }
        for path in [directory.path().to_owned(), path.join("below a file")] {
            assert!(matches!(
                MetricsToken::of_file(&path),
                Err(TokenError::File { .. } | TokenError::NotPrivate(_))
            ));
        }
    }
}
