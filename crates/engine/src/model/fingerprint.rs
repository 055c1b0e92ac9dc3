//! Fingerprints: whether two requests under one key are the same.

use std::fmt;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::name::Name;
use super::{EntityRef, Invalid, Payload, canonical_json};

/// SHA-256 of the content that a key protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Fingerprint of a run: the name of the workflow and the canonical form of the input.
    pub fn for_run(workflow: &Name, input: &Payload, ignore: &IgnorePaths) -> Result<Self, Invalid> {
        let mut value: Value =
            input.to().map_err(|e| Invalid::Payload(format!("it cannot be read as JSON: {e}")))?;
        ignore.strip(&mut value);
        let mut hash = Sha256::new();
        hash.update(workflow.as_str().as_bytes());
        // A name contains no line feed, so the two parts cannot be confused.
        hash.update(b"\n");
        hash.update(canonical_json(&value).as_bytes());
        Ok(Fingerprint(hash.finalize().into()))
    }

    /// Fingerprint of a request: method, path, and the canonical form of the body. A body that is not JSON is
    /// used as it is.
    pub fn for_request(method: &str, path: &str, body: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(method.as_bytes());
        hash.update(b"\n");
        hash.update(path.as_bytes());
        match serde_json::from_slice::<Value>(body) {
            // The marker keeps plain text apart from JSON with the same bytes.
            Ok(value) => {
                hash.update(b"\njson\n");
                hash.update(canonical_json(&value).as_bytes());
            }
            Err(_) => {
                hash.update(b"\nbytes\n");
                hash.update(body);
            }
        }
        Fingerprint(hash.finalize().into())
    }

    /// Fingerprint of an operation: entity, step, requester, and the canonical form of the input.
    pub fn for_operation(
        entity: &EntityRef,
        step: &Name,
        requester: Option<&Name>,
        input: &Payload,
    ) -> Result<Self, Invalid> {
        let value: Value =
            input.to().map_err(|e| Invalid::Payload(format!("it cannot be read as JSON: {e}")))?;
        let mut hash = Sha256::new();
        // None of the parts contains a line feed.
        for part in
            [entity.kind.as_str(), entity.id.as_str(), step.as_str(), requester.map_or("", Name::as_str)]
        {
            hash.update(part.as_bytes());
            hash.update(b"\n");
        }
        hash.update(canonical_json(&value).as_bytes());
        Ok(Fingerprint(hash.finalize().into()))
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A fingerprint read from a store.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Fingerprint(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// JSON pointers to fields that the fingerprint ignores, such as `/requestedAt`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IgnorePaths(Vec<String>);

impl IgnorePaths {
    /// Checks that each one is a pointer to a field (`/a/b`).
    pub fn new<S: Into<String>>(pointers: impl IntoIterator<Item = S>) -> Result<Self, Invalid> {
        let pointers: Vec<String> = pointers.into_iter().map(Into::into).collect();
        match pointers.iter().find(|p| !p.starts_with('/')) {
            Some(bad) => {
                Err(Invalid::Id { what: "JSON pointer to a field", given: super::name::excerpt(bad) })
            }
            None => Ok(IgnorePaths(pointers)),
        }
    }

    /// Removes the ignored fields from a value.
    pub fn strip(&self, value: &mut Value) {
        for pointer in &self.0 {
            let (parent, field) = pointer.rsplit_once('/').expect("checked at construction");
            if let Some(Value::Object(fields)) = value.pointer_mut(parent) {
                fields.remove(&field.replace("~1", "/").replace("~0", "~"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(workflow: &str, input: &str, ignore: &[&str]) -> Fingerprint {
        let name = Name::new("workflow", workflow).unwrap();
        let ignore = IgnorePaths::new(ignore.iter().copied()).unwrap();
        Fingerprint::for_run(&name, &Payload::parse(input).unwrap(), &ignore).unwrap()
    }

    #[test]
    fn same_meaning_same_fingerprint() {
        assert_eq!(print("w", r#"{"a":1,"b":2}"#, &[]), print("w", r#"{ "b": 2, "a": 1.0 }"#, &[]));
        assert_ne!(print("w", r#"{"a":1}"#, &[]), print("w", r#"{"a":2}"#, &[]));
        assert_ne!(print("w", "{}", &[]), print("v", "{}", &[]));
    }

    #[test]
    fn ignored_fields_do_not_count() {
        let ignore = ["/requestedAt", "/meta/try~1no"];
        assert_eq!(
            print("w", r#"{"id":1,"requestedAt":"x","meta":{"try/no":1}}"#, &ignore),
            print("w", r#"{"id":1,"requestedAt":"y","meta":{"try/no":2}}"#, &ignore),
        );
        assert_ne!(print("w", r#"{"id":1}"#, &ignore), print("w", r#"{"id":2}"#, &ignore));
        assert!(IgnorePaths::new(["requestedAt"]).is_err());
    }
}
