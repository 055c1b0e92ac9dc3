#![allow(missing_docs, dead_code)]
use hapax_engine::runtime::WorkflowOptions;
use hapax_engine::store::RunLog;
use hapax_engine::{Ctx, Failure};
use serde_json::Value;
use std::sync::Arc;
#[derive(Debug)]
pub struct Checked {
    name: String,
    version: u32,
    text: String,
}
impl Checked {
    pub fn name(&self) -> &str {
        &self.name
    }
    pub fn version(&self) -> u32 {
        self.version
    }
    pub fn description(&self) -> Option<&str> {
        None
    }
    pub fn requires_key(&self) -> bool {
        false
    }
    pub fn canonical(&self) -> String {
        self.text.clone()
    }
}
#[derive(Debug, Default)]
pub struct Hands;
#[derive(Debug, Clone, Copy)]
pub enum Format {
    Json,
    Yaml,
}
#[derive(Debug)]
pub struct Problem {
    pub path: String,
    pub code: String,
    pub message: String,
}
#[derive(Debug)]
pub struct Report(Vec<Problem>);
impl Report {
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }
}
pub fn check(text: &str, _: Format, _: Option<&Hands>) -> Result<Checked, Report> {
    let value: Value = serde_json::from_str(text).map_err(|e| {
        Report(vec![Problem { path: String::new(), code: "json".into(), message: e.to_string() }])
    })?;
    match (value["name"].as_str(), value["version"].as_u64()) {
        (Some(name), Some(version)) => Ok(Checked {
            name: name.into(),
            version: version as u32,
            text: hapax_engine::model::canonical_json(&value),
        }),
        _ => Err(Report(vec![Problem {
            path: "/name".into(),
            code: "missing".into(),
            message: "name and version".into(),
        }])),
    }
}
pub fn parse_stored(text: &str) -> Result<Checked, String> {
    check(text, Format::Json, None).map_err(|_| "bad".into())
}
pub fn to_json(text: &str, _: Format) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text)
}
pub async fn run(ctx: Ctx, _: Arc<Checked>, input: Value, _: Arc<Hands>) -> Result<Value, Failure> {
    ctx.step("echo", |_| {
        let input = input.clone();
        async move { Ok::<_, Failure>(input) }
    })
    .await
}
pub fn options(checked: &Checked) -> WorkflowOptions {
    WorkflowOptions::default().version(checked.version)
}
pub fn state_of(_: &Checked, _: &RunLog) -> Option<Value> {
    None
}
pub fn json_schema() -> Value {
    Value::Null
}
