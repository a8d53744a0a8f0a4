//! Tests of the interface for C, with programs that the C compiler makes.
//!
//! The example `profiler-agent/examples/requests.c` records each kind of data. Other programs load
//! the library with `dlopen`, or pass it values that make no sense.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use integration_tests::foreign::{Workplace, is_installed};
use integration_tests::own_process;
use integration_tests::patience::until;

/// Calls every function with null pointers and numbers that no function has returned.
const NONSENSE: &str = r#"
#include <profiler.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    char garbage[] = {'n', (char)0xff, (char)0xc3, 0};
    static char large[100000];
    double numbers[100] = {0};
    mpprof_entered entered = {{~0ull, ~0ull}};
    memset(large, 'x', sizeof large - 1);
    mpprof_marker(NULL);
    mpprof_marker(garbage);
    mpprof_marker(large);
    mpprof_marker_text(NULL, NULL);
    mpprof_marker_text("text", large);
    mpprof_marker_text("nonsense", NULL);
    mpprof_marker_numbers(NULL, NULL, NULL, 5);
    mpprof_marker_numbers("numbers", garbage, numbers, 100);
    mpprof_marker_numbers("none", NULL, NULL, (size_t)-1);
    mpprof_marker_stack(NULL, NULL);
    mpprof_interval(NULL, 0, NULL);
    mpprof_interval("backwards", UINT64_MAX, NULL);
    mpprof_begin(NULL, NULL);
    mpprof_end(NULL);
    mpprof_end("never begun");
    mpprof_label_pop(mpprof_label_push(NULL, NULL));
    mpprof_label_pop(77);
    mpprof_label_push(mpprof_label_new(garbage), NULL);
    mpprof_counter_add(mpprof_counter_new(NULL, NULL), 1);
    mpprof_counter_add(mpprof_counter_new("counter", NULL), INT64_MIN);
    mpprof_counter_set(NULL, 1);
    mpprof_group_leave(mpprof_group_enter(NULL));
    mpprof_group_leave(mpprof_group_wait(NULL));
    mpprof_group_leave(entered);
    mpprof_group_enter(mpprof_group_new(large));
    mpprof_group_leave(entered);
    mpprof_thread_name(NULL);
    mpprof_thread_name(garbage);
    mpprof_join_session(NULL);
    mpprof_join_session(garbage);
    mpprof_join_session(large);
    puts("done");
    return mpprof_api_version() != MPPROF_API_VERSION;
}
"#;

/// Loads the library whose path is its argument while the program runs.
const LOADS: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
typedef void (*marker)(const char *);
typedef int (*state)(void);
int main(int count, char **words) {
    void *library = dlopen(count > 1 ? words[1] : "", RTLD_NOW);
    marker mark = library ? (marker)dlsym(library, "mpprof_marker") : NULL;
    state join = library ? (state)dlsym(library, "mpprof_join") : NULL;
    state recording = library ? (state)dlsym(library, "mpprof_is_recording") : NULL;
    if (!mark || !join || !recording) {
        puts(dlerror());
        return 1;
    }
    mark("first");
    printf("%d", recording());
    printf("%d", join());
    mark("loaded");
    printf("%d\n", recording());
    return dlclose(library);
}
"#;

/// Uses call sites on four threads at once, and says how often their arguments were evaluated.
const SITES: &str = r#"
#include <profiler.h>
#include <pthread.h>
#include <stdio.h>
static const char *evaluated(int *times, const char *text) {
    *times += 1;
    return text;
}
static void *work(void *argument) {
    int *times = (int *)argument;
    const double numbers[2] = {1, 2.5};
    for (int i = 0; i < 20; i++) {
        uint64_t start = mpprof_now();
        MPPROF_MARKER("instant");
        MPPROF_MARKER_TEXT("text", evaluated(times, i % 2 ? "odd" : NULL));
        MPPROF_BEGIN("interval", "by a macro");
        mpprof_end("interval");
        mpprof_begin("interval", "by a function");
        MPPROF_END("interval");
        MPPROF_INTERVAL("one entry", start, NULL);
        MPPROF_MARKER_NUMBERS("numbers", "text", numbers, 2);
    }
    return argument;
}
int main(void) {
    static mpprof_site own = {"own", NULL, NULL};
    static mpprof_site nameless = {NULL, NULL, NULL};
    pthread_t threads[4];
    int times[4] = {0, 0, 0, 0};
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, work, &times[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    if (times[0] == times[1]) {
        MPPROF_MARKER("as many");
    } else
        puts("not as many");
    mpprof_site_marker(&own, NULL);
    mpprof_site_marker(&nameless, "text");
    mpprof_site_numbers(&nameless, NULL, NULL, 3);
    mpprof_site_begin(NULL, NULL);
    mpprof_site_interval(NULL, 1, NULL);
    mpprof_leave();
    MPPROF_MARKER("left");
    printf("%d\n", times[0] + times[1] + times[2] + times[3]);
    return 0;
}
"#;

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../profiler-agent/examples/requests.c")
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// The example as a program, and its directory with the installed agent.
fn compiled_example() -> anyhow::Result<(Workplace, PathBuf)> {
    let place = Workplace::new()?;
    let options = place.install_agent()?;
    let program = place.compile_file("cc", "requests", &example(), &words(&options))?;
    Ok((place, program))
}

fn words(options: &[String]) -> Vec<&str> {
    options.iter().map(String::as_str).collect()
}

#[test]
fn the_example_records_each_kind_of_data() -> anyhow::Result<()> {
    own_process!();
    let (place, program) = compiled_example()?;
    let recorded = place.record(&[text(&program)])?;
    assert_eq!(
        recorded.output.stdout,
        b"recording\n",
        "{}",
        recorded.said()
    );
    let profile = recorded.profile()?;
    let process = profile.process("requests")?;
    process.counts()?;
    for (name, count) in [
        ("answer", 100),
        ("size", 100),
        ("begin", 1),
        ("end", 1),
        ("end with a stack", 1),
    ] {
        assert_eq!(process.named(name).count(), count, "{name}");
    }
    // A start and an end each.
    assert_eq!(process.named("request").count(), 200);
    let text = process.named("end").next().map(|mark| &mark.data["name"]);
    assert_eq!(text, Some(&"all requests".into()));
    let last = process.named("size").last().map(|mark| &mark.data);
    let numbers = last.and_then(|data| data["numbers"].as_array());
    let numbers = numbers.map(|numbers| numbers.iter().map(serde_json::Value::as_f64).collect());
    assert_eq!(numbers, Some(vec![Some(99.0), Some(49.5)]));
    let json = serde_json::to_string(&profile.json)?;
    assert!(json.contains("Bytes answered"));
    Ok(())
}

#[test]
fn the_groups_of_a_program_in_c_are_measured() -> anyhow::Result<()> {
    own_process!();
    let (place, program) = compiled_example()?;
    // The session asks for the time of groups after the program has connected. So the program does
    // more and more work.
    let mut requests = 1000;
    let has_groups = until(|| {
        let words = [text(&program), &requests.to_string()];
        let recorded = place.record_with(&["--groups", "--duration", "1"], &words);
        requests = (requests * 2).min(1_000_000);
        let json = recorded.and_then(|recorded| Ok(recorded.profile()?.json.to_string()));
        json.is_ok_and(|json| json.contains("tenant acme") && json.contains("component disk"))
    });
    assert!(has_groups);
    Ok(())
}

#[test]
fn a_program_in_c_does_the_same_without_a_session() -> anyhow::Result<()> {
    own_process!();
    let (place, program) = compiled_example()?;
    let output = place.run(&[text(&program)])?;
    assert_eq!(output.stdout, b"not recording\n");
    assert_eq!(output.stderr, b"");
    assert!(output.status.success());
    Ok(())
}

#[test]
fn the_header_is_one_for_cpp_and_for_old_c() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let options = place.install_agent()?;
    let mut options = words(&options);
    options.push("-std=c99");
    place.compile_file("cc", "c99", &example(), &options)?;
    if is_installed("c++") {
        let source = place.path().join("requests.cpp");
        fs::copy(example(), &source)?;
        options.pop();
        let program = place.compile_file("c++", "cpp", &source, &options)?;
        let recorded = place.record(&[text(&program)])?;
        assert_eq!(recorded.output.stdout, b"recording\n");
    }
    Ok(())
}

/// The program with call sites, by each compiler that is installed, in C and in C++.
fn programs_with_sites(place: &Workplace) -> anyhow::Result<Vec<PathBuf>> {
    let options = place.install_agent()?;
    let mut programs = Vec::new();
    let all = [
        ("cc", "c11"),
        ("c++", "c++11"),
        ("clang", "c11"),
        ("clang++", "c++11"),
    ];
    for (compiler, standard) in all {
        if !is_installed(compiler) {
            continue;
        }
        let name = format!("sites-{compiler}");
        let end = if standard == "c11" { "c" } else { "cpp" };
        let source = place.path().join(format!("{name}.{end}"));
        fs::write(&source, SITES)?;
        let standard = format!("-std={standard}");
        let mut options = words(&options);
        options.extend([standard.as_str(), "-pedantic", "-pthread"]);
        programs.push(place.compile_file(compiler, &name, &source, &options)?);
    }
    Ok(programs)
}

#[test]
fn call_sites_record_what_the_functions_record_from_any_number_of_threads() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    for program in programs_with_sites(&place)? {
        let alone = place.run(&[text(&program)])?;
        assert_eq!(
            alone.stdout, b"0\n",
            "arguments are evaluated without a session"
        );
        let recorded = place.record_with(&["--limit", "256M"], &[text(&program)])?;
        assert_eq!(recorded.output.stdout, b"80\n", "{}", recorded.said());
        let name = program.file_name().and_then(|name| name.to_str());
        let profile = recorded.profile()?;
        let process = profile.process(name.unwrap_or_default())?;
        process.counts()?;
        for (name, count) in [
            ("instant", 80),
            ("text", 80),
            ("interval", 320),
            ("one entry", 80),
            ("numbers", 80),
            ("as many", 1),
            ("own", 1),
            ("left", 0),
        ] {
            assert_eq!(process.named(name).count(), count, "{name} of {program:?}");
        }
        let odd = process
            .named("text")
            .filter(|mark| mark.data["name"] == "odd");
        assert_eq!(odd.count(), 40);
        let numbers = process
            .named("numbers")
            .next()
            .map(|mark| [0, 1].map(|at| mark.data["numbers"][at].as_f64()));
        assert_eq!(numbers, Some([Some(1.0), Some(2.5)]));
    }
    Ok(())
}

#[test]
fn the_reason_for_which_nothing_is_recorded_is_printed_on_request() -> anyhow::Result<()> {
    own_process!();
    let (place, program) = compiled_example()?;
    let said = |session: Option<&str>| -> anyhow::Result<String> {
        let mut command = Command::new(&program);
        command.env("LD_LIBRARY_PATH", place.prefix().join("lib"));
        command.env("MULTIPROCESS_PROFILER_VERBOSE", "1");
        command.envs(session.map(|value| ("MULTIPROCESS_PROFILER_SESSION", value)));
        let output = command.stdin(Stdio::null()).output()?;
        assert_eq!(output.stdout, b"not recording\n");
        Ok(String::from_utf8(output.stderr)?)
    };
    for (session, reason) in [
        (None, "off: no session"),
        (
            Some("nonsense"),
            "MULTIPROCESS_PROFILER_SESSION is malformed",
        ),
    ] {
        let said = said(session)?;
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.starts_with("profiler: requests ["), "{said}");
        assert!(said.contains(reason), "{said}");
    }
    Ok(())
}

#[test]
fn values_that_make_no_sense_harm_nothing() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let options = place.install_agent()?;
    let program = place.compile("nonsense", NONSENSE, &words(&options))?;
    let alone = place.run(&[text(&program)])?;
    assert_eq!(
        (alone.stdout.as_slice(), alone.status.code()),
        (&b"done\n"[..], Some(0))
    );
    let recorded = place.record_with(&["--groups"], &[text(&program)])?;
    assert_eq!(recorded.output.stdout, b"done\n", "{}", recorded.said());
    assert_eq!(recorded.output.status.code(), Some(0));
    let profile = recorded.profile()?;
    let process = profile.process("nonsense")?;
    process.counts()?;
    let numbers = process.named("numbers").next().map(|mark| &mark.data);
    let numbers = numbers.and_then(|data| data["numbers"].as_array());
    assert_eq!(numbers.map(Vec::len), Some(64));
    assert_eq!(process.named("nonsense").count(), 1);
    Ok(())
}

#[test]
fn the_library_can_be_loaded_while_the_program_runs() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    place.install_agent()?;
    let program = place.compile("loads", LOADS, &["-ldl"])?;
    let library = place.prefix().join("lib/libprofiler_agent.so");
    let alone = place.run(&[text(&program), text(&library)])?;
    assert_eq!(
        (alone.stdout.as_slice(), alone.status.code()),
        (&b"000\n"[..], Some(0))
    );
    let recorded = place.record_with(&["--no-agent"], &[text(&program), text(&library)])?;
    assert_eq!(recorded.output.stdout, b"111\n", "{}", recorded.said());
    let profile = recorded.profile()?;
    let process = profile.process("loads")?;
    assert_eq!(process.named("first").count(), 1, "the first call joins");
    assert_eq!(process.named("loaded").count(), 1);
    Ok(())
}

#[test]
fn a_function_waits_until_the_program_is_recorded() -> anyhow::Result<()> {
    own_process!();
    let (place, program) = compiled_example()?;
    let recorded = place.record(&["sh", "-c", "\"$0\"; exit $?", text(&program)])?;
    assert_eq!(recorded.output.stdout, b"recording\n");
    let profile = recorded.profile()?;
    let process = profile.process("requests")?;
    process.counts()?;
    assert_eq!(process.named("begin").count(), 1);
    assert_eq!(process.named("answer").count(), 100);
    Ok(())
}

#[test]
fn a_library_that_is_preloaded_and_linked_is_there_once() -> anyhow::Result<()> {
    own_process!();
    let (place, program) = compiled_example()?;
    let recorded = place.record(&[text(&program)])?;
    let profile = recorded.profile()?;
    let processes = profile.processes.iter();
    let named = processes.filter(|process| process.name == "requests");
    assert_eq!(named.count(), 1);
    assert_eq!(profile.process("requests")?.named("begin").count(), 1);
    Ok(())
}
