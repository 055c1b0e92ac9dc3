//! Settings for the export of spans, from OpenTelemetry's environment variables.

use std::fmt;

use hapax_outgoing::{DestinationPattern, Rules};
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Uri};

use crate::limits::SPAN_EXPORT_TIMEOUT;

/// Address and service name for the export of spans.
#[derive(Clone, PartialEq, Eq)]
pub struct OtlpSettings {
    url: String,
    headers: HeaderMap,
    service: String,
    place: DestinationPattern,
}

/// Error in the settings of the environment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OtlpError {
    /// No address.
    #[error(
        "OTEL_EXPORTER_OTLP_ENDPOINT must be the address of an OTLP/HTTP receiver, as in http://127.0.0.1:4318: {0}"
    )]
    Endpoint(String),
    /// Another protocol.
    #[error(
        "OTEL_EXPORTER_OTLP_PROTOCOL is `{0}`; only http/protobuf is supported. Omit it and name the HTTP port of the receiver \
         (usually 4318)"
    )]
    Protocol(String),
    /// Invalid headers. The error does not repeat them, because they may be secret.
    #[error("OTEL_EXPORTER_OTLP_HEADERS must be name=value pairs with commas between them")]
    Headers,
}

impl OtlpSettings {
    /// Reads the variables by their OpenTelemetry names; `None` if there is no endpoint, or if
    /// `OTEL_SDK_DISABLED` is true.
    pub fn read(find: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, OtlpError> {
        let find =
            |name: &str| find(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let of_traces = |name: &str| {
            find(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"))
                .or_else(|| find(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        if find("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let url = match (find("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), find("OTEL_EXPORTER_OTLP_ENDPOINT")) {
            (Some(whole), _) => whole,
            (None, Some(base)) => format!("{}/v1/traces", base.trim_end_matches('/')),
            (None, None) => return Ok(None),
        };
        if let Some(protocol) = of_traces("PROTOCOL").filter(|protocol| protocol != "http/protobuf") {
            return Err(OtlpError::Protocol(protocol.chars().take(40).collect()));
        }
        let place = place_of(&url)?;
        let headers = of_traces("HEADERS").map_or(Ok(HeaderMap::new()), |text| read_headers(&text))?;
        let service = find("OTEL_SERVICE_NAME").unwrap_or_else(|| "hapax".to_owned());
        Ok(Some(OtlpSettings { url, headers, service, place }))
    }

    /// Rules for the receiver. The operator named it, so it may be on this machine or in a private
    /// network. No other address is allowed.
    pub(super) fn rules(&self) -> Rules {
        Rules {
            allow: vec![self.place.clone()],
            only_allowed: true,
            total_timeout: SPAN_EXPORT_TIMEOUT,
            ..Rules::default()
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub(super) fn service(&self) -> &str {
        &self.service
    }
}

impl fmt::Debug for OtlpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers hold credentials, and the address may hold them too.
        f.debug_struct("OtlpSettings").field("service", &self.service).finish_non_exhaustive()
    }
}

fn place_of(url: &str) -> Result<DestinationPattern, OtlpError> {
    let endpoint = |why: &str| OtlpError::Endpoint(why.to_owned());
    let uri: Uri = url.parse().map_err(|_| endpoint("this is no address"))?;
    let default_port = match uri.scheme_str() {
        Some("http") => 80,
        Some("https") => 443,
        _ => return Err(endpoint("it must begin with http:// or https://")),
    };
    let host = uri.host().ok_or_else(|| endpoint("there is no host in it"))?;
    let port = uri.port_u16().unwrap_or(default_port);
    let place = format!("{host}:{port}").parse::<DestinationPattern>();
    place.map_err(|error| OtlpError::Endpoint(error.to_string()))
}

fn read_headers(text: &str) -> Result<HeaderMap, OtlpError> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(OtlpError::Headers)?;
        let name: HeaderName = name.trim().parse().map_err(|_| OtlpError::Headers)?;
        let mut value: HeaderValue = decode(value.trim()).parse().map_err(|_| OtlpError::Headers)?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

/// Values are percent-encoded, as in W3C baggage. A `%` without a code is literal.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%').and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Option<OtlpSettings>, OtlpError> {
        OtlpSettings::read(|name| {
            pairs.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned())
        })
    }

    const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

    #[test]
    fn the_variables_of_opentelemetry_are_read_as_their_specification_says() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[(ENDPOINT, "")]), Ok(None));
        assert_eq!(read(&[(ENDPOINT, "http://a:4318"), ("OTEL_SDK_DISABLED", "TRUE")]), Ok(None));
        let base = read(&[(ENDPOINT, "http://collector:4318/")]).unwrap().unwrap();
        assert_eq!((base.url(), base.service()), ("http://collector:4318/v1/traces", "hapax"));
        let whole = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t.example/x");
        let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b, x-other = c");
        let whole = read(&[(ENDPOINT, "http://a"), whole, headers, ("OTEL_SERVICE_NAME", "orders")])
            .unwrap()
            .unwrap();
        assert_eq!((whole.url(), whole.service()), ("https://t.example/x", "orders"));
        assert_eq!(whole.headers()["x-key"], "a b");
        assert!(!format!("{whole:?}").contains("a b"), "headers are not shown");
    }

    #[test]
    fn impossible_requests_are_rejected_with_a_remedy() {
        for bad in ["collector:4318", "grpc://a:1", "http://", "nonsense at all"] {
            assert!(matches!(read(&[(ENDPOINT, bad)]), Err(OtlpError::Endpoint(_))), "{bad}");
        }
        let grpc = read(&[(ENDPOINT, "http://a:4317"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
        assert_eq!(grpc, Err(OtlpError::Protocol("grpc".into())));
        let headers = read(&[(ENDPOINT, "http://a:4318"), ("OTEL_EXPORTER_OTLP_HEADERS", "secret")]);
        assert_eq!(headers, Err(OtlpError::Headers));
    }
}
