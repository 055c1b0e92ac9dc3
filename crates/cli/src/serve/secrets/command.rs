//! Secrets that a program of the operator prints: the way to a vault or a KMS.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use secrecy::{ExposeSecret, SecretString};
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::limits::{
    KEEP_SECRET_OF_COMMAND_FOR, MAX_SECRET_BYTES, MAX_SECRET_COMMANDS_AT_ONCE, MAX_SECRETS_OF_COMMAND_KEPT,
    SECRET_COMMAND_TIMEOUT,
};

/// Exit status of a program that has no such secret.
const NO_SUCH_SECRET: i32 = 3;

/// Runs a program with the workspace and the name of a secret as arguments. It prints the secret.
pub(super) struct SecretCommand {
    program: PathBuf,
    keep_for: Duration,
    turns: Semaphore,
    kept: Mutex<HashMap<Place, Kept>>,
}

/// Workspace and name.
type Place = (String, String);

struct Kept {
    at: Instant,
    secret: Option<SecretString>,
}

impl SecretCommand {
    pub(super) fn new(program: PathBuf) -> Self {
        SecretCommand {
            program,
            keep_for: KEEP_SECRET_OF_COMMAND_FOR,
            turns: Semaphore::new(MAX_SECRET_COMMANDS_AT_ONCE),
            kept: Mutex::default(),
        }
    }

    /// The secret, or `None` if the program has none of this name. What it said is remembered for a
    /// short while, so that a rotation is seen soon and the program is not asked for each request.
    pub(super) async fn find(&self, owner: &str, name: &str) -> Result<Option<String>, String> {
        let place = (owner.to_owned(), name.to_owned());
        if let Some(kept) = self.find_kept(&place) {
            return Ok(kept);
        }
        let _turn = self.turns.acquire().await.map_err(|_| "cannot be asked for".to_owned())?;
        // Another caller may have asked since.
        if let Some(kept) = self.find_kept(&place) {
            return Ok(kept);
        }
        let found = match timeout(SECRET_COMMAND_TIMEOUT, self.run(owner, name)).await {
            Ok(found) => found?,
            Err(_) => return Err(format!("did not come from the command within {SECRET_COMMAND_TIMEOUT:?}")),
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_SECRETS_OF_COMMAND_KEPT {
            kept.clear();
        }
        kept.insert(place, Kept { at: Instant::now(), secret: found.clone().map(SecretString::from) });
        Ok(found)
    }

    fn find_kept(&self, place: &Place) -> Option<Option<String>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.get(place).filter(|kept| kept.at.elapsed() < self.keep_for)?;
        Some(kept.secret.as_ref().map(|secret| secret.expose_secret().to_owned()))
    }

    async fn run(&self, owner: &str, name: &str) -> Result<Option<String>, String> {
        let mut child = Command::new(&self.program)
            .args([owner, name])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot be asked for: the command does not start: {error}"))?;
        let mut bytes = Vec::new();
        if let Some(out) = child.stdout.take() {
            let read = out.take(MAX_SECRET_BYTES + 1).read_to_end(&mut bytes).await;
            read.map_err(|error| format!("cannot be read from the command: {error}"))?;
        }
        if bytes.len() as u64 > MAX_SECRET_BYTES {
            return Err(format!("has more than {MAX_SECRET_BYTES} bytes"));
        }
        // Its output may be a part of a secret, so no error shows it.
        let status = child.wait().await.map_err(|error| format!("did not come from the command: {error}"))?;
        match status.code() {
            Some(0) => {
                let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
                match text.trim_end_matches(['\r', '\n']) {
                    "" => Err("is empty, as the command prints it".into()),
                    secret => Ok(Some(secret.to_owned())),
                }
            }
            Some(NO_SUCH_SECRET) => Ok(None),
            _ => Err(format!("did not come from the command, which ended with {status}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;

    fn program(folder: &Path, script: &str) -> SecretCommand {
        let path = folder.join("vault");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        SecretCommand::new(path)
    }

    #[tokio::test]
    async fn a_command_is_asked_for_a_secret_by_workspace_and_name_and_not_for_each_use() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let script = format!("echo \"$1/$2\" >> {}\n[ $2 = bank ] || exit 3\necho \"of $1\"", log.display());
        let command = program(folder.path(), &script);
        for _ in 0..3 {
            assert_eq!(command.find("acme", "bank").await, Ok(Some("of acme".into())));
            assert_eq!(command.find("acme", "tax").await, Ok(None));
        }
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "acme/bank\nacme/tax\n");
        let forgetful = SecretCommand { keep_for: Duration::ZERO, ..command };
        forgetful.find("acme", "bank").await.unwrap();
        assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 3, "a rotation is seen");
    }

    #[tokio::test]
    async fn a_command_that_fails_says_nothing_of_what_it_printed_and_is_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        for (script, why) in [
            ("echo s3cret; exit 1", "exit status: 1"),
            ("echo", "empty"),
            ("printf '\\377'", "UTF-8"),
            ("head -c 70000 /dev/zero | tr '\\0' x", "more than"),
        ] {
            let command = program(folder.path(), script);
            let failure = command.find("acme", "bank").await.unwrap_err();
            assert!(failure.contains(why) && !failure.contains("s3cret"), "{script}: {failure}");
            assert!(command.kept.lock().unwrap().is_empty());
        }
        let absent = SecretCommand::new(folder.path().join("absent"));
        assert!(absent.find("acme", "bank").await.unwrap_err().contains("does not start"));
    }
}
