//! Whose key it is: the same key of another caller is another key.

use hapax_engine::model::{Fingerprint, Name, RequestScope, WorkspaceId};
use http::HeaderName;
use http::header::AUTHORIZATION;
use http::request::Parts;
use sha2::{Digest, Sha256};

/// Tells who sent a request. A request with a key whose caller is unknown is refused.
pub trait IdentifyCaller: Send + Sync + 'static {
    /// The workspace and the credential, if the request says so.
    fn find_scope(&self, request: &Parts) -> Option<RequestScope>;
}

/// The caller is the [`RequestScope`] among the extensions of the request, put there by a layer that authenticates. The default.
#[derive(Debug, Clone, Copy, Default)]
pub struct FromExtensions;

impl IdentifyCaller for FromExtensions {
    fn find_scope(&self, request: &Parts) -> Option<RequestScope> {
        request.extensions.get().cloned()
    }
}

/// Identifies callers by the value of a header, such as `Authorization`. Only a digest of it is stored.
///
/// The digest has no salt, so the value should be a token that nobody can guess, not a password.
/// It does not check the value: a layer or handler that authenticates still has to. When a secret is replaced its holder becomes
/// another caller, whose retries under old keys run again; a service that rotates secrets puts a [`RequestScope`] of its own into the
/// extensions instead.
#[derive(Debug, Clone)]
pub struct ByHeader(HeaderName);

impl ByHeader {
    /// By the value of `header`.
    pub fn new(header: HeaderName) -> Self {
        ByHeader(header)
    }

    /// By the value of `Authorization`.
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

/// Every caller is the same: for services that have but one, or whose keys are unique among all.
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

    /// S2.10: scoped by credential, whose secret is not kept.
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
