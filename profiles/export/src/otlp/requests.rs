//! Requests of spans and metrics: their items, grouped by resource, in bodies up to a limit.
//!
//! Used by [`super::traces`] and [`super::metrics`]. All requests of OTLP have the same form:
//! resources, in each of them scopes, in each of them items. Invariant: memory holds one body.

use super::super::ExportError;
use super::super::bodies::{BodyKind, BodyLimit, BodySink, EncodedBody};
use super::super::proto::Message;
use super::resource::scope;

/// The field of requests that has a resource with its items.
const RESOURCES: u64 = 1;
/// Fields of a resource with its items.
const RESOURCE: u64 = 1;
const SCOPES: u64 = 2;
/// Fields of a scope with its items.
const SCOPE: u64 = 1;
const ITEMS: u64 = 2;

/// The size from which a part of one request is passed on, in bytes.
const PART: usize = 1 << 20;
/// Bytes for the keys and lengths around the items of a resource.
const ENVELOPE_BYTES: usize = 64;

/// Adds a resource with its items to a request. `items` are fields with the number [`ITEMS`].
pub(super) fn add_items(resource: &Message, items: &Message, request: &mut Message) {
    let mut scoped = Message::default();
    scoped.message(SCOPE, &scope());
    scoped.append(items);
    let mut owned = Message::default();
    owned.message(RESOURCE, resource);
    owned.message(SCOPES, &scoped);
    request.message(RESOURCES, &owned);
}

/// Adds an item to the items of a scope.
pub(super) fn add_item(item: &Message, items: &mut Message) {
    items.message(ITEMS, item);
}

/// The requests that are written. See the [module](self).
pub(super) struct Requests<'s> {
    sink: &'s mut dyn BodySink,
    kind: BodyKind,
    most: usize,
    /// The request so far.
    request: Message,
    resource: Message,
    /// About the bytes of the resource and of what is around its items.
    envelope: usize,
    /// The items of the resource.
    items: Message,
}

impl<'s> Requests<'s> {
    pub(super) fn new(kind: BodyKind, limit: BodyLimit, sink: &'s mut dyn BodySink) -> Self {
        let most = match limit {
            BodyLimit::Bytes(most) => most,
            BodyLimit::OneRequest => PART,
        };
        Self {
            sink,
            kind,
            most,
            request: Message::default(),
            resource: Message::default(),
            envelope: ENVELOPE_BYTES,
            items: Message::default(),
        }
    }

    /// The largest number of bytes that an item should have.
    pub(super) const fn most_of_item(&self) -> usize {
        self.most / 2
    }

    /// Begins the items of a resource.
    pub(super) fn begin(&mut self, resource: Message) {
        self.end_items();
        self.envelope = resource.as_bytes().len() + scope().as_bytes().len() + ENVELOPE_BYTES;
        self.resource = resource;
    }

    /// Adds an item of the resource.
    pub(super) fn add(&mut self, item: &Message) -> Result<(), ExportError> {
        let length = self.request.as_bytes().len()
            + self.items.as_bytes().len()
            + item.as_bytes().len()
            + self.envelope;
        if length > self.most {
            self.send()?;
        }
        add_item(item, &mut self.items);
        Ok(())
    }

    /// Passes on what remains.
    pub(super) fn finish(mut self) -> Result<(), ExportError> {
        self.send()
    }

    fn end_items(&mut self) {
        if !self.items.is_empty() {
            add_items(&self.resource, &self.items, &mut self.request);
            self.items.clear();
        }
    }

    fn send(&mut self) -> Result<(), ExportError> {
        self.end_items();
        if !self.request.is_empty() {
            self.sink.body(EncodedBody {
                kind: self.kind.clone(),
                bytes: self.request.as_bytes(),
            })?;
            self.request.clear();
        }
        Ok(())
    }
}
