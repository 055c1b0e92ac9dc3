//! Exit codes: one table for help, docs and code.

use std::fmt;

use anyhow::Error;
use hapax_api::Code;
use hapax_api::client::ClientError;

use crate::interrupts::Interrupted;

/// Each code and its meaning.
pub(crate) const EXIT_CODES: &[(u8, &str)] = &[
    (0, "it worked"),
    (1, "it failed or was refused; standard error says why and what to do"),
    (2, "the command line was not understood"),
    (3, "the server cannot be reached"),
    (4, "not authorised: no API key, or one that may not do this (401, 403)"),
    (5, "it does not exist (404)"),
    (6, "it conflicts with the current state, or breaks a rule (409, 410, 412, 422)"),
    (7, "not now; try again later (408, 429, 502, 503, 504), or the run or operation has not ended"),
    (8, "another server answers: a TLS error, a redirect, or not Hapax"),
    (129, "a hangup (SIGHUP) stopped it"),
    (130, "Ctrl-C (SIGINT) stopped it; twice stops it at once"),
    (143, "SIGTERM stopped it"),
];

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const UNREACHABLE: u8 = 3;
const NOT_AUTHORISED: u8 = 4;
const NOT_FOUND: u8 = 5;
const CONFLICT: u8 = 6;
const LATER: u8 = 7;
const NOT_THE_SERVER: u8 = 8;

/// The table, for help.
pub(crate) fn table() -> String {
    let rows: Vec<String> = EXIT_CODES.iter().map(|(code, says)| format!("  {code:>3}  {says}")).collect();
    format!("Exit codes:\n{}", rows.join("\n"))
}

/// The command line asks for what cannot be done as it is asked for.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

/// No API key was given, or it cannot be read.
#[derive(Debug)]
pub(crate) struct MissingApiKey(pub(crate) String);

/// There is no such thing on the server.
#[derive(Debug)]
pub(crate) struct NotFound(pub(crate) String);

/// The run, promise or operation has not ended.
#[derive(Debug)]
pub(crate) struct NotFinished(pub(crate) String);

macro_rules! said {
    ($($kind:ident),*) => {
        $(
            impl fmt::Display for $kind {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(&self.0)
                }
            }

            impl std::error::Error for $kind {}
        )*
    };
}

said!(UsageError, MissingApiKey, NotFinished, NotFound);

/// Exit code for `error`.
pub(crate) fn exit_code(error: &Error) -> u8 {
    if let Some(interrupted) = error.downcast_ref::<Interrupted>() {
        return interrupted.exit_code();
    }
    if let Some(error) = error.downcast_ref::<ClientError>() {
        return code_of_client_error(error);
    }
    if error.is::<UsageError>() {
        USAGE
    } else if error.is::<MissingApiKey>() {
        NOT_AUTHORISED
    } else if error.is::<NotFound>() {
        NOT_FOUND
    } else if error.is::<NotFinished>() {
        LATER
    } else {
        FAILED
    }
}

fn code_of_client_error(error: &ClientError) -> u8 {
    match error {
        ClientError::Setup(_) => USAGE,
        ClientError::Unreachable { .. } => UNREACHABLE,
        ClientError::Tls(_) | ClientError::Redirected { .. } => NOT_THE_SERVER,
        ClientError::Refused(problem) if has_failed(problem.code) => FAILED,
        ClientError::Refused(problem) => code_of_status(problem.status),
        ClientError::Protocol { status: Some(status), .. } => code_of_status(*status),
        ClientError::Protocol { status: None, .. } => NOT_THE_SERVER,
    }
}

/// Was it done, and did it fail? That is not a conflict, and waiting does not help.
fn has_failed(code: Code) -> bool {
    matches!(code, Code::ActionFailed | Code::ActionPanicked)
}

fn code_of_status(status: u16) -> u8 {
    match status {
        401 | 403 => NOT_AUTHORISED,
        404 => NOT_FOUND,
        409 | 410 | 412 | 422 => CONFLICT,
        408 | 429 | 502..=504 => LATER,
        _ => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use hapax_api::{ERRORS, Problem};

    use super::*;

    fn of(error: ClientError) -> u8 {
        exit_code(&Error::from(error).context("while something was done"))
    }

    #[test]
    fn each_kind_of_trouble_has_a_code_of_its_own() {
        let unreachable = || ClientError::Unreachable { detail: "refused".into(), was_sent: false };
        let redirected = ClientError::Redirected { status: 302, location: "elsewhere".into() };
        assert_eq!(of(ClientError::Setup("a bad address".into())), 2);
        assert_eq!(of(unreachable()), 3);
        assert_eq!(of(ClientError::Tls("unknown issuer".into())), 8);
        assert_eq!(of(redirected), 8);
        for (status, code) in
            [(401, 4), (403, 4), (404, 5), (409, 6), (422, 6), (429, 7), (503, 7), (500, 1), (400, 1)]
        {
            let detail = String::new();
            assert_eq!(of(ClientError::Protocol { status: Some(status), detail }), code, "{status}");
        }
        assert_eq!(exit_code(&UsageError("--yes is missing".into()).into()), 2);
        assert_eq!(exit_code(&MissingApiKey("no key".into()).into()), 4);
        assert_eq!(exit_code(&NotFinished("it runs".into()).into()), 7);
        assert_eq!(exit_code(&anyhow::anyhow!("anything")), 1);
    }

    #[test]
    fn every_refusal_of_a_server_has_a_code_that_the_table_explains() {
        for kind in ERRORS {
            let code = Code::from_name(kind.code).unwrap();
            let exit = of(ClientError::Refused(Box::new(Problem::new(code, "no"))));
            assert!(exit != 0 && EXIT_CODES.iter().any(|(known, _)| *known == exit), "{}", kind.code);
        }
        let failed = ClientError::Refused(Box::new(Problem::new(Code::ActionFailed, "it failed")));
        assert_eq!(of(failed), 1, "a run that failed is no conflict");
        for (code, exit) in [
            (Code::ClaimFailed, 6),
            (Code::StepNotAllowed, 6),
            (Code::StepRejected, 6),
            (Code::OperationInDoubt, 6),
            (Code::OverrideRequired, 4),
            (Code::ActionFailed, 1),
            (Code::ActionPanicked, 1),
        ] {
            assert_eq!(of(ClientError::Refused(Box::new(Problem::new(code, "no")))), exit, "{code}");
        }
    }
}
