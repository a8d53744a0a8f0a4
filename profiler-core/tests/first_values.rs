//! Test of the first value of a payload type, which defines the keys and the schema of the type. If
//! this fails, the entry is counted with its reason.

use crate::support;
use profiler_core::marker;
use profiler_core::marker::schema::MarkerSchema;
use profiler_core::marker::{MarkerOptions, ProfilerMarker, add_marker, category};
use profiler_core::session::DropReason;
use profiler_core::session::{self, SessionParams, StartOptions};
use test_support::own_process;

/// What the only field of a payload does when it is serialized.
enum Does {
    Work,
    Fail,
    Panic,
}

impl serde::Serialize for Does {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Work => serializer.serialize_u8(1),
            Self::Fail => Err(serde::ser::Error::custom("no")),
            Self::Panic => panic!("in the payload"),
        }
    }
}

/// A payload that is not a struct, so it has no keys.
struct NoStruct(Does);

impl serde::Serialize for NoStruct {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl ProfilerMarker for NoStruct {
    const TYPE_NAME: &'static str = "NoStruct";
    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table("NoStruct")
    }
}

#[derive(serde::Serialize)]
struct NoSchema {
    value: u8,
}

impl ProfilerMarker for NoSchema {
    const TYPE_NAME: &'static str = "NoSchema";
    fn schema() -> MarkerSchema {
        panic!("in the schema")
    }
}

fn caught(body: impl FnOnce()) {
    assert!(
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_err(),
        "no panic"
    );
}

#[test]
fn a_first_value_that_fails_or_panics_is_counted_as_unencodable() {
    own_process!();
    session::start(SessionParams::default(), StartOptions::default()).unwrap();
    let options = MarkerOptions::default;
    marker!("fails", &category::TEST, options(), &NoStruct(Does::Fail));
    add_marker(
        "fails by name",
        &category::TEST,
        options(),
        &NoStruct(Does::Work),
    );
    caught(|| marker!("panics", &category::TEST, options(), &NoStruct(Does::Panic)));
    caught(|| {
        marker!(
            "no schema",
            &category::TEST,
            options(),
            &NoSchema { value: 1 }
        )
    });
    caught(|| {
        add_marker(
            "no schema",
            &category::TEST,
            options(),
            &NoSchema { value: 1 },
        )
    });
    marker!("after");
    let counts = support::snapshot().counts();
    assert_eq!(counts.dropped.of(DropReason::Unencodable), 5, "{counts:?}");
    assert_eq!(
        (counts.dropped.total(), counts.delivered, counts.recorded()),
        (5, 1, 6)
    );
    session::stop();
}
