//! Tests the payload encoding against serde_json, and with arbitrary bytes.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::*;

#[derive(Clone, Debug, Serialize)]
struct Meters(f64);

#[derive(Clone, Debug, Serialize)]
enum State {
    Idle,
    #[serde(rename = "on fire")]
    Burning,
}

/// One field of every kind that a payload may have.
#[derive(Clone, Debug, Serialize)]
struct Everything {
    flag: bool,
    tiny: i8,
    small: u16,
    signed: i64,
    unsigned: u64,
    single: f32,
    double: f64,
    letter: char,
    text: String,
    state: State,
    distance: Meters,
    maybe: Option<u32>,
    unit: (),
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<i32>,
    list: Vec<i64>,
    options: Vec<Option<String>>,
    pair: (u8, String),
    table: Vec<(String, u64)>,
    address: Ipv4Addr,
}

fn everything() -> impl Strategy<Value = Everything> {
    let numbers = (
        any::<bool>(),
        any::<i8>(),
        any::<u16>(),
        any::<i64>(),
        any::<u64>(),
        any::<f32>(),
        any::<f64>(),
    );
    let texts = (
        any::<char>(),
        ".{0,20}",
        prop_oneof![Just(State::Idle), Just(State::Burning)],
        any::<u32>(),
    );
    let options = (
        any::<Option<u32>>(),
        any::<Option<i32>>(),
        prop::collection::vec(any::<i64>(), 0..5),
    );
    let lists = (
        prop::collection::vec(prop::option::of(".{0,5}"), 0..4),
        (any::<u8>(), ".{0,5}"),
        prop::collection::vec((".{0,5}", any::<u64>()), 0..4),
    );
    (numbers, texts, options, lists).prop_map(|(numbers, texts, some, lists)| {
        let (flag, tiny, small, signed, unsigned, single, double) = numbers;
        let (letter, text, state, address) = texts;
        let (maybe, skipped, list) = some;
        let (options, pair, table) = lists;
        let distance = Meters(double);
        let address = Ipv4Addr::from(address);
        Everything {
            flag,
            tiny,
            small,
            signed,
            unsigned,
            single,
            double,
            letter,
            text,
            state,
            distance,
            maybe,
            unit: (),
            skipped,
            list,
            options,
            pair,
            table,
            address,
        }
    })
}

fn json(value: FieldValue<'_>) -> Value {
    match value {
        FieldValue::None => Value::Null,
        FieldValue::Bool(value) => value.into(),
        FieldValue::U64(value) => value.into(),
        FieldValue::I64(value) => value.into(),
        FieldValue::F64(value) => value.into(),
        FieldValue::Str(value) => value.into(),
        FieldValue::List(items) => items.map(json).collect(),
    }
}

fn through_bytes<T: Serialize>(payload: &T) -> Map<String, Value> {
    let mut room = [0; 4096];
    let used = encode(payload, &mut room).unwrap();
    let values: Vec<_> = PayloadReader::new(&room[..used])
        .map(|value| json(value.unwrap()))
        .collect();
    let keys = field_keys(payload).unwrap();
    assert_eq!(keys.len(), values.len());
    keys.into_iter().map(str::to_owned).zip(values).collect()
}

fn error_of<T: Serialize>(payload: &T) -> PayloadError {
    encode(payload, &mut [0; 256]).unwrap_err()
}

/// Reads all values that the bytes decode to.
fn exhaust(bytes: &[u8]) -> usize {
    fn weigh(value: FieldValue<'_>) -> usize {
        match value {
            FieldValue::List(items) => items.map(weigh).sum(),
            _ => 1,
        }
    }
    PayloadReader::new(bytes)
        .filter_map(Result::ok)
        .map(weigh)
        .sum()
}

proptest! {
    #[test]
    fn a_payload_reads_back_as_serde_json_encodes_it(payload in everything()) {
        let got = through_bytes(&payload);
        let Value::Object(mut expected) = serde_json::to_value(&payload).unwrap() else { unreachable!() };
        expected.entry("skipped").or_insert(Value::Null);
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_stay_within_bounds(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(exhaust(&bytes) <= bytes.len());
    }

    #[test]
    fn plausible_bytes_never_panic(bytes in prop::collection::vec(prop_oneof![0..8_u8, Just(251), Just(253), any::<u8>()], 0..300)) {
        prop_assert!(exhaust(&bytes) <= bytes.len());
    }

    #[test]
    fn damaged_payloads_never_panic(payload in everything(), at in any::<prop::sample::Index>(), byte in any::<u8>(), end in any::<prop::sample::Index>()) {
        let mut room = [0; 4096];
        let used = encode(&payload, &mut room).unwrap();
        room[at.index(used)] = byte;
        exhaust(&room[..used]);
        exhaust(&room[..end.index(used)]);
    }

    #[test]
    fn too_little_room_is_an_error_and_exact_room_is_enough(payload in everything()) {
        let mut room = [0; 4096];
        let used = encode(&payload, &mut room).unwrap();
        prop_assert_eq!(encode(&payload, &mut room[..used]), Ok(used));
        for less in 0..used {
            prop_assert_eq!(encode(&payload, &mut room[..less]), Err(PayloadError::NoRoom));
        }
    }
}

#[test]
fn a_struct_without_fields_is_an_empty_payload() {
    #[derive(Serialize)]
    struct Nothing;
    #[derive(Serialize)]
    struct Braces {}
    assert_eq!(encode(&Nothing, &mut []), Ok(0));
    assert_eq!(encode(&Braces {}, &mut []), Ok(0));
    assert_eq!(field_keys(&Nothing), Ok(vec![]));
}

#[test]
fn keys_include_skipped_fields() {
    #[derive(Serialize)]
    struct Payload {
        a: u8,
        #[serde(skip_serializing_if = "Option::is_none")]
        b: Option<u8>,
        #[serde(rename = "third")]
        c: u8,
    }
    for b in [None, Some(1)] {
        let payload = Payload { a: 1, b, c: 2 };
        assert_eq!(field_keys(&payload), Ok(vec!["a", "b", "third"]));
        assert_eq!(through_bytes(&payload).len(), 3);
    }
}

#[test]
fn unsupported_field_types_are_refused() {
    #[derive(Serialize)]
    struct With<T> {
        field: T,
    }
    #[derive(Serialize)]
    enum Variant {
        Data(u8),
    }
    let refused = [
        error_of(&With {
            field: With { field: 1 },
        }),
        error_of(&With {
            field: std::collections::BTreeMap::from([(1, 2)]),
        }),
        error_of(&With { field: 1_u128 }),
        error_of(&With { field: -1_i128 }),
        error_of(&With {
            field: Variant::Data(1),
        }),
        error_of(&With {
            field: vec![vec![vec![1]]],
        }),
        error_of(&std::collections::BTreeMap::from([("a", 2)])),
        error_of(&7_u8),
        error_of(&vec![1]),
        error_of(&Some(With { field: 1 })),
    ];
    for error in refused {
        assert!(matches!(error, PayloadError::Unsupported(_)), "{error}");
    }
}

#[test]
fn a_failing_payload_reports_its_own_message() {
    struct Fails;
    impl Serialize for Fails {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("out of order"))
        }
    }
    assert_eq!(
        error_of(&Fails),
        PayloadError::Custom("out of order".into())
    );
}

#[test]
fn a_text_that_changes_while_it_is_written_is_refused() {
    struct Fickle(std::cell::Cell<u32>, [&'static str; 2]);
    impl fmt::Display for Fickle {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.1[self.0.replace(1) as usize])
        }
    }
    impl Serialize for Fickle {
        fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
            out.collect_str(self)
        }
    }
    #[derive(Serialize)]
    struct Payload {
        text: Fickle,
    }
    for texts in [["long", "s"], ["s", "long"]] {
        let payload = Payload {
            text: Fickle(Default::default(), texts),
        };
        assert!(encode(&payload, &mut [0; 64]).is_err());
    }
}

#[test]
fn a_sequence_must_have_its_announced_length() {
    struct Liar(usize);
    impl Serialize for Liar {
        fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
            let mut seq = out.serialize_seq(Some(2))?;
            for item in 0..self.0 {
                serde::ser::SerializeSeq::serialize_element(&mut seq, &item)?;
            }
            serde::ser::SerializeSeq::end(seq)
        }
    }
    #[derive(Serialize)]
    struct Payload {
        list: Liar,
    }
    assert!(encode(&Payload { list: Liar(2) }, &mut [0; 64]).is_ok());
    for wrong in [1, 3] {
        assert!(matches!(
            error_of(&Payload { list: Liar(wrong) }),
            PayloadError::Unsupported(_)
        ));
    }
}

#[test]
fn a_reader_stops_at_the_first_error() {
    let values: Vec<_> = PayloadReader::new(&[0, 1, 1, 99, 0, 0]).collect();
    assert_eq!(values.len(), 3);
    assert_eq!(
        values[..2],
        [Ok(FieldValue::None), Ok(FieldValue::Bool(true))]
    );
    assert!(matches!(values[2], Err(PayloadError::Malformed(_))));
}
