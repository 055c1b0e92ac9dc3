//! How `hapax serve` starts without its database, and how long it takes to end.

use crate::support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use hapax_postgres_fixture::Database;
use rustix::process::Signal;
use serde_json::Value;
use support::dev::hapax;
use support::serve::Serve;

/// An answer: its status, and all of it.
fn ask(address: SocketAddr, request: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = socket.read_to_string(&mut answer);
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{request}: {answer:?}")), answer)
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n"))
}

/// Forwards bytes between `listener` and `to`.
fn forward(listener: TcpListener, to: SocketAddr) {
    thread::spawn(move || {
        for inward in listener.incoming().map_while(Result::ok) {
            let outward = TcpStream::connect(to).unwrap();
            for (mut from, mut to) in [
                (inward.try_clone().unwrap(), outward.try_clone().unwrap()),
                (outward.try_clone().unwrap(), inward.try_clone().unwrap()),
            ] {
                thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
}

/// A URL of the database that leads to `place` instead.
fn led_to(url: &str, place: SocketAddr) -> (String, SocketAddr) {
    let (before, rest) = url.split_once("://").unwrap();
    let (user, rest) = rest.split_once('@').map_or(("", rest), |(user, rest)| (user, rest));
    let (host, database) = rest.split_once('/').unwrap();
    let real = host.replace("localhost", "127.0.0.1").parse().unwrap();
    let user = if user.is_empty() { String::new() } else { format!("{user}@") };
    (format!("{before}://{user}{place}/{database}"), real)
}

/// A port that nobody listens on, for now.
fn free_place() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn serving(store: &str) -> Command {
    let mut command = hapax();
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--store", store]);
    command
}

/// Where a server that waits for its database answers.
fn alive_on(server: &Serve) -> SocketAddr {
    let line = server.until_said("alive on");
    line.split("alive on ").nth(1).and_then(|rest| rest.split(',').next()).unwrap().parse().unwrap()
}

/// It ended instead of waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_database_is_away_at_its_start_lives_and_is_ready_once_it_is_there() {
    let database = Database::empty().await.unwrap();
    let place = free_place();
    let (store, real) = led_to(&database.tcp_url(), place);
    let server = Serve::start(&mut serving(&store));
    let address = alive_on(&server);
    server.until_said("trying again in");
    assert_eq!(get(address, "/healthz").0, 200);
    let (status, readiness) = get(address, "/readyz");
    assert_eq!(status, 503, "{readiness}");
    assert!(readiness.contains(r#""name":"store","status":"unavailable""#), "{readiness}");
    let (status, refused) = get(address, "/api/v1/workflow-runs");
    assert_eq!(status, 503, "{refused}");
    assert!(refused.contains("store_unavailable") && refused.contains("retry-after: 1"), "{refused}");
    server.until_said("trying again in");

    forward(TcpListener::bind(place).unwrap(), real);
    assert_eq!(server.address(), address.to_string());
    assert_eq!((get(address, "/healthz").0, get(address, "/readyz").0), (200, 200));
    assert_eq!(get(address, "/api/v1/workflow-runs").0, 401, "the server itself answers now");
    server.signal(Signal::TERM);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_server_that_waits_for_its_database_ends_at_once_when_told_to() {
    let server = Serve::start(&mut serving(&format!("postgres://hapax@{}/hapax", free_place())));
    alive_on(&server);
    let since = Instant::now();
    server.signal(Signal::TERM);
    let (code, said) = server.end();
    assert_eq!(code, Some(128 + 15), "{said}");
    assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
}

/// An error that cannot pass by itself ends the server and says what to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_does_not_exist_ends_the_start() {
    let database = Database::empty().await.unwrap();
    let url = database.tcp_url();
    let (server, _) = url.rsplit_once('/').unwrap();
    let output = serving(&format!("{server}/nobody_made_this")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("nobody_made_this"), "{said}");
    assert!(!said.contains("trying again"), "{said}");
}

/// A provider that takes requests and never answers. Tells when one has come.
fn silent_provider() -> (SocketAddr, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut held = Vec::new();
        for socket in listener.incoming().map_while(Result::ok) {
            held.push(socket);
            let _ = tell.send(());
        }
    });
    (address, told)
}

/// Requests, operations under a key and runs each had a grace of their own, one after the other: 65 to 81 s with the default of 30 s.
#[test]
fn everything_that_is_in_flight_shares_one_grace() {
    const GRACE: Duration = Duration::from_secs(4);
    let folder = tempfile::tempdir().unwrap();
    let (provider, called) = silent_provider();
    let store = format!("sqlite:{}", folder.path().join("hapax.db").display());
    let key_file = folder.path().join("first.key");
    let mut command = serving(&store);
    command.args(["--drain", "4s", "--allow", &provider.to_string(), "--key-file"]).arg(&key_file);
    let server = Serve::start(&mut command);
    let address = server.address();
    server.until_said("may set it up is in");
    let first_key = std::fs::read_to_string(&key_file).unwrap();
    let call = |key: &str, arguments: &[&str]| -> Value {
        let mut command = hapax();
        command.env("HAPAX_SERVER", format!("http://{address}")).env("HAPAX_API_KEY", key.trim());
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    call(&first_key, &["admin", "workspaces", "create", "acme", "--json"]);
    let made = call(
        &first_key,
        &["admin", "credentials", "create", "admin", "--role", "admin", "--workspace", "acme", "--json"],
    );
    let admin = made["apiKey"].as_str().unwrap().to_owned();
    let document = format!(
        r#"{{"name":"pay","version":1,"steps":[{{"name":"charge","type":"http","method":"POST","url":"http://{provider}/charges"}}]}}"#
    );
    let file = folder.path().join("pay.json");
    std::fs::write(&file, document).unwrap();
    let definition = call(&admin, &["apply", file.to_str().unwrap(), "--json"]);
    let started = call(&admin, &["start", definition["id"].as_str().unwrap(), "--key", "k", "--json"]);
    let run = started["run"]["id"].as_str().unwrap().to_owned();
    called.recv_timeout(Duration::from_secs(30)).expect("the step has begun");

    let address: SocketAddr = address.parse().unwrap();
    // A request whose body never comes to its end, and one that waits for the run.
    let mut slow = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /api/v1/workflow-runs HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {admin}\r\ncontent-type: application/json\r\n\
         idempotency-key: slow\r\ncontent-length: 100\r\n\r\n{{"
    );
    slow.write_all(head.as_bytes()).unwrap();
    let waiting = format!(
        "GET /api/v1/workflow-runs/{run}/result HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {admin}\r\nprefer: wait=60\r\n\
         connection: close\r\n\r\n"
    );
    let mut waits = TcpStream::connect(address).unwrap();
    waits.write_all(waiting.as_bytes()).unwrap();
    // Answered after those before it were taken in.
    assert_eq!(get(address, "/healthz").0, 200);

    let since = Instant::now();
    server.signal(Signal::TERM);
    let mut answer = String::new();
    waits.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let _ = waits.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 202"), "whoever waits is told at once: {answer}");
    assert!(since.elapsed() < GRACE / 2, "{:?}", since.elapsed());
    let (code, said) = server.end();
    let took = since.elapsed();
    println!("it took {took:?} to end");
    assert_eq!(code, Some(0), "{said}");
    assert!(took < GRACE + Duration::from_secs(2), "one grace of {GRACE:?} for all, not {took:?}");
}
