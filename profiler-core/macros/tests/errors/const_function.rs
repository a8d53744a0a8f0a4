#[profiler_core::label::function]
const fn size() -> usize {
    8
}

fn main() {}
