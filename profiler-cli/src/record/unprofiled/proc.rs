//! What `/proc` says about the processes below this one.
//!
//! Used by the thread that looks for processes that do not record. Invariants: nothing here waits
//! for a process or changes one; a process that ends meanwhile is absent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::elf::{self, ProgramKind};
use super::reason::Reason;

/// The longest environment that is read.
const MAX_BYTES: u64 = 4 << 20;
/// The parent of each process below these processes, themselves excluded.
///
/// Costs some microseconds per thread of each process.
pub(super) fn processes_below(roots: impl IntoIterator<Item = u32>) -> BTreeMap<u32, u32> {
    let mut found = BTreeMap::new();
    let mut open: Vec<u32> = roots.into_iter().collect();
    let mut done = BTreeSet::new();
    while let Some(parent) = open.pop() {
        if !done.insert(parent) {
            continue;
        }
        for child in children_of(parent) {
            found.insert(child, parent);
            open.push(child);
        }
    }
    found
}

/// The children of all threads of a process.
fn children_of(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let numbers = |list: String| -> Vec<u32> {
        let words = list.split_ascii_whitespace();
        words.filter_map(|word| word.parse().ok()).collect()
    };
    lists.flat_map(numbers).collect()
}

/// The program that a process executes; `None` if it is not visible or the process has ended.
pub(super) fn program_of(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// What `/proc/PID/stat` says about a process that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    /// The process that is its parent now.
    pub(super) parent: u32,
    /// When it began. Distinguishes the processes that get the same number one after the other.
    pub(super) began: u64,
    /// The addresses at which the system has placed its program and its first stack. They change
    /// when the process executes a program. See [`Self::shows_image`].
    pub(super) image: (u64, u64),
    /// The processor time that it has used, in ticks of the system.
    pub(super) used: u64,
    /// Whether its program has begun with an empty environment.
    has_no_environment: bool,
}

impl Stat {
    /// `None` if there is no such process, it has ended, or the number is that of a thread.
    pub(super) fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Whether the system shows where the program is. Where it does not, the address of the program
    /// is 0 or 1, and that of the stack is 0.
    pub(super) const fn shows_image(&self) -> bool {
        self.image.1 != 0
    }

    /// Whether the process still executes the program of its parent process. False if the system
    /// does not show that.
    pub(super) fn is_fork(&self) -> bool {
        let is_same = |parent: Self| parent.image == self.image;
        self.shows_image() && Self::of(self.parent).is_some_and(is_same)
    }

    /// A process that began at this time and has used this time.
    #[cfg(test)]
    pub(super) const fn test(began: u64, used: u64) -> Self {
        Self {
            parent: 1,
            began,
            image: (0, 0),
            used,
            has_no_environment: false,
        }
    }

    fn parse(stat: &[u8]) -> Option<Self> {
        // The name of the program, in parentheses, may contain anything.
        let rest = stat.rsplit(|byte| *byte == b')').next()?;
        let fields: Vec<&str> = std::str::from_utf8(rest).ok()?.split_whitespace().collect();
        // The first of them is the third of the line.
        let number = |field: usize| fields.get(field.checked_sub(3)?)?.parse::<u64>().ok();
        if fields
            .first()
            .is_none_or(|state| matches!(*state, "Z" | "X"))
        {
            return None;
        }
        // The exit signal of a thread that is not the first one of its process is -1.
        if fields.get(38 - 3) == Some(&"-1") {
            return None;
        }
        let environment = number(50).zip(number(51));
        Some(Self {
            parent: u32::try_from(number(4)?).ok()?,
            began: number(22)?,
            image: (number(26).unwrap_or(0), number(28).unwrap_or(0)),
            used: number(14)?.saturating_add(number(15)?),
            // The end is 0 while the program is loaded.
            has_no_environment: environment.is_some_and(|(start, end)| start == end && end != 0),
        })
    }
}

/// The display name of a process: the file name of its program, or the name in the system.
pub(super) fn name_of(pid: u32, program: Option<&Path>) -> String {
    let file_name = program.and_then(Path::file_name);
    let file_name = file_name.map(|name| name.to_string_lossy().into_owned());
    file_name.unwrap_or_else(|| {
        let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        String::from_utf8_lossy(&name).trim().to_owned()
    })
}

/// Whether a process is the witness of a command like this one, which records nothing.
pub(super) fn is_witness(pid: u32) -> bool {
    let name = fs::read(format!("/proc/{pid}/comm"));
    name.is_ok_and(|name| name.trim_ascii_end() == crate::record::witness::NAME.as_bytes())
}

/// Why a process does not record, if it does not. `is_fork` says whether it still executes the
/// program of its parent process.
pub(super) fn reason(pid: u32, is_fork: bool) -> Reason {
    match rights(pid) {
        Some(Reason::OtherUser) if is_fork => {}
        Some(reason) => return reason,
        None => {}
    }
    // A program that only its owner may read is not visible here.
    match File::open(format!("/proc/{pid}/exe")).map(|file| elf::kind_of(&file)) {
        Ok(ProgramKind::Static) => return Reason::Static,
        Ok(ProgramKind::Foreign) => return Reason::Foreign,
        Ok(ProgramKind::Dynamic | ProgramKind::Unknown) | Err(_) => {}
    }
    match environment_has(pid, super::SESSION_VARIABLE) {
        Some(false) => return Reason::ClearedEnvironment,
        Some(true) if environment_has(pid, super::PRELOAD) == Some(false) => {
            return Reason::ChangedPreload;
        }
        _ => {}
    }
    if is_fork {
        Reason::Forked
    } else {
        Reason::Silent
    }
}

/// The reason why a process does not record if it has rights that its parent process did not give
/// it, or belongs to another user. `None` for other processes. A forked process that has changed
/// its user is recorded.
fn rights(pid: u32) -> Option<Reason> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = |key: &str| -> Vec<u32> {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let words = line.unwrap_or_default().split_ascii_whitespace();
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let (users, groups) = (numbers("Uid:"), numbers("Gid:"));
    let differ = |numbers: &[u32]| numbers.windows(2).any(|pair| pair.first() != pair.last());
    let own = rustix::process::geteuid().as_raw();
    if differ(&users) || differ(&groups) {
        return Some(Reason::OtherRights);
    }
    let is_of_other = users.first().is_some_and(|user| *user != own);
    is_of_other.then_some(Reason::OtherUser)
}

/// Whether the environment with which a process began has a variable. `None` if it cannot be read,
/// as while the process begins.
fn environment_has(pid: u32, name: &str) -> Option<bool> {
    let bytes = read_some(&format!("/proc/{pid}/environ"))?;
    let mut variables = bytes.split(|byte| *byte == 0);
    let is_it = |variable: &[u8]| {
        let rest = variable.strip_prefix(name.as_bytes());
        rest.is_some_and(|rest| rest.starts_with(b"="))
    };
    // A process that is about to begin has none yet.
    let is_known =
        !bytes.is_empty() || Stat::of(pid).is_some_and(|process| process.has_no_environment);
    is_known.then(|| variables.any(is_it))
}

fn read_some(path: &str) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use test_support::patience::until;

    use super::*;

    /// Waits until the environment of a child is known, which is shortly after its start.
    fn has_begun(child: u32) {
        assert!(until(|| environment_has(child, "A").is_some()));
    }

    #[test]
    fn a_child_is_found_with_its_program_and_environment() {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command
            .env_clear()
            .env("A", "1")
            .env("PATH", "/usr/bin:/bin");
        let mut child = command.spawn().unwrap();
        let pid = child.id();
        let own = std::process::id();
        has_begun(pid);
        assert_eq!(processes_below([own]).get(&pid), Some(&own));
        assert_eq!(Stat::of(pid).map(|process| process.parent), Some(own));
        assert_eq!(environment_has(pid, "A"), Some(true));
        assert_eq!(environment_has(pid, "B"), Some(false));
        assert_eq!(reason(pid, false), Reason::ClearedEnvironment);
        assert!(!Stat::of(pid).unwrap().is_fork());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(Stat::of(pid), None);
    }

    #[test]
    fn a_forked_process_is_told_from_one_that_has_executed_a_program() {
        let script = "(while :; do sleep 0.05; done) & echo $!; exec cat";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(shell.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let forked: u32 = line.trim().parse().unwrap();
        let parent = Command::new("sh")
            .args(["-c", "(while :; do sleep 0.05; done) & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn();
        let mut parent = parent.unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(parent.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let subshell: u32 = line.trim().parse().unwrap();
        assert!(Stat::of(subshell).unwrap().is_fork());
        assert!(!Stat::of(shell.id()).unwrap().is_fork());
        // Its parent executes another program soon.
        assert!(until(|| !Stat::of(forked).unwrap().is_fork()));
        for pid in [forked, subshell, parent.id()] {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        drop(shell.stdin.take());
        shell.wait().unwrap();
        parent.wait().unwrap();
    }

    #[test]
    fn the_number_of_a_thread_is_that_of_no_process() {
        let (number, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = profiler_sys::spawn_quiet("test", move || {
            let own = rustix::thread::gettid().as_raw_nonzero().get();
            number.send(own.cast_unsigned()).unwrap();
            let _ = ended.recv();
        });
        let own = told.recv().unwrap();
        assert_eq!(Stat::of(own), None);
        assert!(Stat::of(std::process::id()).is_some());
        drop(end);
        thread.unwrap().join().unwrap();
    }

    #[test]
    fn an_image_that_the_system_hides_is_no_image() {
        let line = |code: u64, stack: u64| {
            let text = format!("7 (a) S 5 {}9 0 0 0 {code} 0 {stack} 0\n", "0 ".repeat(17));
            Stat::parse(text.as_bytes()).unwrap()
        };
        assert!(!line(1, 0).shows_image() && !line(0, 0).shows_image());
        assert!(line(4096, 8192).shows_image());
    }

    #[test]
    fn an_empty_environment_is_told_from_a_process_that_begins() {
        let mut child = Command::new("cat")
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        has_begun(child.id());
        assert_eq!(environment_has(child.id(), "A"), Some(false));
        drop(child.stdin.take());
        child.wait().unwrap();
        let line = |state: &str, start: u64, end: u64| {
            let before = "0 ".repeat(17);
            let between = "0 ".repeat(27);
            format!("7 (a) b) {state} 5 {before}99 {between}{start} {end} 0\n").into_bytes()
        };
        let parse = |line: Vec<u8>| Stat::parse(&line);
        let begins = parse(line("R", 0, 0)).unwrap();
        assert_eq!((begins.parent, begins.began, begins.used), (5, 99, 0));
        assert!(!begins.has_no_environment);
        assert!(parse(line("S", 8, 8)).unwrap().has_no_environment);
        assert!(!parse(line("S", 8, 9)).unwrap().has_no_environment);
        assert_eq!(parse(line("Z", 8, 8)), None);
        assert_eq!(parse(Vec::new()), None);
    }
}
