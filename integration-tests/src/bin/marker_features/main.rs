//! Records every marker feature in several processes, as input for the real viewer.
//!
//! ```text
//! cargo run --release -p integration-tests --bin marker_features -- OUT.json EXPECT.json
//! node integration-tests/viewer/check.mjs OUT.json EXPECT.json
//! ```
//!
//! `EXPECT.json` lists what was recorded and how the viewer must show it. Its numbers and texts
//! stand beside the recording calls ([`record`], [`types`]); they are not read from the profile.

mod expect;
mod parent;
mod record;
mod types;

use std::path::Path;

use anyhow::{Result, bail};

/// The argument that makes this program a child. The child's role follows it.
const ROLE: &str = "--role";

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match &arguments[..] {
        [flag, role] if flag == ROLE && role == parent::EVERYTHING => record::everything(),
        [flag, role] if flag == ROLE && role == parent::VICTIM => record::victim(),
        [out, expect] => parent::run(Path::new(out), Path::new(expect), None),
        [out, expect, gecko] => {
            parent::run(Path::new(out), Path::new(expect), Some(Path::new(gecko)))
        }
        _ => bail!("usage: marker_features OUT.json EXPECT.json [GECKO.json]"),
    }
}
