//! TLS by our own listener.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hapax_server::listen::ListenOptions;
use hapax_server::tls::{Tls, TlsFiles};
use rcgen::{CertifiedKey, KeyPair};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::wire::fixture::*;

async fn start_with_tls() -> (Server, RootCertStore) {
    let folder = tempfile::tempdir().unwrap();
    let own = self_signed();
    put(folder.path(), &own);
    let tls = Some(Tls::load(files(folder.path())).unwrap());
    (start(ListenOptions { tls, ..impatient() }).await, trusting(&own))
}

fn self_signed() -> CertifiedKey<KeyPair> {
    rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap()
}

fn files(folder: &Path) -> TlsFiles {
    TlsFiles::new(folder.join("chain.pem"), folder.join("key.pem"))
}

fn put(folder: &Path, own: &CertifiedKey<KeyPair>) {
    std::fs::write(folder.join("chain.pem"), own.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), own.signing_key.serialize_pem()).unwrap();
}

fn trusting(own: &CertifiedKey<KeyPair>) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(own.cert.der().clone()).unwrap();
    roots
}

/// Asks over TLS, with a certificate of its own if there is one; what the server answers, if it does.
async fn ask(server: &Server, roots: &RootCertStore, own: Option<&CertifiedKey<KeyPair>>) -> Option<String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots.clone());
    let config = match own {
        None => config.with_no_client_auth(),
        Some(own) => {
            let key = PrivateKeyDer::Pkcs8(own.signing_key.serialize_der().into());
            config.with_client_auth_cert(vec![own.cert.der().clone()], key).unwrap()
        }
    };
    let name = ServerName::try_from("localhost").unwrap();
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, server.connect().await);
    let mut socket = connecting.await.ok()?;
    socket.write_all(b"GET /hello HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.ok()?;
    Some(read_to_end(&mut socket).await).filter(|answer| !answer.is_empty())
}

/// A certificate lives for weeks, and a server for months.
#[tokio::test]
async fn a_renewed_certificate_is_used_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (self_signed(), self_signed());
    put(folder.path(), &old);
    let tls = Some(Tls::load(files(folder.path())).unwrap());
    let options = ListenOptions { tls, tls_reload_every: Duration::from_millis(20), ..impatient() };
    let server = start(options).await;
    assert!(ask(&server, &trusting(&old), None).await.is_some());
    assert!(ask(&server, &trusting(&new), None).await.is_none());
    put(folder.path(), &new);
    let renewed = async { while ask(&server, &trusting(&new), None).await.is_none() {} };
    timeout(PATIENCE, renewed).await.expect("the new certificate is used");
    assert!(ask(&server, &trusting(&old), None).await.is_none());
}

#[tokio::test]
async fn with_an_authority_of_clients_only_its_certificates_are_let_in() {
    let folder = tempfile::tempdir().unwrap();
    let (own, client, stranger) = (self_signed(), self_signed(), self_signed());
    put(folder.path(), &own);
    let authority = folder.path().join("clients.pem");
    std::fs::write(&authority, client.cert.pem()).unwrap();
    let with_clients = TlsFiles { client_ca: Some(authority), ..files(folder.path()) };
    let tls = Some(Tls::load(with_clients).unwrap());
    let server = start(ListenOptions { tls, ..impatient() }).await;
    let roots = trusting(&own);
    let answer = ask(&server, &roots, Some(&client)).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(ask(&server, &roots, None).await, None, "without a certificate");
    assert_eq!(ask(&server, &roots, Some(&stranger)).await, None, "with that of somebody else");
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
