//! Allowed dependencies between crates: the one-way arrows of the workspace, and the places for
//! outside crates.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, PackageId};

const ENGINE: &str = "hapax-engine";
const STORE_SQLITE: &str = "hapax-store-sqlite";
const STORE_POSTGRES: &str = "hapax-store-postgres";
const POSTGRES_FIXTURE: &str = "hapax-postgres-fixture";
const LEASE_REDIS: &str = "hapax-lease-redis";
const STORE_CONFORMANCE: &str = "hapax-store-conformance";
const API: &str = "hapax-api";
const DOCUMENTS: &str = "hapax-documents";
const WEBHOOKS: &str = "hapax-webhooks";
const OUTGOING: &str = "hapax-outgoing";
const HTTP_IDEMPOTENCY: &str = "hapax-http-idempotency";
const HTTP_CONFORMANCE: &str = "hapax-http-conformance";
const CONSOLE: &str = "hapax-console";
const GRPC: &str = "hapax-grpc";
const SERVER: &str = "hapax-server";
const FACADE: &str = "hapax";
const CLI: &str = "hapax-cli";
const STRIPE_ORDER: &str = "stripe-order";
const STORM: &str = "hapax-storm";
const WORKERS: &str = "hapax-workers";
const REMOTE: &str = "hapax-remote";
const XTASK: &str = "xtask";

/// Allowed dependencies of one crate.
struct Arrows {
    from: &'static str,
    /// For the shipped code.
    to: &'static [&'static str],
    /// For its tests and examples, beyond `to`.
    in_tests_to: &'static [&'static str],
}

/// Every crate of the workspace has a row here.
const ARROWS: &[Arrows] = &[
    Arrows { from: ENGINE, to: &[], in_tests_to: &[STORE_CONFORMANCE] },
    Arrows { from: STORE_SQLITE, to: &[ENGINE], in_tests_to: &[STORE_CONFORMANCE] },
    Arrows { from: STORE_POSTGRES, to: &[ENGINE], in_tests_to: &[POSTGRES_FIXTURE, STORE_CONFORMANCE] },
    Arrows { from: LEASE_REDIS, to: &[ENGINE], in_tests_to: &[] },
    Arrows { from: POSTGRES_FIXTURE, to: &[], in_tests_to: &[] },
    Arrows { from: STORE_CONFORMANCE, to: &[ENGINE], in_tests_to: &[] },
    Arrows {
        from: FACADE,
        to: &[ENGINE, STORE_SQLITE, STORE_POSTGRES, API, REMOTE],
        in_tests_to: &[ENGINE, STORE_SQLITE, STORE_POSTGRES, POSTGRES_FIXTURE, STORE_CONFORMANCE, CLI],
    },
    Arrows {
        from: CLI,
        to: &[
            FACADE,
            ENGINE,
            STORE_SQLITE,
            STORE_POSTGRES,
            STORE_CONFORMANCE,
            API,
            DOCUMENTS,
            OUTGOING,
            HTTP_CONFORMANCE,
            SERVER,
        ],
        in_tests_to: &[FACADE, ENGINE, STORE_SQLITE, STORE_POSTGRES, POSTGRES_FIXTURE, STORE_CONFORMANCE],
    },
    Arrows { from: API, to: &[], in_tests_to: &[] },
    // It knows the server by the operations of the API alone, so that it can do nothing that the API cannot.
    Arrows { from: CONSOLE, to: &[API], in_tests_to: &[] },
    // For the same reason.
    Arrows { from: GRPC, to: &[API], in_tests_to: &[] },
    Arrows { from: DOCUMENTS, to: &[ENGINE, WEBHOOKS], in_tests_to: &[] },
    Arrows { from: WEBHOOKS, to: &[], in_tests_to: &[] },
    Arrows { from: WORKERS, to: &[ENGINE, API], in_tests_to: &[] },
    // It knows the server by its API alone, and applies no rule of the engine.
    Arrows { from: REMOTE, to: &[ENGINE, API], in_tests_to: &[] },
    Arrows { from: OUTGOING, to: &[], in_tests_to: &[] },
    Arrows { from: HTTP_IDEMPOTENCY, to: &[ENGINE], in_tests_to: &[STORE_SQLITE, HTTP_CONFORMANCE] },
    Arrows { from: HTTP_CONFORMANCE, to: &[], in_tests_to: &[] },
    Arrows {
        from: SERVER,
        to: &[ENGINE, API, CONSOLE, DOCUMENTS, GRPC, WEBHOOKS, OUTGOING, HTTP_IDEMPOTENCY, WORKERS],
        in_tests_to: &[STORE_SQLITE, STORE_POSTGRES, POSTGRES_FIXTURE, HTTP_CONFORMANCE],
    },
    Arrows { from: STRIPE_ORDER, to: &[FACADE, API, DOCUMENTS, OUTGOING, SERVER], in_tests_to: &[] },
    // Black box: it uses only the server's command line and HTTP.
    Arrows { from: STORM, to: &[POSTGRES_FIXTURE], in_tests_to: &[] },
    Arrows { from: XTASK, to: &[], in_tests_to: &[] },
];

/// Crates that may use a database driver. The CLI needs one for the bare-SQL ceiling in its
/// benchmark.
const DRIVERS: &[(&str, &[&str])] = &[
    ("rusqlite", &[STORE_SQLITE, CLI]),
    ("tokio-postgres", &[STORE_POSTGRES, POSTGRES_FIXTURE, CLI]),
    ("deadpool-postgres", &[STORE_POSTGRES, CLI]),
    ("redis", &[LEASE_REDIS]),
];

/// The engine knows neither SQL nor HTTP, not even through a dependency.
const KEPT_OUT_OF_THE_ENGINE: &[&str] =
    &["rusqlite", "tokio-postgres", "redis", "axum", "tonic", "hyper", "reqwest"];

#[test]
fn arrows_between_crates_point_one_way() {
    let metadata = read_metadata();
    let ours: BTreeSet<&str> =
        metadata.workspace_packages().iter().map(|package| package.name.as_str()).collect();
    let mut wrong = Vec::new();
    for package in metadata.workspace_packages() {
        let Some(arrows) = ARROWS.iter().find(|arrows| arrows.from == package.name.as_str()) else {
            wrong.push(format!("{} has no row in ARROWS", package.name));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|it| ours.contains(it.name.as_str())) {
            let to = dependency.name.as_str();
            let is_allowed = match dependency.kind {
                DependencyKind::Development => arrows.to.contains(&to) || arrows.in_tests_to.contains(&to),
                _ => arrows.to.contains(&to),
            };
            if !is_allowed {
                wrong.push(format!("{} may not depend on {to} ({})", package.name, dependency.kind));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_row_of_the_arrows_is_about_a_crate_that_exists() {
    let metadata = read_metadata();
    for arrows in ARROWS {
        assert!(find_ours(&metadata, arrows.from).is_some(), "there is no crate {}", arrows.from);
    }
}

#[test]
fn only_stores_and_the_benchmark_know_a_database_driver() {
    let metadata = read_metadata();
    for package in metadata.workspace_packages() {
        for (driver, may_use) in DRIVERS {
            let uses = package.dependencies.iter().any(|dependency| dependency.name == *driver);
            let is_allowed = may_use.contains(&package.name.as_str());
            assert!(!uses || is_allowed, "{} may not depend on {driver}", package.name);
        }
    }
}

#[test]
fn the_engine_reaches_no_database_and_no_http() {
    let metadata = read_metadata();
    let engine = find_ours(&metadata, ENGINE).expect("the engine is in the workspace");
    for dependency in &engine.dependencies {
        let name = dependency.name.as_str();
        assert!(!KEPT_OUT_OF_THE_ENGINE.contains(&name), "the engine may not depend on {name}");
    }
    for (package, through) in list_shipped_with(&metadata, &engine.id) {
        let name = metadata[package].name.as_str();
        let through = metadata[through].name.as_str();
        assert!(!KEPT_OUT_OF_THE_ENGINE.contains(&name), "the engine reaches {name} through {through}");
    }
}

/// Every package that `root` needs outside its tests, each with the package that first required it.
fn list_shipped_with<'a>(
    metadata: &'a Metadata,
    root: &'a PackageId,
) -> BTreeMap<&'a PackageId, &'a PackageId> {
    let resolve = metadata.resolve.as_ref().expect("the metadata is resolved");
    let mut found = BTreeMap::new();
    let mut to_visit = vec![root];
    while let Some(id) = to_visit.pop() {
        for dependency in &resolve[id].deps {
            let is_shipped = dependency.dep_kinds.iter().any(|it| it.kind != DependencyKind::Development);
            if is_shipped && !found.contains_key(&dependency.pkg) {
                found.insert(&dependency.pkg, id);
                to_visit.push(&dependency.pkg);
            }
        }
    }
    found
}

fn find_ours<'a>(metadata: &'a Metadata, name: &str) -> Option<&'a Package> {
    metadata.workspace_packages().into_iter().find(|package| package.name.as_str() == name)
}

/// Resolved for this machine only, so that no crate of another platform is downloaded.
fn read_metadata() -> Metadata {
    let rustc = std::process::Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let version = String::from_utf8(rustc.stdout).expect("rustc speaks UTF-8");
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host");
    MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .other_options(["--locked", "--filter-platform", host].map(str::to_owned))
        .exec()
        .expect("cargo describes the workspace")
}
