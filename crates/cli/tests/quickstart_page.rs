//! Every command in docs/quickstart.md, run in order and as written, in one shell with nothing preset.

use crate::support;

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use support::page::{blocks, check_answers};

/// Stands between what two blocks print.
const END: &str = "=== end of block ===";

/// A free port, in the digits of a URL.
fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

/// A command in a terminal of its own, and a wait until `url` answers.
fn in_background(command: &str, url: &str) -> String {
    format!(
        "{command} >/dev/null 2>&1 &\nlast=$!\nfor try in $(seq 600); do curl -fs {url} >/dev/null && break; sleep 0.1; done\n"
    )
}

#[test]
fn every_command_of_the_quickstart_works_as_written() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/quickstart.md");
    // Other ports than the page's, so that a server of the reader's own is not in the way.
    let (server, stub) = (free_port(), free_port());
    let page = std::fs::read_to_string(page).unwrap().replace("7171", &server).replace("7272", &stub);
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_hapax")).parent().unwrap();

    let mut script = String::from("exec 2>&1\ntrap 'kill $(jobs -p)' EXIT\n");
    let mut answers = Vec::new();
    let mut count = 0;
    for (fence, body) in blocks(&page) {
        match fence {
            "sh build" => assert!(body.starts_with("cargo build\n"), "the test has built it already: {body}"),
            "sh server" => {
                script.push_str(&in_background(
                    &format!("{body} --listen 127.0.0.1:{server}"),
                    &format!("http://127.0.0.1:{server}/readyz"),
                ));
                script.push_str("server=$last\n");
            }
            "sh stub" => script.push_str(&in_background(
                &format!("{body} --listen 127.0.0.1:{stub}"),
                &format!("http://127.0.0.1:{stub}/charges"),
            )),
            // Only the server of this test, not the servers of other tests.
            "sh crash" => {
                assert_eq!(body, r#"pkill -9 -f "hapax dev""#);
                script.push_str("kill -9 $server\nwait $server\n");
            }
            "sh" => {
                writeln!(script, "{body}\necho '{END}'").unwrap();
                count += 1;
            }
            "yaml" => {
                let name = body.lines().next().unwrap().trim_start_matches("# ");
                write!(script, "cat > {name} <<'DOCUMENT'\n{body}\nDOCUMENT\n").unwrap();
            }
            "answers" => answers.push((count - 1, body)),
            other => panic!("a block of {other} is not run: {body}"),
        }
    }
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(folder.path()).env_clear();
    shell.env("PATH", format!("{}:/usr/bin:/bin", program.display()));
    let output = shell.output().expect("bash, curl and pkill are there");
    let came = String::from_utf8_lossy(&output.stdout).into_owned();
    let parts: Vec<&str> = came.split(END).collect();
    assert_eq!(parts.len(), count + 1, "{came}");
    assert!(answers.len() >= 3, "{answers:?}");
    for (block, expected) in answers {
        check_answers(&expected, &script, parts[block]);
    }
    let charges = parts[count - 1].matches("ch_").count();
    assert_eq!(charges, 1, "{came}");
}
