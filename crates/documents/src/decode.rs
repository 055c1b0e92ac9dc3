//! Decodes the tree into a document: reads every field and reports every problem, not just the first.

mod actions;
mod document;
mod effect;
mod entity;
mod entity_step;
mod input_schema;
mod nearest;
mod secrets;
mod source;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use hapax_engine::limits::MAX_NAME_CHARS;
use hapax_engine::model::{Name, WorkflowSelector};
use serde_json::Value;

use crate::check::DeclaredNames;
use crate::expression::{Expression, Reads, Refused};
use crate::node::{Kind, Node};
use crate::problem::{Position, Problems, below, excerpt};
use crate::span::Span;
use crate::template::Template;

pub(crate) use document::decode;
pub(crate) use effect::KEY_HEADER;
pub(crate) use entity::decode_entity;
pub(crate) use secrets::is_telling;
pub(crate) use source::decode_source;

/// State of the decoder.
pub(crate) struct Decoder<'a> {
    problems: &'a mut Problems,
    known: &'a DeclaredNames,
    /// Variables that are available everywhere in the document.
    everywhere: &'static [&'static str],
    /// Every step so far, with its position and the number of loops around it.
    names: BTreeMap<String, DecodedStep>,
    /// Steps that run before the current place.
    before: BTreeSet<String>,
    /// References to steps in expressions, and whether the step runs before.
    references: Vec<Reference>,
    loops: usize,
    nesting: usize,
    steps: usize,
    document: String,
}

struct DecodedStep {
    path: String,
    at: Option<Position>,
    loops: usize,
}

struct Reference {
    path: String,
    at: Option<Position>,
    step: String,
    has_been: bool,
}

/// A value and its position.
#[derive(Clone)]
struct Located<'n> {
    path: String,
    node: &'n Node,
}

impl<'n> Located<'n> {
    fn at(&self) -> Option<Position> {
        self.node.at
    }
}

/// The fields of an object that have not been read yet.
struct Fields<'n> {
    path: String,
    at: Option<Position>,
    fields: Vec<(&'n str, &'n Node)>,
}

impl<'n> Fields<'n> {
    fn take(&mut self, name: &str) -> Option<Located<'n>> {
        let place = self.fields.iter().position(|(key, _)| *key == name)?;
        let (key, node) = self.fields.remove(place);
        Some(Located { path: below(&self.path, key), node })
    }
}

impl<'a> Decoder<'a> {
    fn new(
        problems: &'a mut Problems,
        known: &'a DeclaredNames,
        everywhere: &'static [&'static str],
    ) -> Self {
        Decoder {
            problems,
            known,
            everywhere,
            names: BTreeMap::new(),
            before: BTreeSet::new(),
            references: Vec::new(),
            loops: 0,
            nesting: 0,
            steps: 0,
            document: String::new(),
        }
    }
}

impl Decoder<'_> {
    fn error(&mut self, place: &Located<'_>, code: &'static str, message: impl Display) {
        self.problems.error(&place.path, place.at(), code, message);
    }

    fn warn(&mut self, place: &Located<'_>, code: &'static str, message: impl Display) {
        self.problems.warn(&place.path, place.at(), code, message);
    }

    fn wrong_type(&mut self, place: &Located<'_>, wanted: &str) {
        let message = format!("it must be {wanted}, and is {}", place.node.type_name());
        self.error(place, "wrong_type", message);
    }

    fn object<'n>(&mut self, place: &Located<'n>) -> Option<Fields<'n>> {
        let Kind::Object(fields) = &place.node.kind else {
            self.wrong_type(place, "an object");
            return None;
        };
        let fields = fields.iter().map(|(key, value)| (key.as_str(), value)).collect();
        Some(Fields { path: place.path.clone(), at: place.at(), fields })
    }

    /// Reports the remaining fields as unknown. `allowed` goes into the message.
    fn finish(&mut self, fields: Fields<'_>, what: &str, allowed: &[&[&str]]) {
        for (key, node) in fields.fields {
            let path = below(&fields.path, excerpt(key));
            let names: Vec<&str> = allowed.iter().flat_map(|names| names.iter().copied()).collect();
            let meant = nearest::find_nearest(key, &names);
            let meant = meant.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default();
            let (key, names) = (excerpt(key), names.join(", "));
            self.problems.error(
                &path,
                node.at,
                "unknown_field",
                format!("{what} has no {key:?}{meant}; it has: {names}"),
            );
        }
    }

    fn need<'n>(&mut self, fields: &mut Fields<'n>, name: &str) -> Option<Located<'n>> {
        let found = fields.take(name);
        if found.is_none() {
            let path = below(&fields.path, name);
            self.problems.error(&path, fields.at, "missing_field", format!("{name:?} is missing"));
        }
        found
    }

    /// Takes a field of an entity workflow, in camelCase or in the accepted snake_case.
    fn take_spelled<'n>(&mut self, fields: &mut Fields<'n>, name: &str) -> Option<Located<'n>> {
        let found = fields.take(name);
        let spellings = crate::fields::MODEL_SPELLINGS.iter();
        let other = spellings.filter(|(camel, _)| *camel == name).find_map(|(_, snake)| fields.take(snake));
        match (found, other) {
            (Some(found), Some(other)) => {
                let message = format!("it is another spelling of {name}, which is here as well; keep one");
                self.error(&other, "given_twice", message);
                Some(found)
            }
            (found, other) => found.or(other),
        }
    }

    fn need_spelled<'n>(&mut self, fields: &mut Fields<'n>, name: &str) -> Option<Located<'n>> {
        match self.take_spelled(fields, name) {
            Some(found) => Some(found),
            None => self.need(fields, name),
        }
    }

    fn text<'n>(&mut self, place: &Located<'n>) -> Option<&'n str> {
        match &place.node.kind {
            Kind::Text(text) => Some(text),
            _ => {
                self.wrong_type(place, "a text");
                None
            }
        }
    }

    fn list<'n>(&mut self, place: &Located<'n>) -> Option<Vec<Located<'n>>> {
        match &place.node.kind {
            Kind::List(items) => {
                let items = items.iter().enumerate();
                Some(items.map(|(n, node)| Located { path: below(&place.path, n), node }).collect())
            }
            _ => {
                self.wrong_type(place, "a list");
                None
            }
        }
    }

    fn texts(&mut self, place: &Located<'_>) -> Option<Vec<String>> {
        let items = self.list(place)?;
        let texts: Vec<_> = items.iter().map(|item| self.text(item).map(str::to_string)).collect();
        texts.into_iter().collect()
    }

    fn flag(&mut self, place: Option<Located<'_>>) -> bool {
        match place {
            None => false,
            Some(Located { node: Node { kind: Kind::Bool(flag), .. }, .. }) => *flag,
            Some(place) => {
                self.wrong_type(&place, "true or false");
                false
            }
        }
    }

    /// An integer within bounds.
    fn number(&mut self, place: &Located<'_>, least: u64, most: u64) -> Option<u64> {
        let number = match &place.node.kind {
            Kind::Number(number) => number.as_u64().filter(|number| (least..=most).contains(number)),
            _ => {
                self.wrong_type(place, "a whole number");
                return None;
            }
        };
        if number.is_none() {
            self.error(place, "out_of_range", format!("it must be a whole number from {least} to {most}"));
        }
        number
    }

    /// One of a few keywords.
    fn choice<T: Copy>(&mut self, place: Option<Located<'_>>, choices: &[(&str, T)], default: T) -> T {
        let Some(place) = place else { return default };
        let Some(text) = self.text(&place) else { return default };
        match choices.iter().find(|(word, _)| *word == text) {
            Some((_, choice)) => *choice,
            None => {
                let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                let message = format!("{:?} is not one of: {}", excerpt(text), words.join(", "));
                self.error(&place, "unknown_value", message);
                default
            }
        }
    }

    fn span(&mut self, place: Option<Located<'_>>) -> Option<Span> {
        let place = place?;
        let Kind::Text(text) = &place.node.kind else {
            self.wrong_type(&place, "a text such as \"30s\" or \"24h\"");
            return None;
        };
        match Span::parse(text) {
            Ok(span) => Some(span),
            Err(why) => {
                self.error(&place, "bad_span", why);
                None
            }
        }
    }

    /// A name that the engine accepts, with room for a suffix.
    fn name(&mut self, place: &Located<'_>, what: &'static str, room: usize) -> Option<String> {
        let text = self.text(place)?;
        if let Err(invalid) = Name::new(what, text) {
            self.error(place, "bad_name", invalid);
            return None;
        }
        if text.len() + room > MAX_NAME_CHARS {
            let most = MAX_NAME_CHARS - room;
            self.error(place, "bad_name", format!("it is too long here: {most} characters are left for it"));
            return None;
        }
        Some(text.to_string())
    }

    /// The workflow to start: `order` or `order@2`.
    fn workflow_selector(&mut self, place: &Located<'_>) -> Option<WorkflowSelector> {
        match self.text(place)?.parse() {
            Ok(selector) => Some(selector),
            Err(invalid) => {
                self.error(place, "bad_name", invalid);
                None
            }
        }
    }

    /// A name that becomes part of an address.
    fn address_name(&mut self, place: &Located<'_>, what: &'static str) -> Option<String> {
        let name = self.name(place, what, 0)?;
        if name.bytes().all(|byte| byte == b'.') {
            self.error(place, "bad_name", "a name of dots alone cannot stand in an address; choose another");
            return None;
        }
        Some(name)
    }

    fn description(&mut self, place: Option<Located<'_>>) -> Option<String> {
        let place = place?;
        let text = self.text(&place)?;
        let most = crate::limits::MAX_DESCRIPTION_CHARS;
        if text.chars().count() > most {
            self.error(&place, "too_large", format!("a description has at most {most} characters"));
        }
        Some(text.to_string())
    }

    fn variables(&self, more: &[&'static str]) -> Vec<&'static str> {
        let of_loop: &[&str] = if self.loops > 0 { &["item", "index"] } else { &[] };
        self.everywhere.iter().chain(of_loop).chain(more).copied().collect()
    }

    fn expression(&mut self, place: &Located<'_>, more: &[&'static str]) -> Option<Expression> {
        let text = match &place.node.kind {
            Kind::Text(text) => text.as_str(),
            Kind::Bool(true) => "true",
            Kind::Bool(false) => "false",
            _ => {
                self.wrong_type(place, "an expression, as a text");
                return None;
            }
        };
        if text.trim_start().starts_with("{{") {
            self.error(place, "bad_expression", "a condition is an expression as it is, without {{ }}");
            return None;
        }
        match Expression::compile(text, &self.variables(more)) {
            Ok(expression) => {
                self.note_reads(place, expression.reads());
                Some(expression)
            }
            Err(Refused { code, message }) => {
                self.error(place, code, message);
                None
            }
        }
    }

    /// An expression that makes a decision. Warns if it reads no data.
    fn condition(&mut self, place: &Located<'_>, more: &[&'static str]) -> Option<Expression> {
        let expression = self.expression(place, more)?;
        if expression.is_constant() {
            let message = "it is the same for every run, so one of the ways is never taken";
            self.warn(place, "constant_condition", message);
        }
        Some(expression)
    }

    fn template(&mut self, place: &Located<'_>, more: &[&'static str]) -> Option<Template> {
        self.compile(place, more, false)
    }

    fn compile(&mut self, place: &Located<'_>, more: &[&'static str], secrets: bool) -> Option<Template> {
        match Template::compile(place.node.to_value(), &self.variables(more), secrets) {
            Ok(template) => {
                let reads: Vec<Reads> = template.expressions().iter().map(|e| e.reads().clone()).collect();
                reads.iter().for_each(|reads| self.note_reads(place, reads));
                Some(template)
            }
            Err(misfits) => {
                for misfit in misfits {
                    let path = format!("{}{}", place.path, misfit.path);
                    let at = find(place.node, &misfit.path).and_then(|node| node.at).or(place.at());
                    self.problems.error(&path, at, misfit.refused.code, misfit.refused.message);
                }
                None
            }
        }
    }

    fn maybe_template(&mut self, place: Option<Located<'_>>, more: &[&'static str]) -> Option<Template> {
        self.template(&place?, more)
    }

    fn note_reads(&mut self, place: &Located<'_>, reads: &Reads) {
        for step in &reads.steps {
            self.references.push(Reference {
                path: place.path.clone(),
                at: place.at(),
                step: step.clone(),
                has_been: self.before.contains(step),
            });
        }
    }

    /// Returns true if a value is not an expression.
    fn is_plain(value: &Value) -> bool {
        !matches!(value, Value::String(text) if text.contains("{{"))
    }
}

/// The node at a JSON pointer.
fn find<'n>(node: &'n Node, pointer: &str) -> Option<&'n Node> {
    let mut node = node;
    for key in pointer.split('/').skip(1) {
        let key = key.replace("~1", "/").replace("~0", "~");
        node = match &node.kind {
            Kind::List(items) => items.get(key.parse::<usize>().ok()?)?,
            Kind::Object(fields) => &fields.iter().find(|(name, _)| *name == key)?.1,
            _ => return None,
        };
    }
    Some(node)
}
