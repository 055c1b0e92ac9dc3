use serde_json::json;

use super::*;

fn scope() -> Scope {
    Scope::new(
        json!({ "n": 7, "name": "Ada", "list": [1, 2], "evil": "a/b?x=1#y", "dots": "..", "none": "", "secret": "secret://key" }),
        json!({}),
    )
}

fn compile(source: Value) -> Result<Template, Vec<TemplateError>> {
    Template::compile(source, &["input"], false)
}

fn render(source: Value) -> Value {
    compile(source).ok().unwrap().render(&scope()).unwrap()
}

#[test]
fn a_text_that_is_one_expression_keeps_its_type() {
    assert_eq!(render(json!("{{ input.n }}")), json!(7));
    assert_eq!(render(json!("n={{ input.n }}")), json!("n=7"));
    assert_eq!(render(json!("{{input.name}} and {{ input.list }}")), json!("Ada and [1,2]"));
    assert_eq!(
        render(json!({ "a": ["{{ input.list }}", 1], "b": "x" })),
        json!({ "a": [[1, 2], 1], "b": "x" })
    );
}

#[test]
fn braces_in_texts_and_objects_do_not_close_a_template() {
    assert_eq!(render(json!("{{ {'a': {'b': input.n}} }}")), json!({ "a": { "b": 7 } }));
    assert_eq!(render(json!("{{ '}}' }}!")), json!("}}!"));
    assert_eq!(render(json!("{{ '{{' }}")), json!("{{"));
}

/// RELIABILITY, expressions: `{{` unclosed.
#[test]
fn an_unclosed_template_is_refused_when_it_is_compiled() {
    for bad in ["{{ input.n", "{{ input.n }", "a {{ 'x }} b", "{{"] {
        let misfits = compile(json!({ "x": [bad] })).unwrap_err();
        assert_eq!(
            (misfits[0].refused.code, misfits[0].path.as_str()),
            ("unclosed_template", "/x/0"),
            "{bad}"
        );
    }
    assert_eq!(compile(json!("{{ }}")).unwrap_err()[0].refused.code, "bad_expression");
    assert_eq!(compile(json!({ "{{ input.n }}": 1 })).unwrap_err()[0].refused.code, "template_in_key");
}

#[test]
fn null_does_not_stand_in_a_text() {
    let template = compile(json!("a {{ null }}")).ok().unwrap();
    assert!(template.render(&scope()).unwrap_err().0.contains("null cannot stand"));
}

#[test]
fn data_changes_nothing_in_a_url_but_its_own_place() {
    let allowed = HostFromData::Listed(vec!["base".into(), "*.shop.example".into()]);
    let rendered =
        |source: &str, from_data| compile(json!(source)).ok().unwrap().render_url(&scope(), from_data);
    let url = |source: &str| rendered(source, Some(&allowed)).unwrap();
    let fixed = |source: &str| rendered(source, None).map_err(|bad| bad.code);
    let data = |source: &str| rendered(source, Some(&allowed)).map_err(|bad| bad.code);
    assert_eq!(
        fixed("https://api/orders/{{ input.evil }}/x").unwrap(),
        "https://api/orders/a%2Fb%3Fx%3D1%23y/x"
    );
    assert_eq!(fixed("https://api/?q={{ input.dots }}&r={{ input.none }}").unwrap(), "https://api/?q=..&r=");
    assert_eq!(fixed("https://api/a{{ input.none }}").unwrap(), "https://api/a");
    assert_eq!(fixed("https://api/v{{ input.dots }}").unwrap(), "https://api/v..");
    assert_eq!(fixed("https://api/fixed").unwrap(), "https://api/fixed");
    assert_eq!(url("{{ 'https://base/' + string(input.n) }}/x"), "https://base/7/x");
    assert_eq!(
        url("https://{{ input.name }}.shop.example:8443/{{ input.n }}"),
        "https://Ada.shop.example:8443/7"
    );
    for (source, code) in [
        ("https://api/a/{{ input.dots }}", "bad_path_segment"),
        ("https://api/a/{{ input.dots }}/b", "bad_path_segment"),
        ("https://api/a/{{ input.none }}{{ input.dots }}", "bad_path_segment"),
        ("https://api/a/.{{ '.' }}/b", "bad_path_segment"),
        ("https://api/a/%2{{ 'e' }}%2E/b", "bad_path_segment"),
        ("https://api/a/{{ '../b' }}", "bad_path_segment"),
        ("https://api/a/{{ 'b/..' }}/c", "bad_path_segment"),
        ("https://api/a/{{ '..\\\\b' }}", "bad_path_segment"),
        ("https://api/a/{{ '..;x' }}/c", "bad_path_segment"),
        ("https://api/a/{{ input.none }}", "bad_path_segment"),
        ("https://api/{{ input.none }}/b", "bad_path_segment"),
        ("https://api{{ input.name }}/", "host_from_data"),
        ("{{ 'https://base' }}", "host_from_data"),
    ] {
        assert_eq!(fixed(source), Err(code), "{source}");
    }
    for (source, code) in [
        ("https://{{ 'evil.net/' }}.shop.example/", "bad_url"),
        ("https://{{ 'x@evil.net' }}/", "bad_url"),
        ("https://{{ input.none }}.shop.example/", "bad_url"),
        ("{{ 'https://base@evil.net' }}/x", "bad_url"),
        ("{{ 'https://evil.net\\\\@base' }}/x", "bad_url"),
        ("{{ 'https://base/?x=' }}/y", "bad_url"),
        ("{{ 'ftp://base' }}/x", "bad_url"),
        ("{{ 'https://evil.net' }}/x", "host_not_allowed"),
        ("{{ 'https://shop.example' }}/x", "host_not_allowed"),
        ("{{ 'https://base/a/../b' }}", "bad_path_segment"),
    ] {
        assert_eq!(data(source), Err(code), "{source}");
    }
}

#[test]
fn only_what_the_document_says_is_a_secret() {
    let header = |source: &str| {
        let template = Template::compile(json!(source), &["input"], true).ok().unwrap();
        template.render_secret(&scope(), |name| Ok::<_, Failed>(format!("<{name}>"))).unwrap()
    };
    assert_eq!(header("Bearer secret://stripe-key"), "Bearer <stripe-key>");
    assert_eq!(header("Bearer {{ input.secret }}"), "Bearer secret://key");
    assert_eq!(compile(json!({ "a": "x secret://k" })).unwrap_err()[0].refused.code, "secret_not_here");
}

#[test]
fn the_secrets_that_a_text_names_are_found() {
    let text = r#"{"a":"Bearer secret://b-1.x","c":"secret://a secret://b-1.x","d":"secret://"}"#;
    assert_eq!(named_secrets(text).into_iter().collect::<Vec<_>>(), ["a", "b-1.x"]);
}

/// RELIABILITY, expressions: huge outputs.
#[test]
fn what_becomes_too_large_fails() {
    let big = Scope::new(json!({ "s": "x".repeat(400_000) }), json!({}));
    let template = compile(json!(["{{ input.s }}", "{{ input.s }}", "{{ input.s }}"])).ok().unwrap();
    assert!(template.render(&big).unwrap_err().0.contains("more than"));
    let text = compile(json!("{{ input.s }}{{ input.s }}{{ input.s }}")).ok().unwrap();
    assert!(text.render(&big).unwrap_err().0.contains("more than"));
}
