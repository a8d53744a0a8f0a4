//! Tests of what profiles and files reveal.
//!
//! Arguments, environment variables, the names of users and directories, and other data that was
//! not recorded on purpose are in no profile, pool or file name. Profiles and pools are readable
//! only by their owner.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::process_tree::{ProcessTree, ProcessTreeOptions};
use integration_tests::{session, tools};

const OPTIONS: ProcessTreeOptions<'static> = ProcessTreeOptions {
    parent: env!("CARGO_BIN_EXE_parent"),
    child: env!("CARGO_BIN_EXE_child"),
    limit: 16 << 20,
    in_files: true,
};
/// Secrets of each kind.
const EACH: usize = 8;
/// A text that is recorded on purpose, so every profile must contain it.
const RECORDED: &str = "recorded-on-purpose";

/// The `number`th secret of a kind. All secrets begin with the same word, which occurs nowhere
/// else.
fn secret(kind: &str, number: usize) -> String {
    format!(
        "canary-{kind}-{number:02}-{:08x}",
        (number as u32 + 1).wrapping_mul(0x9e37_79b9)
    )
}

fn secrets(kind: &str) -> Vec<String> {
    (0..EACH).map(|number| secret(kind, number)).collect()
}

const KINDS: [&str; 7] = [
    "value",
    "variable",
    "argument",
    "url",
    "directory",
    "user",
    "child",
];

/// Puts secrets where a careless profiler would record them.
fn plant(command: &mut std::process::Command, place: &Path) -> std::io::Result<()> {
    for (name, value) in secrets("variable").into_iter().zip(secrets("value")) {
        command.env(name, value);
    }
    command.args(secrets("argument"));
    command.args(
        secrets("url")
            .iter()
            .map(|url| format!("https://user:{url}@example.org/?token={url}")),
    );
    for (variable, user) in [
        "USER",
        "LOGNAME",
        "USERNAME",
        "HOSTNAME",
        "HOME",
        "PWD",
        "XDG_SESSION_ID",
        "SSH_CONNECTION",
    ]
    .iter()
    .zip(secrets("user"))
    {
        command.env(variable, user);
    }
    let directory = secrets("directory")
        .iter()
        .fold(place.to_owned(), |path, name| path.join(name));
    fs::create_dir_all(&directory)?;
    command.current_dir(directory);
    Ok(())
}

/// Fails if `bytes` contain a planted secret. A profile must contain the recorded text.
fn check_clean(what: &str, bytes: &[u8], is_profile: bool) -> anyhow::Result<()> {
    let find = |text: &str| {
        bytes
            .windows(text.len())
            .position(|window| window == text.as_bytes())
    };
    if let Some(at) = find("canary-") {
        let around = &bytes[at.saturating_sub(40)..bytes.len().min(at + 60)];
        bail!("{what} holds a secret: {}", String::from_utf8_lossy(around));
    }
    ensure!(
        !is_profile || find(RECORDED).is_some(),
        "{what} does not hold what was recorded"
    );
    Ok(())
}

fn unpacked(path: &Path) -> anyhow::Result<Vec<u8>> {
    let bytes = fs::read(path)?;
    if path.extension().is_none_or(|extension| extension != "gz") {
        return Ok(bytes);
    }
    let output = std::process::Command::new("gzip")
        .args(["-dc"])
        .arg(path)
        .output()?;
    ensure!(output.status.success(), "not a gzip file");
    Ok(output.stdout)
}

#[test]
fn fifty_planted_secrets_are_in_no_profile_and_no_file_name() -> anyhow::Result<()> {
    own_process!();
    assert!(KINDS.len() * EACH >= 50);
    let place = tempfile::tempdir()?;
    let mut planted = Ok(());
    let mut tree = ProcessTree::start(&OPTIONS, |command| planted = plant(command, place.path()))?;
    planted?;
    for _ in 0..2 {
        tree.spawn(&format!(
            "{} init {}",
            OPTIONS.child,
            secrets("child").join(" ")
        ))?;
    }
    tree.ask("connected 2")?;
    tree.ask(&format!("text {RECORDED}"))?;
    tree.ask_kids("hold 2 100")?;
    for name in ["live.json", "live.json.gz"] {
        let path = tree.path(name);
        tree.ask(&format!("capture {}", path.display()))?;
        check_clean(name, &unpacked(&path)?, true)?;
    }
    let pools = tree.pools.clone().context("no pools")?;
    check_pools(&pools)?;
    tree.kill_all()?;
    for name in ["dead.json", "dead.json.gz"] {
        let path = tree.path(name);
        tools::succeed(&[
            "recover",
            &pools.to_string_lossy(),
            "-o",
            &path.to_string_lossy(),
        ])?;
        check_clean(name, &unpacked(&path)?, true)?;
    }
    Ok(())
}

/// Checks the names, contents and permissions of the session's directory and its files.
fn check_pools(pools: &Path) -> anyhow::Result<()> {
    let own = pools.file_name().context("no name")?;
    check_clean("the directory's name", own.as_encoded_bytes(), false)?;
    for entry in fs::read_dir(pools)? {
        let entry = entry?;
        check_clean("a file's name", entry.file_name().as_encoded_bytes(), false)?;
        check_clean("a pool", &fs::read(entry.path())?, false)?;
        ensure!(entry.metadata()?.permissions().mode() & 0o7777 == 0o600);
    }
    ensure!(pools.metadata()?.permissions().mode() & 0o7777 == 0o700);
    Ok(())
}

#[test]
fn a_profile_is_readable_only_by_its_owner_also_if_it_replaces_a_file_or_link() -> anyhow::Result<()>
{
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn(&session, OPTIONS.child, "child", "init")?;
    helper.ask("mark 10")?;
    let target = session.path("profile.json");
    let victim = session.path("victim");
    fs::write(&victim, "precious")?;
    for replaced in ["nothing", "file", "link"] {
        match replaced {
            "nothing" => {}
            "file" => fs::set_permissions(&target, PermissionsExt::from_mode(0o666))?,
            _ => {
                fs::remove_file(&target)?;
                symlink(&victim, &target)?;
            }
        }
        session.session()?.capture().save(&target)?;
        let about = target.symlink_metadata()?;
        assert!(about.is_file(), "a link is followed, not replaced");
        assert_eq!(
            (about.permissions().mode() & 0o7777, about.nlink()),
            (0o600, 1)
        );
    }
    assert_eq!(fs::read_to_string(&victim)?, "precious");
    let left: Vec<_> = fs::read_dir(target.parent().context("no parent")?)?.collect();
    assert_eq!(left.len(), 2, "a temporary file remains: {left:?}");
    Ok(())
}

#[test]
fn a_profile_that_cannot_be_written_leaves_the_path_unchanged() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let target = session.path("profile.json");
    fs::create_dir(&target)?;
    assert!(session.session()?.capture().save(&target).is_err());
    assert!(
        session
            .session()?
            .capture()
            .save(session.path("nowhere/profile.json"))
            .is_err()
    );
    assert!(target.is_dir());
    let (report, _) = {
        fs::remove_dir(&target)?;
        session.capture()?
    };
    assert_eq!(report.path, target);
    Ok(())
}
