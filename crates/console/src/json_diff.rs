//! Where two JSON texts differ. Numbers compare as they are written, so none is rounded.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// JSON Pointers to the outermost places at which two values differ, in order; at most `limit`. The empty pointer is the
/// whole. Texts that are not JSON differ as a whole.
pub(crate) fn differences(one: &str, other: &str, limit: usize) -> Vec<String> {
    let mut found = Vec::new();
    walk(one.trim(), other.trim(), "", limit, &mut found);
    found
}

fn walk(one: &str, other: &str, path: &str, limit: usize, found: &mut Vec<String>) {
    if one == other || found.len() >= limit {
        return;
    }
    if let (Some(one), Some(other)) = (object(one), object(other)) {
        let names = one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)));
        for name in names {
            let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
            either(one.get(name).map(|it| it.get()), other.get(name).map(|it| it.get()), &path, limit, found);
        }
    } else if let (Some(one), Some(other)) = (array(one), array(other)) {
        for place in 0..one.len().max(other.len()) {
            let path = format!("{path}/{place}");
            either(
                one.get(place).map(|it| it.get()),
                other.get(place).map(|it| it.get()),
                &path,
                limit,
                found,
            );
        }
    } else if text(one).is_none_or(|one| text(other) != Some(one)) {
        found.push(path.to_owned());
    }
}

fn either(one: Option<&str>, other: Option<&str>, path: &str, limit: usize, found: &mut Vec<String>) {
    match (one, other) {
        (Some(one), Some(other)) => walk(one.trim(), other.trim(), path, limit, found),
        _ if found.len() < limit => found.push(path.to_owned()),
        _ => {}
    }
}

fn object(json: &str) -> Option<BTreeMap<String, Box<RawValue>>> {
    json.starts_with('{').then(|| serde_json::from_str(json).ok()).flatten()
}

fn array(json: &str) -> Option<Vec<Box<RawValue>>> {
    json.starts_with('[').then(|| serde_json::from_str(json).ok()).flatten()
}

/// A JSON string: two that are escaped in different ways are the same.
fn text(json: &str) -> Option<String> {
    json.starts_with('"').then(|| serde_json::from_str(json).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_named_and_no_number_is_rounded() {
        let all = |one: &str, other: &str| differences(one, other, 10);
        assert!(all(r#"{"a":1,"b":[1,2]}"#, r#"{ "b": [1, 2], "a": 1 }"#).is_empty());
        assert!(all(r#""a\u0062""#, r#""ab""#).is_empty());
        assert_eq!(all(r#"{"n":9007199254740993}"#, r#"{"n":9007199254740992}"#), ["/n"]);
        assert_eq!(all(r#"{"a":{"b/c":1,"d":2}}"#, r#"{"a":{"b/c":2,"e":2}}"#), ["/a/b~1c", "/a/d", "/a/e"]);
        assert_eq!(all("[1,2,3]", "[1,3]"), ["/1", "/2"]);
        assert_eq!(all("{}", "nonsense"), [""]);
        assert_eq!(differences("[1,2,3]", "[4,5,6]", 2).len(), 2);
    }
}
