//! Tests that a child gets its resources, and that no other process gets them.

use std::process::Stdio;

use ipc_protocol::environment::VARIABLE;

use super::*;

fn token() -> Token {
    Token::from_bytes([5; Token::BYTES])
}

fn server(name: &str) -> Endpoint {
    Endpoint::Named(name.into())
}

fn output(mut command: Command, resources: &ChildResources<'_>) -> String {
    prepare(&mut command, resources).unwrap();
    let mut child = start(command).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut text).unwrap();
    assert!(child.wait().unwrap().success());
    text
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

#[cfg(unix)]
#[test]
fn the_environment_names_the_resources_of_the_child() {
    let pool = Path::new("/tmp/pool of mine");
    let part_file = Path::new("/tmp/part_file");
    let resources = ChildResources {
        pool: ChildFile::At(pool),
        part_file: Some(ChildFile::At(part_file)),
        token: token(),
        server: &server("/tmp/server"),
    };
    let value = output(shell(&format!("printf %s \"${VARIABLE}\"")), &resources);
    let environment = ChildEnvironment::parse(&value).unwrap();
    assert_eq!(environment.pool, InheritedHandle::Path(pool.to_owned()));
    assert_eq!(
        environment.part_file,
        Some(InheritedHandle::Path(part_file.to_owned()))
    );
    assert_eq!(
        (environment.token, environment.server),
        (token(), Server::Named("/tmp/server".into()))
    );
}

#[test]
fn the_error_names_the_missing_program() {
    let error = start(Command::new("/no/such/program")).unwrap_err();
    assert!(matches!(error, ChildStartError::Start { .. }));
    assert!(error.to_string().contains("/no/such/program"), "{error}");
}

#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod inherited {
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsRawFd;

    use super::*;

    fn file(content: &str) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        file
    }

    #[test]
    fn the_child_can_read_its_pool_and_write_its_part_file() {
        let pool = file("from the parent");
        let mut part_file = file("");
        let resources = ChildResources {
            pool: ChildFile::Open(&pool),
            part_file: Some(ChildFile::Open(&part_file)),
            token: token(),
            server: &server("/tmp/s"),
        };
        // Reads numbers from the variable as a child would:
        // version;fd:N:device:inode;fd:N:device:inode;…
        let script = format!(
            "IFS=';:'; set -- ${VARIABLE}; cat /proc/self/fd/$3; printf 'from the child' > /proc/self/fd/$7"
        );
        assert_eq!(output(shell(&script), &resources), "from the parent");
        let mut written = String::new();
        part_file.rewind().unwrap();
        part_file.read_to_string(&mut written).unwrap();
        assert_eq!(written, "from the child");
    }

    /// Prints the inodes of all files that a process has open.
    const LIST: &str = "stat -L -c %i /proc/$$/fd/* 2>/dev/null; true";

    fn inode(file: &File) -> String {
        std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap()).to_string()
    }

    #[test]
    fn the_child_inherits_only_its_two_files_and_each_once() {
        let pool = file("p");
        let part_file = file("o");
        let secret = file("s");
        let resources = ChildResources {
            pool: ChildFile::Open(&pool),
            part_file: Some(ChildFile::Open(&part_file)),
            token: token(),
            server: &server("/tmp/s"),
        };
        let text = output(shell(LIST), &resources);
        let times = |file: &File| text.lines().filter(|line| *line == inode(file)).count();
        assert_eq!(
            (times(&pool), times(&part_file), times(&secret)),
            (1, 1, 0),
            "{text}"
        );
    }

    #[test]
    fn the_parent_keeps_no_inheritable_or_open_copies() {
        let pool = file("p");
        let part_file = file("o");
        let resources = ChildResources {
            pool: ChildFile::Open(&pool),
            part_file: Some(ChildFile::Open(&part_file)),
            token: token(),
            server: &server("/tmp/s"),
        };
        let value = output(shell(&format!("printf %s \"${VARIABLE}\"")), &resources);
        let environment = ChildEnvironment::parse(&value).unwrap();
        // The copies are closed: their numbers are free, or another test's files.
        assert!(environment.pool.open().is_err());
        assert!(environment.part_file.unwrap().open().is_err());
        let listed = String::from_utf8(shell(LIST).output().unwrap().stdout).unwrap();
        assert!(
            listed
                .lines()
                .all(|line| line != inode(&pool) && line != inode(&part_file)),
            "{listed}"
        );
    }

    #[test]
    fn a_copy_for_a_child_avoids_the_standard_streams() {
        let copy = sys::copy_for_child(&file("p")).unwrap();
        assert!(copy.as_raw_fd() > 2);
    }
}
