//! Cases of the table of bad JSON, each with its outcome.

use axum::body::Body;
use futures_util::stream;
use hapax_api::{CreateRun, RawJson};
use http::StatusCode;

use super::*;

fn is_taken(text: &str) -> bool {
    check_json(text.as_bytes()).is_ok()
}

fn assert_refused(text: &str) {
    let fault = check_json(text.as_bytes()).expect_err(&echo(text));
    let refused = Refused::from(fault);
    assert_eq!(
        (refused.problem().status, refused.problem().code),
        (400, Code::InvalidJson),
        "{}",
        echo(text)
    );
}

#[test]
fn depth_64_is_taken_and_65_or_a_million_is_refused_without_overflow() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    assert!(is_taken(&nested(64)) && is_taken(&objects(64)));
    for depth in [65, 127, 128, 1_000_000] {
        assert_refused(&nested(depth));
        assert_refused(&objects(depth));
    }
    assert_refused(&"[".repeat(1_000_000));
}

#[test]
fn more_values_than_memory_should_hold_are_refused() {
    let zeros = |count: usize| format!("[{}]", vec!["0"; count].join(","));
    assert!(is_taken(&zeros(limits::MAX_JSON_VALUES - 1)));
    assert_refused(&zeros(limits::MAX_JSON_VALUES));
    assert_refused(&zeros(1_000_000));
    let keys: Vec<String> = (0..1_000_000).map(|i| format!("\"{i}\":{{}}")).collect();
    assert_refused(&format!("{{{}}}", keys.join(",")));
}

#[test]
fn duplicate_keys_are_refused_at_any_depth_and_in_any_spelling() {
    assert_refused(r#"{"a":1,"a":1}"#);
    assert_refused(r#"{"x":[{"a":{"b":1},"c":2,"a":3}]}"#);
    assert_refused(r#"{"a":1,"\u0061":2}"#);
    assert_refused(r#"{"":1,"":2}"#);
    assert!(is_taken(r#"{"a":{"a":1},"b":{"a":[{"a":1},{"a":2}]}}"#));
    assert!(is_taken("{\"a\":1,\"A\":2,\"\u{e9}\":3,\"e\u{301}\":4}"), "NFC and NFD are two keys");
    assert_eq!(check_json(br#"{"x":[0,{"a/b":1,"a/b":2}]}"#).unwrap_err().path, "/x/1/a~1b");
}

#[test]
fn nul_is_refused_in_keys_and_strings() {
    assert_refused(r#"{"a":"x\u0000y"}"#);
    assert_refused(r#"{"\u0000":1}"#);
    assert_refused("{\"a\":\"\0\"}");
    assert_refused("\0");
    assert!(is_taken(r#"{"a":"\\u0000 \u0001"}"#), "an escaped backslash, and another control character");
}

#[test]
fn lone_surrogates_bad_utf8_overlong_forms_and_marks_are_refused() {
    for text in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800\ud800""#,
        r#""\ud800x""#,
        r#""\ud83d\u0041""#,
        r#""\u12""#,
        r#""\u+123""#,
    ] {
        assert_refused(text);
    }
    for bytes in
        [&b"\"\xff\""[..], b"\"\xc0\x80\"", b"\"\xed\xa0\x80\"", b"\xef\xbb\xbf{}", b"\xff\xfe{\0}\0"]
    {
        assert!(check_json(bytes).is_err(), "{bytes:?}");
    }
    assert!(is_taken(r#""\ud83d\ude00 😀 \u00e9""#));
}

#[test]
fn numbers_survive_exactly_or_are_refused() {
    for number in [
        "0",
        "-0",
        "-0.0",
        "1.5",
        "0.1",
        "1e5",
        "1E+5",
        "9007199254740993",
        "18446744073709551615",
        "-9223372036854775808",
        "1.7976931348623157e308",
        "5e-324",
        "0e999",
        "0.0000000000000000000000000000001",
        "100000.000000000000000000000000",
    ] {
        assert!(is_taken(number), "{number}");
    }
    for number in [
        "1e400",
        "-1e400",
        "1e-400",
        "18446744073709551616",
        "-9223372036854775809",
        "NaN",
        "Infinity",
        "-Infinity",
        "+1",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "1e+",
        "0x10",
        "1_000",
        "1.0000000000000000001",
        "--1",
        "0.1234567890123456789",
    ] {
        assert_refused(number);
    }
    assert_refused(&"9".repeat(10_000));
    assert_refused(&format!("0.{}1", "0".repeat(10_000)));
    let kept: RawJson = read_json(b"[9007199254740993,18446744073709551615]").unwrap();
    assert_eq!(kept.text(), "[9007199254740993,18446744073709551615]");
}

#[test]
fn what_is_not_one_json_value_is_refused() {
    for text in [
        "",
        " \n",
        "{}x",
        "{} {}",
        "{},",
        "[1,]",
        r#"{"a":1,}"#,
        "/* c */ {}",
        "{} // c",
        "{a:1}",
        "{'a':1}",
        "[1 2]",
        r#"{"a" 1}"#,
        r#"{"a":}"#,
        "[",
        "{",
        "\"a",
        r#""\x""#,
        "\"a\nb\"",
        "tru",
        "nul",
        "undefined",
        "]",
        "}",
        "[}",
        "{]",
        ",",
        ":",
        r#"{"a":1"#,
        r#"{"a""#,
        "truefalse",
        "\u{a0}1",
    ] {
        assert_refused(text);
    }
}

#[test]
fn strange_keys_are_ordinary_data_and_long_ones_are_refused() {
    assert!(is_taken(r#"{"__proto__":1,"constructor":2,"":3}"#));
    assert_refused(&format!(r#"{{"{}":1}}"#, "k".repeat(64 * 1024)));
}

#[test]
fn null_a_scalar_and_an_unknown_field_are_rejected() {
    for (body, path) in [
        ("null", ""),
        ("1", ""),
        (r#"{"definitionId":"d","x":1}"#, "/x"),
        (r#"{"definitionId":"d","a/b~":1}"#, "/a~1b~0"),
        (r#"{"definitionId":7}"#, "/definitionId"),
        (r#"{"definitionId":"d","input":[1]}"#, "/input"),
        (r#"{"definitionId":"d","delay":-1}"#, "/delay"),
    ] {
        let refused = read_json::<CreateRun>(body.as_bytes()).expect_err(body);
        assert_eq!(refused.problem().code, Code::InvalidRequest, "{body}");
        assert_eq!(refused.problem().more["path"], path, "{body}: {}", refused.problem().detail);
    }
    let run: CreateRun = read_json(br#"{"definitionId":"d","input":{"n":1.50}}"#).unwrap();
    assert_eq!(run.input.text(), r#"{"n":1.50}"#);
}

fn post(content_type: Option<&str>, body: impl Into<Body>) -> Request {
    let mut request = Request::builder().method("POST").uri("/");
    if let Some(content_type) = content_type {
        request = request.header(CONTENT_TYPE, content_type);
    }
    request.body(body.into()).unwrap()
}

async fn refusal_of(request: Request) -> (u16, Code) {
    let outcome = <StrictJson<RawJson> as FromRequest<()>>::from_request(request, &()).await;
    let refused = outcome.map(|body| body.text).unwrap_err();
    (refused.problem().status, refused.problem().code)
}

#[tokio::test]
async fn a_body_that_is_not_declared_as_json_in_utf8_is_415() {
    for content_type in [
        None,
        Some("text/plain"),
        Some("application/json; charset=utf-16"),
        Some("application/json5"),
        Some("application/problem+json"),
        Some(""),
        Some("application/json, text/plain"),
    ] {
        assert_eq!(refusal_of(post(content_type, "{}")).await.0, 415, "{content_type:?}");
    }
    for content_type in
        ["application/json", "Application/JSON; charset=\"UTF-8\"", "application/json;charset=utf-8;"]
    {
        let request = post(Some(content_type), " {} ");
        let body = <StrictJson<RawJson> as FromRequest<()>>::from_request(request, &()).await.unwrap();
        assert_eq!((&body.text[..], body.value.text()), (&b" {} "[..], "{}"), "{content_type}");
    }
    let mut twice = post(Some("application/json"), "{}");
    twice.headers_mut().append(CONTENT_TYPE, "application/json".parse().unwrap());
    assert_eq!(refusal_of(twice).await.0, 415);
}

#[tokio::test]
async fn compressed_bodies_are_415_whatever_they_hold() {
    for encoding in ["gzip", "br", "identity, gzip", "made-up"] {
        let mut request = post(Some("application/json"), "{}");
        request.headers_mut().insert(CONTENT_ENCODING, encoding.parse().unwrap());
        assert_eq!(refusal_of(request).await, (415, Code::UnsupportedMediaType), "{encoding}");
    }
}

#[tokio::test]
async fn reading_stops_at_the_limit_with_and_without_a_declared_length() {
    let whole = post(Some("application/json"), vec![b' '; limits::MAX_BODY_BYTES + 1]);
    assert_eq!(refusal_of(whole).await.0, 413);
    let (sender, receiver) = std::sync::mpsc::channel();
    let endless = stream::iter((0..).map(move |i| {
        let _ = sender.send(i);
        Ok::<_, std::io::Error>(vec![b' '; 64 * 1024])
    }));
    assert_eq!(refusal_of(post(Some("application/json"), Body::from_stream(endless))).await.0, 413);
    let pieces = receiver.iter().count();
    assert!(pieces <= limits::MAX_BODY_BYTES / (64 * 1024) + 1, "{pieces} pieces were read");
    let empty = refusal_of(post(Some("application/json"), "")).await;
    assert_eq!(empty, (400, Code::InvalidJson));
    assert_eq!(StatusCode::PAYLOAD_TOO_LARGE.as_u16(), Code::PayloadTooLarge.kind().status);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_400_and_one_that_dawdles_408() {
    let broken = |error: axum::BoxError| {
        let body = stream::iter([Ok(vec![b'{']), Err(error)]);
        post(Some("application/json"), Body::from_stream(body))
    };
    assert_eq!(refusal_of(broken("reset".into())).await.0, 400);
    assert_eq!(refusal_of(broken(BodyTimedOut.into())).await, (408, Code::RequestTimeout));
}

#[tokio::test]
async fn a_route_may_do_without_a_body() {
    let absent =
        <StrictJson<RawJson> as OptionalFromRequest<()>>::from_request(post(None, Body::empty()), &()).await;
    assert!(absent.unwrap().is_none());
    let undeclared =
        <StrictJson<RawJson> as OptionalFromRequest<()>>::from_request(post(None, "{}"), &()).await;
    assert_eq!(undeclared.unwrap_err().problem().status, 415);
}

proptest::proptest! {
    /// Everything that passes is also valid for serde. Everything that serde would read differently
    /// is rejected.
    #[test]
    fn accepted_json_is_also_valid_for_serde(text in r#"[\[\]{}:,"a0-9.eE\\u \-tn]{0,24}"#) {
        if is_taken(&text) {
            proptest::prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
        }
    }
}
