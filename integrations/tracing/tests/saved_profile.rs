//! The markers of a saved profile, in either format.

use std::path::Path;

use serde_json::Value;

/// The markers of a profile.
#[derive(Debug)]
pub(crate) struct SavedProfile(Vec<SavedMarker>);

/// A marker. Its times are in milliseconds since the start of its process's session.
#[derive(Clone, Debug)]
pub(crate) struct SavedMarker {
    pub(crate) process: String,
    pub(crate) pid: String,
    pub(crate) name: String,
    pub(crate) start: Option<f64>,
    pub(crate) end: Option<f64>,
    pub(crate) data: Value,
}

impl SavedProfile {
    /// Reads a profile in the processed format or in the Gecko format.
    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let profile: Value = serde_json::from_str(&text).unwrap();
        let mut markers = Vec::new();
        if profile["shared"].is_object() {
            let texts = &profile["shared"]["stringArray"];
            for thread in array(&profile["threads"]) {
                add_columns(thread, texts, &mut markers);
            }
        } else {
            add_processes(&profile, &mut markers);
        }
        Self(markers)
    }

    /// The markers of this name.
    pub(crate) fn named(&self, name: &str) -> Vec<&SavedMarker> {
        self.0.iter().filter(|marker| marker.name == name).collect()
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Adds the markers of a process and of the processes below it.
fn add_processes(process: &Value, markers: &mut Vec<SavedMarker>) {
    for thread in array(&process["threads"]) {
        for row in array(&thread["markers"]["data"]) {
            let columns = [&row[0], &row[1], &row[2], &row[5]];
            add(thread, &thread["stringTable"], columns, markers);
        }
    }
    for below in array(&process["processes"]) {
        add_processes(below, markers);
    }
}

fn add_columns(thread: &Value, texts: &Value, markers: &mut Vec<SavedMarker>) {
    let table = &thread["markers"];
    for row in 0..array(&table["name"]).len() {
        let columns = ["name", "startTime", "endTime", "data"].map(|key| &table[key][row]);
        add(thread, texts, columns, markers);
    }
}

fn add(
    thread: &Value,
    texts: &Value,
    [name, start, end, data]: [&Value; 4],
    markers: &mut Vec<SavedMarker>,
) {
    let name = &texts[usize::try_from(name.as_u64().unwrap()).unwrap()];
    markers.push(SavedMarker {
        process: thread["processName"].as_str().unwrap_or("").to_owned(),
        pid: thread["pid"].to_string(),
        name: name.as_str().unwrap().to_owned(),
        start: start.as_f64(),
        end: end.as_f64(),
        data: data.clone(),
    });
}
