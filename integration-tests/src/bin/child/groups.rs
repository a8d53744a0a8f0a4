//! Commands that enter and leave groups.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use profiler_core::groups::{self, Group, GroupKind, Groups};

use crate::{Words, number};

/// Whether the threads of `grind` must end.
static REST: AtomicBool = AtomicBool::new(false);

pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    Some(match name {
        "work-for" => work(words),
        "wait-for" => wait(words),
        "grind" => grind(words),
        "rest" => {
            REST.store(true, Ordering::Relaxed);
            Ok("ok".to_owned())
        }
        "probes" => Ok(format!("ok {}", groups::probes().bits())),
        _ => return None,
    })
}

fn group(words: Words<'_>) -> anyhow::Result<Group> {
    let kind = words
        .first()
        .and_then(|kind| GroupKind::from_name(kind))
        .context("which kind?")?;
    Ok(Group::register(kind, words.get(1).context("which group?")?))
}

/// `work-for KIND NAME TIMES US`: enters the group TIMES times, and sleeps US microseconds each
/// time.
fn work(words: Words<'_>) -> anyhow::Result<String> {
    let group = group(words)?;
    let times = number(words, 2)?;
    let us = number(words, 3)?;
    for _ in 0..times {
        let _entered = group.enter();
        if us > 0 {
            std::thread::sleep(Duration::from_micros(us));
        }
    }
    Ok("ok".to_owned())
}

/// `wait-for KIND NAME MS`: enters the group, and waits MS milliseconds for a database in it.
fn wait(words: Words<'_>) -> anyhow::Result<String> {
    let group = group(words)?;
    let ms = number(words, 2)?;
    let _entered = group.enter();
    let _waits = profiler_core::blocking!("database");
    std::thread::sleep(Duration::from_millis(ms));
    Ok("ok".to_owned())
}

/// `grind THREADS`: starts THREADS threads that enter and leave groups until `rest`.
fn grind(words: Words<'_>) -> anyhow::Result<String> {
    REST.store(false, Ordering::Relaxed);
    for thread in 0..number(words, 0)? {
        let body = || {
            while !REST.load(Ordering::Relaxed) {
                let both = Groups::of([
                    profiler_core::group!("plugin:ground"),
                    profiler_core::group!("tenant:7"),
                ]);
                let _entered = both.enter();
                drop(profiler_core::group!("inner").enter());
            }
        };
        std::thread::Builder::new()
            .name(format!("grinder-{thread}"))
            .spawn(body)?;
    }
    Ok("ok".to_owned())
}
