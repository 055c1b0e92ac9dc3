//! The API over gRPC: the descriptors of its services, and the status of each error code.

use crate::{Code, ErrorKind};

/// The files in `proto/` as an encoded `google.protobuf.FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!("../proto/hapax.binpb");

/// A status of gRPC, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum GrpcStatus {
    /// The request breaks a rule, whatever the state of the system.
    InvalidArgument = 3,
    /// The request did not arrive in time.
    DeadlineExceeded = 4,
    /// There is no such resource.
    NotFound = 5,
    /// There is another resource in its place.
    AlreadyExists = 6,
    /// The credential may not do this.
    PermissionDenied = 7,
    /// A limit is reached.
    ResourceExhausted = 8,
    /// The state does not allow the request, until something else changes it.
    FailedPrecondition = 9,
    /// Another request came first; this one may succeed later.
    Aborted = 10,
    /// There is no such method.
    Unimplemented = 12,
    /// The server failed.
    Internal = 13,
    /// The server cannot do it now.
    Unavailable = 14,
    /// Data is damaged.
    DataLoss = 15,
    /// No valid credential was given.
    Unauthenticated = 16,
}

impl GrpcStatus {
    /// Its name in the gRPC specification.
    pub const fn as_str(self) -> &'static str {
        match self {
            GrpcStatus::InvalidArgument => "INVALID_ARGUMENT",
            GrpcStatus::DeadlineExceeded => "DEADLINE_EXCEEDED",
            GrpcStatus::NotFound => "NOT_FOUND",
            GrpcStatus::AlreadyExists => "ALREADY_EXISTS",
            GrpcStatus::PermissionDenied => "PERMISSION_DENIED",
            GrpcStatus::ResourceExhausted => "RESOURCE_EXHAUSTED",
            GrpcStatus::FailedPrecondition => "FAILED_PRECONDITION",
            GrpcStatus::Aborted => "ABORTED",
            GrpcStatus::Unimplemented => "UNIMPLEMENTED",
            GrpcStatus::Internal => "INTERNAL",
            GrpcStatus::Unavailable => "UNAVAILABLE",
            GrpcStatus::DataLoss => "DATA_LOSS",
            GrpcStatus::Unauthenticated => "UNAUTHENTICATED",
        }
    }
}

impl Code {
    /// The gRPC status it is sent with.
    pub fn grpc_status(self) -> GrpcStatus {
        match self {
            Code::EntityExists
            | Code::DefinitionExists
            | Code::PromiseExists
            | Code::NameTaken
            | Code::WorkflowTaken
            | Code::KeyTaken
            | Code::EntityTypeTaken => GrpcStatus::AlreadyExists,
            Code::StoreBroken => GrpcStatus::DataLoss,
            // These say what the state of the system allows, not how the request is made.
            Code::IdempotencyKeyConflict
            | Code::StepRejected
            | Code::UncoveredClaimState
            | Code::TableNotAllowed => GrpcStatus::FailedPrecondition,
            Code::DefinitionLimitReached => GrpcStatus::ResourceExhausted,
            code => of_http_status(code.kind()),
        }
    }
}

/// The status of codes that have no row of their own.
fn of_http_status(kind: &ErrorKind) -> GrpcStatus {
    match (kind.status, kind.retryable) {
        (401, _) => GrpcStatus::Unauthenticated,
        (403, _) => GrpcStatus::PermissionDenied,
        (404, _) => GrpcStatus::NotFound,
        (405, _) => GrpcStatus::Unimplemented,
        (408, _) => GrpcStatus::DeadlineExceeded,
        (409, true) => GrpcStatus::Aborted,
        (409 | 410 | 412, _) => GrpcStatus::FailedPrecondition,
        (413 | 414 | 429 | 431, _) => GrpcStatus::ResourceExhausted,
        (503, _) => GrpcStatus::Unavailable,
        (500.., _) => GrpcStatus::Internal,
        _ => GrpcStatus::InvalidArgument,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_the_status_that_says_what_the_caller_may_do() {
        for code in Code::ALL {
            let (kind, status) = (code.kind(), code.grpc_status());
            let repeats = matches!(
                status,
                GrpcStatus::Aborted
                    | GrpcStatus::Unavailable
                    | GrpcStatus::ResourceExhausted
                    | GrpcStatus::DeadlineExceeded
            );
            assert!(
                repeats || !kind.retryable,
                "{code} may succeed later, and {} does not say so",
                status.as_str()
            );
            let is_of_server =
                matches!(status, GrpcStatus::Internal | GrpcStatus::Unavailable | GrpcStatus::DataLoss);
            assert_eq!(kind.status >= 500, is_of_server, "{code}: {}", status.as_str());
        }
        // Load balancers send such requests elsewhere by themselves.
        let unavailable = Code::ALL.iter().filter(|code| code.grpc_status() == GrpcStatus::Unavailable);
        assert!(unavailable.into_iter().all(|code| code.kind().status == 503));
    }
}
