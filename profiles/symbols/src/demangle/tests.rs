//! Tests with valid and hostile mangled names.

use std::process::Command;

use super::*;
use crate::stack::STACK;

#[test]
fn names_of_rust_cpp_and_c_are_readable() {
    let of = |raw: &str| readable(raw.as_bytes());
    assert_eq!(
        of("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"),
        "core::fmt::Write::write_fmt"
    );
    assert_eq!(of("_RNvNtCs1234_7mycrate3foo3bar"), "mycrate::foo::bar");
    assert_eq!(of("_ZN3foo3barEi"), "foo::bar(int)");
    assert_eq!(of("_ZN3foo3barEv"), "foo::bar()");
    assert_eq!(of("main"), "main");
    assert_eq!(of("compress.part.0"), "compress.part.0");
    assert_eq!(of("_Z"), "_Z");
    assert_eq!(readable(b"\xff\x00"), "\u{fffd}\0");
}

#[test]
fn no_name_is_longer_than_the_limit() {
    let long = "x".repeat(100_000);
    assert_eq!(readable(long.as_bytes()).len(), LONGEST + '…'.len_utf8());
    let bomb = format!("_Z1fI{}E", "N1a1bE".repeat(2000) + &"S0_".repeat(2000));
    assert!(readable(bomb.as_bytes()).len() <= LONGEST + '…'.len_utf8());
    let deep = format!("_Z1f{}i", "P".repeat(100_000));
    assert!(readable(deep.as_bytes()).len() <= LONGEST + '…'.len_utf8());
}

proptest::proptest! {
    #[test]
    fn any_bytes_have_a_readable_form(raw: Vec<u8>) {
        readable(&raw);
        readable(&[b"_ZN", raw.as_slice()].concat());
        readable(&[b"_R", raw.as_slice()].concat());
    }
}

/// The variable for a child process that demangles names: its stack size in KiB, and the names.
const DEMANGLES: &str = "PROFILER_TEST_DEMANGLES";

/// Nested names: the deepest accepted one of each kind, and deeper ones.
fn nesting() -> impl Iterator<Item = String> {
    let cpp = [
        "cvi", "dv", "tl", "il", "cl", "nw", "P", "F", "Z", "X", "DT", "sr", "Dv4_", "A_", "M",
        "L_Z", "1fI",
    ];
    let frames = [
        ("_Z1fILi0EEvDT", "fp_E"),
        ("_Z1fIX", "Lb0EEEvv"),
        ("_Z1f", "i"),
        ("_ZN1fI", "EEv"),
    ];
    let cpp = cpp.into_iter().flat_map(move |unit| {
        let of =
            move |count| frames.map(|(head, tail)| format!("{head}{}{tail}", unit.repeat(count)));
        [80, 90, 94, 400].into_iter().flat_map(of)
    });
    let rust = [
        "R",
        "F",
        "INvC1a1b",
        "T",
        "NvX",
        "S",
        "Ap",
        "D",
        "NvM",
        "INvC1a1bIB_",
    ]
    .into_iter()
    .flat_map(|unit| [450, 490, 2000].map(|count| format!("_RINvC1a1b{}p", unit.repeat(count))));
    cpp.chain(rust)
}

/// Runs in a child process of the tests below: demangles the names in the variable, if it is set.
#[test]
fn the_child_demangles_the_names_in_its_environment() {
    let Ok(wanted) = std::env::var(DEMANGLES) else {
        return;
    };
    let (kib, names) = wanted.split_once(' ').unwrap();
    let stack = kib.parse::<usize>().unwrap() << 10;
    let names = names.to_owned();
    let all = move || {
        names
            .split(' ')
            .for_each(|name| drop(readable(name.as_bytes())))
    };
    std::thread::Builder::new()
        .stack_size(stack)
        .spawn(all)
        .unwrap()
        .join()
        .unwrap();
}

/// Whether a process with a stack of this size survives these names.
fn process_survives(names: &str, stack: usize) -> bool {
    let mut process = Command::new(std::env::current_exe().unwrap());
    let test = concat!(
        module_path!(),
        "::the_child_demangles_the_names_in_its_environment"
    );
    let test = test.split_once("::").unwrap().1;
    process
        .args(["--exact", test])
        .env(DEMANGLES, format!("{} {names}", stack >> 10));
    process.output().unwrap().status.success()
}

#[test]
fn no_name_needs_more_than_an_eighth_of_the_stack_for_symbols() {
    let names: Vec<String> = nesting().collect();
    for some in names.chunks(16) {
        assert!(
            process_survives(&some.join(" "), STACK / 8),
            "one of {some:?}"
        );
    }
    let deep = format!("_Z1fILi0EEvDT{}fp_E", "cvi".repeat(90));
    assert!(
        !process_survives(&deep, 64 << 10),
        "the test does not detect an overflow"
    );
}

#[test]
fn names_of_usual_depth_are_demangled() {
    let of = |depth: usize| {
        readable(format!("_Z1f{}i{}", "St6vectorI".repeat(depth), "E".repeat(depth)).as_bytes())
    };
    assert!(of(8).starts_with("f(std::vector<std::vector<"), "{}", of(8));
    let pointers = format!("_Z1f{}i", "P".repeat(80));
    assert_eq!(
        readable(pointers.as_bytes()),
        format!("f(int{})", "*".repeat(80))
    );
}

#[test]
fn names_beyond_the_depth_limit_are_not_changed() {
    for deep in [
        format!("_Z1fILi0EEvDT{}fp_E", "cvi".repeat(2000)),
        format!("_Z1f{}i", "P".repeat(2000)),
    ] {
        let shown = readable(deep.as_bytes());
        assert!(deep.starts_with(shown.trim_end_matches('…')), "{shown}");
    }
}

#[test]
fn names_with_too_many_new_expressions_are_not_changed() {
    for (unit, count) in [("nw", 26), ("nw", 60), ("na", 26), ("gsnw", 26)] {
        let name = format!("_Z1fILi0EEvDT{}fp_E", unit.repeat(count));
        assert_eq!(readable(name.as_bytes()), name);
    }
}
