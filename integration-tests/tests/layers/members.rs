//! Finds the crates of the workspace. Used by `layers`.

use std::fs;
use std::path::Path;

/// The directories of all crates that `Cargo.toml` lists as `members`, relative to the workspace.
/// `directory/*` stands for each crate in a directory.
pub(crate) fn members(workspace: &Path) -> Vec<String> {
    let manifest = fs::read_to_string(workspace.join("Cargo.toml")).unwrap();
    let (_, list) = manifest.split_once("\nmembers = [").unwrap();
    let (list, _) = list.split_once(']').unwrap();
    let listed = list.split('"').skip(1).step_by(2);
    listed
        .flat_map(|member| match member.strip_suffix("/*") {
            Some(directory) => crates_in(workspace, directory),
            None => vec![member.to_owned()],
        })
        .collect()
}

/// The directories below `directory` that contain a crate.
fn crates_in(workspace: &Path, directory: &str) -> Vec<String> {
    let entries = fs::read_dir(workspace.join(directory)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let crates = paths.filter(|path| path.join("Cargo.toml").exists());
    let mut names: Vec<String> = crates
        .map(|path| format!("{directory}/{}", path.file_name().unwrap().display()))
        .collect();
    names.sort();
    names
}
