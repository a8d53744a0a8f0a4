//! Where an imported profile comes from, and the categories of its functions.
//!
//! Used by the writers of [`super::processed`].

use super::format::CallFrame;

/// Where a profile comes from.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Origin {
    /// The name of the format.
    pub(in super::super) name: &'static str,
    /// Whether functions are those of scripts.
    pub(in super::super) is_script: bool,
}

pub(super) const CPU_PROFILE: Origin = Origin {
    name: "cpuprofile",
    is_script: true,
};

impl Origin {
    pub(super) fn category(self, frame: &CallFrame) -> u64 {
        match frame.function_name.as_str() {
            "(idle)" => IDLE,
            "(garbage collector)" => COLLECTOR,
            "(root)" | "(program)" => OTHER,
            _ if self.is_script => SCRIPT,
            _ => OTHER,
        }
    }
}

/// Rows in the table of categories.
const OTHER: u64 = 0;
const IDLE: u64 = 1;
pub(super) const SCRIPT: u64 = 2;
const COLLECTOR: u64 = 3;
pub(super) const CATEGORIES: &str = r#"[{"name":"Other","color":"grey","subcategories":["Other"]},
{"name":"Idle","color":"transparent","subcategories":["Other"]},
{"name":"JavaScript","color":"yellow","subcategories":["Other"]},
{"name":"GC / CC","color":"orange","subcategories":["Other"]}]"#;
