//! The bill of materials in CycloneDX format: every crate with its licence, its checksum and its
//! dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Release, describe_workspace};

/// The package that has the program.
const PROGRAM: &str = "hapax-cli";

pub(super) fn make(release: &Release) -> Result<PathBuf> {
    let metadata = describe_workspace(release.root, &["--filter-platform", release.platform.rust])?;
    let lock = fs::read_to_string(release.root.join("Cargo.lock"))?;
    let bom = describe(&metadata, &checksums(&lock), &release.version)?;
    let file = release.out.join(format!("hapax-{}.cdx.json", release.version));
    fs::write(&file, serde_json::to_string_pretty(&bom)? + "\n")?;
    Ok(file)
}

/// The bill of materials of the program, from the output of `cargo metadata`.
fn describe(
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
    version: &str,
) -> Result<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|package| (text(&package["id"]), package)).collect();
    let uses: BTreeMap<String, Vec<String>> = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| (text(&node["id"]), list(&node["deps"]).iter().filter_map(linked).collect()))
        .collect();
    let program = packages.values().find(|package| package["name"] == PROGRAM);
    let program = text(&program.context("the program is a package of the workspace")?["id"]);

    let mut reached = BTreeSet::from([program.clone()]);
    let mut to_visit = vec![program.clone()];
    while let Some(id) = to_visit.pop() {
        let further = uses.get(&id).into_iter().flatten();
        to_visit.extend(further.filter(|used| reached.insert((*used).clone())).cloned());
    }

    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for id in &reached {
        let package = &packages[id];
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        let used: BTreeSet<String> =
            uses.get(id).into_iter().flatten().map(|used| reference(&packages[used])).collect();
        dependencies.push(json!({ "ref": reference(package), "dependsOn": used }));
        if *id == program {
            continue;
        }
        let mut component = json!({
            "type": "library",
            "bom-ref": reference(package),
            "name": name,
            "version": version,
            "purl": reference(package),
        });
        if let Some(licence) = package["license"].as_str() {
            // The old spelling of a choice.
            let expression = licence.replace('/', " OR ");
            component["licenses"] = json!([{ "expression": expression }]);
        }
        if let Some(checksum) = checksums.get(&(name, version)) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        components.push(component);
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": reference(&packages[&program]),
                "name": "hapax",
                "version": version,
                "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            },
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// The package of a dependency, if it is linked into the program, rather than used only to build or
/// test it.
fn linked(dependency: &Value) -> Option<String> {
    let kinds = dependency["dep_kinds"].as_array()?;
    kinds.iter().any(|kind| kind["kind"].is_null()).then(|| text(&dependency["pkg"]))
}

fn reference(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The checksum of every registry package in a lock file.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let entry = |package: &str| {
        let value = |name: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(&format!("{name} = \"")))?;
            Some(line.trim_end_matches('"').to_owned())
        };
        Some(((value("name")?, value("version")?), value("checksum")?))
    };
    lock.split("[[package]]").skip(1).filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, licence: &str) -> Value {
        json!({ "id": name, "name": name, "version": "1.0.0", "license": licence })
    }

    fn uses(id: &str, kind: Value) -> Value {
        json!({ "pkg": id, "dep_kinds": [{ "kind": kind }] })
    }

    #[test]
    fn all_that_ends_up_in_the_program_is_listed_and_nothing_else() {
        let metadata = json!({
            "packages": [package("hapax-cli", "MIT"), package("linked", "MIT/Apache-2.0"), package("further", "ISC"),
                package("only-tests", "MIT"), package("only-builds", "MIT")],
            "resolve": { "nodes": [
                { "id": "hapax-cli", "deps": [uses("linked", Value::Null), uses("only-tests", json!("dev"))] },
                { "id": "linked", "deps": [uses("further", Value::Null), uses("only-builds", json!("build"))] },
                { "id": "further", "deps": [] },
            ] },
        });
        let lock = "[[package]]\nname = \"linked\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";
        let bom = describe(&metadata, &checksums(lock), "9.9.9").unwrap();
        let names: Vec<_> =
            bom["components"].as_array().unwrap().iter().map(|it| text(&it["name"])).collect();
        assert_eq!(names, ["further", "linked"]);
        assert_eq!(bom["metadata"]["component"]["version"], "9.9.9");
        let linked = &bom["components"][1];
        assert_eq!(linked["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(linked["hashes"][0]["content"], "abc");
        let dependencies = bom["dependencies"].as_array().unwrap();
        let of_linked = dependencies.iter().find(|it| it["ref"] == "pkg:cargo/linked@1.0.0").unwrap();
        assert_eq!(of_linked["dependsOn"], json!(["pkg:cargo/further@1.0.0"]));
    }
}
