//! The identity of a pusher and its destinations, stored with its batches.
//!
//! Used by the directories of a spool. A batch is labelled with the service, the version and the
//! host of the pusher that has captured it, also if another one sends it after an update.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::io::Errno;
use serde_json::{Value, json};

use super::PushIdentity;

/// The name of the file.
pub(super) const IDENTITY: &str = "identity";
/// The most bytes of it that are read.
const MOST_BYTES: u64 = 64 << 10;

/// Whose batches a directory has, and for whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StoredIdentity {
    pub(super) identity: PushIdentity,
    /// The addresses of the destinations, without secrets.
    pub(super) destinations: Vec<String>,
}

impl StoredIdentity {
    /// Stores it in a new directory, before its first batch.
    pub(super) fn store(&self, home: &Path) -> io::Result<()> {
        let PushIdentity {
            service,
            version,
            host,
        } = &self.identity;
        let destinations = &self.destinations;
        let value = json!({
            "service": service, "version": version, "host": host, "destinations": destinations,
        });
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(home.join(IDENTITY))?;
        file.write_all(value.to_string().as_bytes())?;
        file.sync_all()
    }

    /// Reads the file in a directory. `None` if there is none, or if it is damaged.
    ///
    /// # Errors
    /// The file exists, and cannot be opened or read.
    pub(super) fn read(home: &Path) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NOFOLLOW);
        let file = match options.open(home.join(IDENTITY)) {
            Ok(file) => file,
            Err(error) => {
                return match Errno::from_io_error(&error) {
                    Some(Errno::NOENT | Errno::LOOP) => Ok(None),
                    _ => Err(error),
                };
            }
        };
        let mut text = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut text)?;
        Ok(parsed(&text))
    }
}

fn parsed(text: &[u8]) -> Option<StoredIdentity> {
    let value: Value = serde_json::from_slice(text).ok()?;
    let members = value.as_object()?;
    let member = |name| members.get(name).and_then(Value::as_str).map(str::to_owned);
    let destinations = members.get("destinations").and_then(Value::as_array);
    let destinations = destinations.into_iter().flatten().filter_map(Value::as_str);
    Some(StoredIdentity {
        identity: PushIdentity {
            service: member("service"),
            version: member("version"),
            host: member("host"),
        },
        destinations: destinations.map(str::to_owned).collect(),
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
            let stored = StoredIdentity {
                identity,
                destinations: vec!["otlp+http://a".to_owned()],
            };
            stored.store(home.path()).unwrap();
            assert_eq!(StoredIdentity::read(home.path()).unwrap(), Some(stored));
        }
    }

    #[test]
    fn a_damaged_identity_is_none() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(StoredIdentity::read(home.path()).unwrap(), None);
        for damage in ["", "{\"service\":\"sh", "[1]", "\u{0}"] {
            fs::write(home.path().join(IDENTITY), damage).unwrap();
            let read = StoredIdentity::read(home.path()).unwrap();
            assert_eq!(read, None, "{damage:?}");
        }
    }
}
