//! TLS towards receivers: trusted certificates, and the meaning of a failed handshake.

use std::sync::Arc;

use crate::server::{PlannedDns, Server, dev};
use hapax_outgoing::{Fault, Outgoing, Request, Rules};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

/// A server with its own certificate for a name, and that certificate.
async fn secured(name: &str) -> (Server, Vec<u8>) {
    let own = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let server = Server::raw("127.0.0.1:0", move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret").await;
            let _ = stream.shutdown().await;
        }
    })
    .await;
    (server, own.cert.der().to_vec())
}

#[tokio::test]
async fn a_receiver_is_believed_by_the_name_in_its_certificate() {
    let (server, root) = secured("pay.example").await;
    let told =
        PlannedDns::default().name("pay.example", &[&["127.0.0.1"]]).name("other.example", &[&["127.0.0.1"]]);
    let outgoing = Outgoing::with_lookup(Rules { extra_roots: vec![root], ..dev() }, told).unwrap();
    let port = server.at.port();
    let answer = outgoing.send(Request::get(format!("https://pay.example:{port}/"))).await.unwrap();
    assert_eq!(answer.body, "secret");
    let fault =
        outgoing.send(Request::post(format!("https://other.example:{port}/"), "x")).await.unwrap_err();
    assert!(matches!(fault, Fault::NotSent { .. }), "another name: {fault:?}");
}

#[tokio::test]
async fn an_unknown_issuer_or_no_tls_at_all_means_that_nothing_was_sent() {
    let (server, _) = secured("pay.example").await;
    let told = PlannedDns::default().name("pay.example", &[&["127.0.0.1"]]);
    let outgoing = Outgoing::with_lookup(dev(), told).unwrap();
    let plain = Server::raw("127.0.0.1:0", |mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    })
    .await;
    let closing = Server::raw("127.0.0.1:0", |stream| async move { drop(stream) }).await;
    for port in [server.at.port(), plain.at.port(), closing.at.port()] {
        let fault =
            outgoing.send(Request::post(format!("https://pay.example:{port}/"), "x")).await.unwrap_err();
        assert!(matches!(fault, Fault::NotSent { .. }), "{fault:?}");
    }
}

#[tokio::test]
async fn a_handshake_that_hangs_ends_with_the_time_to_connect() {
    let silent = Server::raw("127.0.0.1:0", |stream| async move {
        let _held = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let rules = Rules { connect_timeout: std::time::Duration::from_millis(300), ..dev() };
    let url = format!("https://{}/", silent.at);
    let fault = Outgoing::new(rules).unwrap().send(Request::post(url, "x")).await.unwrap_err();
    assert!(matches!(fault, Fault::NotSent { .. }), "{fault:?}");
}
