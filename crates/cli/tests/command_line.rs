//! Exit codes, help, and what happens when nobody reads.

use crate::support;

use std::process::{Command, Output, Stdio};

use support::terminal::on_a_terminal;

fn hapax(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    for variable in ["HAPAX_STORE", "HAPAX_SERVER", "HAPAX_API_KEY", "HAPAX_PROFILE"] {
        command.env_remove(variable);
    }
    // The developer who runs the tests may have profiles.
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    command.args(arguments).output().expect("it can be run")
}

/// RELIABILITY, CLI: arguments that are no text, or endless.
#[test]
fn arguments_that_are_no_text_or_endless_are_refused() {
    use std::os::unix::ffi::OsStrExt;
    let no_text = std::ffi::OsStr::from_bytes(b"run_\xff\xfe");
    // The longest that Linux hands to a program; a longer one is refused before it starts.
    let endless = "x".repeat(131_000);
    for argument in [no_text, std::ffi::OsStr::new(&endless)] {
        for command in [&["runs", "show"][..], &["workflows", "show"], &["keys", "show", "run"]] {
            let output = Command::new(env!("CARGO_BIN_EXE_hapax"))
                .args(command)
                .arg(argument)
                .output()
                .expect("it can be run");
            assert_eq!(output.status.code(), Some(2), "{command:?}");
            assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
        }
    }
}

/// RELIABILITY, CLI: a secret given on the command line.
#[test]
fn a_key_on_the_command_line_is_refused_and_not_repeated() {
    for given in [&["--api-key", "hpx_canary"][..], &["--api-key=hpx_canary"], &["--api-key"]] {
        let output = hapax(&[&["runs", "list"], given].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains("HAPAX_API_KEY") && said.contains("--api-key-file") && !said.contains("canary"),
            "{said}"
        );
    }
    let output = hapax(&["runs", "list", "--server", "http://ada:canary@127.0.0.1:1"]);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("canary"));
}

#[test]
fn without_a_key_nothing_is_sent() {
    for command in
        [&["runs", "list"][..], &["doubts", "list"], &["ledger"], &["audit"], &["workflows", "list"]]
    {
        let output = hapax(command);
        assert_eq!(output.status.code(), Some(4), "{command:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("HAPAX_API_KEY"), "{command:?}");
    }
}

const VALID: &str = "name: greet\nversion: 1\nsteps:\n  - name: say\n    type: task\n    task: echo\n";

#[test]
fn a_document_is_checked_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = write("good.yaml", VALID);
    let bad = write(
        "bad.yaml",
        "name: greet\nversion: 0\nsteps:\n  - name: say\n    type: dance\n    colour: red\n",
    );
    let output = hapax(&["validate", &good]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("greet version 1 is valid"), "{text}");
    let output = hapax(&["validate", &good, &bad]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let errors: Vec<&str> = text.lines().filter(|line| line.contains(": error")).collect();
    assert!(errors.len() >= 2 && errors.iter().all(|line| line.starts_with(&format!("{bad}:"))), "{text}");
    let output = hapax(&["validate", "--json", &bad]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["valid"], false);
    assert!(found["problems"][0]["line"].is_u64() && found["problems"][0]["path"].is_string(), "{found}");
}

const INVOICE: &str = include_str!("../../documents/examples/entities/invoice.yaml");

/// S1.46, S1.48-S1.53: rules by their codes, with their places; a module without a janitor is named.
#[test]
fn an_entity_workflow_is_checked_by_its_rules() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = write("invoice.yaml", INVOICE);
    let bad = write(
        "bad.yaml",
        &INVOICE
            .replace("[regenerating, sent]", "[regenerating, regenerating]")
            .replace("status: draft", "status: drft"),
    );
    let output = hapax(&["validate", &good, "--module", "billing"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        text.contains("entity workflow invoice-billing is valid: 11 statuses, 4 of them claim states"),
        "{text}"
    );
    let output = hapax(&["validate", &bad]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for wanted in ["(claim_goes_elsewhere)", "(status_known)", "/steps/4/claimState", "bad.yaml:55:17: error"]
    {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let output = hapax(&["validate", &good, "--module", "orders", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["kind"], &found["valid"]), (&"entity".into(), &false.into()));
    assert_eq!(found["problems"][0]["code"], "uncovered_claim_state");
    assert_eq!(found["problems"][0]["line"], 6);
    let message = found["problems"][0]["message"].as_str().unwrap();
    assert!(message.contains("invoice-billing") && message.contains("billing"), "{message}");
}

#[test]
fn the_state_machine_of_one_valid_entity_workflow_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let invoice = write("invoice.yaml", INVOICE);
    let other = write("greet.yaml", VALID);
    let broken = write("broken.yaml", &INVOICE.replace("status: draft", "status: drft"));
    for (way, begins) in [("--mermaid", "stateDiagram-v2"), ("--svg", "<svg ")] {
        let output = hapax(&["validate", &invoice, way]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.starts_with(begins) && text.contains("applying_payment_from_overdue"), "{text}");
        for (files, says) in [
            (vec![&*invoice, &*other], "name one"),
            (vec![&*other], "not an entity workflow"),
            (vec![&*broken], "status_known"),
        ] {
            let output = hapax(&[&["validate", way], files.as_slice()].concat());
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(output.stdout.is_empty() && said.contains(says), "{said}");
        }
    }
}

/// RELIABILITY, config files: a path that is not a file gets a clear error.
#[test]
fn what_is_no_document_file_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let looped = path("loop");
    std::os::unix::fs::symlink(&looped, &looped).unwrap();
    let fifo = path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let large = path("large");
    std::fs::File::create(&large).unwrap().set_len(5_000_000_000).unwrap();
    for (path, says) in [
        (&*path(""), "folder"),
        ("/dev/null", "regular"),
        (&fifo, "regular"),
        ("/no/such", "/no/such"),
        (&looped, "loop"),
        (&large, "bytes"),
        // Nobody can read its first byte, not even root.
        ("/proc/self/mem", "/proc/self/mem"),
    ] {
        let output = hapax(&["validate", path]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(says), "{said}");
    }
}

/// RELIABILITY, config files: what is no text is a problem of the document, with its place.
#[test]
fn a_document_that_is_no_text_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latin-1.yaml");
    std::fs::write(&path, b"name: caf\xe9\nversion: 1\n").unwrap();
    let output = hapax(&["validate", path.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("(not_utf8)"), "{said}");
    let output = hapax(&["validate", "-o", "json", path.to_str().unwrap()]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["valid"], &found["problems"][0]["code"]), (&false.into(), &"not_utf8".into()));
}

/// RELIABILITY, CLI: `--version`, with what the program was built from and how.
#[test]
fn the_version_is_told_on_standard_output() {
    for flag in ["--version", "-V"] {
        let output = hapax(&[flag]);
        assert_eq!(output.status.code(), Some(0));
        let told = String::from_utf8_lossy(&output.stdout);
        let (version, build) = told.trim_end().split_once(" (").expect("the build is told");
        assert_eq!(version, format!("hapax {}", env!("CARGO_PKG_VERSION")));
        assert!(build.ends_with(" build)"), "{told}");
        assert!(output.stderr.is_empty());
    }
}

/// RELIABILITY, CLI: standard input and output that are not even open.
#[test]
fn descriptors_that_are_closed_are_no_reason_to_panic() {
    for (script, code, says) in [
        ("\"$0\" --version >&-", 0, ""),
        ("\"$0\" completions bash >&-", 0, ""),
        ("\"$0\" bench steps --store memory: --runs 10 --rounds 1 --json <&- >&-", 0, ""),
        ("\"$0\" runs list --api-key-file - <&-", 4, "API key"),
        ("\"$0\" validate - <&-", 1, "1 document has errors"),
        ("\"$0\" runs list 2>&-", 4, ""),
        ("\"$0\" --no-such-option <&- >&- 2>&-", 2, ""),
    ] {
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_hapax")]).env_remove("HAPAX_API_KEY");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{script}: {said}");
        assert!(said.contains(says) && !said.contains("panicked"), "{script}: {said}");
    }
}

/// RELIABILITY, CLI: colours appear only on terminals, unless the user turns them off.
#[test]
fn no_color_turns_colours_off() {
    let hapax = env!("CARGO_BIN_EXE_hapax");
    for words in [&[hapax, "--no-such-option"][..], &[hapax, "--help"]] {
        let coloured = on_a_terminal(words, &[]);
        let plain = on_a_terminal(words, &[("NO_COLOR", "1")]);
        assert!(coloured.contains("\u{1b}["), "{words:?}: {coloured:?}");
        assert!(!plain.contains('\u{1b}') && !plain.is_empty(), "{words:?}: {plain:?}");
    }
    let piped = Command::new(hapax).arg("--no-such-option").output().unwrap();
    assert!(!String::from_utf8_lossy(&piped.stderr).contains('\u{1b}'));
}

#[test]
fn help_tells_of_commands_and_exit_codes() {
    let output = hapax(&["--help"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    for word in [
        "demo",
        "bench",
        "Get started:",
        "Workflows and runs:",
        "Decide and audit:",
        "Operate:",
        "apply",
        "start",
        "why",
        "webhooks",
        "login",
        "profiles",
        "doubts",
        "ledger",
        "audit",
        "validate",
        "workflows",
        "runs",
        "keys",
        "admin",
        "conformance",
        "completions",
        "HAPAX_SERVER",
        "HAPAX_API_KEY",
        "Exit codes",
        "NO_COLOR",
        "Examples",
    ] {
        assert!(text.contains(word), "{word} is missing:\n{text}");
    }
    for hidden in ["demo-worker", "bench-node"] {
        assert!(!text.contains(hidden), "what is not for people is hidden:\n{text}");
    }
}

#[test]
fn usage_errors_and_failures_have_different_exit_codes() {
    for wrong in [
        &["nonsense"][..],
        &["bench"],
        &["bench", "steps", "--store", "mysql:x"],
        &["bench", "steps", "--runs", "0"],
        &["bench", "steps", "--http"],
        &["demo", "--orders", "0"],
        &["admin", "migrate"],
        &["doubts", "resolve", "wire", "--seen", "1", "--abandon", "--reason", "x"],
        &["runs", "start", "order"],
        &["definitions", "list"],
        &["audit", "--store", "sqlite:x.db", "--workspace", ""],
        &["admin", "outbox", "list", "--store", "sqlite:x.db", "--status", "lost"],
        &["admin", "outbox", "redeliver", "x", "--by", "ada", "--reason", " ", "--store", "sqlite:x.db"],
        &["completions", "smoke-signals"],
        &[],
        &["--no-such-option"],
        &["runs"],
        &["runs", "show"],
        &["runs", "show", ""],
        &["runs", "show", "--run"],
        &["runs", "list", "--status", "LOST"],
        &["runs", "list", "-o", "xml"],
        &["runs", "list", "--json", "-o", "yaml"],
        &["runs", "list", "--limit", "0"],
        &["start", "d", "--input", "[]"],
        &["start", "d", "--input", "{}", "--input-file", "x"],
        &["runs", "answer", "r", "s"],
        &["doubts", "list", "--workspace", "x"],
        &["admin", "credentials", "create", "x", "--role", "janitor"],
        &["keys", "show", "step", "x"],
        &["validate"],
        &["admin", "fsck"],
    ] {
        let output = hapax(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{wrong:?}");
    }
    let output = hapax(&["bench", "steps", "--store", "sqlite:/no/such/folder/x.db"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no folder"));
    let output = hapax(&["bench", "aged", "--store", "memory:"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("use --store sqlite:PATH"));
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = hapax(&["completions", shell]);
        assert!(output.status.success() && output.stdout.len() > 500, "{shell}");
    }
}

#[test]
fn a_closed_pipe_is_no_reason_to_panic() {
    for arguments in [&["completions", "zsh"][..], &["bench", "steps", "--store", "memory:", "--runs", "10"]]
    {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hapax"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{errors}");
        assert!(!errors.contains("panicked"), "{errors}");
    }
}
