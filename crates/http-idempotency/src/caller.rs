//! Scope of keys: the same key of another caller is a different key.

use hapax_engine::model::{Fingerprint, Name, RequestScope, WorkspaceId};
use http::HeaderName;
use http::header::AUTHORIZATION;
use http::request::Parts;
use sha2::{Digest, Sha256};

/// Identifies the sender of a request. A request with a key is refused if its caller is unknown.
pub trait IdentifyCaller: Send + Sync + 'static {
    /// Workspace and credential, if the request identifies them.
    fn find_scope(&self, request: &Parts) -> Option<RequestScope>;
}

/// Takes the [`RequestScope`] from the request's extensions, where an authenticating layer puts it. The default.
#[derive(Debug, Clone, Copy, Default)]
pub struct FromExtensions;

impl IdentifyCaller for FromExtensions {
    fn find_scope(&self, request: &Parts) -> Option<RequestScope> {
        request.extensions.get().cloned()
    }
}

/// Identifies callers by the value of a header, such as `Authorization`. Only a digest of it is stored.
///
/// The digest has no salt, so the value should be an unguessable token, not a password. The value is not verified: a
/// layer or handler must still authenticate it. When a secret is replaced, its holder becomes a different caller, whose
/// retries under old keys run again. A service that rotates secrets should put its own [`RequestScope`] into the
/// extensions instead.
#[derive(Debug, Clone)]
pub struct ByHeader(HeaderName);

impl ByHeader {
    /// Identifies callers by the value of `header`.
    pub fn new(header: HeaderName) -> Self {
        ByHeader(header)
    }

    /// Identifies callers by the value of `Authorization`.
    pub fn authorization() -> Self {
        ByHeader(AUTHORIZATION)
    }
}

impl IdentifyCaller for ByHeader {
    fn find_scope(&self, request: &Parts) -> Option<RequestScope> {
        let value = request.headers.get(&self.0)?;
        let digest: [u8; 32] = Sha256::digest(value.as_bytes()).into();
        let caller = Name::new("caller", &Fingerprint::from_bytes(digest).to_string()).ok()?;
        Some(RequestScope { workspace: WorkspaceId::default(), caller })
    }
}

/// Treats all callers as one: for services with a single caller, or with globally unique keys.
#[derive(Debug, Clone)]
pub struct OneCaller(pub RequestScope);

impl OneCaller {
    /// One caller, named `everybody`, in the default workspace.
    pub fn everybody() -> Self {
        let caller = Name::new("caller", "everybody").expect("a valid literal");
        OneCaller(RequestScope { workspace: WorkspaceId::default(), caller })
    }
}

impl IdentifyCaller for OneCaller {
    fn find_scope(&self, _: &Parts) -> Option<RequestScope> {
        Some(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(token: Option<&str>) -> Parts {
        let mut request = http::Request::builder();
        if let Some(token) = token {
            request = request.header("authorization", token);
        }
        request.body(()).unwrap().into_parts().0
    }

    /// S2.10: scoped by credential, whose secret is not stored.
    #[test]
    fn callers_are_told_apart_by_a_digest_of_their_header() {
        let by = ByHeader::authorization();
        let [one, two] =
            ["Bearer one", "Bearer two"].map(|token| by.find_scope(&parts(Some(token))).unwrap());
        assert_ne!(one, two);
        assert_eq!(one, by.find_scope(&parts(Some("Bearer one"))).unwrap());
        assert!(!one.caller.as_str().contains("one"));
        assert_eq!(by.find_scope(&parts(None)), None);
    }

    #[test]
    fn without_a_scope_among_the_extensions_the_caller_is_unknown() {
        let mut request = parts(None);
        assert_eq!(FromExtensions.find_scope(&request), None);
        let OneCaller(scope) = OneCaller::everybody();
        request.extensions.insert(scope.clone());
        assert_eq!(FromExtensions.find_scope(&request), Some(scope));
    }
}
