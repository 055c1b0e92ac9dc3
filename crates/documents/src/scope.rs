//! Variables of expressions during a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::common::value::Val;
use hapax_engine::Failure;
use serde_json::{Map, Value, json};

use crate::expression::{Reads, value_of_fields, value_of_json};
use crate::limits::MAX_HELD_BYTES;
use crate::template::about_size;

/// Fuel for making one value available to expressions.
const FUEL_PER_VALUE: u64 = 12;

/// Variables available everywhere in a document.
pub(crate) const EVERYWHERE: &[&str] = &["input", "state", "steps", "run"];

/// The data of a run so far. Each branch of a parallel step and each item of a loop has its own.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    input: Arc<Value>,
    run: Arc<Value>,
    state: Arc<Map<String, Value>>,
    /// Approximate size of the outputs in bytes.
    held: usize,
    /// Changes to the state in this scope, to be merged into the outer scope.
    written: Map<String, Value>,
    steps: BTreeMap<String, Arc<Value>>,
    local: BTreeMap<&'static str, Arc<Value>>,
    /// Index of the item in each enclosing loop, as in the steps' names.
    suffix: String,
}

impl Scope {
    pub(crate) fn new(input: Value, run: Value) -> Self {
        Scope {
            input: Arc::new(input),
            run: Arc::new(run),
            state: Arc::default(),
            held: 0,
            written: Map::new(),
            steps: BTreeMap::new(),
            local: BTreeMap::new(),
            suffix: String::new(),
        }
    }

    /// Returns a scope with one more variable.
    pub(crate) fn with(&self, name: &'static str, value: Value) -> Self {
        let mut scope = self.clone();
        scope.local.insert(name, Arc::new(value));
        scope
    }

    /// Creates a scope for one branch: it sees all data, and keeps its own changes until they are merged.
    pub(crate) fn branch(&self) -> Self {
        Scope { written: Map::new(), ..self.clone() }
    }

    /// A scope for one item of a loop.
    pub(crate) fn item(&self, index: usize, item: Value) -> Self {
        let mut scope = self.branch();
        scope.local.insert("item", Arc::new(item));
        scope.local.insert("index", Arc::new(Value::from(index)));
        scope.suffix.push_str(&format!(".{index}"));
        scope
    }

    /// A step's name with the indices of its items.
    pub(crate) fn name(&self, step: &str) -> String {
        format!("{step}{}", self.suffix)
    }

    /// S0.32: records a step's output, and merges it shallowly into the state if it is an object.
    pub(crate) fn complete(&mut self, step: &str, output: Value) -> Result<(), Failure> {
        self.hold(about_size(&output))?;
        if let Value::Object(fields) = &output {
            for (key, value) in fields {
                self.write(key, value.clone());
            }
        }
        self.steps.insert(step.to_string(), Arc::new(json!({ "output": output, "skipped": false })));
        Ok(())
    }

    pub(crate) fn skip(&mut self, step: &str) {
        self.steps.insert(step.to_string(), Arc::new(json!({ "output": null, "skipped": true })));
    }

    /// Merges the outputs and changes of a branch.
    pub(crate) fn merge(&mut self, branch: Scope, before: usize) -> Result<(), Failure> {
        self.hold(branch.held.saturating_sub(before))?;
        for (key, value) in branch.written {
            self.write(&key, value);
        }
        self.steps.extend(branch.steps);
        Ok(())
    }

    /// Approximate size of the outputs so far.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    fn hold(&mut self, more: usize) -> Result<(), Failure> {
        self.held += more;
        if self.held <= MAX_HELD_BYTES {
            return Ok(());
        }
        let text = format!(
            "the outputs of the steps hold more than {MAX_HELD_BYTES} bytes; give less with \"output\""
        );
        Err(Failure::permanent(text).with_code("state_too_large"))
    }

    fn write(&mut self, key: &str, value: Value) {
        Arc::make_mut(&mut self.state).insert(key.to_string(), value.clone());
        self.written.insert(key.to_string(), value);
    }

    /// Changes to the state in this scope.
    pub(crate) fn written(&self) -> Value {
        Value::Object(self.written.clone())
    }

    pub(crate) fn state(&self) -> Value {
        Value::Object((*self.state).clone())
    }

    /// Fuel for making the variables of an expression available.
    pub(crate) fn weigh(&self, reads: &Reads) -> u64 {
        let wanted = |step: &str| reads.all_steps || reads.steps.contains(step);
        let variables = reads.variables.iter().map(|name| match name.as_str() {
            "input" => values_in(&self.input),
            "run" => values_in(&self.run),
            "state" => self.state.values().map(values_in).sum(),
            "steps" => {
                self.steps.iter().filter(|(step, _)| wanted(step)).map(|(_, value)| values_in(value)).sum()
            }
            name => self.local.get(name).map_or(0, |value| values_in(value)),
        });
        variables.sum::<u64>() * FUEL_PER_VALUE
    }

    /// The variable as expressions see it, if it exists.
    pub(crate) fn find<'v>(&'v self, name: &str, reads: &Reads) -> Option<Box<dyn Val + 'v>> {
        match name {
            "input" => Some(value_of_json(&self.input)),
            "state" => Some(value_of_fields(self.state.iter().map(|(key, value)| (key.as_str(), value)))),
            "run" => Some(value_of_json(&self.run)),
            "steps" => {
                let wanted = |step: &str| reads.all_steps || reads.steps.contains(step);
                let steps = self.steps.iter().filter(|(step, _)| wanted(step));
                Some(value_of_fields(steps.map(|(step, value)| (step.as_str(), &**value))))
            }
            name => self.local.get(name).map(|value| value_of_json(value)),
        }
    }
}

/// Number of values in it, including itself.
fn values_in(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(values_in).sum::<u64>(),
        Value::Object(fields) => 1 + fields.values().map(values_in).sum::<u64>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}
