//! Commands with payloads that misbehave while they are serialised, between the claim and the
//! commit of an entry; and `deadlock`, after which the main thread waits for itself.
//!
//! `trap KIND`: a new thread, `trapped`, records ten numbered markers as thread 3000, then a
//! harmless payload of the same type, so that the type is known, then the payload of that KIND, and
//! then ten more markers if the thread continues. `first-trap KIND`: the same without the harmless
//! payload. The command is answered when the payload is serialised.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use anyhow::Context;
use integration_tests::marks;
use profiler_core::marker;
use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_core::marker::{MarkerOptions, ProfilerMarker, category};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::Words;

/// What a payload does when it is serialised.
type Deed = fn();

const DEEDS: &[(&str, Deed)] = &[
    ("none", || ()),
    ("sleep", || crate::stay_forever()),
    ("spin", spin),
    ("lock", || drop(HELD.lock())),
    ("stop", || drop(crate::end::raise(libc::SIGSTOP))),
    ("kill", || drop(crate::end::kill())),
    ("panic", || panic!("a payload that panics")),
    ("vanish", vanish),
    ("exit", || std::process::exit(0)),
    ("record", || marks::record(3000, 0)),
];

/// Locked without end by the command for a trap of kind `lock`. The payload then waits for it.
static HELD: Mutex<()> = Mutex::new(());
/// Number of misbehaving payloads whose serialisation has begun.
static SPRUNG: AtomicU64 = AtomicU64::new(0);

pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    Some(match name {
        "trap" => trap(words, true),
        "first-trap" => trap(words, false),
        "deadlock" => deadlock(),
        _ => return None,
    })
}

fn trap(words: Words<'_>, is_known: bool) -> anyhow::Result<String> {
    let kind = words.first().context("which trap?")?;
    let (_, deed) = DEEDS
        .iter()
        .find(|(known, _)| known == kind)
        .context("no such trap")?;
    if *kind == "lock" {
        std::mem::forget(HELD.lock().unwrap_or_else(PoisonError::into_inner));
    }
    let before = SPRUNG.load(Ordering::Acquire);
    let thread = Builder::new()
        .name("trapped".to_owned())
        .spawn(move || walk(*deed, is_known))?;
    while SPRUNG.load(Ordering::Acquire) == before {
        std::thread::sleep(Duration::from_millis(1));
    }
    // With these kinds the thread ends, so it can be joined.
    if matches!(*kind, "panic" | "record" | "none") {
        drop(thread.join());
    }
    Ok("ok".to_owned())
}

fn walk(deed: Deed, is_known: bool) {
    (0..10).for_each(|sequence| marks::record(3000, sequence));
    if is_known {
        record(None);
    }
    let _ = std::panic::catch_unwind(|| record(Some(deed)));
    (10..20).for_each(|sequence| marks::record(3000, sequence));
}

fn record(deed: Option<Deed>) {
    marker!(
        "trap",
        &category::OTHER,
        MarkerOptions::default(),
        &Trap { deed }
    );
}

/// A payload that does something when it is serialised.
#[derive(Debug)]
struct Trap {
    deed: Option<Deed>,
}

impl ProfilerMarker for Trap {
    const TYPE_NAME: &'static str = "Trap";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME).key_format("value", Format::Integer)
    }
}

impl Serialize for Trap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(deed) = self.deed {
            SPRUNG.fetch_add(1, Ordering::AcqRel);
            deed();
        }
        let mut fields = serializer.serialize_struct("Trap", 1)?;
        fields.serialize_field("value", &7_u64)?;
        fields.end()
    }
}

fn spin() {
    loop {
        std::hint::spin_loop();
    }
}

/// Ends the thread in the kernel, so that none of its destructors runs.
fn vanish() {
    // SAFETY: ends the calling thread. Its stack stays as it is.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

/// Locks a mutex twice, so that the main thread waits for itself.
fn deadlock() -> anyhow::Result<String> {
    static OWN: Mutex<()> = Mutex::new(());
    std::mem::forget(OWN.lock().unwrap_or_else(PoisonError::into_inner));
    drop(OWN.lock());
    crate::stay_forever()
}
