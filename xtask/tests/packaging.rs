//! Checks of the packaging files that need no build. `cargo xtask try-packages` tests the packages
//! themselves.

use std::fs;
use std::path::{Path, PathBuf};

use serde_saphyr::from_multiple;
use toml::Table;

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

/// The settings in the package are known to the server, and match the unit.
#[test]
fn the_settings_of_the_package_are_known() {
    let settings: Table = read("packaging/debian/hapax.toml").parse().unwrap();
    let known = read("docs/configuration.md");
    for name in settings.keys() {
        assert!(known.contains(&format!("| `{name}` |")), "{name}");
    }
    let unit = read("packaging/debian/hapax.service");
    assert!(unit.contains("--config /etc/hapax/hapax.toml"));
    assert_eq!(read("packaging/debian/conffiles").trim(), "/etc/hapax/hapax.toml");
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
    let known = read("docs/configuration.md") + &read("crates/cli/src/arguments.rs");
    for variable in of("ENV").iter().flat_map(|it| it.split_whitespace()) {
        let name = variable.split_once('=').unwrap().0;
        assert!(known.contains(name), "{name}");
    }
}

/// The plain manifests, and the chart with its values filled in.
fn manifests() -> Vec<(String, Vec<Document>)> {
    let plain = ("hapax.yaml".to_owned(), documents("packaging/kubernetes/hapax.yaml"));
    let chart = root().join("packaging/kubernetes/helm/hapax");
    let mut templates: Vec<PathBuf> =
        fs::read_dir(chart.join("templates")).unwrap().map(|entry| entry.unwrap().path()).collect();
    templates.sort();
    let values = &documents("packaging/kubernetes/helm/hapax/values.yaml")[0];
    let render = |template: &PathBuf| {
        let text = render(&fs::read_to_string(template).unwrap(), values);
        from_multiple::<Document>(&text)
            .unwrap_or_else(|error| panic!("{}: {error}\n{text}", template.display()))
    };
    let rendered = ("the chart".to_owned(), templates.iter().flat_map(render).collect());
    vec![plain, rendered]
}

/// Renders the subset of templates used here: values, `if`, and a few functions. All conditions
/// hold, so every branch is checked.
fn render(template: &str, values: &Document) -> String {
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
        Document::String(text) => text.clone(),
        other => other.to_string(),
    };
    match expression {
        ".Release.Name" => "hapax".to_owned(),
        "$name" => "HAPAX_LOG".to_owned(),
        it if it.starts_with("$value") => "\"info\"".to_owned(),
        it if it.starts_with(".Chart.AppVersion") => "\"1\"".to_owned(),
        it if it.contains("| default") => "1".to_owned(),
        it if it.starts_with("toYaml ") => {
            // JSON is YAML, and needs no indentation.
            look_up(it.trim_start_matches("toYaml ").split('|').next().unwrap()).to_string()
        }
        it if it.starts_with("add ") => {
            let mut words = it.split_whitespace().skip(1);
            let number = look_up(words.next().unwrap()).as_i64().unwrap();
            (number + words.next().unwrap().parse::<i64>().unwrap()).to_string()
        }
        it => match it.split_once('|') {
            Some((path, _)) => format!("{:?}", plain(&look_up(path))),
            None => plain(&look_up(it)),
        },
    }
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
