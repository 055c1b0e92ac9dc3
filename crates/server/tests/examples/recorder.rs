//! Sends the requests of the examples, and compares the stored examples with the requests and
//! responses.

use std::collections::BTreeSet;
use std::path::PathBuf;

use hapax_server::openapi;
use serde_json::{Map, Value, json};

use super::support::{Answer, TestServer};

/// Response headers that the description lists.
const TOLD_HEADERS: [&str; 3] = ["etag", "location", "retry-after"];
/// Lines of a text that are enough for an example.
const EXCERPT_LINES: usize = 12;
const SECRETS: [&str; 4] = ["hpx_", "hps_", "hpa_", "whsec_"];

/// One request to be sent.
pub struct Call {
    operation: &'static str,
    values: Vec<String>,
    query: String,
    headers: Vec<(&'static str, String)>,
    body: Option<Value>,
    key: Option<String>,
    keeps_body: bool,
    is_moving: bool,
}

/// A call of an operation.
pub fn call(operation: &'static str) -> Call {
    let (values, query, headers) = (Vec::new(), String::new(), Vec::new());
    Call { operation, values, query, headers, body: None, key: None, keeps_body: true, is_moving: false }
}

impl Call {
    /// Puts a value into the next braces of the path.
    pub fn at(mut self, value: impl Into<String>) -> Self {
        self.values.push(value.into());
        self
    }

    pub fn query(mut self, query: impl Into<String>) -> Self {
        self.query = format!("?{}", query.into());
        self
    }

    pub fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sends it with another key than the admin's; without a key if it is empty.
    pub fn by(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// The run changes during the response. Fields that come and go with its status are not
    /// compared.
    pub fn moving(mut self) -> Self {
        self.is_moving = true;
        self
    }

    /// The answer is too long for an example.
    pub fn without_answer(mut self) -> Self {
        self.keeps_body = false;
        self
    }
}

/// The examples of one file.
pub struct Recorder<'a> {
    server: &'a TestServer,
    file: &'static str,
    recorded: Map<String, Value>,
    moving: BTreeSet<&'static str>,
}

impl<'a> Recorder<'a> {
    pub fn new(server: &'a TestServer, file: &'static str) -> Self {
        Recorder { server, file, recorded: Map::new(), moving: BTreeSet::new() }
    }

    /// Continues with another server.
    pub fn turn_to(&mut self, server: &'a TestServer) {
        self.server = server;
    }

    /// Sends a request that must succeed, as described; returns the body.
    pub async fn send(&mut self, call: Call) -> Value {
        let entries = openapi::list_operations();
        let entry = entries.iter().find(|entry| entry.id == call.operation);
        let entry = entry.unwrap_or_else(|| panic!("there is no operation {}", call.operation));
        assert_eq!(entry.examples, self.file, "{} belongs to another file", call.operation);
        let mut values = call.values.iter();
        let path: Vec<String> = entry
            .path
            .split('/')
            .map(|part| match part.starts_with('{') {
                true => values.next().expect("a value for each brace").clone(),
                false => part.to_owned(),
            })
            .collect();
        let target = format!("{}{}", path.join("/"), call.query);
        let headers: Vec<(&str, &str)> =
            call.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let body = call.body.as_ref().map(Value::to_string);
        let key = call.key.as_deref().unwrap_or(&self.server.admin);
        let answer = self.server.send(entry.method.as_str(), &target, body, key, &headers).await;
        assert!(
            (200..300).contains(&answer.status),
            "{}: {} {}",
            call.operation,
            answer.status,
            answer.text()
        );
        check_headers(entry, &answer);
        let mut request = json!({ "target": target });
        if !headers.is_empty() {
            request["headers"] = headers
                .iter()
                .map(|(name, value)| (capital(name), (*value).into()))
                .collect::<Map<_, _>>()
                .into();
        }
        if let Some(body) = call.body {
            request["body"] = body;
        }
        let mut told = json!({ "status": answer.status });
        let kept = TOLD_HEADERS.iter().filter_map(|name| Some((capital(name), answer.header(name)?.into())));
        let kept: Map<String, Value> = kept.collect();
        if !kept.is_empty() {
            told["headers"] = kept.into();
        }
        if call.keeps_body {
            told["body"] = body_of(&answer);
        }
        if call.is_moving {
            self.moving.insert(call.operation);
        }
        let mut exchange = json!({ "request": request, "answer": told });
        replace_random_values(&mut exchange);
        let list = self.recorded.entry(call.operation).or_insert_with(|| json!([]));
        list.as_array_mut().unwrap().push(exchange);
        answer.json()
    }

    /// Compares the file with the exchanges. With HAPAX_UPDATE=1, rewrites the differences.
    pub fn finish(self) {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join(format!("src/openapi/examples/{}.json", self.file));
        let entries = openapi::list_operations();
        let expected: BTreeSet<&str> =
            entries.iter().filter(|entry| entry.examples == self.file).map(|entry| entry.id).collect();
        let sent: BTreeSet<&str> = self.recorded.keys().map(String::as_str).collect();
        assert_eq!(sent, expected, "every operation has an example");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let on_file: Map<String, Value> = serde_json::from_str(&text).unwrap_or_default();
        let mut kept = Map::new();
        for (operation, exchanges) in self.recorded {
            let is_moving = self.moving.contains(&*operation);
            match on_file.get(&operation).filter(|old| is_alike(old, &exchanges, is_moving)) {
                Some(old) => kept.insert(operation, old.clone()),
                None => kept.insert(operation, exchanges),
            };
        }
        if std::env::var_os("HAPAX_UPDATE").is_some() {
            std::fs::write(&path, format!("{}\n", serde_json::to_string_pretty(&kept).unwrap())).unwrap();
            return;
        }
        for (operation, exchanges) in &kept {
            let old = on_file.get(operation).cloned().unwrap_or_default();
            let (old_text, text) = (format!("{old:#}"), format!("{exchanges:#}"));
            assert!(
                old == *exchanges,
                "the example of {operation} in {} is\n{old_text}\nand the server answers\n{text}\nRun with HAPAX_UPDATE=1 if that is meant.",
                self.file
            );
        }
        assert_eq!(kept.len(), on_file.len(), "{} has examples of operations that are gone", self.file);
    }
}

/// A header is on an answer if and only if the description says so.
fn check_headers(entry: &openapi::OperationEntry, answer: &Answer) {
    let described: Value = serde_json::from_str(openapi::text()).unwrap();
    let told = &described["paths"][entry.path][entry.method.as_str().to_lowercase()]["responses"]
        [answer.status.to_string()]["headers"];
    for name in TOLD_HEADERS {
        assert_eq!(
            answer.header(name).is_some(),
            told.get(capital(name)).is_some(),
            "{name} on {} {}",
            entry.id,
            answer.status
        );
    }
}

fn body_of(answer: &Answer) -> Value {
    let kind = answer.header("content-type").unwrap_or_default();
    match kind.starts_with("application/json") {
        true => answer.json(),
        false => answer.text().lines().take(EXCERPT_LINES).collect::<Vec<_>>().join("\n").into(),
    }
}

/// `etag` as people write it.
fn capital(name: &str) -> String {
    match name {
        "etag" => "ETag".to_owned(),
        name => {
            let part = |part: &str| format!("{}{}", part[..1].to_uppercase(), &part[1..]);
            name.split('-').map(part).collect::<Vec<_>>().join("-")
        }
    }
}

/// Takes out what must not be published, and what only a test has.
fn replace_random_values(value: &mut Value) {
    match value {
        Value::String(text) => {
            for prefix in SECRETS {
                mask(text, prefix);
            }
            while let Some(place) = text.find("http://127.0.0.1:") {
                let port = text[place + 17..].chars().take_while(char::is_ascii_digit).count();
                text.replace_range(place..place + 17 + port, "https://example.com");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(replace_random_values),
        Value::Object(members) => members.values_mut().for_each(replace_random_values),
        _ => {}
    }
}

/// Writes EXAMPLE over a secret.
fn mask(text: &mut String, prefix: &str) {
    let Some(place) = text.find(prefix) else { return };
    let start = place + prefix.len();
    let length =
        text[start..].chars().take_while(|c| c.is_ascii_alphanumeric() || "_+/=-".contains(*c)).count();
    let masked: String = "EXAMPLE".chars().cycle().take(length).collect();
    text.replace_range(start..start + length, &masked);
}

/// Returns true if the requests are the same except for ids, and the responses have the same status
/// and shape.
fn is_alike(old: &Value, new: &Value, is_moving: bool) -> bool {
    let (Some(old), Some(new)) = (old.as_array(), new.as_array()) else { return false };
    old.len() == new.len()
        && old.iter().zip(new).all(|(old, new)| {
            without_ids(&old["request"]) == without_ids(&new["request"])
                && old["answer"]["status"] == new["answer"]["status"]
                && match is_moving {
                    true => agree(&shape(&old["answer"]), &shape(&new["answer"])),
                    false => shape(&old["answer"]) == shape(&new["answer"]),
                }
        })
}

/// A value with every run of hexadecimal digits that only an id or a hash has taken out.
fn without_ids(value: &Value) -> Value {
    let text = value.to_string();
    let (mut shown, mut run) = (String::new(), String::new());
    for c in text.chars().chain([' ']) {
        if c.is_ascii_alphanumeric() {
            run.push(c);
            continue;
        }
        let is_id = run.len() >= 12 && run.chars().any(|c| c.is_ascii_digit());
        shown.push_str(if is_id { "#" } else { &run });
        shown.push(c);
        run.clear();
    }
    shown.into()
}

/// Names and types, without values. The items of a list count as one.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "boolean".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "string".into(),
        Value::Array(items) => {
            let shapes: BTreeSet<String> = items.iter().map(|item| shape(item).to_string()).collect();
            shapes.into_iter().collect::<Vec<_>>().into()
        }
        Value::Object(members) => {
            members.iter().map(|(name, member)| (name.clone(), shape(member))).collect::<Map<_, _>>().into()
        }
    }
}

/// Returns true if two shapes have the same types in their common fields.
fn agree(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.iter().all(|(name, member)| other.get(name).is_none_or(|other| agree(member, other)))
        }
        (Value::Array(_), Value::Array(_)) => true,
        (one, other) => one == other,
    }
}

#[test]
fn an_answer_of_another_shape_is_not_alike() {
    let exchange =
        |body: Value| json!([{ "request": { "target": "/x" }, "answer": { "status": 200, "body": body } }]);
    let old = exchange(json!({ "id": "run_1", "items": [{ "a": 1 }] }));
    assert!(is_alike(&old, &exchange(json!({ "id": "run_2", "items": [{ "a": 2 }, { "a": 3 }] })), false));
    assert!(!is_alike(&old, &exchange(json!({ "id": "run_1", "items": [{ "b": 1 }] })), false));
    assert!(!is_alike(&old, &exchange(json!({ "id": 1, "items": [{ "a": 1 }] })), true));
    assert!(!is_alike(&old, &exchange(json!({ "id": "run_1" })), false));
    assert!(is_alike(&old, &exchange(json!({ "id": "run_1" })), true));
}

#[test]
fn secrets_and_ports_are_not_published() {
    let mut value = json!({ "apiKey": "hpx_acme_12ab", "url": "http://127.0.0.1:4711/hooks" });
    replace_random_values(&mut value);
    assert_eq!(value, json!({ "apiKey": "hpx_EXAMPLEEX", "url": "https://example.com/hooks" }));
}
