//! Plain-text secrets in a document. Documents are stored, shown and compared, so they may contain only names of
//! secrets.

use super::{Decoder, Located};
use crate::node::Kind;
use crate::problem::below;
use crate::template::{SECRET, Template};

/// Words in names of headers and fields that contain confidential values.
const TELLING: &[&str] = &[
    "authorization",
    "cookie",
    "password",
    "passwd",
    "secret",
    "token",
    "apikey",
    "privatekey",
    "credential",
];

impl Decoder<'_> {
    /// Checks that a confidential header refers to a secret by name, and that the secret is known.
    pub(super) fn check_header(&mut self, name: &str, value: &Template, place: &Located<'_>) {
        if let Some(known) = &self.known.secrets {
            let missing: Vec<String> = value
                .secrets()
                .iter()
                .filter(|name| !known.contains(**name))
                .map(|name| name.to_string())
                .collect();
            for secret in missing {
                self.warn(place, "unknown_secret", format!("no secret {secret:?} is known yet"));
            }
        }
        if !is_telling(name) || !value.secrets().is_empty() {
            return;
        }
        if value.is_fixed() {
            let message = format!("{name} holds a secret as it is; keep it apart and write {SECRET}name");
            self.error(place, "inline_secret", message);
        } else {
            let message = format!("{name} comes from data, which is kept in the history; write {SECRET}name");
            self.warn(place, "secret_in_data", message);
        }
    }

    /// Warns about fields of an input or body that look like secrets.
    pub(super) fn look_for_secrets(&mut self, place: &Located<'_>) {
        let Kind::Object(fields) = &place.node.kind else { return };
        for (key, node) in fields {
            let inside = Located { path: below(&place.path, key), node };
            match &node.kind {
                Kind::Text(text) if is_telling(key) && !text.is_empty() && !text.contains("{{") => {
                    let message = "this looks like a secret, and is kept in the history; send a header with secret://name";
                    self.warn(&inside, "inline_secret", message);
                }
                _ => self.look_for_secrets(&inside),
            }
        }
    }
}

/// Returns true if the name of a header or field suggests a confidential value.
pub(crate) fn is_telling(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    TELLING.iter().any(|word| plain.contains(word))
}
