//! The Helm chart as Kubernetes gets it, without Helm.
//!
//! This reads the subset of templates that the chart uses: values, `if`, `range`, and a few functions. All conditions hold, so every branch is
//! checked, and what is empty by default has a value.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::Value as Document;

/// All templates of the chart in `folder`, with the values of its `values.yaml` filled in.
pub(crate) fn render(folder: &Path, values: &Document) -> Result<String> {
    let mut templates: Vec<PathBuf> =
        fs::read_dir(folder.join("templates"))?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    templates.sort();
    let rendered = templates.iter().map(|template| Ok(fill_in(&fs::read_to_string(template)?, values)));
    Ok(rendered.collect::<Result<Vec<_>>>()?.join("---\n"))
}

fn fill_in(template: &str, values: &Document) -> String {
    let mut lines = Vec::new();
    for line in template.lines() {
        let bare = line.trim();
        if bare.starts_with("{{-") && (bare.contains(" if ") || bare.contains(" end ")) {
            continue;
        }
        if bare.contains(" range ") {
            continue;
        }
        let mut text = line.to_owned();
        while let Some(begin) = text.find("{{") {
            let end = begin + text[begin..].find("}}").expect("it is closed") + 2;
            let value = evaluate(text[begin + 2..end - 2].trim_matches(['-', ' ']), values);
            text.replace_range(begin..end, &value);
        }
        lines.push(text);
    }
    lines.join("\n") + "\n"
}

fn evaluate(expression: &str, values: &Document) -> String {
    let look_up = |path: &str| {
        let path = path.trim().trim_start_matches(".Values.");
        let found = path.split('.').fold(values, |value, name| &value[name]);
        assert!(!found.is_null(), "values.yaml has no {path}");
        found.clone()
    };
    let plain = |value: &Document| match value {
        // What is empty by default is left out by a condition.
        Document::String(text) if text.is_empty() => "given".to_owned(),
        Document::String(text) => text.clone(),
        other => other.to_string(),
    };
    match expression {
        ".Release.Name" => "hapax".to_owned(),
        "$index" => "0".to_owned(),
        "$it.workspace" => "_shared".to_owned(),
        "$it.secret" => "hapax-shared".to_owned(),
        "$name" => "HAPAX_LOG".to_owned(),
        it if it.starts_with("$value") => "\"info\"".to_owned(),
        it if it.starts_with(".Chart.AppVersion") => "\"1\"".to_owned(),
        it if it.contains("| default") => "1".to_owned(),
        it if it.starts_with("toYaml ") => {
            // JSON is YAML, and needs no indentation.
            look_up(it.trim_start_matches("toYaml ").split('|').next().unwrap_or_default()).to_string()
        }
        it if it.starts_with("join ") => {
            let [_, separator, path] = it.splitn(3, '"').collect::<Vec<_>>()[..] else { panic!("{it}") };
            let list = look_up(path);
            let words: Vec<&str> =
                list.as_array().expect("a list").iter().filter_map(Document::as_str).collect();
            words.join(separator)
        }
        it if it.starts_with("add ") => {
            let mut words = it.split_whitespace().skip(1);
            let number = look_up(words.next().expect("a value")).as_i64().expect("a number");
            let further: i64 = words.next().and_then(|word| word.parse().ok()).expect("another");
            (number + further).to_string()
        }
        it => match it.split_once('|') {
            Some((path, _)) => format!("{:?}", plain(&look_up(path))),
            None => plain(&look_up(it)),
        },
    }
}
