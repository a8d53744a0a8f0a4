//! The marker types of the merged profile, and how the payloads of an input must be changed.
//!
//! Types with the same name and contents are one. Types with the same name and other contents both
//! stay: the later one is called `NAME (2)`, and its markers have that type. Invariant: the number
//! depends on the order of the inputs only, so merging in steps gives the same names.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Map, Value};

/// How the value of a field depends on its profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldKind {
    /// The number of a text.
    Text,
    /// The number of a text that ties markers together.
    Flow,
    /// Milliseconds since the profile's start.
    Time,
    /// The number of a process.
    Process,
}

impl FieldKind {
    /// The kind of a field with this format; `None` if it is the same in every profile.
    fn of(format: &Value) -> Option<Self> {
        match format.as_str()? {
            "unique-string" => Some(Self::Text),
            "flow-id" | "terminating-flow-id" => Some(Self::Flow),
            "time" => Some(Self::Time),
            "pid" => Some(Self::Process),
            _ => None,
        }
    }
}

/// What must be changed in payloads of a type.
#[derive(Debug, Default)]
pub(super) struct PayloadPlan {
    /// The new name of the type.
    pub(super) renamed: Option<String>,
    /// The fields that must be changed, sorted by their keys.
    fields: Vec<(String, FieldKind)>,
}

impl PayloadPlan {
    pub(super) fn kind(&self, key: &str) -> Option<FieldKind> {
        let found = self
            .fields
            .binary_search_by(|(known, _)| known.as_str().cmp(key));
        let (_, kind) = self.fields.get(found.ok()?)?;
        Some(*kind)
    }
}

/// The plans of an input, by type. Types whose payloads stay as they are have none.
pub(super) type PayloadPlans = HashMap<String, PayloadPlan>;

/// The types so far.
#[derive(Debug, Default)]
pub(super) struct Schemas {
    all: Vec<Value>,
    /// The places of the types with one name, by their text without the name. The key is the name
    /// without a number: the first type is `NAME`, the second `NAME (2)`.
    by_name: HashMap<String, HashMap<String, usize>>,
}

impl Schemas {
    /// Adds the types of an input, in the form of `meta`.
    pub(super) fn add(&mut self, list: Option<Value>) -> PayloadPlans {
        let Some(Value::Array(list)) = list else {
            return PayloadPlans::new();
        };
        let mut plans = PayloadPlans::new();
        for schema in list {
            let Value::Object(mut schema) = schema else {
                continue;
            };
            let Some(Value::String(name)) = schema.remove("name") else {
                continue;
            };
            let fields = fields_of(&schema);
            let new = self.place(&name, schema);
            let renamed = Some(new).filter(|new| *new != name);
            if renamed.is_some() || !fields.is_empty() {
                plans.insert(name, PayloadPlan { renamed, fields });
            }
        }
        plans
    }

    /// The name of a type, which is added if it is new.
    fn place(&mut self, name: &str, mut schema: Map<String, Value>) -> String {
        let base = without_number(name);
        let same_name = self.by_name.entry(base.to_owned()).or_default();
        let next = same_name.len();
        let place = same_name.entry(text_of(&schema));
        let is_new = matches!(place, Entry::Vacant(_));
        let name = match *place.or_insert(next) {
            0 => base.to_owned(),
            at => format!("{base} ({})", at + 1),
        };
        if is_new {
            schema.insert("name".to_owned(), name.clone().into());
            self.all.push(Value::Object(schema));
        }
        name
    }

    /// The list, in the form of `meta`.
    pub(super) fn into_value(self) -> Value {
        self.all.into()
    }
}

/// The JSON text of a type.
fn text_of(schema: &Map<String, Value>) -> String {
    serde_json::to_string(schema).unwrap_or_default()
}

/// The fields whose values depend on the profile, sorted. The first of two with one key counts.
fn fields_of(schema: &Map<String, Value>) -> Vec<(String, FieldKind)> {
    let fields = ["fields", "data"].map(|key| schema.get(key).and_then(Value::as_array));
    let fields = fields.into_iter().flatten().flatten();
    let of = |field: &Value| {
        let key = field.get("key")?.as_str()?.to_owned();
        Some((key, FieldKind::of(field.get("format")?)?))
    };
    let mut fields: Vec<_> = fields.filter_map(of).collect();
    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    fields.dedup_by(|(later, _), (first, _)| later == first);
    fields
}

/// `NAME` for `NAME (2)`.
fn without_number(name: &str) -> &str {
    let inner = name
        .strip_suffix(')')
        .and_then(|name| name.rsplit_once(" ("));
    match inner {
        Some((base, number)) if number.parse::<u32>().is_ok_and(|number| number > 1) => base,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(name: &str, format: &str) -> Value {
        json!({"name": name, "fields": [{"key": "k", "format": format}]})
    }

    fn names(schemas: Schemas) -> Vec<String> {
        let all = schemas.into_value();
        let all = all.as_array().unwrap().iter();
        all.map(|schema| schema["name"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn types_with_one_name_and_other_contents_all_stay_and_keep_their_fields() {
        let mut all = Schemas::default();
        assert!(all.add(Some(json!([schema("A", "integer")]))).is_empty());
        let plans = all.add(Some(json!([schema("A", "time"), schema("B", "flow-id")])));
        assert_eq!(plans["A"].renamed.as_deref(), Some("A (2)"));
        assert_eq!(plans["A"].kind("k"), Some(FieldKind::Time));
        assert_eq!(plans["B"].renamed, None);
        let plans = all.add(Some(json!([schema("A", "time")])));
        assert_eq!(plans["A"].renamed.as_deref(), Some("A (2)"));
        assert_eq!(names(all), ["A", "A (2)", "B"]);
    }

    #[test]
    fn the_first_of_two_fields_with_one_key_counts() {
        let fields = json!([
            {"key": "z", "format": "pid"},
            {"key": "k", "format": "time"},
            {"key": "k", "format": "pid"},
        ]);
        let mut all = Schemas::default();
        let plans = all.add(Some(json!([{"name": "A", "fields": fields}])));
        let kinds = ["k", "z", "x"].map(|key| plans["A"].kind(key));
        assert_eq!(
            kinds,
            [Some(FieldKind::Time), Some(FieldKind::Process), None]
        );
    }

    #[test]
    fn a_hundred_thousand_types_with_one_name_and_fields_of_one_type_are_placed() {
        let types = (0..100_000)
            .map(|at| json!({"name": "A", "at": at}))
            .collect();
        let mut all = Schemas::default();
        let plans = all.add(Some(types));
        assert_eq!(plans["A"].renamed.as_deref(), Some("A (100000)"));
        let key = |at: u32| format!("k{at}");
        let fields: Value = (0..100_000)
            .map(|at| json!({"key": key(at), "format": "time"}))
            .collect();
        let plans = all.add(Some(json!([{"name": "B", "fields": fields}])));
        let found = (0..100_000).filter(|at| plans["B"].kind(&key(*at)).is_some());
        assert_eq!(found.count(), 100_000);
    }

    #[test]
    fn merging_in_steps_gives_the_same_names() {
        let inputs = ["integer", "time", "pid"].map(|format| json!([schema("A", format)]));
        let mut at_once = Schemas::default();
        for input in inputs.clone() {
            at_once.add(Some(input));
        }
        let [first, second, third] = inputs;
        let mut last_two = Schemas::default();
        last_two.add(Some(second));
        last_two.add(Some(third));
        let mut in_steps = Schemas::default();
        in_steps.add(Some(first));
        in_steps.add(Some(last_two.into_value()));
        assert_eq!(in_steps.into_value(), at_once.into_value());
    }
}
