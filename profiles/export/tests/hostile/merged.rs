//! Properties of the merge of any file with a valid profile: no merge panics, and a file that is
//! taken gives a well-formed profile. References are valid, the length is bounded by that of the
//! files, and every export reads it if it reads the file. A refused file leaves no output.
//!
//! Used by `foreign_files` and the fuzz target `profile_merge`.

use profiler_merge::{MergeError, MergeInput, merge};
use serde_json::Value;

use super::exported;
use super::imported::{check_refers, check_shared, column, length};
use super::room::Room;

const OTHER: &str = include_str!("../corpus/profile_merge/plain.json");

/// The most bytes of a merged profile for each byte of its inputs. The merge writes the name of a
/// host, with at most 255 bytes that may be escaped, for each process, and a process of a log may
/// have three bytes.
const MAX_TIMES: u64 = 256;

/// Merges a text with a valid profile. Returns the number of samples if the text was taken.
pub(crate) fn check(text: &[u8], room: &Room) -> Option<u64> {
    let is_exported = exported::check(text, room).is_some();
    room.clear();
    let [from, other, to] = ["in.json", "other.json", "merged.json"].map(|name| room.path(name));
    std::fs::write(&from, text).expect("a writable file");
    std::fs::write(&other, OTHER).expect("a writable file");
    let inputs = [MergeInput::new(other), MergeInput::new(from)];
    match merge(&inputs, &[], &to) {
        Err(error) => {
            let is_of_file = matches!(
                error,
                MergeError::Read(_)
                    | MergeError::GeckoFormat { .. }
                    | MergeError::Version { .. }
                    | MergeError::Incompatible { .. }
                    | MergeError::TooManyHosts { .. }
            );
            assert!(is_of_file, "{error}");
            assert_eq!(room.count(), 2, "a file is left");
            None
        }
        Ok(merged) => {
            let written = std::fs::read(&to).expect("the file");
            assert_eq!(merged.bytes, written.len() as u64);
            assert!(
                merged.bytes <= 65_536 + MAX_TIMES * text.len() as u64,
                "{} bytes from {}",
                merged.bytes,
                text.len()
            );
            let profile: Value = serde_json::from_slice(&written).expect("JSON");
            let stacks = check_shared(&profile["shared"]);
            let threads = profile["threads"].as_array().expect("threads");
            assert_eq!(merged.counts.threads, threads.len() as u64);
            for samples in threads.iter().map(|thread| &thread["samples"]) {
                if samples["stack"].is_array() {
                    check_refers(column(samples, "stack"), stacks);
                }
            }
            let first = length(&profile["threads"][0]["samples"]);
            assert_eq!(first, 2, "the samples of the valid profile");
            // The merge copies damaged members that an export must understand.
            let is_still_exported = exported::check(&written, room).is_some();
            assert!(is_still_exported || !is_exported, "it is not exported");
            Some(merged.counts.samples)
        }
    }
}
