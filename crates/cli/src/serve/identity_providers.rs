//! The file with the identity providers.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use hapax_server::PeopleOptions;
use secrecy::SecretString;

use crate::bounded_file;
use crate::limits::{MAX_CLIENT_SECRET_BYTES, MAX_IDENTITY_PROVIDERS_BYTES};

/// Reads the file and the secrets that it names. Their paths start in its folder.
pub(super) fn read(path: &Path) -> Result<PeopleOptions> {
    let about = || format!("identity-providers: {}", path.display());
    let text = bounded_file::read_text(path, MAX_IDENTITY_PROVIDERS_BYTES).with_context(about)?;
    let mut options: PeopleOptions = toml::from_str(&text).with_context(about)?;
    options.check().with_context(about)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    for provider in &mut options.providers {
        let Some(file) = &provider.client_secret_file else { continue };
        let file = folder.join(file);
        let about = || format!("{}: client-secret-file: {}", about(), file.display());
        let secret = bounded_file::read_text(&file, MAX_CLIENT_SECRET_BYTES).with_context(about)?;
        // Editors end files with a line end, which is not part of the secret.
        let secret = secret.trim_end();
        ensure!(!secret.is_empty(), "{}: the file is empty", about());
        provider.client_secret = Some(SecretString::from(secret));
    }
    Ok(options)
}

/// Files of the secrets that the file at `path` names.
pub(super) fn client_secret_files(path: Option<&Path>, options: Option<&PeopleOptions>) -> Vec<PathBuf> {
    let folder = path.and_then(Path::parent).unwrap_or(Path::new(""));
    let providers = options.map(|options| options.providers.as_slice()).unwrap_or_default();
    providers
        .iter()
        .filter_map(|provider| provider.client_secret_file.as_ref())
        .map(|file| folder.join(file))
        .collect()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    const SOUND: &str = r#"
public-url = "https://hapax.example.com"

[[provider]]
name = "corp"
label = "Corp"
issuer = "https://login.example.com/realms/corp"
client-id = "hapax"
client-secret-file = "secret"
audiences = ["hapax-api"]
role-claim = "realm_access.roles"

[[provider.rule]]
value = "support"
workspace = "acme"
role = "operator"
payloads = false

[[provider.rule]]
value = "leads"
workspace = "acme"
role = "manager"
requester = "admin"
"#;

    fn read_text(text: &str) -> Result<PeopleOptions> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), "s3cret\n").unwrap();
        let path = folder.path().join("identity.toml");
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn a_file_names_providers_rules_and_secrets() {
        let options = read_text(SOUND).unwrap();
        let provider = &options.providers[0];
        assert_eq!(provider.client_secret.as_ref().unwrap().expose_secret(), "s3cret");
        assert_eq!(provider.shown_name(), "Corp");
        assert!(!provider.rules[0].payloads && provider.rules[1].payloads);
        assert_eq!(provider.name_claim, "email");
        assert!(!format!("{options:?}").contains("s3cret"));
    }

    #[test]
    fn what_is_wrong_in_a_file_is_named() {
        for (from, to, named) in [
            ("client-id", "client", "client"),
            ("https://login", "http://login", "issuer"),
            ("\"operator\"", "\"boss\"", "boss"),
            ("\"secret\"", "\"absent\"", "client-secret-file"),
            ("https://hapax.example.com", "https://hapax.example.com/x", "public-url"),
        ] {
            let error = format!("{:#}", read_text(&SOUND.replacen(from, to, 1)).unwrap_err());
            assert!(error.contains(named), "{to}: {error}");
        }
    }
}
