//! TLS of the server: a certificate and a key from PEM files, which are read again when they change.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::client::ResolvesClientCert;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig, SignatureScheme};

/// Error of the TLS setup.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read as PEM.
    #[error("{what} cannot be read from {path}: {cause}", path = path.display())]
    Unreadable {
        /// The certificate chain, the private key, or the authority of clients.
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
    /// The authority of clients cannot be used.
    #[error("the authority of clients cannot be used: {0}")]
    UnusableAuthority(#[from] VerifierBuilderError),
}

/// Files of a listener, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, the server's own certificate first.
    pub chain: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// Authorities that certificates of clients come from. Clients then need one.
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    /// A server that asks its clients for no certificate.
    pub fn new(chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        TlsFiles { chain: chain.into(), key: key.into(), client_ca: None }
    }

    /// Changes whenever a file is replaced or written.
    fn stamp(&self) -> Stamp {
        let of = |path: &PathBuf| {
            let found: Metadata = std::fs::metadata(path).ok()?;
            Some((found.modified().ok()?, found.len(), inode(&found)))
        };
        [&self.chain, &self.key].into_iter().chain(&self.client_ca).map(of).collect()
    }
}

/// Time, size and inode of each file.
type Stamp = Vec<Option<(SystemTime, u64, u64)>>;

#[cfg(unix)]
fn inode(found: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(found)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}

/// TLS of a listener. It offers HTTP/2 and HTTP/1.1 over TLS 1.2 and 1.3.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    current: RwLock<Loaded>,
    read: Mutex<Stamp>,
}

#[derive(Debug, Clone)]
struct Loaded {
    config: Arc<ServerConfig>,
    own: Arc<CertifiedKey>,
}

impl Tls {
    /// Reads the files.
    pub fn load(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let stamp = files.stamp();
        let loaded = Loaded::read(&files)?;
        Ok(Arc::new(Tls { files, current: RwLock::new(loaded), read: Mutex::new(stamp) }))
    }

    /// Reads the files again if one of them changed; returns true if it did. On an error the old
    /// certificate stays in use, and the next call tries again: files are replaced one by one.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let stamp = self.files.stamp();
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if *read == stamp {
            return Ok(false);
        }
        let loaded = Loaded::read(&self.files)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        *read = stamp;
        Ok(true)
    }

    fn current(&self) -> Loaded {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Configuration of the next connection.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.current().config
    }

    /// The certificate of this server, as a client of other nodes shows it; always the newest.
    pub(crate) fn as_client(self: &Arc<Self>) -> Arc<dyn ResolvesClientCert> {
        Arc::new(OwnCertificate(self.clone()))
    }

    /// Authorities that vouch for clients, and so for other nodes.
    pub(crate) fn authorities(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        match &self.files.client_ca {
            Some(path) => read_certificates("the authority of clients", path),
            None => Ok(Vec::new()),
        }
    }
}

impl Loaded {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let own = Arc::new(read_own(files, &provider)?);
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let builder = match &files.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for root in read_certificates("the authority of clients", path)? {
                    roots.add(root)?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(own.clone())));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Loaded { config: Arc::new(config), own })
    }
}

fn read_own(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let chain = read_certificates("the certificate chain", &files.chain)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|cause| TlsError::Unreadable {
        what: "the private key",
        path: files.key.clone(),
        cause,
    })?;
    Ok(CertifiedKey::from_der(chain, key, provider)?)
}

fn read_certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = |cause| TlsError::Unreadable { what, path: path.to_owned(), cause };
    let certificates = CertificateDer::pem_file_iter(path).map_err(unreadable)?;
    let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    match certificates.is_empty() {
        true => Err(TlsError::NoCertificate(path.to_owned())),
        false => Ok(certificates),
    }
}

#[derive(Debug)]
struct OwnCertificate(Arc<Tls>);

impl ResolvesClientCert for OwnCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current().own)
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_certificate_needs_its_own_key_and_a_readable_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| put(folder.path(), name, text);
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let chain = file("chain.pem", &made.cert.pem());
        let key = file("key.pem", &made.signing_key.serialize_pem());
        let other_key = file("other.pem", &other.signing_key.serialize_pem());
        let empty = file("empty.pem", "");
        let load = |chain: &Path, key: &Path| Tls::load(TlsFiles::new(chain, key));
        assert_eq!(load(&chain, &key).unwrap().config().alpn_protocols.len(), 2);
        assert!(matches!(load(&chain, &other_key), Err(TlsError::Unusable(_))));
        assert!(matches!(load(&empty, &key), Err(TlsError::NoCertificate(_))));
        assert!(matches!(load(&chain, &empty), Err(TlsError::Unreadable { .. })));
        assert!(matches!(load(&folder.path().join("none"), &key), Err(TlsError::Unreadable { .. })));
        let with_authority =
            |path: &Path| TlsFiles { client_ca: Some(path.into()), ..TlsFiles::new(&chain, &key) };
        assert!(Tls::load(with_authority(&chain)).is_ok());
        assert!(matches!(Tls::load(with_authority(&empty)), Err(TlsError::NoCertificate(_))));
    }

    #[test]
    fn a_replaced_certificate_is_read_once_its_key_is_there_too() {
        let folder = tempfile::tempdir().unwrap();
        let made = || rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (old, new) = (made(), made());
        let chain = put(folder.path(), "chain.pem", &old.cert.pem());
        let key = put(folder.path(), "key.pem", &old.signing_key.serialize_pem());
        let tls = Tls::load(TlsFiles::new(&chain, &key)).unwrap();
        assert!(!tls.reload().unwrap(), "nothing changed");
        let shown = || tls.current().own.cert[0].clone();
        let replace = |name: &str, text: &str| {
            let fresh = put(folder.path(), "fresh", text);
            std::fs::rename(fresh, folder.path().join(name)).unwrap();
        };
        replace("chain.pem", &new.cert.pem());
        assert!(tls.reload().is_err(), "the key is still the old one");
        assert_eq!(shown(), *old.cert.der(), "what works stays in use");
        replace("key.pem", &new.signing_key.serialize_pem());
        assert!(tls.reload().unwrap());
        assert_eq!(shown(), *new.cert.der());
        assert!(!tls.reload().unwrap());
    }
}
