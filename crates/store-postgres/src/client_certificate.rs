//! Client certificate and private key, read from the PEM files named by `sslcert` and `sslkey`.

use std::fs::Metadata;
use std::path::Path;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::encryption::Identity;
use crate::open_error::OpenError;

/// Reads the certificate chain, leaf first, and the private key.
pub(crate) fn read(
    identity: &Identity,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), OpenError> {
    let file = &identity.certificate;
    let unusable = |detail: String| OpenError::BadClientCertificate { file: file.clone(), detail };
    let text = std::fs::read(file).map_err(|error| unusable(error.to_string()))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|error| unusable(error.to_string()))?;
    if chain.is_empty() {
        return Err(unusable("it holds no certificate in PEM form".into()));
    }
    Ok((chain, read_key(&identity.key)?))
}

fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, OpenError> {
    let unusable = |detail: String| OpenError::BadClientKey { file: file.to_owned(), detail };
    let metadata = std::fs::metadata(file).map_err(|error| unusable(error.to_string()))?;
    if !metadata.is_file() {
        return Err(unusable("it is not a regular file".into()));
    }
    check_access(&metadata).map_err(unusable)?;
    let text = std::fs::read(file).map_err(|error| unusable(error.to_string()))?;
    if String::from_utf8_lossy(&text).contains("ENCRYPTED") {
        let how = "openssl pkey -in FILE -out PLAIN";
        return Err(unusable(format!(
            "it is encrypted with a passphrase: write it without one, as with `{how}`"
        )));
    }
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|error| unusable(format!("it holds no private key in PEM form: {error}")))
}

/// Checks the mode like `psql`: 0600, or 0640 if root owns the file.
#[cfg(unix)]
fn check_access(metadata: &Metadata) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let mode = metadata.mode() & 0o777;
    let others = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    match mode & others {
        0 => Ok(()),
        _ => Err(format!("others may read or change it (mode {mode:03o}): run `chmod 600` on it")),
    }
}

#[cfg(not(unix))]
fn check_access(_: &Metadata) -> Result<(), String> {
    Ok(())
}
