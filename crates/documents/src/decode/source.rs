//! Webhook sources: from the tree to the source.

use std::collections::BTreeSet;

use hapax_engine::limits::MAX_NAME_CHARS;
use hapax_webhooks::limits::{MAX_PREFIX_CHARS, MAX_SECRETS};
use hapax_webhooks::{Algorithm, Encoding, HmacScheme, Scheme};
use http::HeaderName;

use super::actions::expressions_of;
use super::{Decoder, Fields, Located};
use crate::check::DeclaredNames;
use crate::fields;
use crate::limits::{MAX_POINTER_BYTES, MAX_SOURCE_EXPRESSIONS};
use crate::node::Node;
use crate::problem::{Problems, below, excerpt};
use crate::source::{EventId, Source, VARIABLES};
use crate::template::SECRET;

/// Decodes the source. Returns one exactly if there are no errors.
pub(crate) fn decode_source(node: &Node, known: &DeclaredNames, problems: &mut Problems) -> Option<Source> {
    let mut decoder = Decoder::new(problems, known, VARIABLES);
    let source = decoder.source(&Located { path: String::new(), node });
    source.filter(|_| !problems.has_errors())
}

/// The signature scheme and event id of a preset.
#[derive(Clone, Copy)]
enum Preset {
    Stripe,
    GitHub,
    Shopify,
    Slack,
    StandardWebhooks,
}

const PRESETS: &[(&str, Option<Preset>)] = &[
    ("stripe", Some(Preset::Stripe)),
    ("github", Some(Preset::GitHub)),
    ("shopify", Some(Preset::Shopify)),
    ("slack", Some(Preset::Slack)),
    ("standard-webhooks", Some(Preset::StandardWebhooks)),
];

impl Preset {
    fn scheme(self) -> Scheme {
        match self {
            Preset::Stripe => Scheme::Stripe,
            Preset::GitHub => Scheme::GitHub,
            Preset::Slack => Scheme::Slack,
            Preset::StandardWebhooks => Scheme::StandardWebhooks,
            Preset::Shopify => Scheme::Hmac(HmacScheme {
                header: HeaderName::from_static("x-shopify-hmac-sha256"),
                algorithm: Algorithm::Sha256,
                encoding: Encoding::Base64,
                prefix: String::new(),
            }),
        }
    }

    /// The value that identifies an event across repeated sends.
    fn event_id(self) -> EventId {
        let header = |name| EventId::Header(HeaderName::from_static(name));
        match self {
            Preset::Stripe => EventId::Pointer("/id".to_string()),
            Preset::GitHub => header("x-github-delivery"),
            // Shopify does not detect duplicates by its other id, X-Shopify-Webhook-Id.
            Preset::Shopify => header("x-shopify-event-id"),
            Preset::Slack => EventId::Pointer("/event_id".to_string()),
            Preset::StandardWebhooks => header("webhook-id"),
        }
    }
}

#[derive(Clone, Copy)]
enum SchemeKind {
    StandardWebhooks,
    Stripe,
    GitHub,
    Slack,
    Hmac,
    Unsigned,
}

const SCHEMES: &[(&str, Option<SchemeKind>)] = &[
    ("standard-webhooks", Some(SchemeKind::StandardWebhooks)),
    ("stripe", Some(SchemeKind::Stripe)),
    ("github", Some(SchemeKind::GitHub)),
    ("slack", Some(SchemeKind::Slack)),
    ("hmac", Some(SchemeKind::Hmac)),
    ("none", Some(SchemeKind::Unsigned)),
];

impl Decoder<'_> {
    fn source(&mut self, place: &Located<'_>) -> Option<Source> {
        let mut fields = self.object(place)?;
        let name = self.need(&mut fields, "name").and_then(|place| self.address_name(&place, "source name"));
        let given = fields.take("description");
        let description = self.description(given);
        let given = fields.take("preset");
        let (has_preset, preset) = (given.is_some(), self.choice(given, PRESETS, None));
        let or_preset = |decoder: &mut Self, fields: &mut Fields<'_>, field: &str| {
            if !has_preset {
                let path = below(&fields.path, field);
                let message = format!("{field:?} is missing; give it, or a \"preset\" that stands for it");
                decoder.problems.error(&path, fields.at, "missing_field", message);
            }
        };
        let signature = match fields.take("signature") {
            Some(place) => self.signature(&place),
            None => {
                or_preset(self, &mut fields, "signature");
                preset.map(Preset::scheme)
            }
        };
        let event_id = match fields.take("eventId") {
            Some(place) => self.event_id(&place),
            None => {
                or_preset(self, &mut fields, "eventId");
                preset.map(Preset::event_id)
            }
        };
        let given = fields.take("secrets");
        let secrets = self.source_secrets(given, signature.as_ref(), &fields);
        let filter = fields.take("filter").and_then(|place| self.condition(&place, &[]));
        let given = self.need(&mut fields, "actions");
        let actions = given.as_ref().and_then(|place| self.actions(place));
        if let (Some(place), Some(actions), Some(scheme), Some(id)) =
            (&given, &actions, &signature, &event_id)
        {
            self.warn_of_unsigned_ids(place, actions, scheme, id);
        }
        self.finish(fields, "a source", &[fields::SOURCE]);
        let (filter_count, actions) = (usize::from(filter.is_some()), actions?);
        if filter_count + actions.iter().map(expressions_of).sum::<usize>() > MAX_SOURCE_EXPRESSIONS {
            let message = format!(
                "it has more than {MAX_SOURCE_EXPRESSIONS} expressions; hand the body on and let a run do the rest"
            );
            self.error(place, "too_large", message);
        }
        Some(Source {
            name: name?,
            description,
            signature: signature?,
            secrets: secrets?,
            event_id: event_id?,
            filter,
            actions,
        })
    }

    fn signature(&mut self, place: &Located<'_>) -> Option<Scheme> {
        let mut fields = self.object(place)?;
        let scheme = self.need(&mut fields, "scheme");
        let is_given = scheme.is_some();
        let kind = self.choice(scheme, SCHEMES, None);
        if is_given && kind.is_none() {
            return None;
        }
        let (scheme, own): (Option<Scheme>, &[&str]) = match kind {
            Some(SchemeKind::StandardWebhooks) => (Some(Scheme::StandardWebhooks), &[]),
            Some(SchemeKind::Stripe) => (Some(Scheme::Stripe), &[]),
            Some(SchemeKind::GitHub) => (Some(Scheme::GitHub), &[]),
            Some(SchemeKind::Slack) => (Some(Scheme::Slack), &[]),
            Some(SchemeKind::Hmac) => (self.hmac(&mut fields).map(Scheme::Hmac), fields::HMAC),
            Some(SchemeKind::Unsigned) => {
                let is_allowed = fields.take("allowUnsigned");
                match self.flag(is_allowed) {
                    true => {
                        let message = "anybody who knows the address can send; whatever comes is believed";
                        self.warn(place, "unsigned", message);
                    }
                    false => {
                        let message =
                            "without signatures anybody could send; say allowUnsigned: true if that is meant";
                        self.error(place, "unsigned", message);
                    }
                }
                (Some(Scheme::Unsigned), fields::UNSIGNED)
            }
            None => return None,
        };
        self.finish(fields, "a signature of this scheme", &[fields::SIGNATURE, own]);
        scheme
    }

    fn hmac(&mut self, fields: &mut Fields<'_>) -> Option<HmacScheme> {
        let header = self.need(fields, "header").and_then(|place| self.header_of_event(&place));
        let algorithms = Algorithm::ALL.map(|algorithm| (algorithm.as_str(), algorithm));
        let algorithm = self.choice(fields.take("algorithm"), &algorithms, Algorithm::Sha256);
        let encodings = Encoding::ALL.map(|encoding| (encoding.as_str(), encoding));
        let encoding = self.choice(fields.take("encoding"), &encodings, Encoding::Hex);
        let prefix = match fields.take("prefix") {
            None => Some(String::new()),
            Some(place) => self.prefix(&place),
        };
        Some(HmacScheme { header: header?, algorithm, encoding, prefix: prefix? })
    }

    fn prefix(&mut self, place: &Located<'_>) -> Option<String> {
        let text = self.text(place)?;
        if text.len() > MAX_PREFIX_CHARS || !text.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) {
            let message = format!("a prefix is at most {MAX_PREFIX_CHARS} printable ASCII characters");
            self.error(place, "bad_prefix", message);
            return None;
        }
        Some(text.to_string())
    }

    fn header_of_event(&mut self, place: &Located<'_>) -> Option<HeaderName> {
        let text = self.text(place)?;
        let name = HeaderName::from_bytes(text.as_bytes()).ok();
        let name = name.filter(|name| name.as_str().len() <= MAX_NAME_CHARS);
        if name.is_none() {
            self.error(place, "bad_header", format!("{:?} is not the name of a header", excerpt(text)));
        }
        name
    }

    fn event_id(&mut self, place: &Located<'_>) -> Option<EventId> {
        let mut fields = self.object(place)?;
        let (header, pointer) = (fields.take("header"), fields.take("pointer"));
        self.finish(fields, "eventId", &[fields::EVENT_ID]);
        match (header, pointer) {
            (Some(header), None) => self.header_of_event(&header).map(EventId::Header),
            (None, Some(pointer)) => self.pointer(&pointer).map(EventId::Pointer),
            _ => {
                let message = "it is either { header: name } or { pointer: /where/in/the/body }";
                self.error(place, "one_of", message);
                None
            }
        }
    }

    fn pointer(&mut self, place: &Located<'_>) -> Option<String> {
        let text = self.text(place)?;
        let is_escaped = |part: &str| part.starts_with('0') || part.starts_with('1');
        let is_fine = text.starts_with('/') && text.split('~').skip(1).all(is_escaped);
        if !is_fine || text.len() > MAX_POINTER_BYTES {
            let message = "it is not a JSON pointer; write it as /field or /field/inside";
            self.error(place, "bad_pointer", message);
            return None;
        }
        Some(text.to_string())
    }

    fn source_secrets(
        &mut self,
        place: Option<Located<'_>>,
        scheme: Option<&Scheme>,
        around: &Fields<'_>,
    ) -> Option<Vec<String>> {
        let needs_none = scheme == Some(&Scheme::Unsigned);
        let Some(place) = place else {
            if !needs_none {
                let path = below(&around.path, "secrets");
                let message = format!(
                    "\"secrets\" is missing; name what signatures are checked with: [\"{SECRET}name\"]"
                );
                self.problems.error(&path, around.at, "missing_field", message);
            }
            return Some(Vec::new());
        };
        let items = self.list(&place)?;
        if needs_none && !items.is_empty() {
            let message =
                "webhooks of this source are not signed; take the secrets away, or say how they are";
            self.error(&place, "secrets_not_used", message);
            return None;
        }
        if !needs_none && !(1..=MAX_SECRETS).contains(&items.len()) {
            self.error(&place, "out_of_range", format!("there must be 1 to {MAX_SECRETS} secrets"));
        }
        let names: Vec<Option<String>> = items.iter().map(|item| self.secret_name(item)).collect();
        let mut seen = BTreeSet::new();
        for (item, name) in items.iter().zip(&names) {
            if name.as_ref().is_some_and(|name| !seen.insert(name)) {
                self.error(item, "duplicate_secret", "the secret is here twice; keep one");
            }
        }
        names.into_iter().collect()
    }

    /// A value that is not a reference may be a secret, so it is not repeated.
    fn secret_name(&mut self, place: &Located<'_>) -> Option<String> {
        let text = self.text(place)?;
        let Some(name) = text.strip_prefix(SECRET) else {
            let message = format!("it is not a reference; keep the secret apart and write {SECRET}name");
            self.error(place, "inline_secret", message);
            return None;
        };
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME_CHARS || !name.bytes().all(is_fine) {
            let message = format!("{SECRET} needs a name of A-Z a-z 0-9 . _ - after it, and nothing else");
            self.error(place, "bad_secret", message);
            return None;
        }
        if self.known.secrets.as_ref().is_some_and(|known| !known.contains(name)) {
            self.warn(place, "unknown_secret", format!("no secret {name:?} is known yet"));
        }
        Some(name.to_string())
    }
}
