//! The resource of a process, and the instrumentation scope.
//!
//! Used by all signals. The service is the program that started the session, unless the caller
//! names another; attributes distinguish its processes. Invariant: all texts are attributes of type
//! text, which engines use as labels.

use super::super::proto::Message;
use super::super::recording::Thread;
use super::attributes::{add_number, add_text};
use profiler_reader::{Meta, PartId, system_pid};

/// The name of the scope, by which stores know the data. It does not change with the names of
/// crates.
const SCOPE: &str = "profiler-parent";
/// The field of `Resource`.
const ATTRIBUTES: u64 = 1;
/// Fields of `InstrumentationScope`.
const SCOPE_NAME: u64 = 1;
const SCOPE_VERSION: u64 = 2;

/// A process of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in super::super) struct ProcessKey {
    pub(in super::super) part: PartId,
    /// As in the profile: a number, or a number with a suffix such as `12.1`, or with the name of a
    /// host before it.
    pub(in super::super) pid: String,
}

impl ProcessKey {
    pub(in super::super) fn of(thread: &Thread<'_>) -> Self {
        Self {
            part: thread.part,
            pid: thread.pid.to_owned(),
        }
    }

    /// Whether the thread belongs to this process.
    pub(in super::super) fn is_of(&self, thread: &Thread<'_>) -> bool {
        self.part == thread.part && self.pid == thread.pid
    }
}

/// The message `Resource` of a process.
pub(super) fn resource(pid: &str, name: &str, meta: &Meta) -> Message {
    let mut resource = Message::default();
    let service = meta.product.as_deref().filter(|name| !name.is_empty());
    add_text(
        ATTRIBUTES,
        "service.name",
        service.unwrap_or(name),
        &mut resource,
    );
    add_text(ATTRIBUTES, "service.instance.id", pid, &mut resource);
    if let Some(version) = &meta.service_version {
        add_text(ATTRIBUTES, "service.version", version, &mut resource);
    }
    if let Some(host) = host(pid, meta) {
        add_text(ATTRIBUTES, "host.name", host, &mut resource);
    }
    if let Some(number) = system_pid(pid).and_then(|pid| i64::try_from(pid).ok()) {
        add_number(ATTRIBUTES, "process.pid", number, &mut resource);
    }
    add_text(ATTRIBUTES, "process.executable.name", name, &mut resource);
    for (key, value) in [("os.type", &meta.platform), ("host.arch", &meta.abi)] {
        if let Some(value) = value {
            add_text(ATTRIBUTES, key, value, &mut resource);
        }
    }
    resource
}

/// The host of a process: the only one, or the one that its number begins with.
pub(in super::super) fn host<'m>(pid: &str, meta: &'m Meta) -> Option<&'m str> {
    let mut names = meta.hosts.iter().map(|host| host.name.as_str());
    let name = match meta.hosts.as_slice() {
        [host] => Some(host.name.as_str()),
        _ => names.find(|name| {
            pid.strip_prefix(*name)
                .is_some_and(|rest| rest.starts_with(':'))
        }),
    };
    name.filter(|name| !name.is_empty())
}

/// The message `InstrumentationScope`.
pub(super) fn scope() -> Message {
    let mut scope = Message::default();
    scope.bytes(SCOPE_NAME, SCOPE.as_bytes());
    scope.bytes(SCOPE_VERSION, env!("CARGO_PKG_VERSION").as_bytes());
    scope
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_process_is_found_in_merged_profiles() {
        let meta: Meta = serde_json::from_str(r#"{"hosts":[{"name":"a"},{"name":"ab"}]}"#).unwrap();
        assert_eq!(host("ab:12.1", &meta), Some("ab"));
        assert_eq!(host("12", &meta), None);
        let one: Meta = serde_json::from_str(r#"{"hosts":[{"name":"a"}]}"#).unwrap();
        assert_eq!(host("12", &one), Some("a"));
    }
}
