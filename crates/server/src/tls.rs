//! TLS of the server: a certificate and a key from PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Error of the TLS setup.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read as PEM.
    #[error("{what} cannot be read from {path}: {cause}", path = path.display())]
    Unreadable {
        /// The certificate chain, or the private key.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the parser.
        cause: rustls::pki_types::pem::Error,
    },
    /// The file holds no certificate.
    #[error("{} holds no certificate; it must be PEM with the server's certificate first", .0.display())]
    NoCertificate(PathBuf),
    /// The two do not match, or their kind is not supported.
    #[error("the certificate and the key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// Reads a certificate chain and its key; offers HTTP/2 and HTTP/1.1, TLS 1.2 and 1.3.
pub fn load_tls(chain: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let unreadable = |what, path: &Path| {
        let path = path.to_owned();
        move |cause| TlsError::Unreadable { what, path, cause }
    };
    let chain_failed = || unreadable("the certificate chain", chain);
    let certificates = CertificateDer::pem_file_iter(chain)
        .map_err(chain_failed())?
        .collect::<Result<Vec<_>, _>>()
        .map_err(chain_failed())?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate(chain.to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(unreadable("the private key", key))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_needs_its_own_key_and_a_readable_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let chain = file("chain.pem", &made.cert.pem());
        let key = file("key.pem", &made.signing_key.serialize_pem());
        let other_key = file("other.pem", &other.signing_key.serialize_pem());
        let empty = file("empty.pem", "");
        assert_eq!(load_tls(&chain, &key).unwrap().alpn_protocols.len(), 2);
        assert!(matches!(load_tls(&chain, &other_key), Err(TlsError::Unusable(_))));
        assert!(matches!(load_tls(&empty, &key), Err(TlsError::NoCertificate(_))));
        assert!(matches!(load_tls(&chain, &empty), Err(TlsError::Unreadable { .. })));
        assert!(matches!(load_tls(&folder.path().join("none"), &key), Err(TlsError::Unreadable { .. })));
    }
}
