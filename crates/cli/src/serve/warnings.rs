//! Warnings about files of a server that protect less than they seem to.

use std::path::{Path, PathBuf};

use super::settings::Settings;
use crate::api_key::is_open_to_others;
use crate::output::tables::plain;
use crate::store_url::has_password;

/// Warnings about the key files, and about where they are.
pub(super) fn list_warnings(settings: &Settings, store: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let files = &settings.secret_files;
    let with_password = files.config.as_ref().filter(|_| has_password(store));
    let secret = settings.tls_key.iter().chain(&files.sealing_keys).chain(&files.client_secrets);
    for path in secret.chain(with_password).filter(|path| is_open_to_others(path)) {
        let path = shown(path);
        warnings
            .push(format!("others on this machine can read {path}, which has a secret; chmod 600 {path}"));
    }
    let Some(database) = database_folder(store) else { return warnings };
    for path in files.sealing_keys.iter().filter(|path| is_within(path, &database)) {
        warnings.push(format!(
            "the sealing key {} lies beside the database: whoever copies the folder can open every sealed secret; \
             keep it on another disk, or let a secret store mount it",
            shown(path)
        ));
    }
    warnings
}

fn shown(path: &Path) -> String {
    plain(&path.display().to_string())
}

/// The folder of an SQLite database.
fn database_folder(store: &str) -> Option<PathBuf> {
    let path = store.strip_prefix("sqlite:")?;
    let path = Path::new(path.split('?').next().unwrap_or(path));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    std::fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()
}

/// Is the file in this folder, or in one below it? Links are followed: they lead to where the bytes are.
fn is_within(path: &Path, folder: &Path) -> bool {
    std::fs::canonicalize(path).is_ok_and(|path| path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::settings::ServeOptions;
    use super::*;

    fn put(path: &Path, text: &str, mode: u32) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn warned(options: ServeOptions, store: &str) -> Vec<String> {
        list_warnings(&Settings::gather(options).unwrap(), store)
    }

    #[test]
    fn files_with_secrets_that_others_can_read_are_warned_about() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        for (mode, expected) in [(0o644, 4), (0o640, 4), (0o600, 0)] {
            put(&file("seal"), &"k".repeat(44), mode);
            put(&file("tls.pem"), "", mode);
            put(&file("client-secret"), "s3cret", mode);
            put(&file("hapax.toml"), "store = \"postgres://u:secret@h/d\"", mode);
            let providers = "public-url = \"https://h.example\"\n[[provider]]\nname = \"corp\"\n\
                             issuer = \"https://login.example\"\nclient-id = \"h\"\nclient-secret-file = \"client-secret\"\n\
                             [[provider.rule]]\nvalue = \"support\"\nworkspace = \"acme\"\nrole = \"operator\"\n";
            put(&file("identity.toml"), providers, 0o644);
            let options = ServeOptions {
                config: Some(file("hapax.toml")),
                tls_cert: Some(file("chain.pem")),
                tls_key: Some(file("tls.pem")),
                sealing_key_file: Some(vec![file("seal")]),
                identity_providers: Some(file("identity.toml")),
                ..ServeOptions::default()
            };
            let warnings = warned(options, "postgres://u:secret@h/d");
            assert_eq!(warnings.len(), expected, "{mode:o}: {warnings:?}");
        }
    }

    #[test]
    fn a_sealing_key_beside_the_database_is_warned_about() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let store = format!("sqlite:{}?x=1", folder.path().join("data/hapax.db").display());
        let keys = [folder.path().join("data/seal"), folder.path().join("data/keys/seal")];
        let apart = [folder.path().join("seal"), elsewhere.path().join("seal")];
        for key in keys.iter().chain(&apart) {
            put(key, &"k".repeat(44), 0o600);
        }
        let link = elsewhere.path().join("link");
        std::os::unix::fs::symlink(&keys[0], &link).unwrap();
        let options = |key: &PathBuf| ServeOptions {
            sealing_key_file: Some(vec![key.clone()]),
            ..ServeOptions::default()
        };
        for key in keys.iter().chain([&link]) {
            let warnings = warned(options(key), &store);
            assert!(
                warnings.len() == 1 && warnings[0].contains("beside the database"),
                "{key:?}: {warnings:?}"
            );
        }
        for key in &apart {
            assert_eq!(warned(options(key), &store), Vec::<String>::new(), "{key:?}");
        }
        assert_eq!(warned(options(&keys[0]), "postgres://h/d"), Vec::<String>::new());
    }
}
