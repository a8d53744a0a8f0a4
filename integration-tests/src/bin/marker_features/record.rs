//! What the children record. [`super::expect`] lists the expected result.

use std::io::{self, BufRead as _, Write as _};
use std::thread::Builder;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use profiler_child::{Status, marker, scope, text_marker};
use profiler_core::counter::Counter;
use profiler_core::marker::schema::{CategoryColor, GraphColor};
use profiler_core::marker::{
    Category, MarkerOptions, MarkerTiming, add_marker, add_text_marker, add_untyped_marker,
    category,
};
use profiler_core::thread;
use profiler_core::time::Timestamp;

use crate::types::{At, Formats, Graphs, InCategory, Labels, PLACES};

macro_rules! categories {
    ($($color:ident),+) => {
        /// A category of every colour, each with two subcategories.
        pub(crate) static CATEGORIES: [Category; CategoryColor::ALL.len()] = [$(
            Category::new(concat!(stringify!($color), " work"), CategoryColor::$color, &["First", "Second"]),
        )+];
    };
}

categories!(
    Transparent,
    Blue,
    Brown,
    DarkGrey,
    Green,
    Grey,
    LightBlue,
    LightGreen,
    LightRed,
    Magenta,
    Orange,
    Purple,
    Red,
    Yellow
);

static MEMORY: Counter = Counter::new("Cache", "Memory", "Bytes in the cache");
static MORE_MEMORY: Counter = Counter::new("Buffers", "Memory", "Bytes in buffers");
static BANDWIDTH: Counter = Counter::new("Read", "Bandwidth", "Bytes read");
static OTHER: Counter = Counter::new("Jobs", "Work", "Jobs that are waiting");

/// Texts that must arrive unchanged.
pub(crate) const TEXTS: [&str; 5] = [
    "",
    "line\nbreak",
    "\u{1F980} \"\\ \u{7f} \u{0}",
    "</script>",
    "ünïcödé",
];
/// Number of markers that another thread records on the helper thread.
pub(crate) const FOR_ANOTHER: u64 = 3;
/// A thread name that is not ASCII.
pub(crate) const HELPER: &str = "Helfer \u{2192} 2";

/// Reports a step and waits for the parent's request. Returns `false` if the parent has closed the
/// pipe.
fn step(name: &str) -> Result<bool> {
    writeln!(io::stdout(), "{name}")?;
    Ok(io::stdin().lock().read_line(&mut String::new())? > 0)
}

/// Joins the parent's session. Fails if the child does not record.
fn init() -> Result<()> {
    let status = profiler_child::init();
    ensure!(
        matches!(status, Status::Recording),
        "not recording: {status:?}"
    );
    Ok(())
}

/// The child that records everything.
pub(crate) fn everything() -> Result<()> {
    init()?;
    plain();
    timings();
    scopes();
    typed();
    places();
    colours();
    counters();
    helper()?;
    step("recorded")?;
    marker!("while paused");
    step("paused")?;
    marker!("after the pause");
    step("resumed")?;
    Ok(())
}

/// The child that is killed: between the start and the end of an interval, and inside a scope.
pub(crate) fn victim() -> Result<()> {
    init()?;
    for _ in 0..1000 {
        marker!("before the end");
    }
    marker!(
        "never ended",
        &category::TEST,
        MarkerOptions::interval_start()
    );
    let _scope = scope!("open scope");
    step("recorded")?;
    Ok(())
}

fn plain() {
    marker!("untyped");
    marker!("untyped", &category::TEST);
    text_marker!(
        "text",
        &category::TEST,
        MarkerOptions::default(),
        "some text"
    );
    for text in TEXTS {
        add_text_marker("texts", &category::TEST, MarkerOptions::default(), text);
    }
    for number in 0..3 {
        add_untyped_marker(
            &format!("dynamic {number}"),
            &category::TEST,
            MarkerOptions::default(),
        );
    }
    let long = "long ".repeat(2000);
    add_text_marker(
        "long text",
        &category::TEST,
        MarkerOptions::default(),
        &long,
    );
}

fn timings() {
    let start = Timestamp::now();
    std::thread::sleep(Duration::from_millis(2));
    let end = Timestamp::now();
    let record = |timing: MarkerTiming| marker!("timing", &category::TIMER, timing.into());
    record(MarkerTiming::InstantNow);
    record(MarkerTiming::InstantAt(start));
    record(MarkerTiming::Interval(start, end));
    record(MarkerTiming::IntervalUntilNowFrom(start));
    marker!(
        "start and end",
        &category::TIMER,
        MarkerOptions::interval_start()
    );
    marker!(
        "start and end",
        &category::TIMER,
        MarkerOptions::interval_end()
    );
    marker!(
        "unfinished",
        &category::TIMER,
        MarkerOptions::interval_start()
    );
    marker!(
        "end without start",
        &category::TIMER,
        MarkerOptions::interval_end()
    );
}

fn scopes() {
    let _outer = scope!("outer scope");
    let _inner = scope!("inner scope", &category::TEST);
    let _text = scope!("scope with text", &category::TEST, "its text");
}

fn typed() {
    let now = MarkerOptions::default();
    marker!("formats", &category::TEST, now, &Formats::new());
    for (good, note) in [(true, None), (false, Some("a note"))] {
        let what = if good { "first" } else { "second" };
        marker!(
            "labels",
            &category::TEST,
            now,
            &Labels {
                what,
                good,
                note,
                secret: 7
            }
        );
    }
    let start = Timestamp::now();
    for (number, color) in (0..).zip(GraphColor::ALL) {
        let until_now = MarkerOptions::interval_until_now_from(start);
        let line = f64::from(number) / 2.0;
        let filled = 5 - number as i32;
        marker!(
            "graphs",
            &category::TEST,
            until_now,
            &Graphs {
                bar: number,
                line,
                filled,
                color: color.name()
            }
        );
    }
}

fn places() {
    let now = MarkerOptions::default();
    marker!("place 0", &category::TEST, now, &At::<0> { number: 0 });
    marker!("place 1", &category::TEST, now, &At::<1> { number: 1 });
    marker!("place 2", &category::TEST, now, &At::<2> { number: 2 });
    marker!("place 3", &category::TEST, now, &At::<3> { number: 3 });
    marker!("place 4", &category::TEST, now, &At::<4> { number: 4 });
    marker!("place 5", &category::TEST, now, &At::<5> { number: 5 });
    marker!("place 6", &category::TEST, now, &At::<6> { number: 6 });
    marker!("place 7", &category::TEST, now, &At::<7> { number: 7 });
    const { assert!(PLACES.len() == 8) };
}

fn colours() {
    for category in &CATEGORIES {
        for subcategory in 0..3 {
            let pair = category.sub(subcategory);
            add_marker(
                "category",
                pair,
                MarkerOptions::default(),
                &InCategory { subcategory },
            );
        }
    }
}

fn counters() {
    MEMORY.add(8192);
    MEMORY.add(-4096);
    MORE_MEMORY.add(1024);
    BANDWIDTH.add(1 << 20);
    OTHER.set(3);
}

/// Starts a thread with its own name and records markers on it from this thread while it runs.
fn helper() -> Result<()> {
    let (id_sender, id_receiver) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let helper = Builder::new().name("helper".into()).spawn(move || {
        thread::register(HELPER);
        marker!("own");
        let _ = id_sender.send(thread::current());
        let _ = ended.recv();
    })?;
    let helper_id = id_receiver.recv()?;
    for _ in 0..FOR_ANOTHER {
        marker!(
            "for another",
            &category::TEST,
            MarkerOptions::default().on_thread(helper_id)
        );
    }
    drop(end);
    helper.join().map_err(|_| anyhow!("the helper panicked"))
}
