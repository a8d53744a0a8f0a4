//! Tests accepted and refused input, with bytes that a child could send and against serde_json.

use proptest::prelude::*;

use super::*;

const LIMIT: u64 = 1 << 20;

const GOOD: &str =
    r#"{"meta":{"version":31},"libs":[],"threads":[{"name":"GeckoMain"},{}],"processes":[]}"#;

fn judge(text: &str) -> Result<CheckedJson, ChildJsonError> {
    check(text.as_bytes(), LIMIT)
}

/// A part with `value` as an unchecked member.
fn with(value: &str) -> String {
    format!(r#"{{"meta":{{}},"libs":[],"threads":[],"x":{value}}}"#)
}

macro_rules! refuses {
    ($bytes:expr, $error:pat) => {
        let got = check(&$bytes[..], LIMIT);
        assert!(
            matches!(got, Err($error)),
            "{}: {got:?}",
            String::from_utf8_lossy(&$bytes[..])
        );
    };
}

#[test]
fn a_part_of_a_profile_passes_and_is_counted() {
    let passed = judge(GOOD).unwrap();
    assert_eq!(
        passed,
        CheckedJson {
            length: u64::try_from(GOOD.len()).unwrap(),
            threads: 2
        }
    );
    judge(&GOOD.replace(r#","processes":[]"#, "")).unwrap();
    judge(&GOOD.replace(':', " :\n\t").replace(',', " , ")).unwrap();
    judge(&GOOD.replace("threads", "thre\\u0061ds")).unwrap();
}

#[test]
fn every_cut_text_is_refused() {
    for end in 0..GOOD.len() {
        refuses!(GOOD.as_bytes()[..end], ChildJsonError::Cut { .. });
    }
}

#[test]
fn input_that_is_not_an_object_is_refused() {
    for text in ["[]", "null", "*failed", " {}", "\u{feff}{}", "7", "\0"] {
        refuses!(text.as_bytes(), ChildJsonError::NotJson { at: 0, .. });
    }
}

#[test]
fn the_shape_is_required() {
    for (from, to) in [
        (r#""meta":{"version":31},"#, ""),
        (r#""libs":[],"#, ""),
        (r#""threads":[{"name":"GeckoMain"},{}],"#, ""),
        (r#"{"version":31}"#, "[31]"),
        (r#""libs":[]"#, r#""libs":{}"#),
        (r#"[{"name":"GeckoMain"},{}]"#, "{}"),
        (r#"[{"name":"GeckoMain"},{}]"#, "[{},7]"),
        (r#"[{"name":"GeckoMain"},{}]"#, "[[]]"),
        (r#""processes":[]"#, r#""processes":[{}]"#),
        (r#""processes":[]"#, r#""processes":null"#),
        (r#""libs":[]"#, r#""libs":[],"libs":[]"#),
        (r#""processes":[]"#, r#""m\u0065ta":{}"#),
        (r#""processes":[]"#, r#""processes":[],"threads":[]"#),
        (r#""processes":[]"#, r#""processes":[],"processes":[]"#),
    ] {
        assert!(GOOD.contains(from));
        refuses!(
            GOOD.replace(from, to).as_bytes(),
            ChildJsonError::WrongShape(_)
        );
    }
}

#[test]
fn text_after_the_object_is_refused() {
    for rest in [GOOD, "}", ",", "\n", " ", "\0"] {
        refuses!(
            format!("{GOOD}{rest}").as_bytes(),
            ChildJsonError::Trailing { .. }
        );
    }
}

#[test]
fn zero_bytes_are_refused_everywhere_but_may_be_escaped() {
    for at in 0..GOOD.len() {
        let mut bytes = GOOD.as_bytes().to_vec();
        bytes[at] = 0;
        assert!(check(&bytes[..], LIMIT).is_err(), "at {at}");
    }
    refuses!(with("\"\0\"").as_bytes(), ChildJsonError::NotJson { .. });
    judge(&with(r#""\u0000""#)).unwrap();
}

#[test]
fn half_a_surrogate_pair_is_refused() {
    for text in [
        r"\ud800",
        r"\ud800x",
        r"\ud800\n",
        r"\ud800A",
        r"\udc00",
        r"\udc00\ud800",
        r"\ud83d\ud83d",
    ] {
        refuses!(
            with(&format!("\"{text}\"")).as_bytes(),
            ChildJsonError::LoneSurrogate { .. }
        );
        let name = with("0").replace("\"x\"", &format!("\"{text}\""));
        refuses!(name.as_bytes(), ChildJsonError::LoneSurrogate { .. });
    }
    judge(&with(r#""\ud83d\ude00\u00e4\uFFFF""#)).unwrap();
}

#[test]
fn numbers_must_be_in_range_and_well_formed() {
    for good in [
        "0",
        "-0",
        "1e308",
        "-1E+308",
        "1e-999",
        "12.50",
        "0.0e0",
        "18446744073709551616",
    ] {
        judge(&with(good)).unwrap();
    }
    for infinite in ["1e999", "-1e309", "1e99999999999"] {
        refuses!(
            with(infinite).as_bytes(),
            ChildJsonError::NumberOutOfRange { .. }
        );
    }
    refuses!(
        with(&"1".repeat(10_000)).as_bytes(),
        ChildJsonError::NumberOutOfRange { .. }
    );
    for bad in [
        "01",
        "-",
        "+1",
        ".5",
        "1.",
        "1e",
        "1e+",
        "0x1",
        "NaN",
        "Infinity",
        "-Infinity",
        "1.e1",
        "--1",
    ] {
        refuses!(with(bad).as_bytes(), ChildJsonError::NotJson { .. });
    }
}

#[test]
fn nesting_ends_at_the_limit() {
    let nested = |levels: usize| with(&format!("{}{}", "[".repeat(levels), "]".repeat(levels)));
    judge(&nested(MAX_DEPTH - 1)).unwrap();
    refuses!(nested(MAX_DEPTH).as_bytes(), ChildJsonError::TooDeep { .. });
    refuses!(nested(10_000).as_bytes(), ChildJsonError::TooDeep { .. });
    refuses!(
        with(&r#"{"a":"#.repeat(10_000)).as_bytes(),
        ChildJsonError::TooDeep { .. }
    );
    let in_threads = format!(r#"{{"threads":[{{"a":{}"#, "[".repeat(10_000));
    refuses!(in_threads.as_bytes(), ChildJsonError::TooDeep { .. });
}

#[test]
fn text_must_be_utf8() {
    for bytes in [
        &b"\xff"[..],
        b"\x80",
        b"\xc0\x80",
        b"\xe0\x80\x80",
        b"\xed\xa0\x80",
        b"\xf0\x80\x80\x80",
        b"\xf4\x90\x80\x80",
        b"\xc3",
        b"\xe2\x82",
    ] {
        let before = with("\"");
        let after = b"\"}";
        let text = [&before.as_bytes()[..before.len() - 1], bytes, after].concat();
        refuses!(text, ChildJsonError::NotUtf8 { .. });
    }
    judge(&with("\"ä€😀\u{7f}\"")).unwrap();
}

#[test]
fn more_than_the_limit_is_not_read() {
    let endless = std::io::Read::chain(&b"{\"x\":\""[..], std::io::repeat(b'a'));
    assert!(matches!(
        check(endless, 10_000_000),
        Err(ChildJsonError::TooLarge { limit: 10_000_000 })
    ));
    let length = u64::try_from(GOOD.len()).unwrap();
    check(GOOD.as_bytes(), length).unwrap();
    assert!(matches!(
        check(GOOD.as_bytes(), length - 1),
        Err(ChildJsonError::TooLarge { .. })
    ));
}

#[test]
fn a_read_error_is_returned() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::TimedOut.into())
        }
    }
    let input = GOOD.as_bytes()[..5].chain(Failing);
    assert!(matches!(check(input, LIMIT), Err(ChildJsonError::Read(_))));
}

/// Returns a few bytes at a time, so that every token is split somewhere.
struct Drip<'a>(&'a [u8], usize);

impl Read for Drip<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let take = self.1.min(self.0.len()).min(room.len());
        let (now, later) = self.0.split_at(take);
        room[..take].copy_from_slice(now);
        self.0 = later;
        Ok(take)
    }
}

#[test]
fn a_long_text_in_small_pieces_needs_no_more_stack() {
    let text = with(&format!("\"{}\"", "a".repeat(500_000)));
    check(Drip(text.as_bytes(), 1), LIMIT).unwrap();
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        ".{0,50}".prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map("[a-z\"\\\\ä]{0,6}", inner, 0..6)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn output_of_serde_json_is_accepted_in_pieces_of_any_size(value in value(), pretty: bool, piece in 1_usize..9) {
        let text = match pretty {
            true => with(&serde_json::to_string_pretty(&value).unwrap()),
            false => with(&value.to_string()),
        };
        prop_assert!(check(Drip(text.as_bytes(), piece), LIMIT).is_ok(), "{text}");
    }

    #[test]
    fn accepted_input_is_json_for_serde_json(
        value in value(), at: prop::sample::Index, change in prop::collection::vec(any::<u8>(), 0..4)
    ) {
        let mut bytes = with(&value.to_string()).into_bytes();
        let at = at.index(bytes.len());
        let end = (at + 1).min(bytes.len());
        bytes.splice(at..end, change);
        if check(&bytes[..], LIMIT).is_ok() {
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&bytes).is_ok());
        } else if let Ok(serde_json::Value::Object(members)) = serde_json::from_slice(&bytes) {
            // Input that serde_json accepts is refused only for its shape or for a duplicate
            // member.
            let has_other_reason = !matches!(check(&bytes[..], LIMIT), Err(ChildJsonError::WrongShape(_)));
            prop_assert!(!has_other_reason, "{members:?}");
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(check(&bytes[..], LIMIT).is_err());
    }
}
