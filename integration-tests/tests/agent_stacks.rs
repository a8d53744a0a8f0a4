//! Tests of the stacks that `profiler record` shows of programs whose files are unusual: without an
//! index of their unwinding tables, without tables, with a path that is no text, or removed while
//! they run.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use integration_tests::foreign::Workplace;
use integration_tests::installed::found_or_skip;
use integration_tests::{own_process, tools};

/// Runs three functions in each other for some time of the processor.
const CHAIN: &str = r"
#include <time.h>
static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}
__attribute__((noinline)) long level_three(long n) {
    volatile long sum = 0;
    for (long i = 0; i < n; i++) sum += i;
    return sum;
}
__attribute__((noinline)) long level_two(long n) { return level_three(n) + 1; }
__attribute__((noinline)) long level_one(long n) { return level_two(n) + 1; }
int main(void) {
    long sum = 0;
    double begin = now();
    while (now() - begin < 0.4) sum += level_one(200000);
    return sum == 1;
}
";

/// Loads the library that its first argument names, removes the file, and calls the library.
const LOADS: &str = r#"
#include <dlfcn.h>
#include <unistd.h>
int main(int count, char **words) {
    void *library = count > 1 ? dlopen(words[1], RTLD_NOW) : 0;
    if (!library || unlink(words[1])) return 2;
    int (*run)(void) = (int (*)(void))dlsym(library, "run");
    return run();
}
"#;

/// The stacks of a program, as `function;function time`, the outermost function first.
fn stacks(place: &Workplace, program: &[&OsStr]) -> anyhow::Result<Vec<String>> {
    let profile = place.path().join("profile.json.gz");
    let folded = place.path().join("stacks.folded");
    let mut words = vec![OsStr::new("record"), OsStr::new("-o"), profile.as_os_str()];
    words.push(OsStr::new("--"));
    words.extend(program);
    tools::succeed(&words)?;
    let words = ["export", "--to", "folded", "-o"].map(OsStr::new);
    let files = [folded.as_os_str(), profile.as_os_str()];
    tools::succeed(&[&words[..], &files].concat())?;
    let text = fs::read_to_string(&folded)?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Checks that the innermost function was seen, always with all of its callers, and that no frame
/// is made up.
fn check(stacks: &[String], callers: &str, innermost: &str) {
    let is_of = |stack: &&String| stack.contains(innermost);
    assert!(stacks.iter().any(|stack| is_of(&stack)), "{stacks:#?}");
    for stack in stacks.iter().filter(is_of) {
        assert!(stack.contains(&format!("{callers};{innermost}")), "{stack}");
    }
    let is_made_up = |stack: &&String| stack.split(';').any(|name| name.starts_with("0x"));
    assert_eq!(stacks.iter().find(is_made_up), None);
}

const CALLERS: &str = "main;level_one;level_two";
const INNERMOST: &str = "level_three";

/// Compiles and records [`CHAIN`] with these options of a compiler.
fn check_chain(compiler: &str, options: &[&str]) -> anyhow::Result<()> {
    let place = Workplace::new()?;
    let source = place.path().join("chain.c");
    fs::write(&source, CHAIN)?;
    let program = place.compile_file(compiler, "chain", &source, options)?;
    check(&stacks(&place, &[program.as_os_str()])?, CALLERS, INNERMOST);
    Ok(())
}

#[test]
fn tables_without_an_index_are_found() -> anyhow::Result<()> {
    own_process!();
    check_chain("cc", &["-fomit-frame-pointer", "-Wl,--no-eh-frame-hdr"])
}

#[test]
fn an_index_without_rows_is_made_again() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = place.compile("chain", CHAIN, &["-fomit-frame-pointer"])?;
    let mut bytes = fs::read(&program)?;
    let word = |bytes: &[u8], at: usize| usize::from(bytes[at]) | usize::from(bytes[at + 1]) << 8;
    for row in 0..word(&bytes, 56) {
        let header = 64 + 56 * row;
        let index = bytes[header + 8..header + 16].try_into()?;
        if bytes[header..header + 4] == 0x6474_e550_u32.to_ne_bytes() {
            let index = usize::try_from(u64::from_ne_bytes(index))?;
            bytes[index + 2..index + 4].fill(0xff); // neither a count nor rows
        }
    }
    fs::write(&program, bytes)?;
    check(&stacks(&place, &[program.as_os_str()])?, CALLERS, INNERMOST);
    Ok(())
}

#[test]
fn code_without_tables_is_unwound_with_its_frame_pointers() -> anyhow::Result<()> {
    own_process!();
    let options = [
        "-fno-omit-frame-pointer",
        "-fno-asynchronous-unwind-tables",
        "-fno-unwind-tables",
    ];
    check_chain("cc", &options)?;
    check_chain("cc", &[&options[..], &["-Wl,--no-eh-frame-hdr"]].concat())?;
    if found_or_skip("clang")? {
        check_chain("clang", &options)?;
    }
    Ok(())
}

/// A function in assembly that uses the frame pointer for a null, as those of OpenSSL do. Its table
/// finds the caller with a register that no sample has.
#[cfg(target_arch = "x86_64")]
const ODD: &str = r#"
#include <time.h>
long odd(long n);
__asm__(".globl odd\n.type odd, @function\nodd: .cfi_startproc\n"
        "lea (%rsp), %rax\n.cfi_def_cfa rax, 8\npush %rbp\n.cfi_offset rbp, -16\nxor %ebp, %ebp\n"
        "1: dec %rdi\njnz 1b\n"
        "pop %rbp\n.cfi_def_cfa rsp, 8\n.cfi_restore rbp\nret\n.cfi_endproc\n.size odd, . - odd\n");
int main(void) {
    struct timespec at = {0};
    while (at.tv_sec * 1000 + at.tv_nsec / 1000000 < 400) {
        odd(100000);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    }
    return 0;
}
"#;

#[cfg(target_arch = "x86_64")]
#[test]
fn a_stack_that_a_table_does_not_describe_is_marked_as_truncated() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = place.compile("odd", ODD, &["-O1"])?;
    let stacks = stacks(&place, &[program.as_os_str()])?;
    let is_of = |stack: &&String| stack.contains(";odd ");
    assert!(stacks.iter().any(|stack| is_of(&stack)), "{stacks:#?}");
    for stack in stacks.iter().filter(is_of) {
        let is_whole = stack.contains(";_start;"); // the thread has the name `main`, too
        assert!(
            is_whole || stack.contains(";(truncated stack);odd "),
            "{stack}"
        );
    }
    Ok(())
}

#[test]
fn a_program_whose_path_is_no_text_has_names_and_whole_stacks() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let folder = place.path().join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&folder)?;
    let program = folder.join("chain");
    fs::rename(
        place.compile("chain", CHAIN, &["-fomit-frame-pointer"])?,
        &program,
    )?;
    check(&stacks(&place, &[program.as_os_str()])?, CALLERS, INNERMOST);
    Ok(())
}

#[test]
fn a_library_that_is_removed_after_loading_has_names_and_whole_stacks() -> anyhow::Result<()> {
    own_process!();
    if !rustix::process::geteuid().is_root() {
        println!("skipped: the system shows removed mappings to root only");
        return Ok(());
    }
    let place = Workplace::new()?;
    let host = place.compile("host", LOADS, &[])?;
    let library = CHAIN.replace("int main(void)", "int run(void);\nint run(void)");
    let options = ["-shared", "-fPIC", "-fomit-frame-pointer"];
    let library = place.compile("library.so", &library, &options)?;
    let program = [host.as_os_str(), Path::new(&library).as_os_str()];
    let stacks = stacks(&place, &program)?;
    check(&stacks, "main;run;level_one;level_two", INNERMOST);
    Ok(())
}
