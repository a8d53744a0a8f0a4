//! The identifiers of spans, traces and profiles.
//!
//! They are hashes of what identifies the thing: the session, the process, and a number or a place.
//! A profile of the same session, such as a later batch, has the same identifiers. Invariant: no
//! identifier is zero, which OTLP reads as missing.

use profiler_reader::Survey;

/// The identifier of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TraceId(pub(super) [u8; 16]);

/// The identifier of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SpanId(pub(super) [u8; 8]);

/// A span in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SpanRef {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
}

/// The session that recorded a profile, as the start of all hashes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionIdentity(StableHash);

/// What an identifier is for, so that equal numbers of two kinds have different identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Domain {
    Span,
    Trace,
    Profile,
}

impl SessionIdentity {
    pub(super) fn of(survey: &Survey) -> Self {
        let meta = &survey.meta;
        let mut hash = StableHash::default();
        for host in &meta.hosts {
            hash.text(&host.name);
        }
        hash.number(meta.start_time.unwrap_or_default().to_bits());
        hash.number(meta.start_monotonic_ns.unwrap_or_default().to_bits());
        hash.text(meta.product.as_deref().unwrap_or_default());
        Self(hash)
    }

    fn hash(self, domain: Domain, process: &str, place: &[u64]) -> StableHash {
        let mut hash = self.0;
        hash.number(domain as u64);
        hash.text(process);
        place.iter().for_each(|number| hash.number(*number));
        hash
    }

    /// The identifier of a span of a process.
    pub(super) fn span(self, process: &str, place: &[u64]) -> SpanId {
        let [first, _] = self.hash(Domain::Span, process, place).finish();
        SpanId(first.max(1).to_be_bytes())
    }

    /// An identifier of 16 bytes.
    pub(super) fn wide(self, domain: Domain, process: &str, place: &[u64]) -> [u8; 16] {
        let [first, second] = self.hash(domain, process, place).finish();
        let mut bytes = [0; 16];
        let halves = first
            .max(1)
            .to_be_bytes()
            .into_iter()
            .chain(second.to_be_bytes());
        bytes
            .iter_mut()
            .zip(halves)
            .for_each(|(to, byte)| *to = byte);
        bytes
    }

    /// The trace whose first span is this one.
    pub(super) fn trace(self, process: &str, place: &[u64]) -> TraceId {
        TraceId(self.wide(Domain::Trace, process, place))
    }
}

/// A hash that is the same on all machines and in all versions of the compiler (FNV-1a, twice, with
/// the finish of MurmurHash 3). It does not resist chosen input: the author of a profile can
/// produce equal identifiers for different spans of that profile.
#[derive(Clone, Copy, Debug)]
pub(super) struct StableHash([u64; 2]);

const PRIME: u64 = 0x0000_0100_0000_01b3;

impl Default for StableHash {
    fn default() -> Self {
        Self([0xcbf2_9ce4_8422_2325, 0x9ae1_6a3b_2f90_404f])
    }
}

impl StableHash {
    fn byte(&mut self, byte: u8) {
        for half in &mut self.0 {
            *half = (*half ^ u64::from(byte)).wrapping_mul(PRIME);
        }
    }

    pub(super) fn number(&mut self, number: u64) {
        number
            .to_le_bytes()
            .into_iter()
            .for_each(|byte| self.byte(byte));
    }

    pub(super) fn text(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.byte(byte));
        self.number(text.len() as u64);
    }

    pub(super) fn finish(self) -> [u64; 2] {
        let [first, second] = self.0;
        [mixed(first), mixed(second.rotate_left(32) ^ first)]
    }
}

/// Distributes the differences of two numbers over all bits.
const fn mixed(mut number: u64) -> u64 {
    number ^= number >> 33;
    number = number.wrapping_mul(0xff51_afd7_ed55_8ccd);
    number ^= number >> 33;
    number = number.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn session() -> SessionIdentity {
        SessionIdentity::of(&Survey::default())
    }

    #[test]
    fn identifiers_are_the_same_on_every_machine() {
        let span = session().span("12.1", &[7]);
        assert_eq!(span, SpanId([252, 201, 165, 210, 203, 87, 82, 108]));
    }

    #[test]
    fn different_places_have_different_identifiers() {
        let spans = (0..50_000).map(|number| session().span("12", &[number]));
        assert_eq!(spans.collect::<HashSet<_>>().len(), 50_000);
        let others = [session().span("1", &[2, 7]), session().span("12", &[7])];
        assert_ne!(others[0], others[1]);
    }
}
