//! Expressions: CEL, compiled when a document is checked, and evaluated on plain data with a bounded amount of work.
//!
//! The `cel` crate has no fuel, so the compiler adds it to the expression: every place that reads data, runs a loop or
//! creates an element is wrapped in a function that pays for it (`metered.rs`). The total is checked again at the end,
//! because CEL's `&&` and `||` can swallow errors. Regular expressions and the current time are left out on purpose:
//! the work of the first cannot be counted, and the second would differ between replays. For the same reason, loops
//! over an object visit its keys in order.

mod fuel;
mod metered;
mod value;

pub(crate) use fuel::within_fuel;
pub(crate) use value::{fields_value as value_of_fields, json_value as value_of_json};

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use cel::common::ast::IdedExpr;
use cel::{Context, Env, ExecutionError};
use hapax_engine::Failure;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::limits::{MAX_EXPRESSION_BYTES, MAX_EXPRESSION_DEPTH, MAX_EXPRESSION_OUTPUT};
use crate::problem::excerpt;
use crate::scope::Scope;

/// A compiled expression. Equal if the source text is equal.
#[derive(Clone)]
pub struct Expression {
    source: Arc<str>,
    compiled: Arc<Compiled>,
}

struct Compiled {
    code: IdedExpr,
    reads: Reads,
    /// Stack size that its evaluation may use.
    stack: usize,
}

/// Variables and steps that an expression reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reads {
    /// The variables.
    pub(crate) variables: BTreeSet<String>,
    /// The steps it names.
    pub(crate) steps: BTreeSet<String>,
    /// True if it uses `steps` without naming a step.
    pub(crate) all_steps: bool,
}

/// Reason why an expression cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl Refused {
    fn new(code: &'static str, message: impl fmt::Display) -> Self {
        Refused { code, message: message.to_string() }
    }
}

/// Reason why an expression returned no value. The failure is permanent, because the same data gives the same result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed(pub(crate) String);

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Self {
        Failure::permanent(failed.0).with_code("expression_failed")
    }
}

/// The `cel` crate takes about 52 KB of stack per level of an expression, and a runtime thread has 2 MiB in total.
const STACK_PER_LEVEL: usize = 80 * 1024;
const STACK_TO_COMPILE: usize = 8 * 1024 * 1024;

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(fuel::add_to(Env::stdlib())));

impl Expression {
    /// Compiles `source`, which may read the variables of `allowed` and no others.
    pub(crate) fn compile(source: &str, allowed: &[&str]) -> Result<Self, Refused> {
        if source.trim().is_empty() {
            return Err(Refused::new("bad_expression", "the expression is empty"));
        }
        if source.len() > MAX_EXPRESSION_BYTES {
            let message =
                format!("the expression has {} bytes; {MAX_EXPRESSION_BYTES} are allowed", source.len());
            return Err(Refused::new("expression_too_large", message));
        }
        if nesting(source) > MAX_EXPRESSION_DEPTH {
            return Err(too_deep());
        }
        let depth = u16::try_from(MAX_EXPRESSION_DEPTH).unwrap_or(u16::MAX);
        let parse = || ENV.parser().max_recursion_depth(depth).parse(source);
        let parse = || catch_unwind(AssertUnwindSafe(parse));
        let parsed = stacker::maybe_grow(STACK_TO_COMPILE, STACK_TO_COMPILE, parse);
        let parsed = parsed.map_err(|_| Refused::new("bad_expression", "the expression cannot be read"))?;
        let parsed = parsed.map_err(|errors| {
            let first = errors.errors.first();
            let (column, text) = first.map_or((0, "it cannot be read"), |e| (e.pos.1, e.msg.as_str()));
            match text.contains("recursion") {
                true => too_deep(),
                false => Refused::new("bad_expression", format!("at character {column}: {}", excerpt(text))),
            }
        })?;
        let (code, reads, levels) = metered::meter(parsed, allowed)?;
        let compiled = Compiled { code, reads, stack: levels * STACK_PER_LEVEL };
        Ok(Expression { source: source.into(), compiled: Arc::new(compiled) })
    }

    /// The source text of the expression.
    pub fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn reads(&self) -> &Reads {
        &self.compiled.reads
    }

    /// Returns true if its value does not depend on data.
    pub(crate) fn is_constant(&self) -> bool {
        self.reads().variables.is_empty()
    }

    /// Evaluates it.
    pub(crate) fn evaluate(&self, scope: &Scope) -> Result<Value, Failed> {
        let shown = excerpt(&self.source);
        let stack = self.compiled.stack;
        let work_out = || catch_unwind(AssertUnwindSafe(|| self.work_out(scope)));
        let outcome = stacker::maybe_grow(stack, stack, work_out);
        let outcome = outcome.unwrap_or_else(|_| Err("it cannot be worked out".to_string()));
        outcome.map_err(|why| Failed(format!("`{shown}`: {why}")))
    }

    /// Evaluates a condition. A value other than true or false is a failure.
    pub(crate) fn holds(&self, scope: &Scope) -> Result<bool, Failed> {
        match self.evaluate(scope)? {
            Value::Bool(holds) => Ok(holds),
            _ => {
                let shown = excerpt(&self.source);
                Err(Failed(format!("`{shown}`: a condition must be true or false; compare with something")))
            }
        }
    }

    fn work_out(&self, scope: &Scope) -> Result<Value, String> {
        let Compiled { code, reads, .. } = &*self.compiled;
        let too_much = || Err("it does too much: read less data, or make it a task".to_string());
        if !fuel::prepare(scope.weigh(reads)) {
            return too_much();
        }
        let mut context = Context::with_env(ENV.clone());
        for name in &reads.variables {
            if let Some(value) = scope.find(name, reads) {
                context.add_variable_as_val(name.as_str(), value);
            }
        }
        fuel::fill();
        let outcome = cel::Value::resolve_val(code, &context);
        fuel::settle();
        if fuel::is_spent() {
            return too_much();
        }
        let outcome = outcome.map_err(|error| told(&error))?;
        let mut left = MAX_EXPRESSION_OUTPUT;
        value::to_json(outcome.as_ref(), &mut left)
    }
}

fn too_deep() -> Refused {
    let message = format!("the expression is nested deeper than {MAX_EXPRESSION_DEPTH} levels");
    Refused::new("expression_too_deep", message)
}

/// Depth of brackets, checked first so that the parser cannot overflow the stack.
fn nesting(source: &str) -> usize {
    let (mut depth, mut deepest, mut quote, mut escaped) = (0usize, 0usize, None, false);
    for c in source.chars() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => (depth, deepest) = (depth + 1, deepest.max(depth + 1)),
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
    }
    deepest
}

/// The error message without data, because failures are stored and shown.
fn told(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => {
            format!("there is no {:?}; ask with has(…) first, or use .?", excerpt(key))
        }
        ExecutionError::UndeclaredReference(name) => format!("{:?} is not known here", excerpt(name)),
        ExecutionError::DivisionByZero(_) => "division by zero".into(),
        ExecutionError::RemainderByZero(_) => "remainder by zero".into(),
        ExecutionError::Overflow(..) => "the number is too large".into(),
        ExecutionError::IndexOutOfBounds(_) => "the list has no such place".into(),
        ExecutionError::NoSuchOverload(overload) => {
            let types = overload.argument_types().join(", ");
            format!(
                "{} cannot be applied to ({types}); convert with int(), double() or string()",
                overload.function()
            )
        }
        ExecutionError::UnsupportedBinaryOperator(operator, ..) => {
            format!("{operator} cannot be applied to these two; convert with int(), double() or string()")
        }
        ExecutionError::UnexpectedType { got, want } => format!("it needs {want} and got {got}"),
        ExecutionError::ValuesNotComparable(..) => "two values of different types cannot be compared".into(),
        ExecutionError::FunctionError { function, .. } => format!("{function} cannot use what it was given"),
        ExecutionError::DuplicateKey(_) => "an object has a key twice".into(),
        _ => "it cannot be worked out from this data".into(),
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.source)
    }
}

impl Serialize for Expression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.source)
    }
}

#[cfg(test)]
mod tests;
