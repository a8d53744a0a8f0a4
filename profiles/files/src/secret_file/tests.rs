//! Tests of tokens, passwords and secrets in files.

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

#[test]
fn a_password_is_the_first_line_of_a_file_and_is_never_shown() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("password");
    std::fs::write(&path, "open sesame\n# of the reader\n").unwrap();
    let read = PasswordSource::File(path.clone()).read().unwrap().unwrap();
    assert_eq!(read.reveal(), "open sesame");
    assert_eq!(format!("{read:?}"), "hidden");
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

#[test]
fn a_secret_from_a_file_ends_before_its_line_break() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "hunter2\r\n").unwrap();
    assert_eq!(Secret::from_file(file.path()).unwrap().reveal(), "hunter2");
    std::fs::write(file.path(), "two\nlines").unwrap();
    assert!(Secret::from_file(file.path()).is_err());
    assert!(Secret::from_file("/nonexistent/secret").is_err());
    assert!(Secret::from_environment("NO_SUCH_VARIABLE_HERE").is_err());
}
