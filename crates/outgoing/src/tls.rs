//! TLS for outgoing requests: rustls, with the machine's root certificates.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use crate::outgoing::InvalidRules;

/// The connector of all requests. A machine without root certificates is accepted here: it may call plain HTTP, and
/// each TLS handshake fails with an unknown issuer.
pub(crate) fn connector(extra_roots: &[Vec<u8>]) -> Result<TlsConnector, InvalidRules> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for root in extra_roots {
        let added = roots.add(CertificateDer::from(root.as_slice()).into_owned());
        added.map_err(|error| InvalidRules::Root { detail: error.to_string() })?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| InvalidRules::Tls { detail: error.to_string() })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
