use profiler_core::marker::ProfilerMarker;

#[derive(serde::Serialize, ProfilerMarker)]
struct Load {
    bytes: u64,
    #[serde(rename = "bytes")]
    size: u64,
}

fn main() {}
