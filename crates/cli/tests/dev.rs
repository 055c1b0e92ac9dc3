//! `hapax dev` from its first line to its end, and what `dev` and `serve` refuse to begin with.

use crate::support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use support::dev::{Dev, hapax};
use support::serve::Serve;

const AN_HOUR_MS: u64 = 3_600_000;

#[test]
fn one_line_tells_all_that_a_first_run_needs() {
    let dev = Dev::start();
    let told: Vec<&String> = dev.ready().as_object().unwrap().keys().collect();
    assert_eq!(told, ["apiKey", "consoleUrl", "sampleDefinition", "url", "workspace"]);
    assert!(dev.told("url").starts_with("http://127.0.0.1:"), "{}", dev.ready());
    assert_eq!(dev.told("workspace"), "dev");

    let created = dev.create_run("order-1", 0);
    assert_eq!(created["created"], true, "{created}");
    let run = created["run"]["id"].as_str().unwrap();
    assert_eq!(dev.result_of(run)["output"]["run"], run, "the sample gives back which run it was");
    let run = dev.call(&format!("/api/v1/workflow-runs/{run}"), "");
    assert_eq!(run["run"]["status"], "COMPLETED", "{run}");

    let ended = dev.stop(Signal::TERM);
    assert_eq!((ended.status.code(), ended.output.as_str()), (Some(0), ""), "one line and no more");
}

/// A server as a person starts it; it ends with the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The README's first command: the lines that it prints to be copied, run by a shell as they stand there.
#[test]
fn the_three_calls_that_a_person_is_shown_do_what_is_said_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = hapax();
    command.args(["dev", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path().join("data"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut server = Started(child);
    let printed = BufReader::new(server.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut welcome = String::new();
    for line in printed {
        welcome.push_str(&line);
        welcome.push('\n');
        if line.contains("Ctrl-C") {
            break;
        }
    }

    // A call is what stands between two numbered lines or blank ones.
    let calls: Vec<&str> =
        welcome.split("\n\n").filter_map(|part| part.find("curl ").map(|at| &part[at..])).collect();
    let answers: Vec<Value> = calls
        .iter()
        .map(|call| {
            let output = Command::new("sh").args(["-c", call]).output().expect("sh and curl are there");
            let said = String::from_utf8_lossy(&output.stdout);
            serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {call}\n{said}"))
        })
        .collect();
    let [created, again, refused] = &answers[..] else { panic!("three calls are shown: {welcome}") };
    assert_eq!(created["created"], true, "{created}");
    assert_eq!((&again["created"], &again["run"]["id"]), (&false.into(), &created["run"]["id"]), "{again}");
    assert_eq!(refused["status"], 422, "{refused}");
    assert_eq!(refused["code"], "idempotency_key_conflict", "{refused}");
    for part in ["\"created\": false", "(422)", "export HAPAX_SERVER="] {
        assert!(welcome.contains(part), "{part}: {welcome}");
    }
}

#[test]
fn a_killed_server_starts_again_with_its_key_and_its_runs() {
    let dev = Dev::start();
    let (key, sample) = (dev.told("apiKey"), dev.told("sampleDefinition"));
    let in_flight = dev.create_run("in-flight", 0);
    let later = dev.create_run("later", AN_HOUR_MS);
    let folder = dev.kill();
    let mode = |name: &str| {
        fs::metadata(folder.path().join("data").join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("api-key"), mode("")), (0o600, 0o700), "the key is for its owner only");

    let dev = Dev::start_in(folder);
    assert_eq!((dev.told("apiKey"), dev.told("sampleDefinition")), (key, sample));
    let in_flight = in_flight["run"]["id"].as_str().unwrap();
    assert_eq!(
        dev.result_of(in_flight)["output"]["run"],
        in_flight,
        "what was in flight is taken up and ends"
    );
    let again = dev.create_run("later", AN_HOUR_MS);
    assert_eq!((&again["created"], &again["run"]["id"]), (&false.into(), &later["run"]["id"]), "{again}");
}

/// An idle connection and a run that waits for long do not hold up the end.
#[test]
fn every_signal_to_stop_is_heeded_in_bounded_time_with_work_in_hand() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let dev = Dev::start();
        dev.create_run("later", AN_HOUR_MS);
        let address = dev.told("url").replace("http://", "");
        let idle = TcpStream::connect(address).unwrap();
        let ended = dev.stop(signal);
        assert_eq!(ended.status.code(), Some(0), "{signal:?}");
        drop(idle);
    }
}

/// RELIABILITY, CLI: SIGINT. A signal ends the wait for a database that does not answer.
#[test]
fn a_signal_ends_a_server_that_has_not_started_yet() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let store = format!("postgres://ann@{}/orders", silent.local_addr().unwrap());
        let starting = Serve::start(hapax().args(["serve", "--listen", "127.0.0.1:0", "--store", &store]));
        let asked = silent.accept().unwrap();
        starting.signal(signal);
        let (exit, said) = starting.end();
        assert_eq!(exit, Some(code), "{said}");
        assert!(said.contains("stopped before it had started"), "{said}");
        drop(asked);
    }
}

/// RELIABILITY, CLI: SIGHUP stops in good order, as do the others; inv. 63: a second signal exits at once.
#[test]
fn serve_stops_in_good_order_at_the_first_signal_and_at_once_at_the_second() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("hapax.db").display());
    let serve = || Serve::start(hapax().args(["serve", "--listen", "127.0.0.1:0", "--store", &store]));
    let server = serve();
    server.address();
    server.signal(Signal::HUP);
    let (exit, said) = server.end();
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains("stopped in good order"), "{said}");

    let server = serve();
    let mut busy = TcpStream::connect(server.address()).unwrap();
    // Its body never comes, so it is in flight for as long as a body may take.
    let head = "POST /api/v1/webhooks/acme/x HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                content-length: 9\r\nexpect: 100-continue\r\n\r\n";
    busy.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 12];
    busy.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100", "it waits for the body now");
    server.signal(Signal::INT);
    server.until_said("a second signal stops at once");
    server.signal(Signal::INT);
    let (exit, said) = server.end();
    assert_eq!(exit, Some(130), "{said}");
    assert!(said.contains("taken up by the next start"), "{said}");
}

fn refusal(arguments: &[&str]) -> String {
    let output = hapax().args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    said
}

#[test]
fn a_server_that_could_not_be_safe_or_keep_anything_does_not_begin() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let store = format!("sqlite:{}", path("hapax.db"));
    let config = path("hapax.toml");
    fs::write(&config, "listen = \"127.0.0.1:0\"\nlistem = 1\n").unwrap();
    fs::write(path("a-file"), "").unwrap();
    let (no_folder, no_config) = (path("a-file/data"), path("absent.toml"));

    for (arguments, told) in [
        (&["dev", "--listen", "0.0.0.0:0", "--data", &no_folder][..], "only on this machine"),
        (&["dev", "--listen", "nowhere", "--data", &no_folder], "is not an address"),
        (&["dev", "--listen", "127.0.0.1:0", "--data", &no_folder], "cannot be made"),
        (&["serve"], "say which store"),
        (&["serve", "--store", &store, "--listen", "0.0.0.0:0"], "give a TLS certificate"),
        (&["serve", "--store", &store, "--listen", "[::]:0"], "give a TLS certificate"),
        (&["serve", "--store", &store, "--tls-cert", "chain.pem"], "tls-key"),
        (&["serve", "--store", &store, "--config", &config], "line 2"),
        (&["serve", "--store", &store, "--config", &no_config], "cannot be read"),
        (&["serve", "--store", "mysql:x"], "mysql"),
        (&["serve", "--store", &store, "--key-retention", "1h"], "24 hours"),
    ] {
        let said = refusal(arguments);
        assert!(said.contains(told), "{arguments:?} is not told {told:?}: {said}");
    }
    assert!(!folder.path().join("hapax.db").exists(), "what is refused leaves nothing behind");
}

/// RELIABILITY, SSRF: our own addresses are always denied, also at a port that was free to choose.
#[test]
fn a_document_may_call_this_machine_but_not_the_server_itself() {
    let dev = Dev::start();
    let upload = |url: &str| {
        let document = format!(
            r#"{{ "name": "calls", "version": 1, "steps": [{{ "name": "a", "type": "http", "method": "GET", "url": "{url}" }}] }}"#
        );
        dev.call(
            "/api/v1/workflow-definitions",
            &format!("-H 'Content-Type: application/json' -d '{document}'"),
        )
    };
    let refused = upload(&dev.told("url"));
    assert_eq!(refused["code"], "address_not_allowed", "{refused}");
    let made = upload("http://127.0.0.1:1/");
    assert_eq!(made["name"], "calls", "{made}");
}

/// DESIGN: flags > environment > hapax.toml > defaults. RELIABILITY, config files: a variable set but empty.
#[test]
fn a_setting_is_taken_from_the_flag_then_the_environment_then_the_file_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("hapax.toml"), "store = \"memory:\"\nlisten = \"in-the-file\"\n").unwrap();
    let other = folder.path().join("other.toml");
    fs::write(&other, "store = \"memory:\"\nlisten = \"in-the-other\"\n").unwrap();
    let refused = |listen: Option<&str>, arguments: &[&str]| {
        let mut command = hapax();
        command.arg("serve").args(arguments).current_dir(folder.path());
        if let Some(listen) = listen {
            command.env("HAPAX_LISTEN", listen);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let in_the_file = refused(None, &[]);
    assert!(in_the_file.contains("\"in-the-file\"") && in_the_file.contains("hapax.toml in the working"));
    let named = refused(None, &["--config", other.to_str().unwrap()]);
    assert!(named.contains("\"in-the-other\"") && !named.contains("working directory"), "{named}");
    assert!(refused(Some("in-the-environment"), &[]).contains("\"in-the-environment\""));
    assert!(refused(Some("in-the-environment"), &["--listen", "a-flag"]).contains("\"a-flag\""));
    let empty = refused(Some(""), &[]);
    assert!(empty.contains("listen: \"\" is not an address"), "it counts as given: {empty}");
}

#[test]
fn an_address_that_is_taken_is_told_so() {
    let dev = Dev::start();
    let address = dev.told("url").replace("http://", "");
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().display().to_string();
    let said = refusal(&["dev", "--listen", &address, "--data", &data]);
    assert!(said.contains("cannot listen on"), "{said}");
}

/// S1.45, S1.46, S1.47: a claim that no janitor covers is found out at boot: the process ends with an error that names workflow and module. The built-in
/// action echo gives back what a step is given.
#[test]
fn a_claim_without_a_janitor_keeps_a_server_from_starting() {
    let dev = Dev::start_with(std::rc::Rc::new(tempfile::tempdir().unwrap()), &["--module", "billing"]);
    let document = r#"{
        "name": "invoices", "module": "billing", "entity": "invoice", "status_types": ["open", "closing", "closed"],
        "steps": [{ "step_id": 1, "step_key": "close", "status": "open", "successful_state": "closed",
                    "claim_state": ["closing", "open"], "action": "echo" }]
    }"#;
    let post =
        |path: &str, body: &str| dev.call(path, &format!("-H 'Content-Type: application/json' -d '{body}'"));
    let made = post("/api/v1/entity-workflows", document);
    assert_eq!(made["claims"][0]["coveredBy"], "billing", "{made}");
    post("/api/v1/entities/invoice", r#"{ "id": "1", "status": "open" }"#);
    let closed = post("/api/v1/entities/invoice/1/steps/close", r#"{ "input": { "said": 1 } }"#);
    assert_eq!(
        (&closed["entity"]["status"], &closed["operation"]["result"]["said"]),
        (&"closed".into(), &1.into()),
        "{closed}"
    );
    let folder = dev.kill();
    let data = folder.path().join("data");
    let (store, data) = (format!("sqlite:{}", data.join("hapax.db").display()), data.display().to_string());
    for arguments in [
        &["dev", "--listen", "127.0.0.1:0", "--data", &data][..],
        &["dev", "--listen", "127.0.0.1:0", "--data", &data, "--module", "shipping"],
        &["serve", "--listen", "127.0.0.1:0", "--store", &store],
    ] {
        let said = refusal(arguments);
        assert!(said.contains("entity workflow invoices") && said.contains("module billing"), "{said}");
    }
    drop(Dev::start_with(folder, &["--module", "billing:1m:2m"]));
}

#[test]
fn health_asks_without_a_key() {
    let dev = Dev::start();
    let url = dev.told("url");
    for further in [&[][..], &["--ready"]] {
        let asked = hapax().args(["health", "--server", &url]).args(further).output().unwrap();
        assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    }
    drop(dev);
    let asked = hapax().args(["health", "--server", &url]).output().unwrap();
    assert_eq!(asked.status.code(), Some(3), "{}", String::from_utf8_lossy(&asked.stderr));
}
