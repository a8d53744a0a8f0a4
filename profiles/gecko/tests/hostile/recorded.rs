//! A recorded pool with every kind of content. Used by `hostile_pools`, by
//! `profiler-parent/tests/foreign_pools.rs`, by `profiler-parent/flame/tests/foreign_samples.rs`
//! and by fuzz targets, which mutate it.

use std::cell::RefCell;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

use profiler_core::counter::Counter;
use profiler_core::ids::{ByteLimit, ThreadId};
use profiler_core::internal::panic_note::{self, PanicFacts};
use profiler_core::internal::pool::header::Header;
use profiler_core::internal::reader;
use profiler_core::internal::reader::ModuleDefinition;
use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_core::marker::{MarkerOptions, ProfilerMarker, add_text_marker, category};
use profiler_core::sampler::{self, Frame, Sample, SampleWriter};
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_core::time::Timestamp;
use profiler_core::{marker, scope, text_marker};

/// The bytes of a pool and its true header.
pub(crate) struct Recorded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) header: Header,
    /// A second copy, which tests change and restore.
    #[allow(dead_code)] // only `hostile_pools` uses it
    pub(crate) scratch: RefCell<Vec<u8>>,
}

#[derive(serde::Serialize)]
struct Everything<'a> {
    text: &'a str,
    number: u64,
    signed: i32,
    float: f64,
    flag: bool,
    nothing: Option<u8>,
    list: Vec<Vec<&'a str>>,
}

impl ProfilerMarker for Everything<'_> {
    const TYPE_NAME: &'static str = "Everything";
    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table("Everything").key_label_format(
            "text",
            "Text",
            Format::String,
        )
    }
}

static ITEMS: Counter = Counter::new("items", "Other", "items handled");

fn record(count: usize) {
    for index in 0..count {
        marker!("instant");
        let start = Timestamp::now();
        marker!(
            "interval",
            &category::IO,
            MarkerOptions::interval_until_now_from(start)
        );
        text_marker!("text", &category::IO, MarkerOptions::default(), "some text");
        let list = vec![vec!["a", "b"], vec![]];
        let everything = Everything {
            text: "ä",
            number: index as u64,
            signed: -1,
            float: 0.5,
            flag: true,
            nothing: None,
            list,
        };
        marker!(
            "typed",
            &category::IPC,
            MarkerOptions::default(),
            &everything
        );
        let foreign = MarkerOptions {
            thread: Some(ThreadId::new(1)),
            ..MarkerOptions::default()
        };
        marker!("foreign", &category::OTHER, foreign);
        let _scope = scope!("scope");
        add_text_marker("dynamic", &category::TEST, MarkerOptions::default(), "text");
    }
}

/// Records samples of two threads, of which one does not exist.
fn record_samples() {
    let base = 0x7f00_0000_0000;
    let end = 0x7f00_0001_0000;
    let module = ModuleDefinition {
        path: "/lib/a.so".to_owned(),
        build_id: vec![7; 20],
        base,
        start: base,
        end,
    };
    let module = sampler::define_module(&module).unwrap();
    let label = sampler::define_label("label", category::IO.sub(1), "src/a.rs", 7).unwrap();
    let mut writer = SampleWriter::new();
    for number in 0..40 {
        let thread = ThreadId::new(if number % 2 == 0 {
            u64::from(std::process::id())
        } else {
            1 << 40
        });
        let frames = [
            Frame::Code(module, 16),
            Frame::Label(label),
            Frame::Unknown(number % 3),
            Frame::Code(module, 8),
        ];
        let frames = &frames[..2 + number as usize % 3];
        let at = Timestamp::now();
        writer.sample(
            thread,
            &Sample {
                at,
                cpu_ns: Some(number),
                frames,
                cut: number % 5 == 0,
                failed: false,
            },
        );
        writer.same_as_before(thread, Timestamp::now());
    }
}

/// Notes a panic whose hook has returned, as `integrations/panic` does.
fn note_panic() {
    let noted = panic_note::note(&PanicFacts {
        at: Timestamp::now(),
        message: "no \u{201c}number\u{201d}",
        file: "src/hostile.rs",
        line: 7,
        column: 9,
        thread: "worker",
        ends_process: false,
    });
    noted.unwrap().hook_returned().unwrap();
}

/// Records a pool. Calls are serialized, because the session is global to the process.
pub(crate) fn recorded() -> Recorded {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let params = SessionParams {
        limit: ByteLimit::new(512 * 1024),
        ..SessionParams::default()
    };
    session::start(
        params,
        StartOptions {
            name: "hostile".to_owned(),
            ..StartOptions::default()
        },
    )
    .unwrap();
    profiler_core::groups::set_probes(profiler_core::groups::Probes::ALL);
    drop(profiler_core::group!("plugin:hostile").enter());
    note_panic();
    // One thread at a time, so the same bytes are in the same places in every run.
    for number in 0..3 {
        let thread = std::thread::Builder::new()
            .name(format!("t{number}"))
            .spawn(|| record(40));
        thread.unwrap().join().unwrap();
    }
    let sampling = std::thread::Builder::new()
        .name("sampling".to_owned())
        .spawn(record_samples);
    sampling.unwrap().join().unwrap();
    record(40);
    ITEMS.add(3);
    session::pause();
    session::resume();
    let file = session::pool_file().unwrap();
    let header = reader::read_header(&file).unwrap();
    let mut bytes = vec![0; usize::try_from(header.layout.pool_len).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    session::stop();
    let scratch = RefCell::new(bytes.clone());
    Recorded {
        bytes,
        header,
        scratch,
    }
}
