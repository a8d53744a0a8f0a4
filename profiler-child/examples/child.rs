//! Example: a child process. `profiler record -- target/debug/examples/child` writes its profile.

use std::time::{Duration, Instant};

use profiler_child::{Status, label, scope};

#[label::function]
fn spin(milliseconds: u64) -> u64 {
    let _scope = scope!("spin");
    #[allow(clippy::disallowed_methods)] // measures the work of the example
    let begin = Instant::now();
    let mut turns = 0;
    while begin.elapsed() < Duration::from_millis(milliseconds) {
        turns += 1;
    }
    turns
}

fn main() {
    match profiler_child::init() {
        Status::Recording => println!("a parent records this process"),
        Status::Off(error) => println!("the profiler is off: {error}"),
        _ => println!("no parent: run `profiler record -- target/debug/examples/child`"),
    }
    println!("{} turns", spin(100));
}
