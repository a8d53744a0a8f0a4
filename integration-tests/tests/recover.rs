//! Tests of pool directories: `profiler recover` makes a profile of what a dead session left there,
//! and `profiler info` describes it.
//!
//! Every acknowledged entry is in the profile, damaged pools are skipped and named, and errors are
//! one line. The tests run the built command.

use profiler_core::ids::ByteLimit;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use integration_tests::acks::{self, Counts};
use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::patience::{LONG, Stopwatch, until};
use integration_tests::process_tree::{ProcessTree, ProcessTreeOptions, TreeChild};
use integration_tests::profile::{COUNTS, Profile, same_rows};
use integration_tests::{session, tools};
use profiler_parent::CaptureReport;
use rustix::process::Signal;
use serde_json::Value;

const OPTIONS: ProcessTreeOptions<'static> = ProcessTreeOptions {
    parent: env!("CARGO_BIN_EXE_parent"),
    child: env!("CARGO_BIN_EXE_child"),
    limit: 256 << 20,
    in_files: true,
};
const ENDED: &str = "recovered: ended, with unknown status";

/// Starts a session in which the parent and `kids` children record and acknowledge every entry.
/// Returns it with the file of the parent's acknowledgements.
fn recording(kids: usize) -> anyhow::Result<(ProcessTree, PathBuf)> {
    let mut tree = ProcessTree::start(&OPTIONS, |_| {})?;
    tree.spawn_kids(&OPTIONS, kids)?;
    let own = tree.path("parent.acks");
    tree.ask(&format!("acknowledge 2 {}", own.display()))?;
    tree.kids
        .iter()
        .try_for_each(|kid| kid.tell("acknowledge 2"))?;
    let busy = |kid: &TreeChild| kid.said().is_ok_and(|said| said.len() > 16 * 200);
    ensure!(until(|| tree.kids.iter().all(busy)), "they do not record");
    ensure!(
        until(|| fs::read(&own).is_ok_and(|said| said.len() > 16 * 200)),
        "the parent does not record"
    );
    Ok((tree, own))
}

/// As [`recording`], and kills all of them. Also returns the directory of their pools.
fn killed(kids: usize) -> anyhow::Result<(ProcessTree, PathBuf, PathBuf)> {
    let (mut tree, own) = recording(kids)?;
    tree.kill_all()?;
    let pools = tree.pools.clone().context("no pools")?;
    Ok((tree, own, pools))
}

/// The number of entries that each thread of a child has acknowledged.
fn acknowledged(kid: &TreeChild) -> anyhow::Result<Counts> {
    Ok(acks::counts(&kid.said()?))
}

/// Runs `profiler recover`, and reads the profile.
fn recover(directory: &Path, target: &Path) -> anyhow::Result<(tools::Said, Profile)> {
    let said = tools::recover(directory, target, &["--format", "gecko"])?;
    Ok((said, Profile::read(target)?))
}

#[test]
fn everything_acknowledged_is_in_the_profile_of_a_session_killed_at_once() -> anyhow::Result<()> {
    own_process!();
    let (tree, own, pools) = killed(3)?;
    let (said, profile) = recover(&pools, &tree.path("recovered.json"))?;
    assert_eq!(said.error, "");
    assert_eq!(profile.processes.len(), 4);
    acks::check(profile.parent(), &acks::counts(&fs::read(own)?), true)?;
    assert_eq!(profile.verdict("parent")?, ENDED);
    for kid in &tree.kids {
        acks::check(profile.process(&kid.name)?, &acknowledged(kid)?, true)?;
        assert_eq!(profile.verdict(&kid.name)?, ENDED);
    }
    assert_eq!(profile.incomplete().len(), 4);
    assert!(tree.leaves_only_its_address(), "{:?}", tree.left_over());
    Ok(())
}

#[test]
fn a_session_whose_children_live_on_is_recovered_up_to_now() -> anyhow::Result<()> {
    own_process!();
    let (mut tree, own) = recording(3)?;
    tree.kill_parent()?;
    tree.kids[0].signal(Signal::KILL);
    tree.kids[0].wait()?;
    let before: Vec<usize> = tree
        .kids
        .iter()
        .map(|kid| kid.said().map_or(0, |said| said.len()))
        .collect();
    let continues = |(kid, before): (&TreeChild, &usize)| {
        kid.said().is_ok_and(|said| said.len() > before + 16 * 200)
    };
    ensure!(
        until(|| tree.kids.iter().zip(&before).skip(1).all(continues)),
        "orphans do not continue to record"
    );
    let counts = tree
        .kids
        .iter()
        .map(acknowledged)
        .collect::<anyhow::Result<Vec<_>>>()?;
    let pools = tree.pools.clone().context("no pools")?;
    let (_, profile) = recover(&pools, &tree.path("recovered.json"))?;
    acks::check(profile.parent(), &acks::counts(&fs::read(own)?), true)?;
    for (number, (kid, counts)) in tree.kids.iter().zip(&counts).enumerate() {
        acks::check(profile.process(&kid.name)?, counts, number == 0)?;
        let verdict = if number == 0 {
            ENDED
        } else {
            "recovered: still running"
        };
        assert_eq!(profile.verdict(&kid.name)?, verdict);
    }
    Ok(())
}

#[test]
fn a_child_whose_parent_dies_while_it_connects_is_recovered_completely() -> anyhow::Result<()> {
    own_process!();
    for _ in 0..5 {
        let mut tree = ProcessTree::start(&OPTIONS, |_| {})?;
        for _ in 0..3 {
            tree.spawn(&format!("{} init", OPTIONS.child))?; // connected or not
        }
        tree.kill_parent()?;
        tree.ask_kids("record 2 500")?;
        tree.kids
            .iter_mut()
            .for_each(|kid| kid.signal(Signal::KILL));
        tree.kids
            .iter_mut()
            .try_for_each(|kid| kid.wait().map(|_| ()))?;
        let pools = tree.pools.clone().context("no pools")?;
        let (_, profile) = recover(&pools, &tree.path("recovered.json"))?;
        for kid in &tree.kids {
            assert_eq!(
                profile.process(&kid.name)?.counts()?.recorded,
                1000,
                "{}",
                kid.name
            );
        }
    }
    Ok(())
}

#[test]
fn the_directory_above_is_accepted_and_a_profile_may_be_compressed() -> anyhow::Result<()> {
    own_process!();
    let (tree, _, pools) = killed(1)?;
    let above = pools.parent().context("no parent")?;
    let target = tree.path("recovered.json.gz");
    tools::recover(above, &target, &[])?;
    assert!(fs::read(&target)?.starts_with(&[0x1f, 0x8b]));
    assert_eq!(target.metadata()?.permissions().mode() & 0o777, 0o600);
    let info = tools::info(&target)?;
    assert_eq!(info["processes"].as_array().map(Vec::len), Some(2));
    fs::create_dir(above.join("profiler-1-0"))?;
    let again = [Path::new("recover"), above, Path::new("-o"), &target];
    tools::fail(&again).context("two sessions are accepted")?;
    Ok(())
}

#[test]
fn damaged_pools_are_named_and_skipped() -> anyhow::Result<()> {
    own_process!();
    type Damage = fn(&Path) -> anyhow::Result<()>;
    const DAMAGES: [(&str, Damage); 7] = [
        ("truncated", |path| {
            Ok(File::options().write(true).open(path)?.set_len(5000)?)
        }),
        ("emptied", |path| Ok(fs::write(path, "")?)),
        ("zeroed", |path| {
            Ok(File::options()
                .write(true)
                .open(path)?
                .write_all_at(&[0; 4096], 0)?)
        }),
        ("garbage", |path| Ok(fs::write(path, [0x5a; 100_000])?)),
        ("link", |path| {
            replace(path, |path| Ok(symlink("/dev/zero", path)?))
        }),
        ("directory", |path| {
            replace(path, |path| Ok(fs::create_dir(path)?))
        }),
        ("pipe", |path| {
            replace(path, integration_tests::pairs::make_pipe)
        }),
    ];
    let (tree, own, pools) = killed(DAMAGES.len() + 1)?;
    let mut files = pool_files(&pools)?;
    let parent = files
        .remove("parent.pool")
        .context("no pool of the parent")?;
    let survivor = files.pop_last().context("no survivor")?;
    for ((_, path), (_, damage)) in files.iter().zip(DAMAGES) {
        damage(path)?;
    }
    let (said, profile) = recover(&pools, &tree.path("recovered.json"))?;
    for ((name, _), (what, _)) in files.iter().zip(DAMAGES) {
        let named = said
            .error
            .lines()
            .filter(|line| line.contains(&format!("passed over {name}: ")));
        assert_eq!(named.count(), 1, "{what}: {said:?}");
    }
    assert_eq!(said.error.lines().count(), DAMAGES.len(), "{said:?}");
    acks::check(profile.parent(), &acks::counts(&fs::read(own)?), true)?;
    assert_eq!(profile.processes.len(), 2);
    fs::write(&parent, "no pool")?;
    let (_, profile) = recover(&pools, &tree.path("recovered.json"))?;
    assert!(
        profile
            .verdict("lost parent")?
            .starts_with("missing: memory unreadable"),
        "the profile does not tell that the pool of the parent is lost"
    );
    assert!(profile.processes[1].counts()?.delivered > 0);
    fs::write(survivor.1, "no pool")?;
    tools::fail(&["recover", &pools.to_string_lossy(), "-o", "never.json"])?;
    assert!(!Path::new("never.json").exists());
    Ok(())
}

fn replace(path: &Path, by: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    fs::remove_file(path)?;
    by(path)
}

fn pool_files(pools: &Path) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let entries = fs::read_dir(pools)?.map(|entry| entry.map(|entry| entry.path()));
    let named = |path: std::io::Result<PathBuf>| {
        let path = path?;
        Ok((
            path.file_name()
                .context("no name")?
                .to_string_lossy()
                .into_owned(),
            path,
        ))
    };
    entries.map(named).collect()
}

#[test]
fn recovery_of_random_bytes_ends_with_a_profile_or_an_error() -> anyhow::Result<()> {
    own_process!();
    let (tree, _, pools) = killed(1)?;
    let path = pool_files(&pools)?.pop_first().context("no pool")?.1;
    let file = File::options().read(true).write(true).open(&path)?;
    let mut head = vec![0; 4096];
    file.read_exact_at(&mut head, 0)?;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..40 {
        for _ in 0..8 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let offset = if round % 2 == 0 {
                (random >> 40) % 512 * 8
            } else {
                (random >> 32) % (1 << 20)
            };
            file.write_all_at(&random.to_ne_bytes(), offset)?;
        }
        let target = tree.path("recovered.json");
        match profiler_parent::recover::recover(&pools, &target, profiler_parent::Format::Gecko) {
            Ok(_) => drop(Profile::read(&target)?.json),
            Err(error) => ensure!(!error.to_string().is_empty(), "an error without a text"),
        }
        if round % 2 == 0 {
            file.write_all_at(&head, 0)?;
        }
    }
    Ok(())
}

#[test]
fn a_session_that_ends_in_order_removes_its_directory_and_no_other() -> anyhow::Result<()> {
    own_process!();
    let place = tempfile::tempdir()?;
    let base = place.path().join("pools");
    fs::create_dir_all(base.join("profiler-1-dead"))?;
    fs::set_permissions(&base, PermissionsExt::from_mode(0o700))?;
    let old = base.join("profiler-1-dead/parent.pool");
    fs::write(&old, "of another session")?;
    let mut session = session::start(|builder| builder.pool_directory(&base))?;
    let own = session.pool_directory().context("no directory")?.to_owned();
    let mut helper = HelperProcess::spawn(&session, OPTIONS.child, "child", "init")?;
    helper.ask("record 2 100")?;
    assert_eq!(pool_files(&own)?.len(), 2);
    let (_, profile) = session.capture()?;
    profile.holds("child", "complete", 200)?;
    session.end();
    assert!(!own.exists() && old.exists());
    assert_eq!(
        helper.ask("record 2 100")?,
        "ok",
        "a child that outlives its session is harmed"
    );
    Ok(())
}

#[test]
fn pools_in_files_keep_the_limit_and_go_when_their_data_has_expired() -> anyhow::Result<()> {
    own_process!();
    const LIMIT: u64 = 2 << 20;
    let base = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    fs::set_permissions(base.path(), PermissionsExt::from_mode(0o700))?;
    let session = session::start(|builder| {
        builder
            .memory_limit(ByteLimit::new(LIMIT))
            .pool_directory(base.path())
    })?;
    let own = session.pool_directory().context("no directory")?.to_owned();
    let mut first = HelperProcess::spawn(&session, OPTIONS.child, "first", "init")?;
    first.ask("record 1 100")?;
    first.end("exit 0")?;
    let mut second = HelperProcess::spawn(&session, OPTIONS.child, "second", "init")?;
    second.ask("flood 2")?;
    let mut peak = 0;
    let gone = until(|| {
        let files = pool_files(&own).unwrap_or_default();
        let held = |path| File::open(path).and_then(|file| profiler_sys::allocated_bytes(&file));
        peak = peak.max(files.values().map(|path| held(path).unwrap_or(0)).sum());
        files.len() == 2
    });
    assert!(gone, "the pool of the first child is not removed");
    assert!(peak <= LIMIT, "{peak} bytes");
    second.ask("calm")?;
    let (_, profile) = session.capture()?;
    assert!(profile.process("second")?.counts()?.evicted > 0);
    assert_eq!(
        profile.verdict("first")?,
        "missing: all its data was older than what the session keeps"
    );
    Ok(())
}

#[test]
fn info_agrees_with_the_profile_and_with_the_pools() -> anyhow::Result<()> {
    own_process!();
    let base = tools::private_directory()?;
    let session = session::start(|builder| {
        builder
            .memory_limit(ByteLimit::new(4 << 20))
            .pool_directory(base.path())
    })?;
    let mut calm = HelperProcess::spawn(&session, OPTIONS.child, "calm", "init")?;
    let mut crowded = HelperProcess::spawn(&session, OPTIONS.child, "crowded", "init")?;
    calm.ask("hold 2 100")?;
    crowded.ask("burst 3 60000")?; // more than the limit holds
    let mut dead = HelperProcess::spawn(&session, OPTIONS.child, "dead", "init")?;
    dead.ask("hold 2 50")?;
    dead.end("kill")?;
    let compressed = session.path("profile.json.gz");
    // Entries are still evicted for a while after the last entry.
    let counts = |report: &CaptureReport| -> Vec<_> {
        let processes = report.processes.iter();
        processes.map(|process| process.counts).collect()
    };
    let watch = Stopwatch::start();
    let (report, profile) = loop {
        let (report, profile) = session.capture_gecko()?;
        let later = session.session()?.capture().save(&compressed)?;
        if counts(&report) == counts(&later) {
            break (report, profile);
        }
        anyhow::ensure!(watch.elapsed() < LONG, "the counts do not stop changing");
    };
    let log = &profile.json["profileGatheringLog"][profile.parent().pid.to_string()]["processes"];
    for path in [&report.path, &compressed] {
        let info = tools::info(path)?;
        same_rows(&info["processes"], log)?;
        assert_eq!(info["kind"], "profile");
    }
    assert!(
        log.as_array()
            .is_some_and(|rows| rows.iter().any(|row| row["evicted"] != 0))
    );
    pools_agree(&tools::info(base.path())?, log, base.path())?;
    let table = tools::run(&["info", &report.path.to_string_lossy()])?;
    for name in ["parent", "calm", "crowded", "dead"] {
        assert!(
            table
                .out
                .lines()
                .any(|line| line.trim_start().starts_with(name)),
            "{table:?}"
        );
    }
    Ok(())
}

/// Checks that the pools of processes that no longer record show the same counts as the log.
fn pools_agree(info: &Value, log: &Value, base: &Path) -> anyhow::Result<()> {
    let rows = info["processes"].as_array().context("no rows")?;
    let log = log.as_array().context("no log")?;
    for name in ["calm", "crowded", "dead"] {
        let find = |rows: &[Value]| rows.iter().find(|row| row["name"] == name).cloned();
        let row = find(rows).context(name)?;
        let logged = find(log).context(name)?;
        for key in ["pid"].iter().chain(&COUNTS) {
            ensure!(row[*key] == logged[*key], "{name}, {key}: {row} {logged}");
        }
        ensure!(row["alive"] == (name != "dead"), "{row}");
    }
    let held = info["held_bytes"].as_u64().context("no bytes")?;
    let summed: u64 = rows
        .iter()
        .filter_map(|row| row["held_bytes"].as_u64())
        .sum();
    ensure!(held == summed && held > 0, "{info} {}", base.display());
    ensure!(info["limit_bytes"] == 4 << 20, "{info}");
    Ok(())
}

#[test]
fn a_profile_larger_than_the_memory_is_described() -> anyhow::Result<()> {
    own_process!();
    let place = tempfile::tempdir()?;
    let path = place.path().join("large.json");
    let mut out = std::io::BufWriter::new(File::create(&path)?);
    write!(
        out,
        r#"{{"threads":[{{"pid":7,"name":"main","markers":{{"data":["#
    )?;
    for number in 0..1_000_000 {
        write!(
            out,
            r#"[0,{number}.25,null,0,0,{{"type":"Text","name":"{number:0100}"}}],"#
        )?;
    }
    write!(
        out,
        r#"[]]}}}}],"meta":{{"product":"large"}},"processes":[]}}"#
    )?;
    out.into_inner()?;
    let command = format!(
        "ulimit -v 65536; exec {} info --json {}",
        tools::profiler()?.display(),
        path.display()
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &command])
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let info: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(
        (&info["processes"][0]["name"], &info["processes"][0]["pid"]),
        (&"large".into(), &7.into())
    );
    ensure!(
        path.metadata()?.len() > 128 << 20,
        "the profile is not larger than the memory"
    );
    Ok(())
}

#[test]
fn an_error_is_one_line_and_exit_code_2() -> anyhow::Result<()> {
    own_process!();
    let place = tempfile::tempdir()?;
    let path = |name: &str| place.path().join(name).to_string_lossy().into_owned();
    fs::create_dir(path("empty"))?;
    fs::write(path("text"), "no profile")?;
    fs::write(path("cut"), "{\"meta\":{},\"threads\":[")?;
    fs::write(path("cut.gz"), [0x1f, 0x8b, 8, 0, 0])?;
    let cases: [&[String]; 9] = [
        &[],
        &["recover".into()],
        &["recover".into(), path("nowhere")],
        &["recover".into(), path("empty")],
        &["recover".into(), path("text")],
        &["info".into(), path("nowhere")],
        &["info".into(), path("text")],
        &["info".into(), path("cut")],
        &["info".into(), path("cut.gz")],
    ];
    for arguments in cases {
        let said = tools::fail(arguments).with_context(|| format!("{arguments:?}"))?;
        assert!(said.error.starts_with("profiler: "), "{said:?}");
    }
    for arguments in [
        &["--help"][..],
        &["recover", "--help"],
        &["info", "--help"],
        &["--version"],
    ] {
        assert_eq!(tools::run(arguments)?.code, Some(0));
    }
    Ok(())
}
