//! Analyses a parsed expression: the data it reads, whether that is allowed, and the places where it must pay.

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SelectExpr,
    operators,
};
use cel::common::types::CelInt;

use super::fuel::{MADE, RANGE, READ, TURN};
use super::{Reads, Refused, too_deep};
use crate::limits::{MAX_COMPREHENSION_NESTING, MAX_EXPRESSION_LEVELS};

/// Functions an expression may call, macros apart.
const FUNCTIONS: &[&str] = &[
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "string",
    "int",
    "uint",
    "double",
    "bool",
    "type",
    "dyn",
    "orValue",
    "or",
    "hasValue",
    "value",
];
/// Methods of `optional`.
const OPTIONAL: &[&str] = &["of", "none", "ofNonZeroValue"];
/// Names of types, for `type(x) == int`.
const TYPES: &[&str] = &["int", "uint", "double", "string", "bool", "list", "map", "null_type"];

/// The expression with its payments, the data it reads, and its nesting depth.
pub(super) fn meter(parsed: IdedExpr, allowed: &[&str]) -> Result<(IdedExpr, Reads, usize), Refused> {
    let mut meter = Meter {
        allowed,
        reads: Reads::default(),
        bound: Vec::new(),
        depth: 0,
        deepest: 0,
        loops: 0,
        weight: 0,
    };
    let code = meter.value(parsed)?;
    // Payments add levels: one where data is read, and two for each loop.
    let levels = meter.deepest + 2 + 2 * MAX_COMPREHENSION_NESTING;
    Ok((code, meter.reads, levels))
}

struct Meter<'a> {
    allowed: &'a [&'a str],
    reads: Reads,
    /// Variables of the enclosing loops.
    bound: Vec<String>,
    depth: usize,
    deepest: usize,
    loops: usize,
    /// Number of visited nodes, which is also the least that one evaluation creates.
    weight: u64,
}

impl Meter<'_> {
    /// An expression whose value is used: it pays for the data it reads.
    fn value(&mut self, expr: IdedExpr) -> Result<IdedExpr, Refused> {
        self.deeper(|meter| meter.value_within(expr))
    }

    fn deeper(
        &mut self,
        look: impl FnOnce(&mut Self) -> Result<IdedExpr, Refused>,
    ) -> Result<IdedExpr, Refused> {
        if self.depth >= MAX_EXPRESSION_LEVELS {
            return Err(too_deep());
        }
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        self.weight += 8;
        let outcome = look(self);
        self.depth -= 1;
        outcome
    }

    fn value_within(&mut self, expr: IdedExpr) -> Result<IdedExpr, Refused> {
        let id = expr.id;
        let same = |expr| Ok(IdedExpr { id, expr });
        match expr.expr {
            Expr::Unspecified => Err(Refused::new("bad_expression", "the expression has a hole")),
            Expr::Literal(literal) => {
                if let LiteralValue::String(text) = &literal {
                    self.weight += text.inner().len() as u64;
                }
                same(Expr::Literal(literal))
            }
            Expr::Ident(name) if name.starts_with('@') => same(Expr::Ident(name)),
            Expr::Select(select) if select.test => {
                let held = self.held_step(&select.operand, Some(&select.field));
                let operand = if held { *select.operand } else { self.path(*select.operand)? };
                same(Expr::Select(SelectExpr { operand: Box::new(operand), ..select }))
            }
            Expr::Call(ref call) if is_optional_path(call) => self.path(expr),
            Expr::Ident(_) | Expr::Select(_) => Ok(paid(READ, None, self.path(expr)?)),
            Expr::Call(ref call) if call.func_name == operators::INDEX && call.args.len() == 2 => {
                Ok(paid(READ, None, self.path(expr)?))
            }
            Expr::Call(call) => {
                let call = self.call(call)?;
                same(Expr::Call(call))
            }
            Expr::List(list) => {
                let elements = list.elements.into_iter().map(|element| self.value(element));
                let elements = elements.collect::<Result<_, _>>()?;
                same(Expr::List(ListExpr { elements, ..list }))
            }
            Expr::Map(map) => {
                let mut entries = map.entries;
                for entry in &mut entries {
                    if let EntryExpr::MapEntry(pair) = &mut entry.expr {
                        pair.key = self.value(std::mem::take(&mut pair.key))?;
                        pair.value = self.value(std::mem::take(&mut pair.value))?;
                    }
                }
                same(Expr::Map(MapExpr { entries }))
            }
            Expr::Struct(_) => Err(Refused::new(
                "bad_expression",
                "messages cannot be made here; write an object: {'name': value}",
            )),
            Expr::Comprehension(comprehension) => {
                let comprehension = self.comprehension(*comprehension)?;
                same(Expr::Comprehension(Box::new(comprehension)))
            }
        }
    }

    /// A path into the data: only its end is copied.
    fn path(&mut self, expr: IdedExpr) -> Result<IdedExpr, Refused> {
        self.deeper(|meter| meter.path_within(expr))
    }

    fn path_within(&mut self, expr: IdedExpr) -> Result<IdedExpr, Refused> {
        let id = expr.id;
        match expr.expr {
            Expr::Ident(name) => {
                self.read(&name)?;
                self.reads.all_steps |= name == "steps" && !self.bound.contains(&name);
                Ok(IdedExpr { id, expr: Expr::Ident(name) })
            }
            Expr::Select(select) if !select.test => {
                let held = self.held_step(&select.operand, Some(&select.field));
                let operand = if held { *select.operand } else { self.path(*select.operand)? };
                let select = SelectExpr { operand: Box::new(operand), ..select };
                Ok(IdedExpr { id, expr: Expr::Select(select) })
            }
            Expr::Call(mut call) if is_path(&call) => {
                let is_optional = is_optional_path(&call);
                let (Some(key), Some(base)) = (call.args.pop(), call.args.pop()) else {
                    return Err(Refused::new("bad_expression", "an index needs something to look in"));
                };
                let held = self.held_step(&base, literal_text(&key));
                let base = if held { base } else { self.path(base)? };
                call.args = vec![base, self.value(key)?];
                let looked = IdedExpr { id, expr: Expr::Call(call) };
                // An optional value is copied into its wrapper.
                Ok(if is_optional { paid(READ, None, looked) } else { looked })
            }
            expr => self.value_within(IdedExpr { id, expr }),
        }
    }

    /// Returns true for `steps.<name>`, and notes the step as read.
    fn held_step(&mut self, base: &IdedExpr, key: Option<&str>) -> bool {
        match (&base.expr, key) {
            (Expr::Ident(name), Some(key)) if name == "steps" && !self.bound.iter().any(|b| b == name) => {
                if self.read("steps").is_err() {
                    return false;
                }
                self.reads.steps.insert(key.to_string());
                true
            }
            _ => false,
        }
    }

    fn read(&mut self, name: &str) -> Result<(), Refused> {
        if name.starts_with('@') || self.bound.iter().any(|bound| bound == name) {
            return Ok(());
        }
        let plain = name.trim_start_matches('.');
        if self.allowed.contains(&plain) {
            self.reads.variables.insert(plain.to_string());
            return Ok(());
        }
        if TYPES.contains(&plain) {
            return Ok(());
        }
        let known = self.allowed.join(", ");
        Err(Refused::new("unknown_variable", format!("{plain:?} is not known here; there are: {known}")))
    }

    fn call(&mut self, mut call: CallExpr) -> Result<CallExpr, Refused> {
        let name = call.func_name.as_str();
        let is_operator = name.contains('_') && name.chars().any(|c| !c.is_alphanumeric() && c != '_')
            || name.starts_with('@')
            || name == operators::LOGICAL_NOT;
        let of_optional = call.target.as_ref().is_some_and(|target| {
            matches!(&target.expr, Expr::Ident(ident) if ident == "optional") && OPTIONAL.contains(&name)
        });
        if !is_operator && !of_optional && !FUNCTIONS.contains(&name) {
            let known = FUNCTIONS.join(", ");
            let message = format!(
                "{name:?} is not a function here; there are: {known}, has, all, exists, exists_one, map, filter"
            );
            return Err(Refused::new("unknown_function", message));
        }
        if !of_optional && let Some(target) = call.target.take() {
            call.target = Some(Box::new(self.value(*target)?));
        }
        let args = std::mem::take(&mut call.args);
        call.args = args.into_iter().map(|arg| self.value(arg)).collect::<Result<_, _>>()?;
        Ok(call)
    }

    fn comprehension(&mut self, mut of: ComprehensionExpr) -> Result<ComprehensionExpr, Refused> {
        self.loops += 1;
        if self.loops > MAX_COMPREHENSION_NESTING {
            let message =
                format!("more than {MAX_COMPREHENSION_NESTING} loops inside one another: make it a task");
            return Err(Refused::new("expression_too_deep", message));
        }
        let range = self.value(of.iter_range)?;
        of.iter_range = paid(RANGE, None, range);
        of.accu_init = self.value(of.accu_init)?;
        let before = self.weight;
        let bound = self.bound.len();
        self.bound.push(of.iter_var.clone());
        self.bound.extend(of.iter_var2.clone());
        of.loop_cond = self.value(of.loop_cond)?;
        of.loop_step = self.value(of.loop_step)?;
        of.result = self.value(of.result)?;
        self.bound.truncate(bound);
        self.loops -= 1;
        let cost = self.weight - before;
        self.charge_turns(&mut of, cost);
        Ok(of)
    }

    /// Adds the price of an iteration where the evaluation passes each time, without changing the forms that the `cel`
    /// crate optimises: those have a fixed condition.
    fn charge_turns(&self, of: &mut ComprehensionExpr, cost: u64) {
        let turn = || call(TURN, vec![number(cost)]);
        if matches!(of.loop_cond.expr, Expr::Literal(_))
            && let Expr::Call(step) = &mut of.loop_step.expr
        {
            if step.func_name == operators::CONDITIONAL && step.args.len() == 3 {
                let guard = std::mem::take(&mut step.args[0]);
                step.args[0] = call(operators::LOGICAL_AND, vec![turn(), guard]);
                return;
            }
            if step.func_name == operators::ADD
                && let Some(IdedExpr { expr: Expr::List(list), .. }) = step.args.get_mut(1)
                && let Some(element) = list.elements.first_mut()
            {
                *element = paid(MADE, Some(cost), std::mem::take(element));
                return;
            }
        }
        let cond = std::mem::take(&mut of.loop_cond);
        of.loop_cond = call(operators::LOGICAL_AND, vec![turn(), cond]);
    }
}

fn is_path(call: &CallExpr) -> bool {
    call.args.len() == 2 && (call.func_name == operators::INDEX || is_optional_path(call))
}

fn is_optional_path(call: &CallExpr) -> bool {
    call.args.len() == 2
        && (call.func_name == operators::OPT_INDEX || call.func_name == operators::OPT_SELECT)
}

fn literal_text(expr: &IdedExpr) -> Option<&str> {
    match &expr.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

fn number(number: u64) -> IdedExpr {
    let number = CelInt::from(i64::try_from(number).unwrap_or(i64::MAX));
    IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::Int(number)) }
}

fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    IdedExpr { id: 0, expr: Expr::Call(CallExpr { func_name: name.to_string(), target: None, args }) }
}

fn paid(by: &str, cost: Option<u64>, expr: IdedExpr) -> IdedExpr {
    call(by, cost.map(number).into_iter().chain([expr]).collect())
}
