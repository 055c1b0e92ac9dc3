//! Templates: JSON whose strings may contain `{{ expression }}`. A string that consists of one expression keeps the
//! expression's type.

mod url;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::expression::{Expression, Failed, Refused};
use crate::limits::{MAX_EXPRESSION_OUTPUT, MAX_TEMPLATE_PIECES};
use crate::model::HostFromData;
use crate::problem::{below, excerpt};
use crate::scope::Scope;

use url::UrlBuilder;
pub(crate) use url::{BadUrl, has_dot_segment, host_of};

/// Prefix of a reference to a secret.
pub(crate) const SECRET: &str = "secret://";

/// A compiled template. Equal if the source is equal.
#[derive(Clone)]
pub struct Template {
    source: Arc<Value>,
    part: Arc<Part>,
}

#[derive(Debug)]
enum Part {
    Fixed(Value),
    Whole(Expression),
    Text(Vec<TemplatePart>),
    List(Vec<Part>),
    Object(Vec<(String, Part)>),
}

#[derive(Debug)]
enum TemplatePart {
    Text(String),
    Given(Expression),
    Secret(String),
}

/// An error inside a template, with its position.
pub(crate) struct TemplateError {
    pub(crate) path: String,
    pub(crate) refused: Refused,
}

impl Template {
    /// Compiles every expression in `source` and reports all errors.
    pub(crate) fn compile(
        source: Value,
        allowed: &[&str],
        secrets: bool,
    ) -> Result<Self, Vec<TemplateError>> {
        let mut misfits = Vec::new();
        let part = part_of(&source, allowed, secrets, "", &mut misfits);
        match misfits.is_empty() {
            true => Ok(Template { source: Arc::new(source), part: Arc::new(part) }),
            false => Err(misfits),
        }
    }

    /// The source of the template.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Every expression in it.
    pub(crate) fn expressions(&self) -> Vec<&Expression> {
        let mut found = Vec::new();
        collect(&self.part, &mut found);
        found
    }

    /// The secrets it names.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        match &*self.part {
            Part::Text(pieces) => pieces
                .iter()
                .filter_map(|piece| match piece {
                    TemplatePart::Secret(name) => Some(name.as_str()),
                    TemplatePart::Text(_) | TemplatePart::Given(_) => None,
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Returns true if it contains no expression and no secret.
    pub(crate) fn is_fixed(&self) -> bool {
        self.expressions().is_empty() && self.secrets().is_empty()
    }

    /// Fills in the template.
    pub(crate) fn render(&self, scope: &Scope) -> Result<Value, Failed> {
        let mut left = MAX_EXPRESSION_OUTPUT;
        render(&self.part, scope, &mut left)
    }

    /// Fills in the template as a string and looks up secrets. Only the document itself can name a secret, never data.
    pub(crate) fn render_secret<E: From<Failed>>(
        &self,
        scope: &Scope,
        mut secret: impl FnMut(&str) -> Result<String, E>,
    ) -> Result<String, E> {
        match &*self.part {
            Part::Text(pieces) => {
                let mut text = String::new();
                for piece in pieces {
                    match piece {
                        TemplatePart::Text(fixed) => text.push_str(fixed),
                        TemplatePart::Given(expression) => text.push_str(&as_text(expression, scope)?),
                        TemplatePart::Secret(name) => text.push_str(&secret(name)?),
                    }
                }
                Ok(text)
            }
            Part::Whole(expression) => Ok(as_text(expression, scope)?),
            _ => match self.render(scope)? {
                Value::String(text) => Ok(text),
                other => Ok(other.to_string()),
            },
        }
    }

    /// Renders the template as a URL. Values fill path segments and query values; the host comes from data only as far as `from_data`
    /// allows.
    pub(crate) fn render_url(
        &self,
        scope: &Scope,
        from_data: Option<&HostFromData>,
    ) -> Result<String, BadUrl> {
        let mut url = UrlBuilder::new(from_data);
        match &*self.part {
            Part::Fixed(Value::String(text)) => url.push_fixed(text),
            Part::Whole(expression) => {
                url.push_value(expression.source(), &as_text(expression, scope)?, true)?
            }
            Part::Text(pieces) => {
                for (n, piece) in pieces.iter().enumerate() {
                    match piece {
                        TemplatePart::Text(fixed) => url.push_fixed(fixed),
                        TemplatePart::Given(expression) => {
                            let is_last = n + 1 == pieces.len();
                            url.push_value(expression.source(), &as_text(expression, scope)?, is_last)?;
                        }
                        TemplatePart::Secret(_) => {
                            return Err(BadUrl::new("bad_url", "a URL holds no secrets"));
                        }
                    }
                }
            }
            Part::Fixed(_) | Part::List(_) | Part::Object(_) => {
                return Err(BadUrl::new("bad_url", "a URL is a text"));
            }
        }
        url.finish()
    }

    /// The text with `filler` in place of each expression.
    pub(crate) fn outline(&self, filler: &str) -> String {
        match &*self.part {
            Part::Text(pieces) => {
                let texts = pieces.iter().map(|piece| match piece {
                    TemplatePart::Text(text) => text.as_str(),
                    TemplatePart::Given(_) | TemplatePart::Secret(_) => filler,
                });
                texts.collect()
            }
            Part::Fixed(Value::String(text)) => text.clone(),
            Part::Fixed(_) | Part::Whole(_) | Part::List(_) | Part::Object(_) => filler.to_string(),
        }
    }
}

/// Names of the secrets in the text of a document.
pub fn named_secrets(text: &str) -> BTreeSet<&str> {
    let after = text.split(SECRET).skip(1);
    let name = |rest: &'_ str| rest.find(|c: char| !is_of_secret_name(c)).unwrap_or(rest.len());
    after.map(|rest| &rest[..name(rest)]).filter(|name| !name.is_empty()).collect()
}

fn is_of_secret_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

fn collect<'a>(part: &'a Part, found: &mut Vec<&'a Expression>) {
    match part {
        Part::Fixed(_) => {}
        Part::Whole(expression) => found.push(expression),
        Part::Text(pieces) => {
            for piece in pieces {
                if let TemplatePart::Given(expression) = piece {
                    found.push(expression);
                }
            }
        }
        Part::List(parts) => parts.iter().for_each(|part| collect(part, found)),
        Part::Object(fields) => fields.iter().for_each(|(_, part)| collect(part, found)),
    }
}

fn part_of(
    source: &Value,
    allowed: &[&str],
    secrets: bool,
    path: &str,
    misfits: &mut Vec<TemplateError>,
) -> Part {
    match source {
        Value::String(text) => text_part(text, allowed, secrets).unwrap_or_else(|refused| {
            misfits.push(TemplateError { path: path.to_string(), refused });
            Part::Fixed(Value::Null)
        }),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            let parts =
                items.map(|(n, item)| part_of(item, allowed, secrets, &below(path, n), misfits)).collect();
            settled(Part::List(parts), source)
        }
        Value::Object(fields) => {
            let mut parts = Vec::with_capacity(fields.len());
            for (key, value) in fields {
                let inside = below(path, key);
                if key.contains("{{") {
                    let message =
                        "a key cannot hold an expression; make the object by one: \"{{ {input.key: 1} }}\"";
                    let refused = Refused { code: "template_in_key", message: message.into() };
                    misfits.push(TemplateError { path: inside.clone(), refused });
                }
                parts.push((key.clone(), part_of(value, allowed, secrets, &inside, misfits)));
            }
            settled(Part::Object(parts), source)
        }
        fixed => Part::Fixed(fixed.clone()),
    }
}

/// A list or object without expressions is stored unchanged.
fn settled(part: Part, source: &Value) -> Part {
    let is_fixed = |part: &Part| matches!(part, Part::Fixed(_));
    match &part {
        Part::List(parts) if parts.iter().all(is_fixed) => Part::Fixed(source.clone()),
        Part::Object(fields) if fields.iter().all(|(_, part)| is_fixed(part)) => Part::Fixed(source.clone()),
        _ => part,
    }
}

fn text_part(text: &str, allowed: &[&str], secrets: bool) -> Result<Part, Refused> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let (before, tail) = rest.split_at(start);
        push_text(before, secrets, &mut pieces)?;
        let inside = &tail[2..];
        let end = end_of_expression(inside).ok_or_else(|| Refused {
            code: "unclosed_template",
            message: format!(
                "{:?} has no closing }}}}; to write two braces as they are, use {{{{ '{{{{' }}}}",
                excerpt(tail)
            ),
        })?;
        let expression = Expression::compile(inside[..end].trim(), allowed)?;
        rest = &inside[end + 2..];
        if pieces.is_empty() && rest.is_empty() {
            return Ok(Part::Whole(expression));
        }
        pieces.push(TemplatePart::Given(expression));
        if pieces.len() > MAX_TEMPLATE_PIECES {
            let message = format!("the text has more than {MAX_TEMPLATE_PIECES} expressions");
            return Err(Refused { code: "template_too_large", message });
        }
    }
    push_text(rest, secrets, &mut pieces)?;
    match pieces.as_slice() {
        [] => Ok(Part::Fixed(Value::String(String::new()))),
        [TemplatePart::Text(_)] => Ok(Part::Fixed(Value::String(text.to_string()))),
        _ => Ok(Part::Text(pieces)),
    }
}

/// Position of the template's closing braces: not inside a string, and not inside an object of the expression.
fn end_of_expression(text: &str) -> Option<usize> {
    let (mut depth, mut quote, mut escaped) = (0usize, None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '{') => depth += 1,
            (None, '}') if depth > 0 => depth -= 1,
            (None, '}') if text[at..].starts_with("}}") => return Some(at),
            (None, _) => {}
        }
    }
    None
}

/// Fixed text, with references to secrets in it.
fn push_text(text: &str, secrets: bool, pieces: &mut Vec<TemplatePart>) -> Result<(), Refused> {
    let mut rest = text;
    while let Some(start) = rest.find(SECRET) {
        if !secrets {
            let message =
                "a secret can only be named in a header; whatever else is sent is kept in the history";
            return Err(Refused { code: "secret_not_here", message: message.into() });
        }
        let (before, tail) = rest.split_at(start);
        let name = &tail[SECRET.len()..];
        let end = name.find(|c: char| !is_of_secret_name(c));
        let (name, after) = name.split_at(end.unwrap_or(name.len()));
        if name.is_empty() {
            let message = "secret:// needs a name of A-Z a-z 0-9 . _ - after it";
            return Err(Refused { code: "bad_secret", message: message.into() });
        }
        if !before.is_empty() {
            pieces.push(TemplatePart::Text(before.to_string()));
        }
        pieces.push(TemplatePart::Secret(name.to_string()));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(TemplatePart::Text(rest.to_string()));
    }
    Ok(())
}

fn render(part: &Part, scope: &Scope, left: &mut usize) -> Result<Value, Failed> {
    let value = match part {
        Part::Fixed(value) => value.clone(),
        Part::Whole(expression) => expression.evaluate(scope)?,
        Part::Text(pieces) => {
            let mut text = String::new();
            for piece in pieces {
                match piece {
                    TemplatePart::Text(fixed) => text.push_str(fixed),
                    TemplatePart::Given(expression) => text.push_str(&as_text(expression, scope)?),
                    TemplatePart::Secret(_) => {
                        return Err(Failed("a secret can only be sent in a header".into()));
                    }
                }
                if text.len() > *left {
                    return Err(too_large());
                }
            }
            Value::String(text)
        }
        Part::List(parts) => {
            return parts
                .iter()
                .map(|part| render(part, scope, left))
                .collect::<Result<_, _>>()
                .map(Value::Array);
        }
        Part::Object(fields) => {
            let fields = fields.iter().map(|(key, part)| Ok((key.clone(), render(part, scope, left)?)));
            return fields.collect::<Result<_, _>>().map(Value::Object);
        }
    };
    *left = left.checked_sub(about_size(&value)).ok_or_else(too_large)?;
    Ok(value)
}

fn too_large() -> Failed {
    Failed(format!("the template gives more than {MAX_EXPRESSION_OUTPUT} bytes"))
}

/// Approximate length of the value as JSON.
pub(crate) fn about_size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(about_size).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| key.len() + 4 + about_size(value)).sum::<usize>() + 2
        }
    }
}

/// Text form of a value inside a longer string.
fn as_text(expression: &Expression, scope: &Scope) -> Result<String, Failed> {
    match expression.evaluate(scope)? {
        Value::String(text) => Ok(text),
        Value::Null => {
            let shown = excerpt(expression.source());
            Err(Failed(format!(
                "`{shown}`: null cannot stand in a text; say what else should: x == null ? '' : x"
            )))
        }
        other => Ok(other.to_string()),
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.source.serialize(serializer)
    }
}

#[cfg(test)]
mod tests;
