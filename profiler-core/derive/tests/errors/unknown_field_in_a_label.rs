use profiler_core::marker::ProfilerMarker;

#[derive(serde::Serialize, ProfilerMarker)]
#[marker_type(label = "{marker.data.byts}")]
struct Load {
    bytes: u64,
}

fn main() {}
