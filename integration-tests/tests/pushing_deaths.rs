//! Parents that push and die, or whose disk is full, in processes of their own: what was captured
//! is sent once, and what was not is in a later batch.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use integration_tests::clickhouse::Cluster;
use integration_tests::installed::skip;
use integration_tests::own_process;
use integration_tests::patience::{LONG, until};
use integration_tests::process_tree::{ProcessTree, ProcessTreeOptions};
use integration_tests::profile::Profile;
use integration_tests::relay::{Fault, Outcome, Relay};
use integration_tests::session;
use profiler_push::PushOptions;

use crate::pushing_support::{
    CHILD, MAIN, SPANS, accepted_marks, are_stored_once, batches, destination, is_spooled,
    none_is_sent_after_its_answer, store, stored_marks,
};

const PARENT: &str = env!("CARGO_BIN_EXE_parent");
const LIMIT: u64 = 64 << 20;

fn options(parent: &str) -> ProcessTreeOptions<'_> {
    ProcessTreeOptions {
        parent,
        child: CHILD,
        limit: LIMIT,
        in_files: false,
    }
}

#[test]
fn x18_the_batches_of_a_killed_parent_are_sent_once_by_the_next_pusher() -> anyhow::Result<()> {
    own_process!();
    let Some(cluster) = Cluster::start()? else {
        return Ok(());
    };
    let relay = Relay::start(Some(cluster.port()))?;
    let mut tree = ProcessTree::start(&options(PARENT), |_| {})?;
    tree.spawn_kids(&options(PARENT), 2)?;
    let spool = tree.path("spool");
    let address = store(&relay);
    tree.ask(&format!("push {address} {}", spool.display()))?;
    mark(&mut tree)?;
    let is_stored = |request: &integration_tests::relay::RelayedRequest| {
        request.target.contains(SPANS) && request.outcome == Outcome::Answered(200)
    };
    ensure!(
        until(|| relay.requests().iter().any(is_stored)),
        "nothing is stored"
    );
    // The store has this body, and the pusher that dies does not know it.
    relay.fail(SPANS, &[Fault::StoreAndBreakOff, Fault::Refuse]);
    let mut marks = 40;
    while !relay.refuses() {
        let before = relay.count();
        mark(&mut tree)?;
        marks += 40;
        ensure!(
            until(|| relay.refuses() || relay.count() > before),
            "no request"
        );
    }
    mark(&mut tree)?;
    marks += 40;
    ensure!(
        until(|| is_spooled(&spool, marks - 1)),
        "{:?}",
        batches(&spool)
    );
    tree.kill_parent()?;
    for kid in &mut tree.kids {
        kid.ask("mark 40")?; // not captured any more
    }
    relay.listen_again()?;
    let next = session::start(|builder| builder)?;
    let pusher = profiler_push::Pusher::start(
        &next,
        &PushOptions::to(destination(&address)?).spool(&spool),
    )?;
    let report = pusher.finish(LONG);
    let to = report.destinations.first().context("no destination")?;
    let left = to.waiting_batches + to.lost.batches + to.rejected.batches;
    ensure!(left == 0 && to.sent.batches > 0, "{report:?}");
    let stored = stored_marks(&cluster)?;
    for kid in &tree.kids {
        let own = stored.get(&kid.name).with_context(|| kid.name.clone())?;
        are_stored_once(own, MAIN, marks)?;
    }
    none_is_sent_after_its_answer(&relay)?;
    ensure!(batches(&spool).is_empty(), "{:?}", batches(&spool));
    Ok(())
}

/// Every child records forty markers.
fn mark(tree: &mut ProcessTree) -> anyhow::Result<()> {
    tree.kids
        .iter_mut()
        .try_for_each(|kid| kid.ask("mark 40").map(drop))
}

/// A script that runs the parent with a file system of 1 MiB at `spool`, which only the parent and
/// its children see. `None` if that is not possible here.
fn in_small_file_system(directory: &Path, spool: &Path) -> anyhow::Result<Option<PathBuf>> {
    let mount = "mount -t tmpfs -o size=1m,mode=700 spool \"$0\"";
    fs::create_dir(spool)?;
    let mut trial = Command::new("unshare");
    trial.args(["-rm", "sh", "-c", mount]).arg(spool);
    let output = trial.stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            skip("unshare", &String::from_utf8_lossy(&output.stderr))?;
            return Ok(None);
        }
        Err(error) => {
            skip("unshare", &error.to_string())?;
            return Ok(None);
        }
    }
    let script = directory.join("parent");
    let spool = spool.display();
    let text = format!(
        "#!/bin/sh\nexec unshare -rm sh -c '{mount} && exec {PARENT} \"$@\"' '{spool}' \"$@\"\n"
    );
    fs::write(&script, text)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700))?;
    Ok(Some(script))
}

/// The numbers that the parent answers to `pushed`.
fn pushed(tree: &mut ProcessTree) -> anyhow::Result<Vec<u64>> {
    let answer = tree.ask("pushed")?;
    let numbers = answer.split(' ').skip(1).map(str::parse);
    Ok(numbers.collect::<Result<_, _>>()?)
}

/// Writes to a file until the disk is full.
fn fill(file: &mut File) {
    let block = [b'x'; 4096];
    while file.write_all(&block).is_ok() {}
    while file.write_all(b"x").is_ok() {}
}

#[test]
fn x19_a_full_disk_is_counted_harms_no_process_and_delays_what_it_keeps_from_the_spool()
-> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let spool = directory.path().join("spool");
    let Some(script) = in_small_file_system(directory.path(), &spool)? else {
        return Ok(());
    };
    let script = script.to_string_lossy().into_owned();
    let relay = Relay::start(None)?;
    let mut tree = ProcessTree::start(&options(&script), |_| {})?;
    tree.spawn_kids(&options(&script), 2)?;
    let address = format!("clickhouse+http://{}/x", relay.address());
    tree.ask(&format!("push {address} {}", spool.display()))?;
    mark(&mut tree)?;
    let arrived = |name: &str| accepted_marks(&relay, name).map_or(0, |marks| marks.len());
    ensure!(
        until(|| arrived("kid-0") == 40),
        "nothing arrives: {:?}",
        pushed(&mut tree)
    );

    // The file system as the parent sees it.
    let root = PathBuf::from(format!("/proc/{}/root", tree.parent_pid()));
    let filler = root.join(spool.strip_prefix("/")?).join("filler");
    let mut file = File::create(&filler)?;
    let mut fails_often = || {
        fill(&mut file);
        pushed(&mut tree).is_ok_and(|numbers| numbers.first() >= Some(&2))
    };
    ensure!(until(&mut fails_often), "no capture fails");
    mark(&mut tree)?;
    let profile = tree.path("profile.json");
    tree.ask(&format!("capture {}", profile.display()))?;
    let profile = Profile::read(&profile)?;
    for kid in ["kid-0", "kid-1"] {
        let numbers = profile.process(kid)?.numbers()?;
        ensure!(
            numbers.get(&MAIN).is_some_and(|own| own.len() == 80),
            "{numbers:?}"
        );
    }
    fs::remove_file(&filler)?;
    drop(file);
    mark(&mut tree)?;
    for kid in ["kid-0", "kid-1"] {
        ensure!(until(|| arrived(kid) >= 120), "{:?}", pushed(&mut tree));
        let all: Vec<_> = (0..120).map(|number| (MAIN, number)).collect();
        ensure!(accepted_marks(&relay, kid)? == all, "not each once");
    }
    let numbers = pushed(&mut tree)?;
    ensure!(matches!(numbers[..], [2..=u64::MAX, 0, 0]), "{numbers:?}");
    tree.dismiss()
}
