//! Permitted destinations: one test for each line of the security list.

use crate::server::{PlannedDns, Server, dev};
use hapax_outgoing::{Fault, Kind, Outgoing, Ports, Refusal, Request, Rules};
use http::{HeaderValue, Method};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn refused(outcome: Result<hapax_outgoing::Answer, Fault>) -> Refusal {
    match outcome {
        Err(Fault::Refused { why }) => why,
        other => panic!("not refused: {other:?}"),
    }
}

fn allowing(places: &[&str]) -> Rules {
    Rules { allow: places.iter().map(|place| place.parse().unwrap()).collect(), ..Rules::default() }
}

#[tokio::test]
async fn by_default_nothing_private_is_called_however_it_is_spelled() {
    let server = Server::answering(OK).await;
    let port = server.at.port();
    let outgoing = Outgoing::new(Rules::default()).unwrap();
    for host in [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "017700000001",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "0",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fe80::1]",
        "[fd00::1]",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
    ] {
        let url = format!("http://{host}:{port}/");
        let why = refused(outgoing.send(Request::get(&url)).await);
        assert!(matches!(why, Refusal::Address { .. }), "{url}: {why}");
        assert_eq!(outgoing.check(&Request::get(&url)), Err(why), "checking says what sending says");
    }
    let why = refused(outgoing.send(Request::get(format!("http://[fe80::1%25eth0]:{port}/"))).await);
    assert!(matches!(why, Refusal::BadUrl { .. }), "a zone id: {why}");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn names_of_this_machine_are_refused_by_what_they_stand_for() {
    let server = Server::answering(OK).await;
    let outgoing = Outgoing::new(Rules::default()).unwrap();
    for host in ["localhost", "localhost.", "LOCALHOST"] {
        let why = refused(outgoing.send(Request::get(format!("http://{host}:{}/", server.at.port()))).await);
        assert_eq!(why, Refusal::Address { host: "localhost".into(), kind: Kind::Loopback });
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_name_that_changes_its_mind_gains_nothing() {
    let server = Server::answering(OK).await;
    let told = PlannedDns::default().name("rebind.example", &[&["127.0.0.1"]]);
    let outgoing = Outgoing::with_lookup(Rules::default(), told.clone()).unwrap();
    let request = Request::get(format!("http://rebind.example:{}/", server.at.port()));
    outgoing.check(&request).expect("a public name looks harmless");
    let why = refused(outgoing.send(request).await);
    assert_eq!(why, Refusal::Address { host: "rebind.example".into(), kind: Kind::Loopback });
    assert_eq!(told.calls(), 1, "what is looked up once is what is judged and connected to");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn each_look_up_is_judged_anew() {
    let server = Server::answering(OK).await;
    let told =
        PlannedDns::default().name("rebind.example", &[&["127.0.0.1"], &["169.254.169.254"], &["127.0.0.1"]]);
    let outgoing = Outgoing::with_lookup(allowing(&["rebind.example"]), told).unwrap();
    let url = format!("http://rebind.example:{}/", server.at.port());
    assert_eq!(outgoing.send(Request::get(&url)).await.unwrap().status, 200);
    let why = refused(outgoing.send(Request::get(&url)).await);
    assert_eq!(why, Refusal::Address { host: "rebind.example".into(), kind: Kind::LinkLocal });
    assert_eq!(outgoing.send(Request::get(&url)).await.unwrap().status, 200);
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn every_answer_of_a_look_up_is_judged_and_only_open_ones_are_connected_to() {
    let closed = Server::raw("127.0.0.2:0", |_| async {}).await;
    let port = closed.at.port();
    let open = Server::raw(&format!("127.0.0.3:{port}"), |mut stream| async move {
        let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, OK.as_bytes()).await;
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut Vec::new()).await;
    })
    .await;
    let told = PlannedDns::default().name("mixed.example", &[&["127.0.0.2", "10.0.0.1", "::1", "127.0.0.3"]]);
    let outgoing = Outgoing::with_lookup(allowing(&["127.0.0.3"]), told).unwrap();
    let answer = outgoing.send(Request::get(format!("http://mixed.example:{port}/"))).await.unwrap();
    assert_eq!(answer.body, "ok");
    assert_eq!((closed.connections(), open.connections()), (0, 1));
}

#[tokio::test]
async fn the_allow_list_opens_what_it_names_and_nothing_beside_it() {
    let server = Server::answering(OK).await;
    let port = server.at.port();
    let told = PlannedDns::default()
        .name("billing.internal", &[&["127.0.0.1"]])
        .name("other.internal", &[&["127.0.0.1"]])
        .name("metadata.internal", &[&["169.254.169.254"]]);
    let url = |host: &str| format!("http://{host}:{port}/");
    for (allow, opened) in [
        ("billing.internal".to_owned(), "billing.internal"),
        (format!("billing.internal:{port}"), "BILLING.internal."),
        ("*.internal".to_owned(), "billing.internal"),
        ("127.0.0.0/8".to_owned(), "127.1"),
        (format!("127.0.0.1:{port}"), "other.internal"),
    ] {
        let outgoing = Outgoing::with_lookup(allowing(&[&allow]), told.clone()).unwrap();
        assert_eq!(
            outgoing.send(Request::get(url(opened))).await.unwrap().status,
            200,
            "{allow} opens {opened}"
        );
    }
    let before = server.connections();
    for (allow, closed) in [
        ("billing.internal", "other.internal"),
        ("billing.internal", "127.0.0.1"),
        ("billing.internal:1", "billing.internal"),
        ("127.0.0.0/9", "127.128.0.1"),
        ("*.internal", "metadata.internal"),
        ("metadata.internal", "metadata.internal"),
        ("64:ff9b::/96", "[64:ff9b::7f00:1]"),
        ("::ffff:0:0/96", "[::ffff:127.0.0.1]"),
    ] {
        let outgoing = Outgoing::with_lookup(allowing(&[allow]), told.clone()).unwrap();
        let why = refused(outgoing.send(Request::get(url(closed))).await);
        assert!(matches!(why, Refusal::Address { .. }), "{allow} must not open {closed}: {why}");
    }
    assert_eq!(server.connections(), before);
}

#[tokio::test]
async fn the_deny_list_wins_over_all() {
    let server = Server::answering(OK).await;
    let port = server.at.port();
    let told = PlannedDns::default().name("a.example", &[&["127.0.0.1"]]);
    for deny in [
        "a.example".to_owned(),
        format!("a.example:{port}"),
        "*.example".to_owned(),
        "127.0.0.0/8".to_owned(),
    ] {
        let rules = Rules {
            deny: vec![deny.parse().unwrap()],
            ..Rules { allow_loopback: true, ..allowing(&["a.example"]) }
        };
        let outgoing = Outgoing::with_lookup(rules, told.clone()).unwrap();
        let why = refused(outgoing.send(Request::get(format!("http://A.example.:{port}/"))).await);
        assert_eq!(why, Refusal::Denied { host: "a.example".into() }, "{deny}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn our_own_addresses_are_closed_even_where_all_else_is_open() {
    let server = Server::answering(OK).await;
    let port = server.at.port();
    let told = PlannedDns::default().name("sneaky.example", &[&["127.0.0.1"]]);
    for own in [
        format!("127.0.0.1:{port}"),
        format!("0.0.0.0:{port}"),
        format!("[::]:{port}"),
        format!("[::1]:{port}"),
    ] {
        let allow = ["0.0.0.0/0", "::/0", "sneaky.example"].map(|place| place.parse().unwrap()).to_vec();
        let rules = Rules { allow, denied_addresses: vec![own.parse().unwrap()], ..dev() };
        let outgoing = Outgoing::with_lookup(rules, told.clone()).unwrap();
        for host in
            ["127.0.0.1", "127.1", "[::ffff:127.0.0.1]", "0.0.0.0", "sneaky.example", "[64:ff9b::7f00:1]"]
        {
            let why = refused(outgoing.send(Request::get(format!("http://{host}:{port}/"))).await);
            assert!(matches!(why, Refusal::Denied { .. }), "{own} by {host}: {why}");
        }
    }
    assert_eq!(server.connections(), 0);
    let rules = Rules { denied_addresses: vec!["127.0.0.1:1".parse().unwrap()], ..dev() };
    let other_port = Outgoing::new(rules).unwrap().send(Request::get(server.url("/"))).await;
    assert_eq!(other_port.unwrap().status, 200, "another port is another service");
}

/// A listener on every address is also reached by the machine's network address, which no rule can list.
#[tokio::test]
async fn a_port_of_ours_on_every_address_is_closed_by_the_address_on_the_network_too() {
    let probe = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let Some(here) = probe.connect("192.0.2.1:9").ok().and_then(|()| probe.local_addr().ok()) else { return };
    if here.ip().is_loopback() || here.ip().is_unspecified() {
        return;
    }
    let server = Server::raw("0.0.0.0:0", |mut stream| async move {
        let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, OK.as_bytes()).await;
    })
    .await;
    let port = server.at.port();
    let rules = Rules {
        allow: vec!["0.0.0.0/0".parse().unwrap()],
        denied_addresses: vec![format!("0.0.0.0:{port}").parse().unwrap()],
        ..dev()
    };
    let outgoing = Outgoing::new(rules).unwrap();
    let why = refused(outgoing.send(Request::get(format!("http://{}:{port}/", here.ip()))).await);
    assert!(matches!(why, Refusal::Denied { .. }), "{why}");
}

#[tokio::test]
async fn ports_of_other_protocols_are_closed_unless_the_place_names_its_port() {
    let outgoing = Outgoing::new(dev()).unwrap();
    for port in hapax_outgoing::CLOSED_PORTS {
        let why = refused(outgoing.send(Request::get(format!("http://127.0.0.1:{port}/"))).await);
        assert!(matches!(why, Refusal::Port { .. }), "{port}: {why}");
    }
    let server = Server::answering(OK).await;
    let port = server.at.port();
    let only =
        |allow: &[&str]| Rules { ports: Ports::Only(vec![80, 443]), allow_loopback: true, ..allowing(allow) };
    let why = refused(Outgoing::new(only(&["127.0.0.1"])).unwrap().send(Request::get(server.url("/"))).await);
    assert_eq!(why, Refusal::Port { host: "127.0.0.1".into(), port });
    let elsewhere = format!("10.0.0.1:{port}");
    for allow in [vec![elsewhere.as_str()], vec![elsewhere.as_str(), "127.0.0.1"]] {
        let why = refused(Outgoing::new(only(&allow)).unwrap().send(Request::get(server.url("/"))).await);
        assert!(
            matches!(why, Refusal::Port { .. }),
            "a port opened for one place is not open for another: {why}"
        );
    }
    assert_eq!(server.connections(), 0);
    let named = Outgoing::new(only(&[&format!("127.0.0.1:{port}")])).unwrap();
    assert_eq!(named.send(Request::get(server.url("/"))).await.unwrap().status, 200);
}

#[tokio::test]
async fn with_only_allowed_the_public_internet_is_closed_too() {
    let told = PlannedDns::default().name("public.example", &[&["93.184.215.14"]]);
    let rules = Rules { only_allowed: true, ..allowing(&["other.example"]) };
    let outgoing = Outgoing::with_lookup(rules, told).unwrap();
    let why = refused(outgoing.send(Request::get("http://public.example/")).await);
    assert_eq!(why, Refusal::NotAllowed { host: "public.example".into() });
}

#[tokio::test]
async fn only_http_and_https_are_spoken_and_urls_carry_no_passwords() {
    let outgoing = Outgoing::new(dev()).unwrap();
    for url in ["ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "unix:/run/docker.sock"]
    {
        assert!(matches!(refused(outgoing.send(Request::get(url)).await), Refusal::Scheme { .. }), "{url}");
    }
    let server = Server::answering(OK).await;
    let url = format!("http://user:secret@{}/", server.at);
    let fault = outgoing.send(Request::get(url)).await.unwrap_err();
    assert_eq!(fault, Fault::Refused { why: Refusal::Credentials });
    assert!(!fault.to_string().contains("secret"));
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_refusal_does_not_tell_which_address_a_name_stands_for() {
    let told = PlannedDns::default().name("db.internal", &[&["10.77.66.55"]]);
    let outgoing = Outgoing::with_lookup(Rules::default(), told).unwrap();
    let fault = outgoing.send(Request::get("http://db.internal/")).await.unwrap_err();
    assert!(!fault.to_string().contains("10.77"), "{fault}");
    assert!(fault.to_string().contains("allow list"), "it says what to do: {fault}");
}

#[tokio::test]
async fn fields_and_methods_of_the_connection_are_not_the_senders_to_set() {
    let server = Server::answering(OK).await;
    let outgoing = Outgoing::new(dev()).unwrap();
    for name in
        ["Host", "Connection", "Content-Length", "Transfer-Encoding", "Upgrade", "Expect", "TE", "Trailer"]
    {
        let mut request = Request::get(server.url("/"));
        request.headers.insert(name.parse::<http::HeaderName>().unwrap(), HeaderValue::from_static("1"));
        assert_eq!(refused(outgoing.send(request).await), Refusal::Header { name: name.to_lowercase() });
    }
    for method in [Method::CONNECT, Method::TRACE] {
        let why = refused(outgoing.send(Request::new(method, server.url("/"))).await);
        assert!(matches!(why, Refusal::Method { .. }));
    }
    let huge = Request::post(server.url("/"), vec![0; hapax_outgoing::limits::MAX_REQUEST_BYTES + 1]);
    assert!(matches!(refused(outgoing.send(huge).await), Refusal::TooLarge { what: "body", .. }));
    let mut crowded = Request::get(server.url("/"));
    for number in 0..=hapax_outgoing::limits::MAX_REQUEST_HEADERS {
        crowded.headers.append("x-many", HeaderValue::from(number));
    }
    assert!(matches!(refused(outgoing.send(crowded).await), Refusal::TooLarge { .. }));
    assert_eq!(server.connections(), 0);
}

/// Run by the test below, in a process whose environment sets a proxy.
#[tokio::test]
#[ignore = "needs the environment that the next test gives it"]
async fn behind_a_proxy() {
    let url = std::env::var("HAPAX_TEST_URL").unwrap();
    assert_eq!(Outgoing::new(dev()).unwrap().send(Request::get(url)).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_proxy_of_the_environment_is_not_used() {
    let server = Server::answering(OK).await;
    let proxy = Server::answering("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n").await;
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child
        .args(["--ignored", "--exact", "destinations::behind_a_proxy"])
        .env("HAPAX_TEST_URL", server.url("/"));
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"] {
        child.env(name, proxy.url(""));
    }
    child.env_remove("no_proxy").env_remove("NO_PROXY");
    let output = tokio::task::spawn_blocking(move || child.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!((server.connections(), proxy.connections()), (1, 0));
}
