//! Encryption settings of a URL: `sslmode`, `sslrootcert`, `sslcert` and `sslkey`, with the meaning
//! they have for `psql`.
//!
//! The driver supports neither the files nor the modes that verify a certificate, so they are
//! removed from the URL before the driver sees it.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use tokio_postgres::config::SslMode;

use crate::open_error::OpenError;

#[cfg(not(feature = "tls"))]
pub(crate) use plain::{Tls, connector};
#[cfg(feature = "tls")]
pub(crate) use rustls_connector::{Tls, connector};

/// Required level of encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// None.
    Disable,
    /// If the server supports it. Nothing is verified, so it protects only against eavesdropping.
    Prefer,
    /// Always; the certificate is verified only against a given file.
    Require,
    /// The certificate must be signed by a trusted authority.
    VerifyCa,
    /// The certificate must also match the host.
    VerifyFull,
}

/// TLS settings of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsSettings {
    pub(crate) mode: Mode,
    /// Trusted certificates, instead of the machine's.
    pub(crate) root: Option<PathBuf>,
    /// Client certificate, for a server that requires one.
    pub(crate) identity: Option<Identity>,
}

/// The files of a client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The certificate, and its chain up to an authority that the server trusts.
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// Parameters removed from a URL.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct UrlParameters {
    mode: Option<Mode>,
    root: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl UrlParameters {
    /// Removes them; also returns the rest of the URL.
    pub(crate) fn out_of(url: &str) -> Result<(String, UrlParameters), OpenError> {
        let mut taken = UrlParameters::default();
        // As the driver parses it: the text before the first `@` is the password, whatever it looks
        // like.
        let after_password = url.find('@').unwrap_or(0);
        let Some(begin) = url[after_password..].find('?').map(|at| after_password + at) else {
            return Ok((url.to_owned(), taken));
        };
        let (before, query) = (&url[..begin], &url[begin + 1..]);
        let mut left = Vec::new();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8().map_err(|_| OpenError::BadUrl)?;
            match name {
                "sslmode" => taken.mode = Some(Mode::of(&value).ok_or(OpenError::BadUrl)?),
                "sslrootcert" => taken.root = Some(PathBuf::from(value.as_ref())),
                "sslcert" => taken.certificate = Some(PathBuf::from(value.as_ref())),
                "sslkey" => taken.key = Some(PathBuf::from(value.as_ref())),
                _ => left.push(pair),
            }
        }
        let left = match left.is_empty() {
            true => before.to_owned(),
            false => format!("{before}?{}", left.join("&")),
        };
        Ok((left, taken))
    }

    /// The settings, combined with the driver's reading of the rest: it accepts other forms of URL,
    /// and none of their settings is lost.
    pub(crate) fn into_wish(self, understood: SslMode) -> Result<TlsSettings, OpenError> {
        let mode = self.mode.unwrap_or(match understood {
            SslMode::Disable => Mode::Disable,
            SslMode::Prefer => Mode::Prefer,
            // Also for modes that the driver may add.
            _ => Mode::Require,
        });
        // A given root certificate implies verification.
        let mode = if mode == Mode::Require && self.root.is_some() { Mode::VerifyCa } else { mode };
        let identity = match (self.certificate, self.key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
            (Some(_), None) => return Err(OpenError::HalfAnIdentity { named: "sslcert", missing: "sslkey" }),
            (None, Some(_)) => return Err(OpenError::HalfAnIdentity { named: "sslkey", missing: "sslcert" }),
        };
        Ok(TlsSettings { mode, root: self.root, identity })
    }
}

impl TlsSettings {
    /// Mode for the driver.
    pub(crate) fn ssl_mode(&self) -> SslMode {
        match self.mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }
}

impl Mode {
    fn of(text: &str) -> Option<Mode> {
        Some(match text {
            "disable" => Mode::Disable,
            "prefer" => Mode::Prefer,
            "require" => Mode::Require,
            "verify-ca" => Mode::VerifyCa,
            "verify-full" => Mode::VerifyFull,
            _ => return None,
        })
    }
}

#[cfg(not(feature = "tls"))]
mod plain {
    use super::{Mode, OpenError, TlsSettings};

    /// Connector of the driver.
    pub(crate) type Tls = tokio_postgres::NoTls;

    pub(crate) fn connector(wish: &TlsSettings, place: &str) -> Result<Tls, OpenError> {
        match wish.mode {
            Mode::Disable => Ok(tokio_postgres::NoTls),
            Mode::Prefer if wish.identity.is_none() => Ok(tokio_postgres::NoTls),
            Mode::Prefer | Mode::Require | Mode::VerifyCa | Mode::VerifyFull => {
                Err(OpenError::WithoutTls { place: place.to_owned() })
            }
        }
    }
}

#[cfg(feature = "tls")]
mod rustls_connector {
    use std::path::Path;
    use std::sync::Arc;

    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
    };
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{
        CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    };
    use tokio_postgres_rustls::MakeRustlsConnect;

    use super::{Mode, OpenError, TlsSettings};
    use crate::client_certificate;

    /// Connector of the driver.
    pub(crate) type Tls = MakeRustlsConnect;

    pub(crate) fn connector(wish: &TlsSettings, place: &str) -> Result<Tls, OpenError> {
        let provider = Arc::new(ring::default_provider());
        let failed =
            |error: &dyn std::fmt::Display| OpenError::Tls { place: place.into(), detail: error.to_string() };
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?;
        let chain = match wish.mode {
            Mode::Disable | Mode::Prefer | Mode::Require => None,
            Mode::VerifyCa | Mode::VerifyFull => {
                let roots = Arc::new(trusted(wish.root.as_deref())?);
                let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
                Some(verifier.map_err(|error| failed(&error))?)
            }
        };
        let verifier: Arc<dyn ServerCertVerifier> = match (wish.mode, chain) {
            (Mode::VerifyFull, Some(verifier)) => verifier,
            (_, chain) => Arc::new(UnverifiedTls::new(chain, &provider)),
        };
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let config = match &wish.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = client_certificate::read(identity)?;
                let accepted = builder.with_client_auth_cert(chain, key);
                accepted.map_err(|error| OpenError::BadClientCertificate {
                    file: identity.certificate.clone(),
                    detail: format!("it does not go with the key in {}: {error}", identity.key.display()),
                })?
            }
        };
        Ok(MakeRustlsConnect::new(config))
    }

    /// Trusted certificates: those in the file, or the machine's.
    fn trusted(file: Option<&Path>) -> Result<RootCertStore, OpenError> {
        let mut roots = RootCertStore::empty();
        let Some(file) = file else {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            return match roots.is_empty() {
                true => Err(OpenError::NobodyTrusted),
                false => Ok(roots),
            };
        };
        let unusable = |error: &dyn std::fmt::Display| OpenError::BadRootCertificate {
            file: file.to_owned(),
            detail: error.to_string(),
        };
        for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unusable(&error))? {
            roots.add(certificate.map_err(|error| unusable(&error))?).map_err(|error| unusable(&error))?;
        }
        match roots.is_empty() {
            true => Err(unusable(&"it holds no certificate")),
            false => Ok(roots),
        }
    }

    /// Verifies nothing, or the signature without the host name, as the weaker modes require.
    #[derive(Debug)]
    struct UnverifiedTls {
        chain: Option<Arc<WebPkiServerVerifier>>,
        algorithms: WebPkiSupportedAlgorithms,
    }

    impl UnverifiedTls {
        fn new(chain: Option<Arc<WebPkiServerVerifier>>, provider: &CryptoProvider) -> Self {
            UnverifiedTls { chain, algorithms: provider.signature_verification_algorithms }
        }
    }

    impl ServerCertVerifier for UnverifiedTls {
        fn verify_server_cert(
            &self,
            certificate: &CertificateDer<'_>,
            between: &[CertificateDer<'_>],
            server: &ServerName<'_>,
            ocsp: &[u8],
            now: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
            match chain.verify_server_cert(certificate, between, server, ocsp, now) {
                // The name is checked last, so everything else is valid.
                Err(Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                )) => Ok(ServerCertVerified::assertion()),
                verdict => verdict,
            }
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, certificate, signed, &self.algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, certificate, signed, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(url: &str) -> (String, TlsSettings) {
        let (left, taken) = UrlParameters::out_of(url).unwrap();
        (left, taken.into_wish(SslMode::Prefer).unwrap())
    }

    #[test]
    fn only_what_concerns_encryption_is_taken_out_of_a_url() {
        let (left, wanted) =
            wish("postgres://h/db?sslmode=verify-full&connect_timeout=1&sslrootcert=%2Fa%20b.pem");
        assert_eq!(left, "postgres://h/db?connect_timeout=1");
        assert_eq!(
            wanted,
            TlsSettings { mode: Mode::VerifyFull, root: Some("/a b.pem".into()), identity: None }
        );
        let (left, wanted) = wish("postgres://h/db?sslmode=disable");
        assert_eq!((left.as_str(), wanted.mode), ("postgres://h/db", Mode::Disable));
        assert_eq!(wish("postgres://h/db").1, TlsSettings { mode: Mode::Prefer, root: None, identity: None });
        assert_eq!(wish("postgres://h/db?sslmode=require").1.mode, Mode::Require);
        assert_eq!(wish("postgres://h/db?sslmode=require&sslrootcert=a").1.mode, Mode::VerifyCa);
        assert!(matches!(UrlParameters::out_of("postgres://h/db?sslmode=often"), Err(OpenError::BadUrl)));
    }

    #[test]
    fn a_client_certificate_is_named_with_its_key() {
        let (left, wanted) = wish("postgres://h/db?sslcert=%2Fa%20b.crt&sslkey=/c.key&connect_timeout=1");
        assert_eq!(left, "postgres://h/db?connect_timeout=1");
        let identity = Identity { certificate: "/a b.crt".into(), key: "/c.key".into() };
        assert_eq!(wanted.identity, Some(identity));
        for (query, missing) in [("sslcert=a", "sslkey"), ("sslkey=a", "sslcert")] {
            let (_, taken) = UrlParameters::out_of(&format!("postgres://h/db?{query}")).unwrap();
            let error = taken.into_wish(SslMode::Prefer).unwrap_err().to_string();
            assert!(error.contains(&format!("add {missing}=FILE")), "{error}");
        }
    }

    /// An unusual spelling must not weaken the required encryption.
    #[test]
    fn no_wish_is_passed_over() {
        let (left, wanted) = wish("postgres://ann:pass?word&sslmode=disable@h/db?sslmode=verify-full");
        assert_eq!(left, "postgres://ann:pass?word&sslmode=disable@h/db");
        assert_eq!(wanted.mode, Mode::VerifyFull);
        for odd in ["host=h user=ann sslmode=require", "postgres://h/db?ssl%6Dode=require"] {
            let options = crate::PostgresOptions::default();
            let configured = crate::connect::configure(odd, &options);
            match cfg!(feature = "tls") {
                true => assert_eq!(configured.unwrap().config.get_ssl_mode(), SslMode::Require, "{odd}"),
                false => assert!(matches!(configured, Err(OpenError::WithoutTls { .. })), "{odd}"),
            }
        }
    }
}
