//! TLS by our own listener.

use std::sync::Arc;

use hapax_server::listen::ListenOptions;
use hapax_server::tls::load_tls;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsConnector;

use crate::wire::fixture::*;

async fn start_with_tls() -> (Server, RootCertStore) {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (chain, key) = (folder.path().join("chain.pem"), folder.path().join("key.pem"));
    std::fs::write(&chain, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let tls = Some(load_tls(&chain, &key).unwrap());
    (start(ListenOptions { tls, ..impatient() }).await, roots)
}

#[tokio::test]
async fn a_request_over_tls_is_answered_and_told_to_stay_with_tls() {
    let (server, roots) = start_with_tls().await;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let mut socket =
        TlsConnector::from(Arc::new(config)).connect(name, server.connect().await).await.unwrap();
    assert_eq!(socket.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    socket.write_all(b"GET /hello HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let answer = read_answer(&mut socket).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("strict-transport-security"), "{answer}");
}

#[tokio::test]
async fn plain_http_and_a_handshake_that_never_ends_get_nowhere() {
    let (server, _) = start_with_tls().await;
    let answer = server.exchange(b"GET /secret HTTP/1.1\r\nhost: h\r\n\r\n").await;
    assert!(!answer.contains("secret"), "{answer}");
    let mut silent = server.connect().await;
    assert_eq!(read_to_end(&mut silent).await, "");
}
