use profiler_core::marker::ProfilerMarker;

#[derive(serde::Serialize, ProfilerMarker)]
struct Load {
    parts: Vec<u64>,
}

fn main() {}
