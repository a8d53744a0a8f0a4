//! Tests of the environment variable.

use profiler_sys::FileIdentity;
use proptest::prelude::*;

use super::*;

fn sample() -> ChildEnvironment {
    ChildEnvironment {
        pool: InheritedHandle::Descriptor {
            number: 7,
            identity: FileIdentity {
                device: 3,
                inode: 4711,
            },
        },
        part_file: Some(InheritedHandle::Path("/tmp/a;b %é\n/x".into())),
        token: Token::from_bytes([0xab; 16]),
        server: Server::Named("/tmp/.tmp:x;y/socket".into()),
    }
}

#[test]
fn the_value_survives_the_round_trip() {
    assert_eq!(
        ChildEnvironment::parse(&sample().to_value()).unwrap(),
        sample()
    );
}

#[test]
fn an_inherited_socket_survives_the_round_trip() {
    let identity = FileIdentity {
        device: u64::MAX,
        inode: 815,
    };
    let server = Server::Inherited(InheritedHandle::Descriptor {
        number: 9,
        identity,
    });
    let environment = ChildEnvironment {
        server,
        part_file: None,
        ..sample()
    };
    assert_eq!(
        ChildEnvironment::parse(&environment.to_value()).unwrap(),
        environment
    );
}

#[test]
fn a_command_gets_exactly_this_value() {
    let mut command = Command::new("true");
    sample().put_into(&mut command);
    let set: Vec<_> = command.get_envs().collect();
    assert_eq!(
        set,
        [(VARIABLE.as_ref(), Some(sample().to_value().as_ref()))]
    );
}

#[test]
fn another_version_is_reported_before_any_other_error() {
    let theirs = ChildEnvironment::parse("7;what;ever").unwrap_err();
    assert!(
        matches!(theirs, EnvironmentError::WrongVersion { theirs: 7, .. }),
        "{theirs}"
    );
}

#[test]
fn malformed_values_are_typed_errors() {
    let good = sample().to_value();
    let token = Token::from_bytes([0xab; 16]).to_hex();
    for bad in [
        String::new(),
        "x".into(),
        PROTOCOL_VERSION.to_string(),
        format!("{good};more"),
        good.replace(&token, "abab"),
        good.replace(&token, &token.to_uppercase()),
        good.replace("fd:7:", "fd:2:"),
        good.replace("fd:7:", "fd:-1:"),
        good.replace("fd:7:", "fd:99999999999:"),
        good.replace("path:", "url:"),
        good.replace("name:", "path:"),
        good.replace("name:", ""),
        good.replace("%3b", "%zz"),
        good.replace("%3b", "%00"),
        good.replace(".tmp", "%c3%28"),
        "1".repeat(MAX_VALUE_BYTES + 1),
    ] {
        let error = ChildEnvironment::parse(&bad).expect_err(&bad);
        assert!(
            matches!(error, EnvironmentError::Malformed(_)),
            "{bad}: {error}"
        );
    }
}

#[test]
fn no_log_shows_the_token() {
    assert!(!format!("{:?}", sample()).contains("abab"));
    assert!(!format!("{:?}", sample()).contains("171"));
}

#[test]
fn tokens_differ_in_every_position() {
    let mine = Token::from_bytes([1; 16]);
    for position in 0..16 {
        let mut bytes = [1; 16];
        bytes[position] ^= 0x80;
        assert_ne!(mine, Token::from_bytes(bytes));
    }
    assert_eq!(mine, Token::from_hex(&mine.to_hex()).unwrap());
    assert_ne!(Token::generate().unwrap(), Token::generate().unwrap());
}

#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod descriptors {
    use std::io::{Read, Seek, Write};

    use super::*;

    fn file(content: &str) -> std::fs::File {
        let name = std::ffi::CString::new("handover").unwrap();
        let fd = rustix::fs::memfd_create(&name, rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = std::fs::File::from(fd);
        file.write_all(content.as_bytes()).unwrap();
        file
    }

    #[test]
    fn a_handed_descriptor_opens_under_a_new_number() {
        let parent = file("pool");
        let mut child = InheritedHandle::of(&parent).unwrap().open().unwrap();
        let mut content = String::new();
        child.rewind().unwrap();
        child.read_to_string(&mut content).unwrap();
        assert_eq!(content, "pool");
    }

    #[test]
    fn a_number_that_refers_to_another_file_is_not_touched() {
        let mine = file("mine");
        let InheritedHandle::Descriptor { number, identity } = InheritedHandle::of(&mine).unwrap()
        else {
            unreachable!()
        };
        let identity = FileIdentity {
            inode: identity.inode + 1,
            ..identity
        };
        let wrong = InheritedHandle::Descriptor { number, identity };
        assert!(matches!(wrong.open(), Err(EnvironmentError::NotHanded(_))));
        assert!(matches!(
            wrong.release(),
            Err(EnvironmentError::NotHanded(_))
        ));
        mine.metadata().unwrap(); // still open
    }

    #[test]
    fn releasing_closes_the_inherited_number() {
        use std::os::fd::IntoRawFd;
        let inherited = file("pool");
        let handover = InheritedHandle::of(&inherited).unwrap();
        let kept = handover.open().unwrap();
        let _number = inherited.into_raw_fd(); // as after exec: no value owns it
        handover.clone().release().unwrap();
        kept.metadata().unwrap();
        // The number is free now, or belongs to another test's file; it is never ours.
        assert!(handover.open().is_err());
    }
}

proptest! {
    #[test]
    fn random_values_never_panic(value in "\\PC{0,200}") {
        let _ = ChildEnvironment::parse(&value);
        let _ = ChildEnvironment::parse(&format!("{PROTOCOL_VERSION};{value}"));
    }

    #[test]
    fn any_path_and_server_survive(path in "[^\0]{1,60}", server in "[^\0]{1,60}") {
        let server = Server::Named(server);
        let environment = ChildEnvironment { part_file: Some(InheritedHandle::Path(path.into())), server, ..sample() };
        prop_assert_eq!(ChildEnvironment::parse(&environment.to_value()).unwrap(), environment);
    }
}
