"""Hapax: durable workflows whose effects happen once."""

from ._attempt import Attempt, ProbeAnswer
from ._codec import ExactJson
from ._core.asking import First, Retry
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
