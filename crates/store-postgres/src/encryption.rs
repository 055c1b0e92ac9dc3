//! What a URL asks for in the way of encryption: `sslmode` and `sslrootcert`, with the meaning they have for `psql`.
//!
//! The driver knows neither the file nor the modes that check a certificate, so both are taken out of the URL before it sees it.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use tokio_postgres::config::SslMode;

use crate::open_error::OpenError;

#[cfg(not(feature = "tls"))]
pub(crate) use plain::{Tls, connector};
#[cfg(feature = "tls")]
pub(crate) use rustls_connector::{Tls, connector};

/// How much is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// None.
    Disable,
    /// If the server can; nothing is checked, so this keeps out only those who listen.
    Prefer,
    /// Always; the certificate is checked only if a file to check it by is named.
    Require,
    /// The certificate must be signed by one that is trusted.
    VerifyCa,
    /// And it must be that of the host.
    VerifyFull,
}

/// What a URL asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) mode: Mode,
    /// Trusted instead of what the machine trusts.
    pub(crate) root: Option<PathBuf>,
}

/// What was taken out of a URL.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    mode: Option<Mode>,
    root: Option<PathBuf>,
}

impl Taken {
    /// Takes it out; answers also with what is left.
    pub(crate) fn out_of(url: &str) -> Result<(String, Taken), OpenError> {
        let mut taken = Taken::default();
        // As the driver reads it: what stands before the first `@` is the password, whatever it looks like.
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
                _ => left.push(pair),
            }
        }
        let left = match left.is_empty() {
            true => before.to_owned(),
            false => format!("{before}?{}", left.join("&")),
        };
        Ok((left, taken))
    }

    /// The wish, given what the driver has understood of the rest: it reads other forms of URL, and nothing said there is lost.
    pub(crate) fn into_wish(self, understood: SslMode) -> Wish {
        let mode = self.mode.unwrap_or(match understood {
            SslMode::Disable => Mode::Disable,
            SslMode::Prefer => Mode::Prefer,
            // Also whatever the driver may learn one day.
            _ => Mode::Require,
        });
        // Whoever names a file wants it to count.
        let mode = if mode == Mode::Require && self.root.is_some() { Mode::VerifyCa } else { mode };
        Wish { mode, root: self.root }
    }
}

impl Wish {
    /// What the driver is told.
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
    use super::{Mode, OpenError, Wish};

    /// What connections are made with.
    pub(crate) type Tls = tokio_postgres::NoTls;

    pub(crate) fn connector(wish: &Wish, place: &str) -> Result<Tls, OpenError> {
        match wish.mode {
            Mode::Disable | Mode::Prefer => Ok(tokio_postgres::NoTls),
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => {
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

    use super::{Mode, OpenError, Wish};

    /// What connections are made with.
    pub(crate) type Tls = MakeRustlsConnect;

    pub(crate) fn connector(wish: &Wish, place: &str) -> Result<Tls, OpenError> {
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
            (_, chain) => Arc::new(Lenient::new(chain, &provider)),
        };
        let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        Ok(MakeRustlsConnect::new(config))
    }

    /// Whom to trust: those in the file, or those whom the machine trusts.
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

    /// Checks no certificate, or whose signature it bears but not whose it is: what the weaker modes ask for.
    #[derive(Debug)]
    struct Lenient {
        chain: Option<Arc<WebPkiServerVerifier>>,
        algorithms: WebPkiSupportedAlgorithms,
    }

    impl Lenient {
        fn new(chain: Option<Arc<WebPkiServerVerifier>>, provider: &CryptoProvider) -> Self {
            Lenient { chain, algorithms: provider.signature_verification_algorithms }
        }
    }

    impl ServerCertVerifier for Lenient {
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
                // The name is looked at last, so everything else is in order.
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

    fn wish(url: &str) -> (String, Wish) {
        let (left, taken) = Taken::out_of(url).unwrap();
        (left, taken.into_wish(SslMode::Prefer))
    }

    #[test]
    fn only_what_concerns_encryption_is_taken_out_of_a_url() {
        let (left, wanted) =
            wish("postgres://h/db?sslmode=verify-full&connect_timeout=1&sslrootcert=%2Fa%20b.pem");
        assert_eq!(left, "postgres://h/db?connect_timeout=1");
        assert_eq!(wanted, Wish { mode: Mode::VerifyFull, root: Some("/a b.pem".into()) });
        let (left, wanted) = wish("postgres://h/db?sslmode=disable");
        assert_eq!((left.as_str(), wanted.mode), ("postgres://h/db", Mode::Disable));
        assert_eq!(wish("postgres://h/db").1, Wish { mode: Mode::Prefer, root: None });
        assert_eq!(wish("postgres://h/db?sslmode=require").1.mode, Mode::Require);
        assert_eq!(wish("postgres://h/db?sslmode=require&sslrootcert=a").1.mode, Mode::VerifyCa);
        assert!(matches!(Taken::out_of("postgres://h/db?sslmode=often"), Err(OpenError::BadUrl)));
    }

    /// Nothing that looks odd may weaken what is asked for.
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
