//! The document itself, and checks that span several parts of it.

use hapax_engine::model::{IgnorePaths, KeyOnFailure};

use super::{Decoder, Located};
use crate::check::DeclaredNames;
use crate::fields;
use crate::model::{Document, Fingerprint};
use crate::node::Node;
use crate::problem::{Problems, excerpt};
use crate::scope::EVERYWHERE;

/// Decodes the document. Returns one exactly if there are no errors.
pub(crate) fn decode(node: &Node, known: &DeclaredNames, problems: &mut Problems) -> Option<Document> {
    let mut decoder = Decoder::new(problems, known, EVERYWHERE);
    let document = decoder.document(&Located { path: String::new(), node });
    decoder.check_references();
    decoder.check_names();
    document.filter(|_| !problems.has_errors())
}

impl Decoder<'_> {
    fn document(&mut self, place: &Located<'_>) -> Option<Document> {
        let mut fields = self.object(place)?;
        let name = self.need(&mut fields, "name").and_then(|place| self.name(&place, "document name", 0));
        self.document = name.clone().unwrap_or_default();
        let version =
            self.need(&mut fields, "version").and_then(|place| self.number(&place, 1, u32::MAX.into()));
        let place = fields.take("description");
        let description = self.description(place);
        let place = fields.take("idempotency");
        let key_required = self.choice(place, &[("optional", false), ("required", true)], false);
        let place = fields.take("retention");
        let retention = self.span(place);
        let policies = [("keep", KeyOnFailure::Keep), ("release", KeyOnFailure::Release)];
        let place = fields.take("onFailure");
        let on_failure = self.choice(place, &policies, KeyOnFailure::Keep);
        let fingerprint = fields.take("fingerprint").and_then(|place| self.fingerprint(&place));
        let input = fields.take("input").and_then(|place| self.input_schema(&place));
        let output = fields.take("output");
        let sensitive = fields.take("sensitive").and_then(|place| self.texts(&place)).unwrap_or_default();
        let steps = self.need(&mut fields, "steps").and_then(|place| self.steps(&place));
        let output = self.maybe_template(output, &[]);
        self.finish(fields, "a document", &[fields::DOCUMENT]);
        Some(Document {
            name: name?,
            version: u32::try_from(version?).ok()?,
            description,
            key_required,
            retention,
            on_failure,
            fingerprint,
            input,
            output,
            sensitive,
            steps: steps?,
        })
    }

    fn fingerprint(&mut self, place: &Located<'_>) -> Option<Fingerprint> {
        let mut fields = self.object(place)?;
        let ignore = self.need(&mut fields, "ignore");
        self.finish(fields, "fingerprint", &[fields::FINGERPRINT]);
        let place = ignore?;
        let ignore = self.texts(&place)?;
        if let Err(invalid) = IgnorePaths::new(ignore.clone()) {
            self.error(&place, "bad_pointer", format!("{invalid}; write it as /field or /field/inside"));
            return None;
        }
        Some(Fingerprint { ignore })
    }

    /// Checks that steps named in expressions exist, and warns if they cannot have run by then.
    fn check_references(&mut self) {
        for reference in std::mem::take(&mut self.references) {
            let step = excerpt(&reference.step);
            match self.names.contains_key(&reference.step) {
                false => {
                    let message = format!("there is no step {step:?}");
                    self.problems.error(&reference.path, reference.at, "unknown_step", message);
                }
                true if !reference.has_been => {
                    let message = format!(
                        "step {step:?} cannot have run by then: it comes later, is this one, or is in another branch or inside a loop"
                    );
                    self.problems.warn(&reference.path, reference.at, "step_not_yet_run", message);
                }
                true => {}
            }
        }
    }

    /// Steps of a loop get the index of their item appended to their name, so no other step may have such a name.
    fn check_names(&mut self) {
        for (name, named) in &self.names {
            let clash = self.names.iter().find(|(other, in_loop)| {
                let rest = name.strip_prefix(other.as_str()).and_then(|rest| rest.strip_prefix('.'));
                let is_place = |rest: &str| {
                    rest.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
                };
                in_loop.loops > 0 && rest.is_some_and(is_place)
            });
            if let Some((other, _)) = clash {
                let message = format!(
                    "it reads like an item of {:?}, which is inside a loop; choose another name",
                    excerpt(other)
                );
                self.problems.error(&named.path, named.at, "ambiguous_name", message);
            }
        }
    }
}
