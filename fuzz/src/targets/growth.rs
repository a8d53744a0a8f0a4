//! Fuzzes the time that work on a profile takes: it grows in proportion to the profile.
//!
//! The input describes a small profile. The same profile with a few numbers multiplied by
//! [`FACTOR`] is made, too: with more samples, deeper stacks, more threads. Work whose time grows
//! with the product of two of these numbers, or with the square of one, fails. The processor time
//! is compared, and a time below a limit passes, so that other work on the machine makes no input
//! fail.

use std::path::Path;
use std::time::Duration;

use profiler_analysis::read_timeline;
use profiler_export::{ExportOptions, TimeKind, export, import_cpuprofile};
use profiler_files::WorkListener;
use profiler_merge::{MergeInput, merge};

use crate::bound::{add_input, processor_time};
use crate::command::{diff, profile, waits};
use crate::growth::{Shape, Stacks, nested_nodes, nodes, profile as text_of};
use crate::hostile::exported::{TARGETS, writes_stacks};
use crate::hostile::room::Room;

/// The factor by which the growing numbers of the larger profile are larger.
const FACTOR: usize = 4;
/// The longest time of work on the larger profile, as a multiple of the time for the smaller one.
/// Work whose time grows with the square of a number takes 16 times as long.
const MAX_RATIO: f64 = 8.5;
/// A time for the larger profile that always passes.
const SHORT: Duration = Duration::from_millis(200);
/// The maximum number of measurements of both times. The shortest times are compared.
const TRIES: usize = 4;

thread_local! {
    static ROOM: Room = Room::new();
}

/// Work on a profile.
#[derive(Clone, Copy, Debug)]
enum Work {
    Info,
    Waits,
    /// The critical path of the process that began first, or of the longest marker with a name.
    Path(Option<&'static str>),
    Diff,
    Merge,
    Export(usize, TimeKind),
    /// The import of a file with its nodes in a list.
    Import,
    /// The import of a file whose nodes contain each other.
    ImportNested,
}

impl Work {
    const fn of(byte: u8) -> Self {
        let target = (byte >> 1) as usize % TARGETS.len();
        match byte {
            0 => Self::Info,
            1 => Self::Waits,
            2 => Self::Path(None),
            3 => Self::Path(Some("m0")),
            4 => Self::Diff,
            5 => Self::Merge,
            6 => Self::Import,
            7 => Self::ImportNested,
            8.. if byte & 1 == 0 => Self::Export(target, TimeKind::Cpu),
            8.. => Self::Export(target, TimeKind::Wall),
        }
    }

    /// The shape that this work is to have.
    fn shape(self, shape: Shape) -> Shape {
        match self {
            Self::Export(target, _) if writes_stacks(TARGETS[target]) => shape.of_whole_stacks(),
            Self::Diff => shape.of_few_names(),
            Self::ImportNested if shape.stacks_are != Stacks::Comb => Shape {
                stacks_are: Stacks::Chain,
                ..shape
            },
            _ => shape,
        }
    }

    fn text(self, shape: &Shape) -> String {
        match self {
            Self::Import => nodes(shape),
            Self::ImportNested => nested_nodes(shape),
            _ => text_of(shape),
        }
    }

    /// Does the work. Returns the processor time that it took.
    fn time(self, from: &Path, room: &Room) -> Duration {
        let to = room.path("out");
        let before = processor_time();
        match self {
            Self::Info => {
                let wanted = profile::Wanted {
                    top: 10,
                    by: None,
                    names: false,
                };
                let report = profile::read(from, wanted, WorkListener::default());
                report.expect("a readable profile").print();
            }
            Self::Waits => {
                let timeline = read_timeline(from, None, false, WorkListener::default());
                waits::report(&timeline.expect("a readable profile"));
            }
            Self::Path(name) => {
                let timeline = read_timeline(from, name, false, WorkListener::default());
                waits::path(&timeline.expect("a readable profile"), name);
            }
            Self::Diff => {
                diff::compared(from, from);
            }
            Self::Merge => {
                let other = room.path("other.json");
                std::fs::copy(from, &other).expect("a copy");
                let inputs = [MergeInput::new(from), MergeInput::new(other)];
                merge(&inputs, &[], &to).expect("a merged profile");
            }
            Self::Export(target, time) => {
                let options = ExportOptions::to(TARGETS[target]).time(time).names(false);
                export(from, &to, &options).expect("an export");
            }
            Self::Import | Self::ImportNested => {
                import_cpuprofile(from, &to).expect("an imported file");
            }
        }
        processor_time().saturating_sub(before)
    }
}

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let work = Work::of(*first);
    let small = work.shape(Shape::of(rest));
    ROOM.with(|room| check(work, small, room));
}

fn check(work: Work, small: Shape, room: &Room) {
    let large = small.grown(FACTOR);
    let texts = [small, large].map(|shape| work.text(&shape));
    let lengths = [&texts[0], &texts[1]].map(String::len);
    let mut least = [Duration::MAX; 2];
    for _ in 0..TRIES {
        for (text, least) in texts.iter().zip(&mut least) {
            room.clear();
            let from = room.path("profile.json");
            std::fs::write(&from, text).expect("a writable file");
            add_input(text.len());
            *least = (*least).min(work.time(&from, room));
        }
        if is_linear(least) {
            room.clear();
            return;
        }
    }
    panic!(
        "{work:?} takes {:?} for {} bytes and {:?} for {}, at most {MAX_RATIO} times as much: {small:?} {large:?}",
        least[0], lengths[0], least[1], lengths[1]
    );
}

fn is_linear([small, large]: [Duration; 2]) -> bool {
    large <= SHORT || large.as_secs_f64() <= small.as_secs_f64() * MAX_RATIO
}
