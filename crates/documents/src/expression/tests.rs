use serde_json::json;

use super::*;

fn scope() -> Scope {
    let mut scope = Scope::new(
        json!({
            "n": 7, "price": 9.5, "big": u64::MAX, "name": "Ada", "list": [1, 2, 3], "object": { "b": 1, "a": 2, "c": 3 },
            "none": null, "long": "x".repeat(200_000), "many": (0..2_000).collect::<Vec<u32>>(),
        }),
        json!({ "id": "run_1" }),
    );
    scope.complete("charge-card", json!({ "id": "ch_1" })).unwrap();
    scope
}

fn compile(source: &str) -> Result<Expression, Refused> {
    Expression::compile(source, &["input", "state", "steps", "run"])
}

fn value(source: &str) -> Value {
    compile(source).unwrap().evaluate(&scope()).unwrap()
}

fn failure(source: &str) -> String {
    compile(source).unwrap().evaluate(&scope()).unwrap_err().0
}

#[test]
fn expressions_read_the_data_and_give_json() {
    assert_eq!(value("input.n + 1"), json!(8));
    assert_eq!(value("input.price * 2.0"), json!(19.0));
    assert_eq!(value("double(input.n) * input.price"), json!(66.5));
    assert_eq!(value("input.big == 18446744073709551615u"), json!(true));
    assert_eq!(value("input.list.map(x, x * 2)"), json!([2, 4, 6]));
    assert_eq!(value("input.list.filter(x, x > 1)"), json!([2, 3]));
    assert_eq!(value("input.list.all(x, x > 0) && input.list.exists(x, x == 3)"), json!(true));
    assert_eq!(value("input.list.exists_one(x, x == 3)"), json!(true));
    assert_eq!(value("input.list.exists(x, x == 9)"), json!(false));
    assert_eq!(value("has(input.nothing) ? 1 : 2"), json!(2));
    assert_eq!(value("has(input.n)"), json!(true));
    assert_eq!(value("input.?nothing.orValue('x')"), json!("x"));
    assert_eq!(value("input.?n.orValue(0)"), json!(7));
    assert_eq!(value("optional.of(1).hasValue()"), json!(true));
    assert_eq!(value("{'a': input.list[0], 'b': [input.name]}"), json!({ "a": 1, "b": ["Ada"] }));
    assert_eq!(value("steps['charge-card'].output.id + state.id"), json!("ch_1ch_1"));
    assert_eq!(value("input.none == null"), json!(true));
    assert_eq!(value("'d' in input.object"), json!(false));
    assert_eq!(value("size(input.list) + size(input.name)"), json!(6));
    assert_eq!(value("input.name.startsWith('A') && input.name.contains('d')"), json!(true));
    assert_eq!(value("type(input.n) == int"), json!(true));
    assert_eq!(
        value("input.list.map(x, input.list.map(y, x * y))"),
        json!([[1, 2, 3], [2, 4, 6], [3, 6, 9]])
    );
    assert_eq!(value("input.list.map(x, x > 1, x * 10)"), json!([20, 30]));
}

/// A replay must see the same result as the first run, and a hash map has no fixed order.
#[test]
fn loops_over_an_object_go_over_its_keys_in_order() {
    for _ in 0..20 {
        assert_eq!(value("input.object.map(k, k + string(input.object[k]))"), json!(["a2", "b1", "c3"]));
        assert_eq!(value("{'z': 1, 'y': 2, 'x': 3}.map(k, k)"), json!(["x", "y", "z"]));
    }
}

#[test]
fn what_an_expression_reads_is_known() {
    let expression =
        compile("steps.a.output + steps['b-c'].output + input.x + [1].map(state, state)[0]").unwrap();
    let reads = expression.reads();
    assert_eq!(reads.steps.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b-c"]);
    assert_eq!(reads.variables.iter().map(String::as_str).collect::<Vec<_>>(), ["input", "steps"]);
    assert!(!reads.all_steps);
    assert!(compile("steps[input.name]").unwrap().reads().all_steps);
    assert!(compile("has(steps.a) && has(steps.b.output)").unwrap().reads().steps.len() == 2);
    assert!(compile("1 + 1 == 2").unwrap().is_constant());
}

#[test]
fn unknown_names_are_refused_at_compile_time() {
    for (source, code) in [
        ("", "bad_expression"),
        ("1 +", "bad_expression"),
        ("input.(", "bad_expression"),
        ("inptu.n", "unknown_variable"),
        ("[1].map(x, y)", "unknown_variable"),
        ("now()", "unknown_function"),
        ("'aaa'.matches('(a+)+$')", "unknown_function"),
        ("input.n.replace('a', 'b')", "unknown_function"),
        ("Message{a: 1}", "bad_expression"),
    ] {
        assert_eq!(compile(source).unwrap_err().code, code, "{source}");
    }
}

/// RELIABILITY, expressions: division by zero. Every other error caused by data is a failure that shows no data.
#[test]
fn what_goes_wrong_with_data_is_a_permanent_failure_of_its_own_code() {
    assert!(failure("input.n / 0").contains("division by zero"));
    assert!(failure("input.n % 0").contains("remainder by zero"));
    assert!(failure("input.nothing").contains("there is no \"nothing\""));
    assert!(failure("input.n + input.name").contains("cannot be applied"));
    assert!(failure("input.list[9]").contains("no such place"));
    assert!(failure("9223372036854775807 + input.n").contains("too large"));
    assert!(failure("steps.other.output").contains("there is no \"other\""));
    assert!(failure("1.0 / 0.0").contains("not finite"));
    assert!(failure("{1: 2}").contains("not a text"));
    assert!(!failure("input.name + 1").contains("Ada"));
    let failure = Failure::from(compile("1 / 0").unwrap().evaluate(&scope()).unwrap_err());
    assert_eq!(failure.code(), Some("expression_failed"));
    assert_eq!(failure.class(), hapax_engine::model::FailureClass::Permanent);
    assert!(compile("input.n").unwrap().holds(&scope()).unwrap_err().0.contains("true or false"));
}

/// RELIABILITY, expressions: deep recursion.
#[test]
fn deep_nesting_is_refused_and_never_overflows_the_stack() {
    for open in ["(", "[", "size(", "-", "!", "{'a': ", "1 + (", "true ? 1 : ", "input.list.map(x, "] {
        let close = match open {
            "(" | "size(" | "1 + (" | "input.list.map(x, " => ")",
            "[" => "]",
            "{'a': " => "}",
            _ => "",
        };
        for depth in [60, 200] {
            let source = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let refused = compile(&source).err();
            // An even number of signs cancels out, and does not count as nesting.
            let is_fine = matches!(open, "-" | "!");
            assert!(refused.is_some() || is_fine, "{open} {depth}");
        }
    }
    assert_eq!(compile(&"(".repeat(4_000)).unwrap_err().code, "expression_too_deep");
    assert_eq!(compile(&format!("'{}'", "x".repeat(5_000))).unwrap_err().code, "expression_too_large");
    // A chain is one level per member: the maximum evaluates, and one more is refused.
    let chain = |members: usize| vec!["input.n"; members].join(" + ");
    let longest = (1..300).rev().find(|members| compile(&chain(*members)).is_ok()).unwrap();
    assert!(longest > 50, "{longest}");
    assert_eq!(value(&chain(longest)), json!(7 * longest));
    assert_eq!(compile(&chain(longest + 1)).unwrap_err().code, "expression_too_deep");
    assert_eq!(compile(&chain(400)).unwrap_err().code, "expression_too_deep");
    let nested = |depth: usize| format!("{}input.n{}", "[".repeat(depth), "]".repeat(depth));
    let deepest = (1..100).rev().find(|depth| compile(&nested(*depth)).is_ok()).unwrap();
    assert!(deepest > 20, "{deepest}");
    value(&nested(deepest));
    let loops = "input.list.map(a, input.list.map(b, input.list.map(c, input.list.map(d, d))))";
    assert_eq!(compile(loops).unwrap_err().code, "expression_too_deep");
}

/// RELIABILITY, expressions: huge loops, output of 1 GB.
#[test]
fn too_much_work_and_too_large_outputs_end_in_a_failure() {
    for source in [
        "input.many.map(a, input.many.map(b, a * b))",
        "input.many.all(a, input.many.all(b, input.many.all(c, a + b + c >= 0)))",
        "input.many.exists(a, input.many.exists(b, input.many.exists(c, a + b + c < 0)))",
        "size(input.many.filter(a, input.many.filter(b, a != b).size() > 0)) > 0",
        "input.many.map(a, input.long)",
        "input.many.map(a, input)",
        "input.many.exists(a, input.many.map(b, input.long).size() == 0) || true",
        "input.many.map(a, input.?long)",
        "size(input.many.map(a, 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx').map(t, input.many.map(u, t)))",
    ] {
        let before = std::time::Instant::now();
        let why = failure(source);
        assert!(why.contains("does too much") || why.contains("gives more than"), "{source}: {why}");
        assert!(before.elapsed().as_secs() < 20, "{source} took {:?}", before.elapsed());
    }
    let sum = vec!["input.long"; 20].join(" + ");
    assert!(failure(&sum).contains("gives more than"));
    let sum = vec!["input.long"; 47].join(" + ");
    assert!(failure(&format!("size({sum}) + size({sum})")).contains("does too much"));
    assert_eq!(value("input.many.map(a, a * 2).filter(a, a > 3990)"), json!([3992, 3994, 3996, 3998]));
}
