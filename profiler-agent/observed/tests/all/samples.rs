//! Samples: whose time they have, and what is in them.

use profiler_observed::file::ObservedThread;
use profiler_observed::layout::IS_ELSEWHERE;

use crate::observed::{Program, Reader, Sample, Session, printed, run_until, test_program};

/// The mark in the frame of `main`.
const MARK: u64 = 0x05ca_1ab1_e0dd_ba11;

#[test]
fn the_time_of_samples_is_that_of_the_program_and_in_its_function() {
    // A timer expires at a tick of the system, of up to 10 ms. The rest after the last tick is in no
    // sample.
    let is_whole = |programs: &[Program]| {
        let program = &programs[0];
        program.sampled_ns(0) * 100 >= program.used_ns() * 95
    };
    let (output, programs) = run_until(is_whole, || Session::new().run(&["busy", "600"]));
    let program = &programs[0];
    let used = printed(&output, "cpu ");
    assert!(program.header.ended_cpu_ns >= used, "stored at the end");
    let (sampled, used) = (program.sampled_ns(0), program.used_ns());
    assert!(is_whole(&programs), "{sampled} of {used}");
    assert_eq!(program.header.ending, 1);
    let spin = printed(&output, "spin ");
    let inside = program
        .samples
        .iter()
        .filter(|sample| (spin..spin + 512).contains(&sample.head.pc));
    // The function reads the clock seldom.
    let inside = inside.count();
    assert!(
        inside * 10 >= program.samples.len() * 8,
        "{inside} of {}",
        program.samples.len()
    );
}

#[test]
fn a_stack_reaches_main_or_is_marked_as_cut() {
    let deep = samples_that(is_spinning, &["deep", "20"]);
    for sample in &deep {
        assert!(!sample.is_cut() && sample.stack.contains(&MARK));
    }
    // 200 frames of 1,000 bytes are longer than a slot.
    samples_that(Sample::is_cut, &["deep", "200"]);
}

fn is_spinning(sample: &Sample) -> bool {
    sample.stack.len() > 2500
}

/// The samples of a kind that a run has, which are more than five.
fn samples_that(are: impl Fn(&Sample) -> bool, arguments: &[&str]) -> Vec<Sample> {
    let of = |programs: &[Program]| -> Vec<Sample> {
        let all = programs[0].samples.iter();
        all.filter(|sample| are(sample)).cloned().collect()
    };
    let enough = |programs: &[Program]| of(programs).len() > 5;
    let (_, programs) = run_until(enough, || Session::new().run(arguments));
    let samples = of(&programs);
    assert!(samples.len() > 5, "{}", samples.len());
    samples
}

#[test]
fn a_sample_of_another_stack_takes_one_page() {
    let is_elsewhere = |sample: &Sample| sample.head.flags & IS_ELSEWHERE != 0;
    let elsewhere = samples_that(is_elsewhere, &["other-stack"]);
    let most = elsewhere.iter().map(|sample| sample.head.more_pages).max();
    assert!(most <= Some(1), "{most:?} further pages");
}

#[test]
fn every_thread_has_its_time_however_it_ends() {
    let is_sampled = |row: &ObservedThread| row.sampled_cpu_ns >= 50_000_000;
    let all_are_sampled = |programs: &[Program]| programs[0].rows[1..4].iter().all(is_sampled);
    let (_, programs) = run_until(all_are_sampled, || Session::new().run(&["threads"]));
    let [program] = &programs[..] else { panic!() };
    assert_eq!(
        (program.header.threads, program.header.threads_without_timer),
        (4, 0)
    );
    let ended = program.rows[1..].iter().filter(|row| row.ended_cpu_ns > 0);
    let ended: Vec<_> = ended.collect();
    assert_eq!(ended.len(), 3);
    for row in &ended {
        assert!(row.ended_cpu_ns >= 100_000_000 && row.uses % 2 == 0);
        assert!(is_sampled(row) && row.sampled_cpu_ns <= row.ended_cpu_ns);
    }
}

#[test]
fn rows_and_timers_are_used_again() {
    let session = Session::new();
    let (output, programs) = session.run(&["many-threads", "3000"]);
    assert!(output.status.success());
    let header = programs[0].header;
    assert_eq!((header.threads, header.threads_without_timer), (3001, 0));
}

#[test]
fn the_names_of_the_program_and_of_its_files_are_in_the_text() {
    let session = Session::new();
    let (output, programs) = session.run(&["busy", "10"]);
    let text = &programs[0].text;
    assert_eq!(
        text.program,
        test_program()
            .canonicalize()
            .unwrap()
            .to_str()
            .unwrap()
            .as_bytes()
    );
    let spin = printed(&output, "spin ");
    let own = text
        .files
        .iter()
        .find(|(range, _)| range.contains(&spin))
        .unwrap();
    assert!(own.1.is_empty(), "the program itself");
    assert!(
        text.files
            .iter()
            .any(|(_, path)| path.windows(7).any(|part| part == b"libc.so"))
    );
}

/// Waits until a process has used this much processor time.
fn wait_for_cpu_time(pid: u32, nanoseconds: u64) {
    let path = format!("/proc/{pid}/schedstat");
    let used = || -> u64 {
        let text = std::fs::read_to_string(&path).unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    };
    while used() < nanoseconds {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_killed_program_keeps_every_sample_that_was_finished() {
    let session = Session::new();
    let mut killed_with_samples = 0;
    for delay in 1..=20 {
        let mut child = session
            .command(test_program())
            .args(["busy", "10000"])
            .spawn()
            .unwrap();
        wait_for_cpu_time(child.id(), 3_000_000 * delay);
        child.kill().unwrap();
        child.wait().unwrap();
        let mut reader = Reader::default();
        reader.pass(&session.files());
        let programs = reader.finish();
        let Some(program) = programs.last() else {
            continue; // killed before it had a file
        };
        // Nothing was read before, so the ring has all samples since the start, or is full.
        let stored = program.rows[0].sampled_cpu_ns;
        let newest = program
            .samples
            .iter()
            .map(|sample| sample.head.cpu_ns)
            .max();
        if let Some(newest) = newest {
            killed_with_samples += 1;
            assert!(
                newest >= stored,
                "a sample is published before the row is written"
            );
        }
        assert_eq!(program.header.ending, 0);
        for file in std::fs::read_dir(session.files()).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
    }
    assert!(killed_with_samples >= 5, "{killed_with_samples}");
}

#[test]
fn a_stack_pointer_that_points_to_no_memory_is_a_sample_without_a_stack() {
    let (output, programs) = Session::new().run(&["odd-stack"]);
    assert!(output.status.success(), "{:?}", output.status);
    if cfg!(target_arch = "x86_64") {
        let odd = programs[0]
            .samples
            .iter()
            .filter(|sample| sample.head.sp == 0x1000);
        let odd: Vec<_> = odd.collect();
        assert!(!odd.is_empty());
        assert!(
            odd.iter()
                .all(|sample| sample.stack.is_empty() && sample.is_cut())
        );
    }
}
