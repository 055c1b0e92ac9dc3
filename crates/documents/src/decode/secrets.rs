//! Secrets that stand in a document as they are: documents are kept, shown and compared, so they hold names of secrets and nothing more.

use super::{Decoder, Place};
use crate::node::Kind;
use crate::problem::below;
use crate::template::{SECRET, Template};

/// Words in the name of a header or a field that holds what nobody should read.
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
    /// A header that carries a secret names it.
    pub(super) fn check_header(&mut self, name: &str, value: &Template, place: &Place<'_>) {
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

    /// Fields of an input or a body that look as if they held a secret.
    pub(super) fn look_for_secrets(&mut self, place: &Place<'_>) {
        let Kind::Object(fields) = &place.node.kind else { return };
        for (key, node) in fields {
            let inside = Place { path: below(&place.path, key), node };
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

/// Does the name of a header or a field say that nobody should read what it holds?
pub(crate) fn is_telling(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    TELLING.iter().any(|word| plain.contains(word))
}
