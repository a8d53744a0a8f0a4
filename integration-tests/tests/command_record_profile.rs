//! Tests of the content of the profiles that `profiler record` writes: which program they are
//! about, and what was recorded in it.

use std::fs;
use std::time::Duration;

use integration_tests::own_process;
use integration_tests::patience::{HeldUp, patiently};

use crate::command_record_support::{CHILD, PLAIN, Recording};

#[test]
fn the_command_does_not_sample_itself() -> anyhow::Result<()> {
    own_process!();
    patiently(a_program_alone_is_sampled)
}

/// Waits for `time`, in which the program's sampler samples its waiting threads.
fn a_program_alone_is_sampled(time: Duration) -> anyhow::Result<()> {
    let mut recording = Recording::of_helper(&PLAIN)?;
    recording.ask("mark 50")?;
    std::thread::sleep(time);
    recording.tell("exit 0")?;
    let ended = recording.end()?;
    let profile = ended.check("child", &[(1000, 50)])?;
    let samples = |process: &serde_json::Value| -> usize {
        let threads = process["threads"].as_array().into_iter().flatten();
        threads
            .filter_map(|thread| thread["samples"]["data"].as_array())
            .map(Vec::len)
            .sum()
    };
    assert_eq!(samples(&profile.json), 0, "the command has samples");
    if samples(&profile.json["processes"][0]) == 0 {
        return Err(HeldUp("the program's sampler".to_owned()).into());
    }
    Ok(())
}

#[test]
fn a_profile_is_about_the_program_that_records_and_shows_its_arguments_only_on_request()
-> anyhow::Result<()> {
    own_process!();
    for shows_arguments in [false, true] {
        for format in ["processed", "gecko"] {
            is_about_the_program(format, shows_arguments)?;
        }
    }
    Ok(())
}

fn is_about_the_program(format: &str, shows_arguments: bool) -> anyhow::Result<()> {
    let options = [
        "-o",
        "out.json",
        "--format",
        format,
        "--groups",
        "--no-agent",
        "--show-arguments",
    ];
    let options = &options[..options.len() - usize::from(!shows_arguments)];
    let script = format!("exec {CHILD} init");
    let mut recording = Recording::start(options, &["sh", "-c", &script])?;
    assert_eq!(recording.line()?, "Recording");
    recording.ask("mark 50")?;
    recording.until_groups_are_measured()?;
    recording.tell("exit 0")?;
    let ended = recording.end_with(0)?;
    let text = fs::read_to_string(ended.path("out.json"))?;
    let profile: serde_json::Value = serde_json::from_str(&text)?;
    let meta = &profile["meta"];
    assert_eq!(
        (&meta["product"], &meta["stackwalk"]),
        (&"child".into(), &1.into())
    );
    let root = profile["threads"].as_array().into_iter().flatten();
    let parts = profile["processes"].as_array().into_iter().flatten();
    let parts = parts.flat_map(|part| part["threads"].as_array().into_iter().flatten());
    let mut names: Vec<_> = root
        .chain(parts)
        .map(|thread| &thread["processName"])
        .collect();
    names.dedup();
    assert_eq!(names, ["child"], "{format}");
    let arguments = shows_arguments.then(|| format!("sh -c {script}"));
    assert_eq!(meta["arguments"].as_str(), arguments.as_deref(), "{format}");
    assert_eq!(text.contains("sh -c"), shows_arguments, "{format}");
    Ok(())
}

/// The names of the counters of groups in a profile of one process.
fn group_tracks(profile: &serde_json::Value) -> Vec<&str> {
    let parts = profile["processes"].as_array().into_iter().flatten();
    let parts = std::iter::once(profile).chain(parts);
    let counters = parts.flat_map(|part| part["counters"].as_array().into_iter().flatten());
    let mut names: Vec<&str> = counters
        .filter(|counter| counter["category"] == "Group")
        .filter_map(|counter| counter["name"].as_str())
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn the_profile_has_tracks_of_groups_if_their_time_is_measured() -> anyhow::Result<()> {
    own_process!();
    for format in ["processed", "gecko"] {
        for measures in [false, true] {
            let options = ["-o", "out.json", "--format", format, "--groups"];
            let options = &options[..options.len() - usize::from(!measures)];
            let mut recording = Recording::of_helper(options)?;
            if measures {
                recording.until_groups_are_measured()?;
            }
            recording.ask("mark 1")?; // without an entry there would be no profile
            recording.ask("work-for plugin checker 3 1000")?;
            recording.tell("exit 0")?;
            let ended = recording.end_with(0)?;
            let text = fs::read_to_string(ended.path("out.json"))?;
            let profile = serde_json::from_str(&text)?;
            let tracks = group_tracks(&profile);
            assert_eq!(tracks.contains(&"plugin checker"), measures, "{tracks:?}");
            assert!(measures || tracks.is_empty(), "{tracks:?}");
        }
    }
    Ok(())
}

#[test]
fn features_are_added_to_the_default_ones() -> anyhow::Result<()> {
    own_process!();
    let features = ["--features", "default,nativeallocations"];
    let mut recording = Recording::of_helper(&[PLAIN.as_slice(), &features].concat())?;
    recording.ask("mark 50")?;
    recording.tell("exit 0")?;
    let ended = recording.end()?;
    let profile = ended.check("child", &[(1000, 50)])?;
    let recorded = &profile.json["meta"]["configuration"]["features"];
    let wanted = [
        "stackwalk",
        "cpu",
        "processcpu",
        "memory",
        "nativeallocations",
    ];
    assert_eq!(*recorded, serde_json::json!(wanted));
    Ok(())
}
