//! Every crate uses the lints of the workspace, so `unsafe` is forbidden in all of them.

use std::fs;

use cargo_metadata::MetadataCommand;

const WORKSPACE_MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let metadata = MetadataCommand::new()
        .manifest_path(WORKSPACE_MANIFEST)
        .no_deps()
        .exec()
        .expect("cargo describes the workspace");
    for package in metadata.workspace_packages() {
        let manifest = fs::read_to_string(&package.manifest_path).expect("the manifest can be read");
        assert!(
            table_has(&manifest, "[lints]", "workspace = true"),
            "{} lacks `[lints] workspace = true`",
            package.manifest_path
        );
    }
}

#[test]
fn the_workspace_forbids_unsafe_code() {
    let manifest = fs::read_to_string(WORKSPACE_MANIFEST).expect("the manifest can be read");
    assert!(table_has(&manifest, "[workspace.lints.rust]", r#"unsafe_code = "forbid""#));
}

/// Returns true if `line` is in the table of `header`.
fn table_has(manifest: &str, header: &str, line: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim);
    lines.any(|it| it == header) && lines.take_while(|it| !it.starts_with('[')).any(|it| it == line)
}
