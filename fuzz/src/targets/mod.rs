//! The targets by name. Each has one function that checks one input.

mod assembly;
mod child_json;
mod control_frame;
mod cpuprofile_import;
mod definitions;
mod entry_decode;
mod environment;
mod flame_samples;
mod fleet_answer;
mod generated_code;
mod groups_and_follow;
mod growth;
mod json_parser;
mod live_request;
mod observed_file;
mod otlp_answer;
mod payload_decode;
mod pool_reader;
mod profile_export;
mod profile_merge;
mod recover_mutated_pool;
mod source_request;
mod symbol_names;
mod symbols;
mod unwind;

/// Checks one input. Panics if the checked code breaks a rule.
pub(crate) type CheckInput = fn(&[u8]);

/// All targets.
pub(crate) const TARGETS: &[(&str, CheckInput)] = &[
    ("assembly", assembly::check_input),
    ("child_json", child_json::check_input),
    ("control_frame", control_frame::check_input),
    ("cpuprofile_import", cpuprofile_import::check_input),
    ("definitions", definitions::check_input),
    ("entry_decode", entry_decode::check_input),
    ("environment", environment::check_input),
    ("flame_samples", flame_samples::check_input),
    ("fleet_answer", fleet_answer::check_input),
    ("generated_code", generated_code::check_input),
    ("groups_and_follow", groups_and_follow::check_input),
    ("growth", growth::check_input),
    ("json_parser", json_parser::check_input),
    ("live_request", live_request::check_input),
    ("observed_file", observed_file::check_input),
    ("otlp_answer", otlp_answer::check_input),
    ("payload_decode", payload_decode::check_input),
    ("pool_reader", pool_reader::check_input),
    ("profile_export", profile_export::check_input),
    ("profile_merge", profile_merge::check_input),
    ("recover_mutated_pool", recover_mutated_pool::check_input),
    ("source_request", source_request::check_input),
    ("symbol_names", symbol_names::check_input),
    ("symbols", symbols::check_input),
    ("unwind", unwind::check_input),
];
