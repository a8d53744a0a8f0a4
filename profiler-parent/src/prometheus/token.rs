//! The token that a scraper must send, and the file that has it.
//!
//! Made by applications and by the command. Invariant: the token is in no argument, no message and
//! no debug output; a file has its name only when it has its token.

use std::fmt;
use std::fs::File;
#[cfg(unix)]
use std::fs::Metadata;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use ipc_protocol::environment::{EnvironmentError, Token};
use tempfile::NamedTempFile;

/// The shortest token. A shorter one can be guessed.
const LEAST_BYTES: usize = 16;
/// The longest token.
const MOST_BYTES: usize = 1024;
/// The permission bits of other users. A file with a token has none of them.
#[cfg(unix)]
const OTHERS: u32 = 0o007;
/// The permission bit of the group to write.
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
        writeln!(file, "{}", self.0)?;
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
        let refused = MetricsToken::of_file(directory.path());
        assert!(matches!(refused, Err(TokenError::NotAFile(_))));
        for path in [path.join("below a file"), directory.path().join("no/token")] {
            let refused = MetricsToken::of_file(&path);
            assert!(matches!(refused, Err(TokenError::File { .. })));
        }
    }

    #[test]
    fn a_pipe_is_refused_without_waiting_for_its_writer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let pipe = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, pipe, mode, 0).unwrap();
        let (done, is_done) = crossbeam_channel::bounded(1);
        let reading = path.clone();
        let thread = std::thread::Builder::new().spawn(move || {
            done.send(MetricsToken::of_file(reading)).unwrap();
        });
        drop(thread.unwrap());
        let refused = is_done.recv_timeout(test_support::patience::LONG);
        assert!(matches!(refused, Ok(Err(TokenError::NotAFile(of))) if of == path));
    }

    /// Only root can give a file to another user.
    #[test]
    fn a_file_of_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        MetricsToken::of_file(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        for mode in [0o600, 0o640] {
            rights(&path, mode);
            let refused = MetricsToken::of_file(&path);
            assert!(matches!(refused, Err(TokenError::OfAnotherUser(_))));
        }
    }

    #[test]
    fn all_who_make_a_file_at_the_same_time_have_one_token() {
        const MAKERS: usize = 8;
        for _ in 0..20 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("token");
            let together = std::sync::Barrier::new(MAKERS);
            let make = || {
                together.wait();
                MetricsToken::of_file(&path).unwrap()
            };
            let tokens: Vec<MetricsToken> = std::thread::scope(|scope| {
                let makers: Vec<_> = (0..MAKERS).map(|_| scope.spawn(make)).collect();
                let tokens = makers.into_iter().map(|maker| maker.join().unwrap());
                tokens.collect()
            });
            let first = MetricsToken::of_file(&path).unwrap();
            assert!(tokens.iter().all(|token| *token == first));
            let files = fs::read_dir(directory.path()).unwrap().count();
            assert_eq!(files, 1, "a temporary file is left");
        }
    }

    #[test]
    fn an_existing_file_is_not_changed_and_no_temporary_file_is_left() {
        let token = MetricsToken::generate().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        fs::write(&path, "of another process").unwrap();
        let refused = token.write_to_new(&path).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "of another process");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
