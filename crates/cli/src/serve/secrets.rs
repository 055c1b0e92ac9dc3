//! Secrets that documents name: from the environment, or from a folder with one file for each.

use std::path::PathBuf;

use async_trait::async_trait;
use hapax::Failure;
use hapax_documents::Secrets;

/// Largest secret, in bytes.
const MAX_SECRET_BYTES: usize = 64 * 1024;

/// `HAPAX_SECRET_<NAME>` in the environment, then `<folder>/<name>`.
#[derive(Debug)]
pub(super) struct NamedSecrets {
    pub(super) folder: Option<PathBuf>,
}

#[async_trait]
impl Secrets for NamedSecrets {
    async fn get_secret(&self, name: &str) -> Result<String, Failure> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if name.is_empty() || name.starts_with('.') || !name.bytes().all(plain) {
            return Err(Failure::permanent("the name of a secret is made of letters, digits, - and _")
                .with_code("unknown_secret"));
        }
        let variable = format!("HAPAX_SECRET_{}", name.to_ascii_uppercase().replace(['-', '.'], "_"));
        if let Ok(secret) = std::env::var(&variable) {
            return Ok(secret);
        }
        // It may be put there a moment later, so the step is tried again.
        let absent = || {
            Failure::retryable(format!(
                "there is no secret {name:?}: set {variable}, or put it into the folder of secrets"
            ))
            .with_code("unknown_secret")
        };
        let folder = self.folder.as_ref().ok_or_else(absent)?;
        let bytes = tokio::fs::read(folder.join(name)).await.map_err(|_| absent())?;
        if bytes.len() > MAX_SECRET_BYTES {
            return Err(Failure::permanent(format!(
                "the secret {name:?} has more than {MAX_SECRET_BYTES} bytes"
            )));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| Failure::permanent(format!("the secret {name:?} is not UTF-8")))?;
        // Editors end files with a line end, which is never meant.
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_secret_is_read_from_its_file_and_from_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("bank"), "s3cret\n").unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        let secrets = NamedSecrets { folder: Some(folder.path().join("sub").join("..")) };
        assert_eq!(secrets.get_secret("bank").await.unwrap(), "s3cret");
        for name in ["", ".", "..", "../bank", "sub/../bank", "/etc/hostname", "absent"] {
            let failure = secrets.get_secret(name).await.unwrap_err();
            assert_eq!(failure.code(), Some("unknown_secret"), "{name}");
        }
    }
}
