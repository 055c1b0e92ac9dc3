//! Bodies of calls: one message with a head of five bytes.

use std::convert::Infallible;
use std::error::Error;

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use hapax_api::{Code, Problem};
use http::{HeaderMap, HeaderValue};
use http_body_util::{BodyExt, Full};
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};

/// Bytes of the head of a message: whether it is compressed, and its length.
const HEAD_BYTES: usize = 5;

/// Reads the message of a request.
pub(crate) async fn read_message(
    mut body: Body,
    descriptor: MessageDescriptor,
    max_bytes: usize,
    unreadable: fn(&(dyn Error + 'static)) -> Problem,
) -> Result<DynamicMessage, Problem> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| unreadable(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > HEAD_BYTES + max_bytes {
            let detail = format!("A message may have {max_bytes} bytes.");
            return Err(Problem::new(Code::PayloadTooLarge, detail).with("maxBytes", max_bytes));
        }
        bytes.extend_from_slice(&data);
    }
    let (head, message) = bytes.split_at_checked(HEAD_BYTES).ok_or_else(not_one_message)?;
    match head[0] {
        0 => {}
        1 => {
            let detail = "Compressed messages are not supported; send them with the encoding `identity`.";
            return Err(Problem::new(Code::UnsupportedMediaType, detail));
        }
        _ => return Err(not_one_message()),
    }
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    if usize::try_from(length) != Ok(message.len()) {
        return Err(not_one_message());
    }
    DynamicMessage::decode(descriptor, message).map_err(|error| {
        let detail = format!("The message is no {}: {error}.", "message of this method");
        Problem::new(Code::InvalidRequest, detail).with("path", "")
    })
}

fn not_one_message() -> Problem {
    let detail = "The body must be one message with its head of five bytes, as gRPC sends it.";
    Problem::new(Code::InvalidRequest, detail).with("path", "")
}

/// The body of a response: the message, then the status OK.
pub(crate) fn body_of(message: &DynamicMessage) -> Body {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(HEAD_BYTES + length);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    message.encode(&mut bytes).expect("a buffer grows");
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let trailers = std::future::ready(Some(Ok::<_, Infallible>(trailers)));
    Body::new(Full::<Bytes>::new(bytes.freeze()).with_trailers(trailers))
}
