//! The messages of `proto/hapax/v1` match the seed, number for number.

/// Words and punctuation of a file, without comments.
fn tokens(text: &str) -> Vec<String> {
    let bare: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let mut spaced = bare.join(" ");
    for mark in ["{", "}", "=", ";", "\""] {
        spaced = spaced.replace(mark, &format!(" {mark} "));
    }
    spaced.split_whitespace().map(ToOwned::to_owned).collect()
}

/// Fields of a message: label, type, name, number. Fails on anything that is not `[optional] type
/// name = number;`.
fn fields(tokens: &[String], message: &str) -> Vec<(bool, String, String, u32)> {
    let at = tokens.windows(3).position(|part| part[0] == "message" && part[1] == message && part[2] == "{");
    let body = &tokens[at.unwrap_or_else(|| panic!("there is no message {message}")) + 3..];
    let body = &body[..body.iter().position(|token| token == "}").expect("a message ends")];
    let statements = body.split(|token| token == ";").filter(|statement| !statement.is_empty());
    let read = statements.map(|statement| {
        let is_optional = statement[0] == "optional";
        match &statement[usize::from(is_optional)..] {
            [kind, name, equals, number] if equals == "=" => {
                (is_optional, kind.clone(), name.clone(), number.parse().expect("a field has a number"))
            }
            other => panic!("{other:?} is no field"),
        }
    });
    read.collect()
}

fn field(is_optional: bool, kind: &str, name: &str, number: u32) -> (bool, String, String, u32) {
    (is_optional, kind.to_owned(), name.to_owned(), number)
}

/// S4.16, S4.31.
#[test]
fn promises_have_the_fields_and_numbers_of_the_seed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/proto/hapax/v1/promises.proto");
    let tokens = tokens(&std::fs::read_to_string(path).unwrap());
    let begin: Vec<&str> = tokens.iter().take(8).map(String::as_str).collect();
    assert_eq!(begin, ["syntax", "=", "\"", "proto3", "\"", ";", "package", "hapax.v1"]);
    let count = |mark: &str| tokens.iter().filter(|token| *token == mark).count();
    assert_eq!((count("message"), count("{"), count("}")), (2, 2, 2));
    assert_eq!(
        fields(&tokens, "SchedulePromise"),
        [
            field(false, "string", "name", 1),
            field(true, "int64", "timeout_ms", 2),
            field(true, "string", "idempotency_key", 3),
            field(true, "int64", "idempotency_key_ttl_seconds", 4),
        ]
    );
    assert_eq!(
        fields(&tokens, "ResolvePromiseRequest"),
        [field(false, "string", "identifier", 1), field(false, "bytes", "value", 2)]
    );
}
