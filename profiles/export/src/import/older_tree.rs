//! The call tree of the older form of the format, which V8 wrote before 2017: each node contains its
//! callees.
//!
//! A part of [`super::format`]. A stack is as deep in the text as calls are, so the text is read in
//! layers: what is below [`LAYER`] nodes is kept as text and read afterwards. Each text is read once
//! per layer above it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;

use super::format::{CallFrame, Node};

/// The number of nodes in each other that are read at once: each is two levels of the text, and the
/// decoder accepts 128 levels.
const LAYER: usize = 48;

/// The nodes of a tree, each after its caller.
#[derive(Debug, Default)]
pub(super) struct OlderTree(pub(super) Vec<Node>);

/// The nodes so far, with the callees that are kept as text.
#[derive(Debug, Default)]
struct Layers {
    nodes: Vec<Node>,
    /// The index of each node's caller.
    callers: Vec<Option<usize>>,
    kept: Vec<(usize, Box<RawValue>)>,
}

impl<'de> Deserialize<'de> for OlderTree {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut layers = Layers::default();
        let seed = NodeSeed {
            layers: &mut layers,
            caller: None,
            level: 0,
        };
        seed.deserialize(from)?;
        while let Some((caller, text)) = layers.kept.pop() {
            let mut from = serde_json::Deserializer::from_str(text.get());
            let callees = CalleesSeed {
                layers: &mut layers,
                caller,
                level: 0,
            };
            callees.deserialize(&mut from).map_err(de::Error::custom)?;
        }
        let Layers {
            mut nodes, callers, ..
        } = layers;
        let ids: Vec<u64> = nodes.iter().map(|node| node.id).collect();
        for (node, caller) in nodes.iter_mut().zip(callers) {
            node.parent = caller.and_then(|caller| ids.get(caller).copied());
        }
        Ok(Self(nodes))
    }
}

/// Reads a node and its callees.
struct NodeSeed<'l> {
    layers: &'l mut Layers,
    caller: Option<usize>,
    level: usize,
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a node of a call tree")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let index = self.layers.nodes.len();
        self.layers.nodes.push(Node::default());
        self.layers.callers.push(self.caller);
        let mut node = Node::default();
        let mut has_id = false;
        let mut frame = CallFrame::default();
        let whole = |number: Option<f64>| number.map_or(0, |number| number as i64);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "id" => (node.id, has_id) = (map.next_value()?, true),
                "functionName" => {
                    frame.function_name = map.next_value::<Option<String>>()?.unwrap_or_default();
                }
                "url" => frame.url = map.next_value::<Option<String>>()?.unwrap_or_default(),
                "lineNumber" => frame.line_number = whole(map.next_value()?),
                "columnNumber" => frame.column_number = whole(map.next_value()?),
                "hitCount" => {
                    let hits = map.next_value::<Option<f64>>()?;
                    node.hits = hits.map_or(0, |hits| hits as u64);
                }
                "children" if self.level + 1 < LAYER => map.next_value_seed(CalleesSeed {
                    layers: &mut *self.layers,
                    caller: index,
                    level: self.level + 1,
                })?,
                "children" => self.layers.kept.push((index, map.next_value()?)),
                _ => drop(map.next_value::<de::IgnoredAny>()?),
            }
        }
        if !has_id {
            return Err(de::Error::missing_field("id"));
        }
        node.call_frame = frame.counted_from_one();
        if let Some(place) = self.layers.nodes.get_mut(index) {
            *place = node;
        }
        Ok(())
    }
}

/// Reads the callees of a node; null is none.
struct CalleesSeed<'l> {
    layers: &'l mut Layers,
    caller: usize,
    level: usize,
}

impl<'de> DeserializeSeed<'de> for CalleesSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CalleesSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of nodes")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        loop {
            let node = NodeSeed {
                layers: &mut *self.layers,
                caller: Some(self.caller),
                level: self.level,
            };
            if items.next_element_seed(node)?.is_none() {
                return Ok(());
            }
        }
    }
}
