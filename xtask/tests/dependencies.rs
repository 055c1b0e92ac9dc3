//! Dependencies of the programs: the policy in deny.toml on licences, banned crates, second
//! versions and sources, without the network.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use cargo_metadata::{CargoOpt, Metadata, MetadataCommand, Package};
use toml::Table;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

fn policy() -> Table {
    fs::read_to_string(root().join("deny.toml")).expect("there is a policy").parse().expect("it is TOML")
}

/// Every package that is compiled on this platform for any target of the workspace.
fn packages() -> (Metadata, BTreeSet<cargo_metadata::PackageId>) {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .features(CargoOpt::AllFeatures)
        .other_options(["--locked", "--offline", "--filter-platform", &platform].map(str::to_owned))
        .exec()
        .expect("cargo describes the workspace");
    let nodes = metadata.resolve.as_ref().expect("it is resolved").nodes.iter();
    let compiled = nodes.map(|node| node.id.clone()).collect();
    (metadata, compiled)
}

fn each_package(mut check: impl FnMut(&Package)) {
    let (metadata, compiled) = packages();
    metadata.packages.iter().filter(|package| compiled.contains(&package.id)).for_each(&mut check);
}

fn names<'a>(policy: &'a Table, table: &str, list: &str, field: Option<&str>) -> Vec<&'a str> {
    let values = policy[table][list].as_array().expect("a list").iter();
    let name = |value: &'a toml::Value| match field {
        Some(field) => value[field].as_str(),
        None => value.as_str(),
    };
    values.map(|value| name(value).expect("a text")).collect()
}

#[test]
fn every_licence_is_one_that_the_policy_allows() {
    let policy = policy();
    let allowed = names(&policy, "licenses", "allow", None);
    let mut refused = Vec::new();
    each_package(|package| {
        let licence = package.license.as_deref().unwrap_or_default();
        if !is_allowed(licence, &allowed) {
            refused.push(format!("{} {}: {licence:?}", package.name, package.version));
        }
    });
    assert!(refused.is_empty(), "allow them in deny.toml, or do without: {refused:#?}");
}

#[test]
fn no_crate_is_banned() {
    let policy = policy();
    let banned = names(&policy, "bans", "deny", Some("name"));
    each_package(|package| {
        assert!(!banned.contains(&package.name.as_str()), "{} is banned in deny.toml", package.name);
    });
}

/// A second version of a crate is compiled, linked and maintained separately.
#[test]
fn second_versions_are_those_that_the_policy_names() {
    let policy = policy();
    let skipped = names(&policy, "bans", "skip", Some("crate"));
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    each_package(|package| {
        let all = versions.entry(package.name.to_string()).or_default();
        all.insert(package.version.to_string());
    });
    let mut used = BTreeSet::new();
    let mut unnamed = Vec::new();
    for (name, all) in versions.iter().filter(|(_, all)| all.len() > 1) {
        let mut is_skipped = |version: &String| {
            let named = skipped.iter().find(|skipped| is_of(skipped, name, version));
            named.inspect(|named| _ = used.insert(**named)).is_some()
        };
        let left: Vec<_> = all.iter().filter(|version| !is_skipped(version)).collect();
        if left.len() > 1 {
            unnamed.push(format!("{name}: {left:?}"));
        }
    }
    assert!(unnamed.is_empty(), "bring them together, or name them in deny.toml: {unnamed:#?}");
    let unused: Vec<_> = skipped.iter().filter(|skipped| !used.contains(*skipped)).collect();
    assert!(unused.is_empty(), "there is no second version any more; take it out of deny.toml: {unused:?}");
}

#[test]
fn every_crate_comes_from_the_workspace_or_from_crates_io() {
    each_package(|package| match &package.source {
        Some(source) => assert_eq!(source.repr, CRATES_IO, "{}", package.name),
        None => assert!(package.manifest_path.starts_with(root()), "{}", package.manifest_path),
    });
}

/// `base64@0.22` names all versions with this prefix.
fn is_of(skipped: &str, name: &str, version: &str) -> bool {
    let Some((crate_name, begins)) = skipped.split_once('@') else { return false };
    crate_name == name && (version == begins || version.starts_with(&format!("{begins}.")))
}

/// Returns true if the allowed licences satisfy the expression.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    // The old spelling of a choice.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut left = words.as_slice();
    let met = any_of(&mut left, allowed);
    met && left.is_empty()
}

fn any_of(left: &mut &[&str], allowed: &[&str]) -> bool {
    let mut met = all_of(left, allowed);
    while let ["OR", rest @ ..] = *left {
        *left = rest;
        met |= all_of(left, allowed);
    }
    met
}

fn all_of(left: &mut &[&str], allowed: &[&str]) -> bool {
    let mut met = one(left, allowed);
    while let ["AND", rest @ ..] = *left {
        *left = rest;
        met &= one(left, allowed);
    }
    met
}

fn one(left: &mut &[&str], allowed: &[&str]) -> bool {
    match *left {
        ["(", rest @ ..] => {
            *left = rest;
            let met = any_of(left, allowed);
            let [")", rest @ ..] = *left else { return false };
            *left = rest;
            met
        }
        [licence, "WITH", exception, rest @ ..] => {
            *left = rest;
            allowed.contains(&format!("{licence} WITH {exception}").as_str())
        }
        [licence, rest @ ..] => {
            *left = rest;
            allowed.contains(licence)
        }
        [] => false,
    }
}

#[test]
fn expressions_of_licences_mean_what_they_say() {
    let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"];
    for good in ["MIT", "MIT OR GPL-3.0", "GPL-3.0/MIT", "MIT AND ISC", "(GPL-3.0 OR MIT) AND ISC"] {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    assert!(is_allowed("Apache-2.0 WITH LLVM-exception", &allowed));
    for bad in
        ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0", "Apache-2.0", "MIT ISC", "( MIT"]
    {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
}
