//! A client that asks the same over HTTP or over gRPC.

use bytes::Bytes;
use h2::client;
use http::{HeaderMap, Method, Request, Version};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use tokio::net::TcpStream;

use super::support::{Answer, TestServer};

/// How a client talks to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Http,
    Grpc,
}

/// The answer to a call.
#[derive(Debug, Clone)]
pub struct CallAnswer {
    /// Status of gRPC.
    pub status: u16,
    /// HTTP status, which is 200 for every call that the server understood.
    pub http_status: u16,
    pub metadata: HeaderMap,
    pub message: Vec<u8>,
}

impl CallAnswer {
    pub fn metadata(&self, name: &str) -> &str {
        self.metadata.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// Sends a message to a method.
pub async fn call(server: &TestServer, path: &str, message: &[u8], headers: &[(&str, &str)]) -> CallAnswer {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    call_with_body(server, path, &[&[0], &length[..], message].concat(), headers).await
}

/// Sends any body to a method.
pub async fn call_with_body(
    server: &TestServer,
    path: &str,
    body: &[u8],
    headers: &[(&str, &str)],
) -> CallAnswer {
    let socket = TcpStream::connect(server.address).await.unwrap();
    let (sender, connection) =
        client::Builder::new().initial_window_size(16 << 20).handshake(socket).await.unwrap();
    let driving = tokio::spawn(connection);
    let mut request = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(format!("http://{}{path}", server.address))
        .header("te", "trailers");
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        request = request.header("content-type", "application/grpc");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut sender = sender.ready().await.unwrap();
    let (response, mut stream) = sender.send_request(request.body(()).unwrap(), false).unwrap();
    // The server may refuse the body before it has read all of it.
    let _ = stream.send_data(Bytes::copy_from_slice(body), true);
    let response = response.await.unwrap();
    let http_status = response.status().as_u16();
    let (head, mut body) = response.into_parts();
    let (mut metadata, mut bytes) = (head.headers, Vec::new());
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        bytes.extend_from_slice(&data);
    }
    if let Some(trailers) = body.trailers().await.unwrap() {
        metadata.extend(trailers);
    }
    driving.abort();
    let status =
        metadata.get("grpc-status").and_then(|status| status.to_str().ok()?.parse().ok()).unwrap_or(u16::MAX);
    let is_message = status == 0;
    let message = if is_message { bytes[5..].to_vec() } else { bytes };
    CallAnswer { status, http_status, metadata, message }
}

/// Asks over this transport what `TestServer::send` asks.
pub async fn ask(
    server: &TestServer,
    transport: Transport,
    method: &str,
    path: &str,
    body: Option<&Value>,
    key: &str,
    headers: &[(&str, &str)],
) -> Answer {
    match transport {
        Transport::Http => server.send(method, path, body.map(Value::to_string), key, headers).await,
        Transport::Grpc => ask_by_call(server, method, path, body, key, headers).await,
    }
}

async fn ask_by_call(
    server: &TestServer,
    method: &str,
    path: &str,
    body: Option<&Value>,
    key: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let (bare, query) = path.split_once('?').unwrap_or((path, ""));
    let found = hapax_grpc::methods().find_map(|known| {
        let fields = (known.verb == method).then(|| fields_of(known.route, bare)).flatten()?;
        Some((known, fields))
    });
    let (known, fields) = found.unwrap_or_else(|| panic!("no method is {method} {path}"));
    let mut members = body.cloned().unwrap_or(json!({})).as_object().cloned().unwrap();
    members.extend(fields);
    members.extend(query.split('&').filter_map(|pair| pair.split_once('=')).map(|(name, value)| {
        let text = decoded(value);
        (name.to_owned(), text.parse::<u64>().map_or(Value::String(text), Value::from))
    }));
    let asked = Value::Object(members).to_string();
    let message = hapax_grpc::message_from_json(known.input, &asked)
        .unwrap_or_else(|| panic!("{asked} fits no message"));
    let bearer = format!("Bearer {key}");
    let mut given = headers.to_vec();
    if !key.is_empty() {
        given.push(("authorization", &bearer));
    }
    let called = call(server, known.path, &message, &given).await;
    answer_of(&called, known.output)
}

fn answer_of(called: &CallAnswer, output: &str) -> Answer {
    if called.status == 0 {
        let json = hapax_grpc::message_to_json(output, &called.message).unwrap();
        return Answer { status: 200, headers: called.metadata.clone(), bytes: json.into_bytes() };
    }
    let problem = tonic_base64(called.metadata("problem-bin"));
    let status = serde_json::from_slice::<Value>(&problem).unwrap()["status"].as_u64().unwrap();
    Answer { status: u16::try_from(status).unwrap(), headers: called.metadata.clone(), bytes: problem }
}

/// Binary metadata: base64, with or without padding.
fn tonic_base64(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD_NO_PAD.decode(text.trim_end_matches('=')).unwrap()
}

/// Fields in a path, if it fits the route.
fn fields_of(route: &str, path: &str) -> Option<Map<String, Value>> {
    let (parts, given): (Vec<_>, Vec<_>) = (route.split('/').collect(), path.split('/').collect());
    if parts.len() != given.len() {
        return None;
    }
    let mut fields = Map::new();
    for (part, given) in parts.into_iter().zip(given) {
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(name) => _ = fields.insert(camel(name), decoded(given).into()),
            None if part == given => {}
            None => return None,
        }
    }
    Some(fields)
}

fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |name, part| name + &part[..1].to_uppercase() + &part[1..])
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8().unwrap().into_owned()
}
