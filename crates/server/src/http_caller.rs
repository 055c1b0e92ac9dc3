//! Requests of http steps, sent under the egress policy.

use async_trait::async_trait;
use hapax_documents::{HttpAnswer, HttpCall, HttpCaller, HttpFault};
use hapax_engine::model::WorkspaceId;
use hapax_outgoing::{Fault, Refusal, Request, SendCheck};
use http::{HeaderName, HeaderValue, Method};

use crate::egress_policy::EgressPolicy;

/// Sends the requests of http steps.
#[derive(Debug)]
pub struct GuardedCaller(EgressPolicy);

impl GuardedCaller {
    /// Sends under the policy of `outgoing`.
    pub fn new(outgoing: impl Into<EgressPolicy>) -> Self {
        GuardedCaller(outgoing.into())
    }
}

#[async_trait]
impl HttpCaller for GuardedCaller {
    async fn call(&self, workspace: &WorkspaceId, call: HttpCall) -> Result<HttpAnswer, HttpFault> {
        let request = request_of(&call).map_err(|why| HttpFault::Refused { why })?;
        match self.0.of(workspace).send(request).await {
            Ok(answer) => {
                if answer.body.len() > call.max_response_bytes {
                    return Err(HttpFault::TooLarge { limit: call.max_response_bytes });
                }
                let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
                let headers = answer.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
                Ok(HttpAnswer {
                    status: answer.status,
                    headers: headers.collect(),
                    body: answer.body.to_vec(),
                })
            }
            Err(Fault::Refused { why }) => Err(HttpFault::Refused { why: why.to_string() }),
            Err(Fault::NotSent { why }) => Err(HttpFault::NotSent { why: why.to_string() }),
            Err(Fault::NoLongerHeld) => Err(HttpFault::NoLongerHeld),
            Err(Fault::Unknown { why, .. }) => Err(HttpFault::Unknown { why: why.to_string() }),
            Err(Fault::TooLarge { limit, .. }) => Err(HttpFault::TooLarge { limit }),
            // A redirect is a response, and the document decides how to treat its status.
            Err(Fault::Redirected { status, location }) => {
                let headers = vec![("location".to_owned(), location)];
                Ok(HttpAnswer { status, headers, body: Vec::new() })
            }
        }
    }

    fn check_address(&self, workspace: &WorkspaceId, url: &str) -> Result<(), String> {
        match self.0.of(workspace).check(&Request::get(url)) {
            // The document reports a malformed URL itself.
            Ok(()) | Err(Refusal::BadUrl { .. }) => Ok(()),
            Err(why) => Err(why.to_string()),
        }
    }
}

fn request_of(call: &HttpCall) -> Result<Request, String> {
    let method = Method::from_bytes(call.method.as_bytes()).map_err(|_| "the method is none".to_owned())?;
    let mut request = Request::new(method, call.url.clone());
    for (name, value) in &call.headers {
        let name = HeaderName::try_from(name).map_err(|_| "a header name is not valid".to_owned())?;
        let mut value =
            HeaderValue::try_from(value).map_err(|_| format!("the value of {name} is not valid"))?;
        value.set_sensitive(true);
        request.headers.append(name, value);
    }
    request.body = call.body.clone().unwrap_or_default().into();
    request.timeout = Some(call.timeout);
    let hold = call.hold.clone();
    request.send_check = Some(SendCheck::new(move || hold.is_held()));
    Ok(request)
}
