//! The member `meta` of a profile, which describes it.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::table::as_index;

/// The member `meta`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// Name of the application, or of one of its processes.
    pub product: Option<String>,
    /// The version of the service, which a caller of an export states.
    #[serde(skip)]
    pub service_version: Option<String>,
    /// The command line of the outermost process, if it is shown.
    pub arguments: Option<String>,
    /// Milliseconds between two samples.
    pub interval: Option<f64>,
    /// Where the samples come from, see `profiler_core::session::SampleSource`.
    pub sample_source: Option<String>,
    /// Milliseconds since 1970.
    pub start_time: Option<f64>,
    /// The same in nanoseconds, exactly.
    #[serde(rename = "startUnixNs")]
    pub start_unix_ns: Option<u64>,
    /// The machines that recorded it.
    pub hosts: Vec<Host>,
    /// The system of the machine, such as `linux`.
    pub platform: Option<String>,
    /// The architecture of the machine.
    pub abi: Option<String>,
    /// When the session started, in nanoseconds of the monotonic clock.
    #[serde(rename = "startTimeAsClockMonotonicNanosecondsSinceBoot")]
    pub start_monotonic_ns: Option<f64>,
    /// Milliseconds since the session's start.
    pub profiling_start_time: Option<f64>,
    /// Milliseconds since the session's start.
    pub profiling_end_time: Option<f64>,
    sample_units: Option<SampleUnits>,
    preprocessed_profile_version: Option<IgnoredAny>,
    marker_schema: Vec<Schema>,
    categories: Vec<Category>,
}

/// A machine that recorded a profile, or a part of a merged profile.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Its name.
    pub name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SampleUnits {
    #[serde(rename = "threadCPUDelta")]
    cpu: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Category {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Schema {
    name: String,
    /// Gecko form.
    data: Vec<SchemaField>,
    /// Processed form.
    fields: Vec<SchemaField>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SchemaField {
    key: String,
    label: Option<String>,
    format: Value,
}

/// A field of a payload whose value is an index into the texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextField {
    /// The key of the field.
    pub key: String,
    /// What the marker does with the flow that the field names.
    pub flow: Option<Flow>,
}

/// A marker's effect on a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The flow goes on after the marker.
    Goes,
    /// The flow ends with the marker.
    Ends,
}

impl Meta {
    /// Names the machine. A profile of several machines keeps their names.
    pub fn set_host(&mut self, name: &str) {
        if self.hosts.len() <= 1 {
            let name = name.to_owned();
            self.hosts = vec![Host { name }];
        }
    }

    /// Whether the processor time of a thread's first sample is known to be the time since the
    /// thread's start, or since an earlier sample that the profile does not contain. This holds for
    /// profiles of this profiler, which are the only ones that state their start in nanoseconds. In
    /// other profiles, the number may have any value.
    pub fn knows_first_cpu(&self) -> bool {
        self.start_unix_ns.is_some()
    }

    /// Whether the profile is in the processed format.
    pub fn is_processed(&self) -> bool {
        self.preprocessed_profile_version.is_some()
    }

    /// Nanoseconds in one unit of processor time; `None` if the unit is not a unit of time.
    pub fn cpu_unit_ns(&self) -> Option<f64> {
        match self.sample_units.as_ref()?.cpu.as_deref()? {
            "ns" => Some(1.0),
            "µs" => Some(1e3),
            _ => None,
        }
    }

    /// The duration of a sample without a predecessor, in nanoseconds.
    pub fn interval_ns(&self) -> i64 {
        (self
            .interval
            .filter(|ms| ms.is_finite() && *ms > 0.0)
            .unwrap_or(1.0)
            * 1e6) as i64
    }

    /// The name of the machine, if the profile has it and is of one machine.
    pub fn host(&self) -> Option<&str> {
        match self.hosts.as_slice() {
            [host] => Some(&host.name),
            _ => None,
        }
    }

    /// The names of the categories, in the order of their numbers.
    pub fn category_names(&self) -> impl Iterator<Item = &str> {
        self.categories
            .iter()
            .map(|category| category.name.as_str())
    }

    /// The name of the category with this number.
    pub fn category(&self, index: f64) -> &str {
        let category = as_index(index).and_then(|index| self.categories.get(index));
        category.map_or("Other", |category| &category.name)
    }

    /// The fields of payload types that are indices into the texts.
    pub fn text_fields(&self) -> HashMap<String, Vec<TextField>> {
        let of = |schema: &Schema| {
            let fields = schema
                .data
                .iter()
                .chain(&schema.fields)
                .filter_map(text_field);
            (schema.name.clone(), fields.collect::<Vec<_>>())
        };
        self.marker_schema
            .iter()
            .map(of)
            .filter(|(_, fields)| !fields.is_empty())
            .collect()
    }

    /// The full names of fields whose keys are a plain form of them, such as `http.method` for the
    /// key `http_method`, by type and key.
    pub fn field_names(&self) -> HashMap<String, HashMap<String, String>> {
        let of = |schema: &Schema| {
            let fields = schema.data.iter().chain(&schema.fields);
            let names = fields.filter_map(|field| {
                let label = field.label.as_ref()?;
                is_plain_form(&field.key, label).then(|| (field.key.clone(), label.clone()))
            });
            (schema.name.clone(), names.collect::<HashMap<_, _>>())
        };
        let all = self.marker_schema.iter().map(of);
        all.filter(|(_, names)| !names.is_empty()).collect()
    }
}

/// Whether a key is a name with underscores for other characters than letters and digits, and
/// differs from it.
fn is_plain_form(key: &str, name: &str) -> bool {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter
        } else {
            '_'
        }
    };
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    key != name && name.chars().all(is_name) && key.chars().eq(name.chars().map(plain))
}

fn text_field(field: &SchemaField) -> Option<TextField> {
    let flow = match field.format.as_str()? {
        "unique-string" => None,
        "flow-id" => Some(Flow::Goes),
        "terminating-flow-id" => Some(Flow::Ends),
        _ => return None,
    };
    Some(TextField {
        key: field.key.clone(),
        flow,
    })
}
