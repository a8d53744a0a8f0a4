use profiler_core::marker::ProfilerMarker;

#[derive(serde::Serialize, ProfilerMarker)]
struct Load {
    #[field(format = "byte")]
    bytes: u64,
}

fn main() {}
