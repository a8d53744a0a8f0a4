//! The README of each package shows it beside the others, as the example does that is compiled.

use std::path::Path;

const EXAMPLE: &str = include_str!("../examples/together.rs");
const PACKAGES: [&str; 7] = [
    "crash", "log", "metrics", "panic", "rayon", "tokio", "tracing",
];

#[test]
fn each_readme_shows_the_program_with_all_packages() {
    let (_, code) = EXAMPLE.split_once("\n\n").unwrap();
    let block = format!("```rust,ignore\n{code}```\n");
    let integrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integrations");
    for package in PACKAGES {
        let readme = integrations.join(package).join("README.md");
        let text = std::fs::read_to_string(readme).unwrap();
        assert!(text.contains(&block), "{package} lacks:\n{block}");
    }
}
