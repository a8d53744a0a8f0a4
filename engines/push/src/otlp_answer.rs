//! Reads how much of a body an OTLP endpoint has refused.
//!
//! Used by the sender. An endpoint that accepts a request answers with a status of 200 even if it
//! refuses some of its spans, points or profiles ("partial success" in the OTLP specification). The
//! three kinds of answers have the same numbers:
//!
//! ```text
//! ExportTraceServiceResponse  1: partial_success ─▶ 1: rejected_spans (varint), 2: error_message
//! ```
//!
//! Invariant: bytes that are not such a message refuse nothing.

/// The types of fields of protocol buffers.
const VARINT: u64 = 0;
const FIXED: u64 = 1;
const BYTES: u64 = 2;
const FIXED_SHORT: u64 = 5;

/// What an endpoint has refused of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedPart {
    /// Spans, points of metrics, or profiles.
    pub items: u64,
    /// The endpoint's reason.
    pub why: String,
}

/// Reads an answer. `None` if the endpoint has taken everything.
pub fn refused_part(mut answer: &[u8]) -> Option<RefusedPart> {
    let mut refused = RefusedPart {
        items: 0,
        why: String::new(),
    };
    while !answer.is_empty() {
        if let (1, FieldValue::Bytes(mut part)) = next_field(&mut answer)? {
            while !part.is_empty() {
                match next_field(&mut part)? {
                    (1, FieldValue::Number(items)) => refused.items = items,
                    (2, FieldValue::Bytes(why)) => {
                        refused.why = String::from_utf8_lossy(why).into_owned();
                    }
                    _ => {}
                }
            }
        }
    }
    // A negative number is nonsense.
    (refused.items > 0 && refused.items <= i64::MAX as u64).then_some(refused)
}

#[derive(Clone, Copy, Debug)]
enum FieldValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

/// Takes the number and the value of the next field. `None` if the bytes are no message.
fn next_field<'a>(message: &mut &'a [u8]) -> Option<(u64, FieldValue<'a>)> {
    let key = varint(message)?;
    let value = match key & 7 {
        VARINT => FieldValue::Number(varint(message)?),
        BYTES => {
            let length = usize::try_from(varint(message)?).ok()?;
            FieldValue::Bytes(message.split_off(..length)?)
        }
        FIXED => message.split_off(..8).map(|_| FieldValue::Other)?,
        FIXED_SHORT => message.split_off(..4).map(|_| FieldValue::Other)?,
        _ => return None,
    };
    Some((key >> 3, value))
}

/// Takes a number of at most 64 bits.
fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *message.split_off_first()?;
        let bits = u64::from(byte & 0x7f);
        value |= bits.checked_shl(shift).filter(|all| all >> shift == bits)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceResponse,
    };
    use prost::Message;

    use super::*;

    fn answer(rejected_spans: i64, why: &str) -> Vec<u8> {
        let partial_success = Some(ExportTracePartialSuccess {
            rejected_spans,
            error_message: why.to_owned(),
        });
        ExportTraceServiceResponse { partial_success }.encode_to_vec()
    }

    #[test]
    fn an_answer_refuses_what_it_says_and_anything_else_refuses_nothing() {
        let refused = refused_part(&answer(300, "too old")).unwrap();
        assert_eq!((refused.items, refused.why.as_str()), (300, "too old"));
        assert_eq!(
            refused_part(&answer(i64::MAX, "")).unwrap().items,
            i64::MAX as u64
        );
        for nothing in [
            answer(0, "a warning"),
            answer(-1, "nonsense"),
            vec![],
            b"ok".into(),
        ] {
            assert_eq!(refused_part(&nothing), None);
        }
        let whole = answer(300, "too old");
        assert!((0..whole.len()).all(|length| refused_part(&whole[..length]).is_none()));
    }
}
