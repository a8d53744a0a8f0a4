//! The identity of a pusher, stored with its batches.
//!
//! Used by the directories of a spool. A batch is labelled with the service, the version and the
//! host of the pusher that has captured it, also if another one sends it after an update.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::{Value, json};

use super::PushIdentity;

/// The name of the file.
const NAME: &str = "identity";
/// The most bytes of it that are read.
const MOST_BYTES: u64 = 64 << 10;

/// Stores an identity in a new directory, before its first batch.
pub(super) fn store(home: &Path, identity: &PushIdentity) -> io::Result<()> {
    let PushIdentity {
        service,
        version,
        host,
    } = identity;
    let text = json!({ "service": service, "version": version, "host": host }).to_string();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(home.join(NAME))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Reads the identity in a directory. `None` if there is none, or if it is damaged.
pub(super) fn read(home: &Path) -> Option<PushIdentity> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(home.join(NAME)).ok()?;
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    let members = value.as_object()?;
    let member = |name| members.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(PushIdentity {
        service: member("service"),
        version: member("version"),
        host: member("host"),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_identity_is_read_as_it_was_stored() {
        let identities = [
            PushIdentity::default(),
            PushIdentity {
                service: Some("a \"shop\"\n".to_owned()),
                version: Some("1.4.2".to_owned()),
                host: None,
            },
        ];
        for identity in identities {
            let home = tempfile::tempdir().unwrap();
            store(home.path(), &identity).unwrap();
            assert_eq!(read(home.path()), Some(identity));
        }
    }

    #[test]
    fn a_damaged_identity_is_none() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(read(home.path()), None);
        for damage in ["", "{\"service\":\"sh", "[1]", "\u{0}"] {
            fs::write(home.path().join(NAME), damage).unwrap();
            assert_eq!(read(home.path()), None, "{damage:?}");
        }
    }
}
