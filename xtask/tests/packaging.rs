//! Checks of the packaging files that need no build. `cargo xtask try-packages` tests the packages
//! themselves.

use std::fs;
use std::path::{Path, PathBuf};

use serde_saphyr::from_multiple;
use toml::Table;

#[path = "../src/chart.rs"]
mod chart;

type Document = serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn version() -> String {
    let manifest: Table = read("Cargo.toml").parse().unwrap();
    manifest["workspace"]["package"]["version"].as_str().unwrap().to_owned()
}

/// The documents of a file in YAML.
fn documents(file: &str) -> Vec<Document> {
    from_multiple(&read(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Places other than Cargo.toml that hold the version have the same one.
#[test]
fn the_version_is_the_same_everywhere() {
    let version = version();
    let chart = &documents("packaging/kubernetes/helm/hapax/Chart.yaml")[0];
    assert_eq!((&chart["version"], &chart["appVersion"]), (&version.clone().into(), &version.clone().into()));
    let image = format!("hapax:{version}");
    assert!(read("packaging/kubernetes/hapax.yaml").contains(&image), "the image is {image}");
    let manifest: Table = read("Cargo.toml").parse().unwrap();
    for (name, dependency) in manifest["workspace"]["dependencies"].as_table().unwrap() {
        let is_ours = dependency.get("path").is_some();
        assert!(!is_ours || dependency.get("version").is_none(), "{name} takes the version of the workspace");
    }
    let file = "packaging/npm/platform/package.json";
    let package: Document = serde_json::from_str(&read(file)).unwrap();
    assert_eq!(package["version"], "@VERSION@", "{file} is filled in by `dist`");
    let package: Document = serde_json::from_str(&read("sdk/typescript/package.json")).unwrap();
    assert_eq!(package["version"], version.as_str());
    let told = format!("VERSION = '{version}'");
    assert!(read("sdk/typescript/src/version.ts").contains(&told), "the SDK tells the server {told}");
}

#[test]
fn the_unit_is_confined() {
    let unit = read("packaging/debian/hapax.service");
    for line in [
        "DynamicUser=yes",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "ProtectHome=yes",
        "PrivateTmp=yes",
        "PrivateDevices=yes",
        "MemoryDenyWriteExecute=yes",
        "CapabilityBoundingSet=",
        "StateDirectory=hapax",
        "SystemCallFilter=@system-service",
    ] {
        assert!(unit.lines().any(|it| it == line), "{line}");
    }
    // Longer than the server's graceful shutdown.
    assert!(unit.lines().any(|it| it == "TimeoutStopSec=35"));
    // It would hide the boot id, and a server with an identity file would not start.
    assert!(!unit.lines().any(|it| it == "ProcSubset=pid"));
}

/// systemd itself reads the unit, if it is installed.
#[test]
fn systemd_understands_the_unit() {
    let judge = Path::new("/usr/bin/systemd-analyze");
    if !judge.exists() {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unit");
    fs::create_dir_all(&folder).unwrap();
    let unit = folder.join("hapax.service");
    // The program is not installed here.
    fs::write(&unit, read("packaging/debian/hapax.service").replace("/usr/bin/hapax", "/bin/true")).unwrap();
    let judged = std::process::Command::new(judge).args(["verify", "--man=no"]).arg(&unit).output().unwrap();
    let said = String::from_utf8_lossy(&judged.stderr).into_owned();
    assert!(judged.status.success() && !said.contains("hapax.service"), "{said}");
}

/// The settings in the package are known to the server, those in comments too, and match the unit.
#[test]
fn the_settings_of_the_package_are_known() {
    let text = read("packaging/debian/hapax.toml");
    let given: Table = text.parse().unwrap();
    assert_eq!(given.keys().collect::<Vec<_>>(), ["key-file", "listen", "store"]);
    let offered = text.lines().map(|line| match line.strip_prefix("# ") {
        // Prose has no ` = `.
        Some(rest) if rest.split_once(" = ").is_some_and(|(name, _)| !name.contains(' ')) => rest,
        _ => line,
    });
    let offered: Table = offered.collect::<Vec<_>>().join("\n").parse().unwrap();
    assert!(offered.len() > given.len(), "what is offered in comments is TOML too");
    let known = read("docs/configuration.md");
    for name in offered.keys() {
        assert!(known.contains(&format!("| `{name}` |")), "{name}");
    }
    let unit = read("packaging/debian/hapax.service");
    assert!(unit.contains("--config /etc/hapax/hapax.toml"));
    assert_eq!(read("packaging/debian/conffiles").trim(), "/etc/hapax/hapax.toml");
}

/// What each way to deploy has to say of the settings that a production node needs.
#[test]
fn every_way_to_deploy_knows_the_settings_of_a_production_node() {
    let page = read("docs/deployment.md");
    let (_, section) = page.split_once("## Settings to think about").expect("the section");
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let names: Vec<&str> = rows
        .flat_map(|row| row.split(" | ").next().unwrap().split(','))
        .map(|name| name.trim_matches([' ', '`']))
        .collect();
    assert!(names.len() > 12, "{names:?}");
    let (known, unit) = (read("docs/configuration.md"), read("packaging/debian/hapax.toml"));
    let chart = read("packaging/kubernetes/helm/hapax/templates/deployment.yaml");
    for name in &names {
        assert!(known.contains(&format!("| `{name}` |")), "{name} is not a setting");
    }
    // Those with files, addresses and volumes, which an administrator cannot just add to a list.
    for name in ["identity-file", "advertise-url", "sealing-key-file", "secrets-dir", "identity-providers"] {
        assert!(names.contains(&name), "docs/deployment.md: {name}");
        assert!(unit.contains(&format!("# {name} = ")), "hapax.toml: {name}");
        let variable = format!("HAPAX_{}", name.to_uppercase().replace('-', "_"));
        assert!(chart.contains(&format!("name: {variable}\n")), "the chart: {variable}");
    }
}

/// The relevant rules of hadolint, and the properties of the container.
#[test]
fn the_container_is_small_and_has_no_rights() {
    let text = read("packaging/container/Containerfile").replace("\\\n", " ");
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|it| !it.is_empty() && !it.starts_with('#')).collect();
    let of = |word: &str| {
        let word = format!("{word} ");
        lines.iter().filter_map(|it| it.strip_prefix(&word)).map(str::trim).collect::<Vec<_>>()
    };
    for image in of("FROM") {
        let name = image.split_whitespace().next().unwrap();
        let (_, tag) = name.rsplit_once(':').unwrap_or_else(|| panic!("{name} has no tag"));
        assert_ne!(tag, "latest", "{name} changes under our feet");
    }
    assert!(
        of("FROM").last().unwrap().contains("distroless") && of("FROM").last().unwrap().ends_with(":nonroot")
    );
    assert_eq!(of("USER"), ["65532:65532"], "not root, and by number, so that Kubernetes can check it");
    for list in of("ENTRYPOINT").into_iter().chain(of("CMD")) {
        assert!(list.starts_with('['), "without a shell: {list}");
    }
    let health = of("HEALTHCHECK")[0];
    assert!(health.contains(r#"CMD ["/usr/bin/hapax", "health"]"#), "{health}");
    assert!(of("ADD").is_empty(), "COPY does what ADD would, and no more");
    // `dist` calls the archive `hapax-VERSION-linux-CPU.tar.gz`, and the packages are the context.
    assert_eq!(of("COPY")[0], "hapax-*-linux-*.tar.gz /archive/");
    let command =
        "podman build --format docker -f packaging/container/Containerfile -t hapax target/packages";
    for file in ["packaging/container/Containerfile", "docs/deployment.md"] {
        assert!(read(file).contains(command), "{file}");
    }
    let known = read("docs/configuration.md") + &read("crates/cli/src/arguments.rs");
    for variable in of("ENV").iter().flat_map(|it| it.split_whitespace()) {
        let name = variable.split_once('=').unwrap().0;
        assert!(known.contains(name), "{name}");
    }
}

/// The plain manifests, and the chart with its values filled in.
fn manifests() -> Vec<(String, Vec<Document>)> {
    let plain = ("hapax.yaml".to_owned(), documents("packaging/kubernetes/hapax.yaml"));
    let values = &documents("packaging/kubernetes/helm/hapax/values.yaml")[0];
    let text = chart::render(&root().join("packaging/kubernetes/helm/hapax"), values).unwrap();
    let rendered = from_multiple(&text).unwrap_or_else(|error| panic!("the chart: {error}\n{text}"));
    vec![plain, ("the chart".to_owned(), rendered)]
}

fn find_kind<'a>(documents: &'a [Document], kind: &str) -> &'a Document {
    documents.iter().find(|it| it["kind"] == kind).unwrap_or_else(|| panic!("there is a {kind}"))
}

#[test]
fn the_manifests_hold_together() {
    for (name, all) in manifests() {
        for document in &all {
            for field in ["apiVersion", "kind"] {
                assert!(document[field].is_string(), "{name}: {field} in {document}");
            }
            assert!(document["metadata"]["name"].is_string(), "{name}: a name in {document}");
        }
        let deployment = find_kind(&all, "Deployment");
        let pod = &deployment["spec"]["template"];
        let labels = pod["metadata"]["labels"].as_object().unwrap();
        let chooses = |selector: &Document, what: &str| {
            let selector = selector.as_object().unwrap_or_else(|| panic!("{name}: {what} chooses pods"));
            let matches = selector.iter().all(|(label, value)| labels.get(label) == Some(value));
            assert!(matches && !selector.is_empty(), "{name}: {what} chooses our pods");
        };
        chooses(&deployment["spec"]["selector"]["matchLabels"], "the deployment");
        chooses(&find_kind(&all, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"], "the budget");
        chooses(&find_kind(&all, "Service")["spec"]["selector"], "the service");
        let replicas = deployment["spec"]["replicas"].as_i64().unwrap();
        let kept = find_kind(&all, "PodDisruptionBudget")["spec"]["minAvailable"].as_i64().unwrap();
        assert!(replicas >= 2 && kept < replicas, "{name}: nodes of the cluster can be drained");

        let container = &pod["spec"]["containers"][0];
        for (probe, path) in
            [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")]
        {
            assert_eq!(container[probe]["httpGet"]["path"], path, "{name}: {probe}");
            assert_eq!(container[probe]["httpGet"]["port"], container["ports"][0]["name"], "{name}: {probe}");
        }
        let confined = &container["securityContext"];
        assert_eq!(confined["readOnlyRootFilesystem"], true, "{name}");
        assert_eq!(confined["allowPrivilegeEscalation"], false, "{name}");
        assert_eq!(confined["capabilities"]["drop"][0], "ALL", "{name}");
        assert_eq!(pod["spec"]["securityContext"]["runAsNonRoot"], true, "{name}");
        // Five seconds more than `drain`.
        assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 35, "{name}");
        let mounts = container["volumeMounts"].as_array().unwrap();
        for mount in mounts {
            let volumes = pod["spec"]["volumes"].as_array().unwrap();
            assert!(volumes.iter().any(|volume| volume["name"] == mount["name"]), "{name}: {mount}");
        }

        let known = read("docs/configuration.md") + &read("crates/cli/src/arguments.rs");
        let variables = container["env"].as_array().unwrap();
        for (at, variable) in variables.iter().enumerate() {
            let variable = variable["name"].as_str().unwrap();
            // Kubernetes puts in the value of a variable that stands earlier in the list.
            let reference = format!("$({variable})");
            let is_used_later = variables[at + 1..]
                .iter()
                .any(|it| it["value"].as_str().is_some_and(|value| value.contains(&reference)));
            assert!(known.contains(variable) || is_used_later, "{name}: {variable}");
        }
        for variable in variables {
            let files = variable["value"].as_str().unwrap_or_default().split(',');
            for file in files.filter(|it| it.starts_with('/')) {
                let is_here = |mount: &Document| {
                    let place = Path::new(mount["mountPath"].as_str().unwrap());
                    Path::new(file).starts_with(place) || place.starts_with(file)
                };
                assert!(mounts.iter().any(is_here), "{name}: {} is in no volume: {file}", variable["name"]);
            }
        }
        let secret = &find_kind(&all, "Secret");
        let store =
            container["env"].as_array().unwrap().iter().find(|it| it["name"] == "HAPAX_STORE").unwrap();
        let reference = &store["valueFrom"]["secretKeyRef"];
        assert_eq!(reference["name"], secret["metadata"]["name"], "{name}");
        assert!(secret["stringData"].get(reference["key"].as_str().unwrap()).is_some(), "{name}");
        assert_eq!(find_kind(&all, "ServiceMonitor")["spec"]["endpoints"][0]["port"], "http", "{name}");
    }
}

/// The scripts of the package tests have valid shell syntax.
#[test]
fn the_scripts_can_be_read_by_a_shell() {
    let mut scripts: Vec<PathBuf> =
        fs::read_dir(root().join("packaging/try")).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.extend(["postinst", "prerm", "postrm"].map(|name| root().join("packaging/debian").join(name)));
    for script in scripts {
        let read = std::process::Command::new("sh").arg("-n").arg(&script).output().unwrap();
        assert!(read.status.success(), "{}: {}", script.display(), String::from_utf8_lossy(&read.stderr));
    }
}
