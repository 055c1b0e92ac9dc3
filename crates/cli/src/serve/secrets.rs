//! Secrets that documents name: from the environment, from a folder with one file for each, or from a program. Each belongs to a workspace,
//! and may be bound to the destinations it is sent to.

mod command;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use command::SecretCommand;
use hapax::{Failure, WorkspaceId};
use hapax_documents::{Destination, Secret, Secrets, UNKNOWN_SECRET, parse_destinations};
use tokio::runtime::Handle;

use super::settings::Settings;
use crate::api_key::is_open_to_others;
use crate::bounded_file;
use crate::limits::{MAX_SECRET_BYTES, MAX_SECRET_WARNINGS, MAX_SHOWN_SECRETS};
use crate::output::say;

/// Name in place of the workspace for secrets that all workspaces may use.
const SHARED: &str = "_shared";
/// How the file with the destinations of a secret ends.
const DESTINATIONS: &str = ".destinations";
/// Prefixes of the variables of secrets and of their destinations.
const SECRET: &str = "HAPAX_SECRET_";
const DESTINATIONS_OF: &str = "HAPAX_DESTINATIONS_";

/// `HAPAX_SECRET_<WORKSPACE>__<NAME>` in the environment, then `<folder>/<workspace>/<name>`, then the program; then the same for all workspaces.
pub(super) struct NamedSecrets(Arc<Sources>);

struct Sources {
    folder: Option<PathBuf>,
    environment: fn(&str) -> Option<OsString>,
    command: Option<SecretCommand>,
    /// Is a secret without destinations sent nowhere?
    bound_only: bool,
    /// Files that were warned about.
    warned: Mutex<BTreeSet<PathBuf>>,
}

impl NamedSecrets {
    /// Warns of secrets that are not bound to destinations: people who upload documents can send them anywhere.
    pub(super) fn warn_of_unbound(&self) {
        if self.0.bound_only {
            return;
        }
        let unbound = self.0.list_unbound(std::env::vars_os().map(|(name, _)| name));
        if unbound.is_empty() {
            return;
        }
        let shown: Vec<&str> = unbound.iter().map(String::as_str).take(MAX_SHOWN_SECRETS).collect();
        let more = if unbound.len() > shown.len() { ", …" } else { "" };
        say(&format!(
            "hapax: warning: {} secret(s) can be sent to any host by whoever uploads documents: {}{more}; \
             bind each to its hosts in NAME{DESTINATIONS} beside it, or in {DESTINATIONS_OF}WORKSPACE__NAME",
            unbound.len(),
            shown.join(", ")
        ));
    }

    pub(super) fn new(settings: &Settings) -> Self {
        let command = settings.secrets_command.clone().map(SecretCommand::new);
        NamedSecrets(Arc::new(Sources {
            folder: settings.secrets_dir.clone(),
            environment: |name| std::env::var_os(name),
            command,
            bound_only: settings.bound_secrets_only,
            warned: Mutex::default(),
        }))
    }

    #[cfg(test)]
    fn within(folder: Option<PathBuf>, environment: fn(&str) -> Option<OsString>) -> Self {
        let (command, bound_only) = (None, false);
        NamedSecrets(Arc::new(Sources { folder, environment, command, bound_only, warned: Mutex::default() }))
    }
}

#[async_trait]
impl Secrets for NamedSecrets {
    async fn get_secret(&self, workspace: &WorkspaceId, name: &str) -> Result<Secret, Failure> {
        let (sources, workspace, name) = (self.0.clone(), workspace.to_string(), name.to_owned());
        // Files are read, and one of them may be on a network.
        let runtime = tokio::runtime::Handle::current();
        let got = tokio::task::spawn_blocking(move || sources.get(&workspace, &name, &runtime)).await;
        got.unwrap_or_else(|_| Err(Failure::retryable("the secret was not read to its end")))
    }
}

impl Sources {
    fn get(&self, workspace: &str, name: &str, runtime: &Handle) -> Result<Secret, Failure> {
        if !is_plain(name) || name.ends_with(DESTINATIONS) {
            return Err(Failure::permanent("the name of a secret is made of letters, digits, - and _")
                .with_code(UNKNOWN_SECRET));
        }
        // A workspace of this name would own the shared secrets.
        let own = Some(workspace).filter(|workspace| *workspace != SHARED && is_plain(workspace));
        for owner in own.into_iter().chain([SHARED]) {
            if let Some(value) = self.find(owner, name, runtime)? {
                let secret = Secret::from(value);
                return Ok(match self.find_destinations(owner, name)? {
                    Some(destinations) => secret.bound_to(destinations),
                    // It can still check signatures, which sends it nowhere.
                    None if self.bound_only => secret.bound_to(Vec::new()),
                    None => secret,
                });
            }
        }
        // The file may appear a moment later, so the step is retried.
        let offered = match own.and_then(|own| variable(SECRET, own, name)) {
            Some(variable) => format!("set {variable}, or put it into"),
            None => "put it into".to_owned(),
        };
        Err(Failure::retryable(format!(
            "the workspace {workspace} has no secret {name:?}: {offered} {workspace}/{name} in the folder of secrets"
        ))
        .with_code(UNKNOWN_SECRET))
    }

    fn find(&self, owner: &str, name: &str, runtime: &Handle) -> Result<Option<String>, Failure> {
        // The operator may repair it, so the step is retried.
        let unusable = |why: &str| Failure::retryable(format!("the secret {name:?} of {owner} {why}"));
        if let Some(secret) = variable(SECRET, owner, name).and_then(|variable| (self.environment)(&variable))
        {
            return secret.into_string().map(Some).map_err(|_| unusable("is not UTF-8"));
        }
        if let Some(path) = self.folder.as_ref().map(|folder| folder.join(owner).join(name))
            && let Some(text) = read_if_there(&path).map_err(|why| unusable(&why))?
        {
            if is_open_to_others(&path) {
                self.warn(path);
            }
            // Editors end files with a line end, which is not part of the secret.
            return Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()));
        }
        match &self.command {
            Some(command) => runtime.block_on(command.find(owner, name)).map_err(|why| unusable(&why)),
            None => Ok(None),
        }
    }

    /// Destinations of the secret, if the operator set any. An unreadable list allows none: the
    /// secret is not sent.
    fn find_destinations(&self, owner: &str, name: &str) -> Result<Option<Vec<Destination>>, Failure> {
        let unusable = |why: String| {
            let text = format!("the destinations of the secret {name:?} of {owner} cannot be used: {why}");
            Failure::retryable(text).with_code("bad_destinations")
        };
        let read = |text: String| parse_destinations(&text).map_err(|bad| unusable(bad.to_string()));
        let said = variable(DESTINATIONS_OF, owner, name).and_then(|variable| (self.environment)(&variable));
        if let Some(said) = said {
            let said = said.into_string().map_err(|_| unusable("they are not UTF-8".into()))?;
            return read(said).map(Some);
        }
        let Some(folder) = &self.folder else { return Ok(None) };
        let path = folder.join(owner).join(format!("{name}{DESTINATIONS}"));
        read_if_there(&path).map_err(unusable)?.map(read).transpose()
    }

    /// Secrets that a document may send anywhere, as `<workspace>/<name>` or by their variable; at most `MAX_SECRET_WARNINGS`.
    fn list_unbound(&self, variables: impl Iterator<Item = OsString>) -> Vec<String> {
        let mut unbound = BTreeSet::new();
        for owner in self.folder.iter().flat_map(|folder| entries(folder)) {
            let names = entries(&owner).into_iter().filter(|path| path.is_file());
            for path in names.take(MAX_SECRET_WARNINGS) {
                let (Some(owner), Some(name)) = (name_of(&owner), name_of(&path)) else { continue };
                let is_secret = is_plain(name) && !name.ends_with(DESTINATIONS);
                if is_secret && matches!(self.find_destinations(owner, name), Ok(None)) {
                    unbound.insert(format!("{owner}/{name}"));
                }
            }
        }
        for variable in variables.filter_map(|variable| variable.into_string().ok()) {
            let Some(rest) = variable.strip_prefix(SECRET).filter(|rest| rest.contains("__")) else {
                continue;
            };
            if (self.environment)(&format!("{DESTINATIONS_OF}{rest}")).is_none() {
                unbound.insert(variable);
            }
        }
        unbound.into_iter().take(MAX_SECRET_WARNINGS).collect()
    }

    /// Warns once per file, however often it is read.
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

/// The text of a file, unless there is none.
fn read_if_there(path: &Path) -> Result<Option<String>, String> {
    let is_absent =
        |error: &io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    if std::fs::metadata(path).is_err_and(|error| is_absent(&error)) {
        return Ok(None);
    }
    let text = bounded_file::read_text(path, MAX_SECRET_BYTES);
    text.map(Some).map_err(|error| format!("cannot be used: {}", error.root_cause()))
}

/// Entries of a folder; none if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).take(MAX_SECRET_WARNINGS).collect()
}

fn name_of(path: &Path) -> Option<&str> {
    path.file_name().and_then(|name| name.to_str())
}

/// Returns true for the name of a file or folder that cannot lead outside its folder.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(plain)
}

/// The variable of a secret; none for a workspace that might have to share it with another of nearly the same name.
fn variable(prefix: &str, owner: &str, name: &str) -> Option<String> {
    let is_kept_apart = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let spelled = |text: &str| text.to_ascii_uppercase().replace(['-', '.'], "_");
    (owner == SHARED || owner.split('-').all(is_kept_apart))
        .then(|| format!("{prefix}{}__{}", spelled(owner), spelled(name)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::settings::ServeOptions;
    use super::*;

    fn put(folder: &Path, name: &str, secret: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, secret).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    async fn get(secrets: &NamedSecrets, workspace: &str, name: &str) -> Result<String, Failure> {
        secrets.get_secret(&WorkspaceId::new(workspace).unwrap(), name).await.map(Secret::into_value)
    }

    #[tokio::test]
    async fn a_secret_is_bound_to_what_stands_beside_it_and_unbound_ones_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("acme/bank", "s3cret"),
            ("acme/bank.destinations", "https://bank.example/v1\n"),
            ("acme/mail", "s3cret"),
            ("acme/broken", "s3cret"),
            ("acme/broken.destinations", "ftp://x"),
            ("_shared/mail", "s3cret"),
            ("_shared/mail.destinations", "mail.example"),
        ] {
            put(folder.path(), name, text);
        }
        let secrets = NamedSecrets::within(Some(folder.path().to_owned()), |name| match name {
            "HAPAX_SECRET_ACME__TAX" | "HAPAX_SECRET_ACME__FEE" => Some("s3cret".into()),
            "HAPAX_DESTINATIONS_ACME__TAX" => Some("tax.example, https://fee.example/".into()),
            _ => None,
        });
        let acme = WorkspaceId::new("acme").unwrap();
        let is_bound =
            async |name: &str| secrets.get_secret(&acme, name).await.map(|secret| secret.is_bound());
        assert_eq!(is_bound("bank").await, Ok(true));
        assert_eq!(is_bound("mail").await, Ok(false), "what is bound is the secret of all, and not its own");
        assert_eq!(is_bound("tax").await, Ok(true));
        assert_eq!(is_bound("broken").await.unwrap_err().code(), Some("bad_destinations"));
        assert_eq!(is_bound("bank.destinations").await.unwrap_err().code(), Some("unknown_secret"));
        let variables = ["HAPAX_SECRET_ACME__TAX", "HAPAX_SECRET_ACME__FEE", "HAPAX_SECRETS_DIR", "PATH"];
        let unbound = secrets.0.list_unbound(variables.iter().map(OsString::from));
        assert_eq!(unbound, ["HAPAX_SECRET_ACME__FEE", "acme/mail"]);
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

    /// The command is asked last, for the workspace and then for all of them; what it prints is bound like any other secret.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_command_gives_what_neither_the_environment_nor_the_folder_has() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "acme/bank", "of the folder");
        put(folder.path(), "acme/tax.destinations", "tax.example");
        let program = folder.path().join("vault");
        put(
            folder.path(),
            "vault",
            "#!/bin/sh\ncase $1/$2 in acme/tax|acme/bank|_shared/mail) echo \"vault $1\";; *) exit 3;; esac\n",
        );
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let settings = |bound_secrets_only| {
            let options = ServeOptions {
                secrets_dir: Some(folder.path().to_owned()),
                secrets_command: Some(program.clone()),
                bound_secrets_only: Some(bound_secrets_only),
                ..ServeOptions::default()
            };
            NamedSecrets::new(&Settings::gather(options).unwrap())
        };
        let secrets = settings(false);
        assert_eq!(get(&secrets, "acme", "bank").await.unwrap(), "of the folder");
        assert_eq!(get(&secrets, "acme", "tax").await.unwrap(), "vault acme");
        assert_eq!(get(&secrets, "globex", "mail").await.unwrap(), "vault _shared");
        assert_eq!(get(&secrets, "globex", "tax").await.unwrap_err().code(), Some("unknown_secret"));
        let acme = WorkspaceId::new("acme").unwrap();
        assert!(secrets.get_secret(&acme, "tax").await.unwrap().is_bound());
        assert!(!secrets.get_secret(&acme, "mail").await.unwrap().is_bound());
        // With bound-secrets-only what has no destinations goes nowhere, and still checks signatures.
        let mail = settings(true).get_secret(&acme, "mail").await.unwrap();
        assert!(mail.is_bound() && mail.into_value() == "vault _shared");
    }
}
