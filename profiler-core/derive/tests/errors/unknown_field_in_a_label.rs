use profiler_core::marker::ProfilerMarker;

#[derive(serde::Serialize, ProfilerMarker)]
#[marker(label = "{marker.data.byts}")]
struct Load {
    bytes: u64,
}

fn main() {}
