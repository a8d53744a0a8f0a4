//! The call tree of the older form of the format, which V8 wrote before 2017: each node contains
//! its callees.
//!
//! A part of [`super::format`]. A stack is as deep in the text as calls are, so the decoder, which
//! limits the depth, does not read the tree as a whole: the text is divided into the texts of the
//! nodes, without their callees, in one pass and without recursion. Invariant: every byte of the
//! text is passed once, and is decoded at most once.

use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

use super::format::{CallFrame, Node};

/// The nodes of a tree, each after its caller.
#[derive(Debug, Default)]
pub(super) struct OlderTree(pub(super) Vec<Node>);

impl<'de> Deserialize<'de> for OlderTree {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(from)?;
        let mut tree = TreeText::of(text.get());
        tree.read().map_err(de::Error::custom)?;
        Ok(Self(tree.nodes))
    }
}

/// Why a text is not a tree.
#[derive(Debug, thiserror::Error)]
enum NotATree {
    #[error("a node of a call tree is not an object")]
    NotANode,
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// A node as it is in the file, with null for the list of its callees.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeText {
    id: u64,
    function_name: Option<String>,
    url: Option<String>,
    line_number: Option<f64>,
    column_number: Option<f64>,
    hit_count: Option<f64>,
    /// Anything else than a list or null is an error.
    #[serde(rename = "children")]
    _children: Option<()>,
}

impl NodeText {
    fn node(self) -> Node {
        let whole = |number: Option<f64>| number.map_or(0, |number| number as i64);
        let frame = CallFrame {
            function_name: self.function_name.unwrap_or_default(),
            url: self.url.unwrap_or_default(),
            line_number: whole(self.line_number),
            column_number: whole(self.column_number),
        };
        Node {
            id: self.id,
            call_frame: frame.counted_from_one(),
            children: Vec::new(),
            parent: None, // known when all nodes are
            hits: self.hit_count.map_or(0, |hits| hits as u64),
        }
    }
}

/// A node whose end was not passed yet.
#[derive(Debug, Default)]
struct OpenNode {
    /// Its place among the nodes.
    index: usize,
    /// Its text so far, without its callees.
    text: Vec<u8>,
    /// The objects and lists that are open in its text.
    depth: usize,
    /// Whether the list of its callees is open.
    is_in_callees: bool,
}

/// The text of a tree, which is valid JSON, and the nodes that were found in it.
#[derive(Debug)]
struct TreeText<'t> {
    bytes: &'t [u8],
    /// The number of bytes that were passed.
    at: usize,
    open: Vec<OpenNode>,
    nodes: Vec<Node>,
    /// The index of each node's caller.
    callers: Vec<Option<usize>>,
    /// The bytes that were decoded, for a test of the work.
    decoded: usize,
}

impl<'t> TreeText<'t> {
    const fn of(text: &'t str) -> Self {
        Self {
            bytes: text.as_bytes(),
            at: 0,
            open: Vec::new(),
            nodes: Vec::new(),
            callers: Vec::new(),
            decoded: 0,
        }
    }

    /// Reads all nodes.
    fn read(&mut self) -> Result<(), NotATree> {
        self.skip_blanks();
        if self.next() != Some(b'{') {
            return Err(NotATree::NotANode);
        }
        self.begin(None);
        while let Some(mut node) = self.open.pop() {
            let next = if node.is_in_callees {
                self.pass_callee(&mut node)?
            } else {
                self.pass_own(&mut node)
            };
            match next {
                Next::Same => self.open.push(node),
                Next::Callee => {
                    let caller = node.index;
                    self.open.push(node);
                    self.begin(Some(caller));
                }
                Next::End => self.end(node)?,
            }
        }
        let ids: Vec<u64> = self.nodes.iter().map(|node| node.id).collect();
        for (node, caller) in self.nodes.iter_mut().zip(&self.callers) {
            node.parent = caller.and_then(|caller| ids.get(caller).copied());
        }
        Ok(())
    }

    /// Begins a node after its brace.
    fn begin(&mut self, caller: Option<usize>) {
        self.open.push(OpenNode {
            index: self.nodes.len(),
            text: vec![b'{'],
            depth: 1,
            is_in_callees: false,
        });
        self.nodes.push(Node::default());
        self.callers.push(caller);
    }

    /// Decodes a node whose text is complete.
    fn end(&mut self, node: OpenNode) -> Result<(), NotATree> {
        self.decoded += node.text.len();
        let text: NodeText = serde_json::from_slice(&node.text)?;
        if let Some(place) = self.nodes.get_mut(node.index) {
            *place = text.node();
        }
        Ok(())
    }

    /// Passes one part of the list of callees.
    fn pass_callee(&mut self, node: &mut OpenNode) -> Result<Next, NotATree> {
        self.skip_blanks();
        match self.next() {
            Some(b'{') => Ok(Next::Callee),
            Some(b',') => Ok(Next::Same),
            Some(b']') => {
                node.is_in_callees = false;
                Ok(Next::Same)
            }
            _ => Err(NotATree::NotANode),
        }
    }

    /// Passes one part of a node's own text.
    fn pass_own(&mut self, node: &mut OpenNode) -> Next {
        let start = self.at;
        match self.next() {
            None => return Next::End, // the text is complete, so this does not happen
            Some(b'"') => {
                let content = self.rest_of_string();
                let is_name = node.depth == 1 && content == b"children";
                node.text
                    .extend(self.bytes.get(start..self.at).unwrap_or_default());
                if is_name && self.begins_list() {
                    node.text.extend(b":null");
                    node.is_in_callees = true;
                }
            }
            Some(byte) => {
                node.text.push(byte);
                match byte {
                    b'{' | b'[' => node.depth += 1,
                    b'}' | b']' => node.depth = node.depth.saturating_sub(1),
                    _ => {}
                }
            }
        }
        if node.depth == 0 {
            Next::End
        } else {
            Next::Same
        }
    }

    /// Passes a string after its first quotation mark. Returns its content.
    fn rest_of_string(&mut self) -> &'t [u8] {
        let start = self.at;
        while let Some(byte) = self.next() {
            match byte {
                b'\\' => self.at += 1,
                b'"' => break,
                _ => {}
            }
        }
        let end = self.at.saturating_sub(1);
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// Passes a colon and the beginning of a list, if they come next.
    fn begins_list(&mut self) -> bool {
        let before = self.at;
        self.skip_blanks();
        let is_name = self.next() == Some(b':');
        self.skip_blanks();
        let begins = is_name && self.next() == Some(b'[');
        if !begins {
            self.at = before;
        }
        begins
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += usize::from(byte.is_some());
        byte
    }
}

/// What comes after a part of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Another part of it.
    Same,
    /// A callee, whose brace was passed.
    Callee,
    /// Its end was passed.
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of calls.
    fn chain(depth: usize) -> String {
        let node = |id: usize| format!(r#"{{"functionName":"f","id":{id:06},"children":["#);
        let nodes: String = (100_000..100_000 + depth).map(node).collect();
        format!("{nodes}{}", "]}".repeat(depth))
    }

    #[test]
    fn the_work_grows_with_the_length_of_the_text_and_not_with_the_depth_of_calls() {
        for depth in [20_000, 40_000] {
            let text = chain(depth);
            let mut tree = TreeText::of(&text);
            tree.read().unwrap();
            assert_eq!((tree.nodes.len(), tree.at), (depth, text.len()));
            assert!(tree.decoded <= text.len() + 4 * depth, "{}", tree.decoded);
        }
    }

    #[test]
    fn callees_are_found_beside_other_members_with_the_same_name() {
        let text = r#" { "children" : [ {"id": 2, "children": null, "x": {"children": [7]}},
            {"id":3,"functionName":"\"children\":[","url":"children","children":[]} ], "id": 1 } "#;
        let mut tree = TreeText::of(text);
        tree.read().unwrap();
        let found: Vec<_> = tree
            .nodes
            .iter()
            .map(|node| (node.id, node.parent))
            .collect();
        assert_eq!(found, [(1, None), (2, Some(1)), (3, Some(1))]);
        assert_eq!(tree.nodes[2].call_frame.function_name, "\"children\":[");
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        for text in [
            "",
            "1",
            "[]",
            "{}",
            r#"{"id":1,"children":[2]}"#,
            r#"{"id":1,"children":{}}"#,
            r#"{"id":1,"children":[{}]}"#,
        ] {
            TreeText::of(text).read().unwrap_err();
        }
    }
}
