//! Forked children, and programs that execute others.

use profiler_observed::VARIABLE;

use crate::observed::{Program, Session, run_until, test_program};

#[test]
fn every_forked_child_has_a_file_and_its_time() {
    let (_, programs) = run_until(children_have_samples, || {
        Session::new().run(&["forks", "0"])
    });
    assert_eq!(programs.len(), 5);
    let parent = programs[0].header.pid;
    for child in &programs[1..] {
        assert_eq!(child.header.parent, parent);
        assert_eq!(child.header.began_cpu_ns, 0);
        assert_is_sampled(child);
        assert_eq!(child.text, programs[0].text);
    }
}

#[test]
fn a_child_that_changes_its_user_is_recorded() {
    if !is_root() {
        return;
    }
    let (output, programs) = run_until(children_have_samples, || {
        Session::new().run(&["forks", "1"])
    });
    assert!(output.status.success());
    assert_eq!(programs.len(), 5);
    for child in &programs[1..] {
        assert_eq!(child.header.ending, 1);
        assert_is_sampled(child);
    }
}

#[test]
fn children_of_a_process_without_a_file_system_have_the_files_in_reserve() {
    if !is_root() {
        return;
    }
    let empty = tempfile::tempdir().unwrap();
    let arguments = ["sandbox", empty.path().to_str().unwrap()];
    let (output, programs) = run_until(children_have_samples, || Session::new().run(&arguments));
    assert!(output.status.success(), "{:?}", output.status);
    assert_eq!(
        programs.len(),
        5,
        "the parent and its children; unused files are not begun"
    );
    assert_eq!(programs[0].header.forks_without_file, 0);
    let mut pids: Vec<u32> = programs.iter().map(|program| program.header.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 5, "no two children share a file");
    for child in &programs[1..] {
        assert_eq!(child.header.parent, programs[0].header.pid);
        assert_is_sampled(child);
        assert_eq!(child.text, programs[0].text);
    }
}

/// Also in a process that is not recorded: without a session, and with one whose directory it cannot
/// use, as a process of another user.
#[test]
fn a_child_without_thread_locals_ends_as_it_wants() {
    let session = Session::new();
    let (output, _) = session.run(&["no-thread-locals"]);
    assert!(output.status.success(), "{:?}", output.status);
    std::fs::remove_dir_all(session.files()).unwrap();
    let mut without_directory = session.command(test_program());
    let mut without_session = session.command(test_program());
    without_session.env_remove(VARIABLE);
    for command in [&mut without_directory, &mut without_session] {
        let status = command.arg("no-thread-locals").status().unwrap();
        assert!(status.success(), "{status:?}");
    }
}

pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0)
}

#[test]
fn a_fork_by_a_raw_call_is_noticed() {
    let (_, programs) = run_until(children_have_samples, || Session::new().run(&["raw-fork"]));
    assert_eq!(programs.len(), 2);
    assert_eq!(programs[1].header.parent, programs[0].header.pid);
    assert_is_sampled(&programs[1]);
}

#[test]
fn a_child_of_vfork_changes_nothing_in_its_parent() {
    let all_have_samples = |programs: &[Program]| programs.iter().all(has_samples);
    let (output, programs) = run_until(all_have_samples, || Session::new().run(&["vfork"]));
    assert!(output.status.success());
    assert_eq!(
        programs.len(),
        2,
        "the parent, and the program that the child executes"
    );
    for program in &programs {
        assert_eq!(program.header.ending, 1);
        assert_is_sampled(program);
    }
}

#[test]
fn a_chain_of_programs_is_never_killed_by_a_signal_of_the_one_before() {
    let session = Session::new();
    let (output, programs) = session.run(&["execs", "300"]);
    assert!(output.status.success(), "{:?}", output.status);
    assert_eq!(programs.len(), 301);
    let ends: Vec<u32> = programs
        .iter()
        .map(|program| program.header.ending)
        .collect();
    assert!(ends[..300].iter().all(|end| *end == 2), "{ends:?}");
    let pairs = programs.iter().zip(&programs[1..]);
    for (before, after) in pairs {
        assert_eq!(before.header.pid, after.header.pid);
        assert!(before.header.ended_cpu_ns <= after.header.began_cpu_ns);
    }
}

fn has_samples(program: &Program) -> bool {
    program.samples.len() > 3
}

fn children_have_samples(programs: &[Program]) -> bool {
    programs[1..].iter().all(has_samples)
}

fn assert_is_sampled(program: &Program) {
    let (sampled, used) = (program.sampled_ns(0), program.used_ns());
    let count = program.samples.len();
    assert!(has_samples(program), "{count} samples");
    assert!(sampled <= used, "{sampled} of {used}");
}
