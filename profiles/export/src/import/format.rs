//! The text of a `.cpuprofile` file, in the forms that tools write.
//!
//! Read by [`super::import_cpuprofile`]. Chrome's protocol declares most members as optional, and
//! other writers put null or `3.0` for a number: what is missing is unknown, not an error. A file
//! may have the nodes in a list, or as a tree below `head` ([`super::older_tree`]). An answer of the
//! protocol has the profile in its member `profile`.

use serde::{Deserialize, Deserializer};

use super::older_tree::OlderTree;

/// A file. Times are microseconds, except those of a file with `head`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Document {
    pub(super) nodes: Option<Vec<Node>>,
    pub(super) head: Option<OlderTree>,
    pub(super) start_time: Option<f64>,
    pub(super) end_time: Option<f64>,
    /// The node of each sample.
    pub(super) samples: Option<Vec<u64>>,
    /// The time of each sample since the previous one.
    pub(super) time_deltas: Option<Vec<Option<f64>>>,
    /// The time of each sample.
    pub(super) timestamps: Option<Vec<Option<f64>>>,
    /// The profile in an answer of the protocol.
    pub(super) profile: Option<Box<Document>>,
    /// The answer with its number.
    pub(super) result: Option<Box<Document>>,
}

impl Document {
    /// The profile itself, if another object contains it.
    pub(super) fn unwrapped(self) -> Self {
        if self.nodes.is_some() || self.head.is_some() {
            return self;
        }
        match (self.profile, self.result) {
            (Some(inner), _) | (None, Some(inner)) => inner.unwrapped(),
            (None, None) => Self::default(),
        }
    }
}

/// A node of the call tree.
#[derive(Debug, Default)]
pub(in super::super) struct Node {
    pub(in super::super) id: u64,
    pub(in super::super) call_frame: CallFrame,
    pub(in super::super) children: Vec<u64>,
    pub(in super::super) parent: Option<u64>,
    /// The number of samples in the function itself.
    pub(in super::super) hits: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct CallFrame {
    #[serde(default, deserialize_with = "text")]
    pub(in super::super) function_name: String,
    #[serde(default, deserialize_with = "text")]
    pub(in super::super) url: String,
    /// Counts from zero; -1 if unknown.
    #[serde(default = "unknown", deserialize_with = "position")]
    pub(in super::super) line_number: i64,
    /// Counts from zero; -1 if unknown.
    #[serde(default = "unknown", deserialize_with = "position")]
    pub(in super::super) column_number: i64,
}

impl Default for CallFrame {
    fn default() -> Self {
        Self {
            function_name: String::new(),
            url: String::new(),
            line_number: UNKNOWN,
            column_number: UNKNOWN,
        }
    }
}

impl CallFrame {
    /// The same function for a writer that counts lines and columns from one.
    pub(super) fn counted_from_one(self) -> Self {
        let from_zero = |number: i64| if number > 0 { number - 1 } else { UNKNOWN };
        Self {
            line_number: from_zero(self.line_number),
            column_number: from_zero(self.column_number),
            ..self
        }
    }
}

/// A node as it is in the file. Older writers put the function's members into the node, and count
/// its lines from one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeText {
    id: u64,
    call_frame: Option<CallFrame>,
    function_name: Option<String>,
    url: Option<String>,
    line_number: Option<f64>,
    column_number: Option<f64>,
    #[serde(default)]
    children: Option<Vec<u64>>,
    parent: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    hit_count: u64,
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = NodeText::deserialize(from)?;
        let call_frame = match (text.call_frame, text.function_name) {
            (Some(frame), _) => frame,
            (None, Some(function_name)) => CallFrame {
                function_name,
                url: text.url.unwrap_or_default(),
                line_number: whole(text.line_number),
                column_number: whole(text.column_number),
            }
            .counted_from_one(),
            (None, None) => return Err(serde::de::Error::missing_field("callFrame")),
        };
        Ok(Self {
            id: text.id,
            call_frame,
            children: text.children.unwrap_or_default(),
            parent: text.parent,
            hits: text.hit_count,
        })
    }
}

const UNKNOWN: i64 = -1;

const fn unknown() -> i64 {
    UNKNOWN
}

/// A line or column; unknown if it is not a number that counts.
fn whole(number: Option<f64>) -> i64 {
    number
        .filter(|number| *number >= 0.0)
        .map_or(UNKNOWN, |number| number as i64)
}

fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

fn position<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    Ok(whole(Option::deserialize(from)?))
}

fn count<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let number: Option<f64> = Option::deserialize(from)?;
    Ok(number.map_or(0, |number| number as u64))
}
