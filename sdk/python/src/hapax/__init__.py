"""Hapax: durable workflows whose effects happen once."""

from ._attempt import Attempt, ProbeAnswer
from ._client import Hapax, RunHandle, StartOptions
from ._codec import ExactJson
from ._core.asking import Retry, Selected, StepOptions
from ._core.context import Ctx, PromiseHandle
from ._core.sync_context import SyncCtx, SyncPromise
from ._definitions import Action, ActionCall, Entity, Task, Workflow, action, task, workflow
from ._failures import (
    AttemptCancelled,
    DecodeError,
    Failure,
    ForeignAwaitable,
    PermanentFailure,
    Rejected,
    RetryableFailure,
    StepFailed,
    UnknownFailure,
)
from ._json import RawJson
from ._models import Doubt, EntityState, Operation, Page, Promise, Run, RunDetail, Settlement, Transition
from ._problems import (
    Conflict,
    Forbidden,
    HapaxError,
    InvalidRequest,
    KeyConflict,
    NotFound,
    Problem,
    RunFailed,
    SessionReplaced,
    StillOpen,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from ._sync import SyncHapax, SyncRunHandle
from ._version import VERSION as __version__
from ._worker.telemetry import EffectLogFilter
from ._worker.worker import Worker

__all__ = [
    "Action",
    "ActionCall",
    "Attempt",
    "AttemptCancelled",
    "Conflict",
    "Ctx",
    "DecodeError",
    "Doubt",
    "EffectLogFilter",
    "Entity",
    "EntityState",
    "ExactJson",
    "Failure",
    "Forbidden",
    "ForeignAwaitable",
    "Hapax",
    "HapaxError",
    "InvalidRequest",
    "KeyConflict",
    "NotFound",
    "Operation",
    "Page",
    "PermanentFailure",
    "ProbeAnswer",
    "Problem",
    "Promise",
    "PromiseHandle",
    "RawJson",
    "Rejected",
    "Retry",
    "RetryableFailure",
    "Run",
    "RunDetail",
    "RunFailed",
    "RunHandle",
    "Selected",
    "SessionReplaced",
    "Settlement",
    "StartOptions",
    "StepFailed",
    "StepOptions",
    "StillOpen",
    "SyncCtx",
    "SyncHapax",
    "SyncPromise",
    "SyncRunHandle",
    "Task",
    "Transition",
    "Unauthorized",
    "Unavailable",
    "UnknownFailure",
    "Unreachable",
    "Worker",
    "Workflow",
    "__version__",
    "action",
    "task",
    "workflow",
]
