//! Messages and items of workers look the same over both transports: every fixture of the SDKs goes through both forms.

use std::path::Path;

use serde_json::{Map, Value, json};

/// Fixtures by name.
fn fixtures() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/fixtures");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let read = files.map(|path| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        // `Value` cannot hold 1e400. The test of bytes below covers such numbers.
        (name, serde_json::from_str(&text.replace("1e400", "1")).unwrap())
    });
    read.collect()
}

/// Drops default values that `like` does not have: a message encodes them like absent ones.
fn without_defaults(value: Value, like: &Value) -> Value {
    match (value, like) {
        (Value::Object(members), Value::Object(like)) => {
            let kept = members.into_iter().filter_map(|(name, value)| match like.get(&name) {
                Some(like) => Some((name, without_defaults(value, like))),
                None if [json!(false), json!(0), json!(""), json!([])].contains(&value) => None,
                None => Some((name, value)),
            });
            Value::Object(kept.collect::<Map<_, _>>())
        }
        (Value::Array(values), Value::Array(like)) => {
            let kept = values.into_iter().enumerate();
            Value::Array(
                kept.map(|(place, value)| without_defaults(value, like.get(place).unwrap_or(&Value::Null)))
                    .collect(),
            )
        }
        (value, _) => value,
    }
}

fn there_and_back(name: &str, value: &Value) -> Value {
    let bytes =
        hapax_grpc::message_from_json(name, &value.to_string()).unwrap_or_else(|| panic!("{name}: {value}"));
    let json = hapax_grpc::message_to_json(name, &bytes).unwrap();
    without_defaults(serde_json::from_str(&json).unwrap(), value)
}

/// In gRPC a promise has the fields of the seed: its timeout is in milliseconds.
fn with_milliseconds(mut item: Value) -> Value {
    if item["do"] == "promise"
        && let Some(timeout) = item.as_object_mut().and_then(|item| item.remove("timeout"))
    {
        let timeout: hapax_api::DurationText = serde_json::from_value(timeout).unwrap();
        item["timeoutMs"] = json!(u64::try_from(timeout.0.as_millis()).unwrap());
    }
    item
}

#[test]
fn every_item_and_message_of_the_fixtures_survives_both_forms() {
    let (mut items, mut messages) = (0, 0);
    for (fixture, case) in fixtures() {
        for turn in case["turns"].as_array().unwrap() {
            let told = match &turn["in"] {
                Value::Array(several) => several.clone(),
                one => vec![one.clone()],
            };
            for message in
                told.iter().filter(|message| !matches!(message["type"].as_str(), Some("ended" | "evict")))
            {
                assert_eq!(there_and_back("Message", message), *message, "{fixture}");
                messages += 1;
            }
            for item in turn["items"].as_array().unwrap() {
                if item["violation"].is_array() {
                    continue;
                }
                let item = with_milliseconds(item.clone());
                assert_eq!(there_and_back("Item", &item), item, "{fixture}");
                items += 1;
            }
        }
    }
    assert!(items > 100 && messages > 100, "{items} items, {messages} messages");
}

/// S4.16
#[test]
fn a_promise_of_the_seed_is_an_item() {
    let item = json!({ "op": 3, "do": "promise", "name": "payment", "timeoutMs": 60_000, "idempotencyKey": "stripe:ch_1",
        "idempotencyKeyTtlSeconds": 3600 });
    assert_eq!(there_and_back("Item", &item), item);
}

#[test]
fn json_of_users_goes_through_byte_for_byte() {
    for text in ["18446744073709551615", "1.50", r#"{"b":1,  "a":[1e400]}"#, "null", r#""\u00e9""#] {
        let json = format!(r#"{{"return":{text}}}"#);
        let bytes = hapax_grpc::message_from_json("Item", &json).unwrap();
        assert_eq!(hapax_grpc::message_to_json("Item", &bytes).unwrap(), json);
    }
}
