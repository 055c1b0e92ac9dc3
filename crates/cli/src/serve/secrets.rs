//! Secrets that documents name: from the environment, or from a folder with one file for each. Each belongs to a workspace.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use hapax::{Failure, WorkspaceId};
use hapax_documents::{Secrets, UNKNOWN_SECRET};

use crate::api_key::is_open_to_others;
use crate::bounded_file;
use crate::limits::{MAX_SECRET_BYTES, MAX_SECRET_WARNINGS};
use crate::output::say;

/// What stands in the place of a workspace for secrets that all of them may use.
const SHARED: &str = "_shared";

/// `HAPAX_SECRET_<WORKSPACE>__<NAME>` in the environment, then `<folder>/<workspace>/<name>`; then the same for all workspaces.
pub(super) struct NamedSecrets(Arc<Sources>);

struct Sources {
    folder: Option<PathBuf>,
    environment: fn(&str) -> Option<OsString>,
    /// Files that were warned about.
    warned: Mutex<BTreeSet<PathBuf>>,
}

impl NamedSecrets {
    pub(super) fn new(folder: Option<PathBuf>) -> Self {
        Self::within(folder, |name| std::env::var_os(name))
    }

    fn within(folder: Option<PathBuf>, environment: fn(&str) -> Option<OsString>) -> Self {
        NamedSecrets(Arc::new(Sources { folder, environment, warned: Mutex::default() }))
    }
}

#[async_trait]
impl Secrets for NamedSecrets {
    async fn get_secret(&self, workspace: &WorkspaceId, name: &str) -> Result<String, Failure> {
        let (sources, workspace, name) = (self.0.clone(), workspace.to_string(), name.to_owned());
        // Files are read, and one of them may be on a network.
        let got = tokio::task::spawn_blocking(move || sources.get(&workspace, &name)).await;
        got.unwrap_or_else(|_| Err(Failure::retryable("the secret was not read to its end")))
    }
}

impl Sources {
    fn get(&self, workspace: &str, name: &str) -> Result<String, Failure> {
        if !is_plain(name) {
            return Err(Failure::permanent("the name of a secret is made of letters, digits, - and _")
                .with_code(UNKNOWN_SECRET));
        }
        // A workspace of this name would own what all may use.
        let own = Some(workspace).filter(|workspace| *workspace != SHARED && is_plain(workspace));
        for owner in own.into_iter().chain([SHARED]) {
            if let Some(secret) = self.find(owner, name)? {
                return Ok(secret);
            }
        }
        // It may be put there a moment later, so the step is tried again.
        let offered = match own.and_then(|own| variable(own, name)) {
            Some(variable) => format!("set {variable}, or put it into"),
            None => "put it into".to_owned(),
        };
        Err(Failure::retryable(format!(
            "the workspace {workspace} has no secret {name:?}: {offered} {workspace}/{name} in the folder of secrets"
        ))
        .with_code(UNKNOWN_SECRET))
    }

    fn find(&self, owner: &str, name: &str) -> Result<Option<String>, Failure> {
        // Whoever put it there may mend it, so the step is tried again.
        let unusable = |why: &str| Failure::retryable(format!("the secret {name:?} of {owner} {why}"));
        if let Some(secret) = variable(owner, name).and_then(|variable| (self.environment)(&variable)) {
            return secret.into_string().map(Some).map_err(|_| unusable("is not UTF-8"));
        }
        let Some(folder) = &self.folder else { return Ok(None) };
        let path = folder.join(owner).join(name);
        let is_absent =
            |error: &io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
        if std::fs::metadata(&path).is_err_and(|error| is_absent(&error)) {
            return Ok(None);
        }
        let text = bounded_file::read_text(&path, MAX_SECRET_BYTES)
            .map_err(|error| unusable(&format!("cannot be used: {}", error.root_cause())))?;
        if is_open_to_others(&path) {
            self.warn(path);
        }
        // Editors end files with a line end, which is never meant.
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }

    /// Once for each file, however often it is read.
    fn warn(&self, path: PathBuf) {
        let mut warned = self.warned.lock().expect("no holder panics");
        if warned.len() < MAX_SECRET_WARNINGS && !warned.contains(&path) {
            say(&format!(
                "hapax: warning: others on this machine can read {0}; close it with: chmod 600 {0}",
                path.display()
            ));
            warned.insert(path);
        }
    }
}

/// A name of one file or folder, and no way out of where it is looked for.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(plain)
}

/// The variable of a secret; none for a workspace that might have to share it with another of nearly the same name.
fn variable(owner: &str, name: &str) -> Option<String> {
    let is_kept_apart = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let spelled = |text: &str| text.to_ascii_uppercase().replace(['-', '.'], "_");
    (owner == SHARED || owner.split('-').all(is_kept_apart))
        .then(|| format!("HAPAX_SECRET_{}__{}", spelled(owner), spelled(name)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;

    fn put(folder: &Path, name: &str, secret: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, secret).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    async fn get(secrets: &NamedSecrets, workspace: &str, name: &str) -> Result<String, Failure> {
        secrets.get_secret(&WorkspaceId::new(workspace).unwrap(), name).await
    }

    /// RELIABILITY, tenancy: no workspace is given what another calls by the same name, nor what lies about in the folder.
    #[tokio::test]
    async fn a_workspace_is_given_its_own_secrets_and_those_shared_on_purpose() {
        let folder = tempfile::tempdir().unwrap();
        for (name, secret) in [
            ("acme/bank", "of acme\n"),
            ("globex/bank", "of globex"),
            ("_shared/mail", "of all\r\n"),
            ("_shared/bank", "of all"),
            ("lying-about", "of nobody"),
        ] {
            put(folder.path(), name, secret);
        }
        let secrets = NamedSecrets::within(Some(folder.path().to_owned()), |_| None);
        assert_eq!(get(&secrets, "acme", "bank").await.unwrap(), "of acme");
        assert_eq!(get(&secrets, "globex", "bank").await.unwrap(), "of globex");
        assert_eq!(get(&secrets, "globex", "mail").await.unwrap(), "of all");
        assert_eq!(get(&secrets, "initech", "bank").await.unwrap(), "of all", "its own would go before it");
        for workspace in ["acme", "..", ".", "_shared"] {
            let failure = get(&secrets, workspace, "lying-about").await.unwrap_err();
            assert_eq!(failure.code(), Some("unknown_secret"), "{workspace}");
        }
        let failure = get(&secrets, "initech", "tax").await.unwrap_err();
        assert!(failure.message().contains("set HAPAX_SECRET_INITECH__TAX"), "{}", failure.message());
        assert!(failure.message().contains("initech/tax in the folder"), "{}", failure.message());
    }

    #[tokio::test]
    async fn the_environment_goes_before_the_folder_and_is_a_workspaces_own_as_well() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "acme-eu/bank-key", "file");
        let secrets = NamedSecrets::within(Some(folder.path().to_owned()), |name| {
            let secret = match name {
                "HAPAX_SECRET_ACME_EU__BANK_KEY" => "of acme-eu",
                "HAPAX_SECRET__SHARED__MAIL" => "of all",
                "HAPAX_SECRET_BANK_KEY" => "of nobody",
                _ => return None,
            };
            Some(secret.into())
        });
        assert_eq!(get(&secrets, "acme-eu", "bank-key").await.unwrap(), "of acme-eu");
        assert_eq!(get(&secrets, "acme-eu", "mail").await.unwrap(), "of all");
        for other in ["acme.eu", "acme_eu", "Acme-eu", "acme--eu", "acme", "globex", "-acme-eu"] {
            let failure = get(&secrets, other, "bank-key").await.unwrap_err();
            assert_eq!(failure.code(), Some("unknown_secret"), "{other}");
        }
    }

    /// Neither a name nor a workspace leads out of the folder.
    #[tokio::test]
    async fn a_secret_is_read_from_its_file_and_from_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["acme/bank", "acme/sub/deep", "bank", "other/bank"] {
            put(folder.path(), name, "s3cret");
        }
        let secrets = NamedSecrets::within(Some(folder.path().to_owned()), |_| None);
        for name in ["", ".", "..", "../bank", "sub/deep", "../other/bank", "/etc/hostname", "absent", "sub"]
        {
            let refused = get(&secrets, "acme", name).await;
            assert!(refused.is_err(), "{name}");
        }
        let root = NamedSecrets::within(Some(folder.path().join("acme")), |_| None);
        assert!(get(&root, "..", "bank").await.is_err());
        put(folder.path(), "acme/large", &"x".repeat(MAX_SECRET_BYTES as usize + 1));
        let failure = get(&secrets, "acme", "large").await.unwrap_err();
        assert!(failure.message().contains("more than"), "{}", failure.message());
        let fifo = folder.path().join("acme/fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert!(get(&secrets, "acme", "fifo").await.is_err(), "it would be waited for");
    }

    /// RELIABILITY, CLI: credential file mode 0644.
    #[tokio::test]
    async fn a_file_that_others_can_read_is_warned_about_once() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "acme/closed", "s3cret");
        put(folder.path(), "acme/open", "s3cret");
        let open = folder.path().join("acme/open");
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).unwrap();
        let secrets = NamedSecrets::within(Some(folder.path().to_owned()), |_| None);
        for name in ["closed", "open", "open"] {
            get(&secrets, "acme", name).await.unwrap();
        }
        assert_eq!(*secrets.0.warned.lock().unwrap(), BTreeSet::from([open]));
    }
}
