//! Exit codes, help, and what happens when nobody reads.

use std::process::{Command, Output, Stdio};

fn hapax(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hapax")).args(arguments).output().expect("it can be run")
}

#[test]
fn help_tells_of_commands_and_exit_codes() {
    let output = hapax(&["--help"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    for word in [
        "demo",
        "bench",
        "migrate",
        "doubts",
        "ledger",
        "audit",
        "outbox",
        "completions",
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
fn what_is_not_understood_is_told_apart_from_what_fails() {
    for wrong in [
        &["nonsense"][..],
        &["bench"],
        &["bench", "steps", "--store", "mysql:x"],
        &["bench", "steps", "--runs", "0"],
        &["bench", "steps", "--http"],
        &["demo", "--orders", "0"],
        &["migrate"],
        &["doubts"],
        &["doubts", "list"],
        &["ledger"],
        &["audit", "--store", "sqlite:x.db", "--workspace", ""],
        &["outbox", "list", "--store", "sqlite:x.db", "--status", "lost"],
        &["outbox", "redeliver", "x", "--by", "ada", "--reason", " ", "--store", "sqlite:x.db"],
        &["completions", "smoke-signals"],
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
