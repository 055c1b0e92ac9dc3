"""Named limits of the SDK. A server may tell stricter ones when a session opens."""

from __future__ import annotations

from typing import Final

MAX_NAME_CHARS: Final = 128
"""Longest name of a workflow, step, promise or signal."""

MAX_MESSAGE_CHARS: Final = 2_000
"""Longest message of a failure; the rest is cut."""

MAX_PAYLOAD_BYTES: Final = 2 * 1024 * 1024
"""Largest input, output, signal or promise value, as the server stores them."""

MAX_PAYLOAD_DEPTH: Final = 64
"""Deepest nesting of a payload."""

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
"""Largest request body that a worker sends."""

MAX_ITEMS: Final = 10_000
"""Most items in one commit."""

MAX_RUNS_PER_COMMIT: Final = 1_024
"""Most runs in one commit."""

MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
"""Largest answer that the client reads."""

MAX_HEADER_BYTES: Final = 64 * 1024
"""Largest head of an answer."""

MAX_IDLE_CONNECTIONS: Final = 16
"""Connections that the client keeps open while nobody uses them."""

MAX_CACHED_RUNS: Final = 2_000
"""Suspended functions that a worker keeps, unless told otherwise."""

MAX_CACHED_THREADS: Final = 200
"""Suspended plain functions that a worker keeps. Each has a thread."""

MAX_EARLY_MESSAGES: Final = 1_000
"""Activations whose messages may come before the activation itself."""

MAX_LATE_OUTCOMES: Final = 1_000
"""Late outcomes that a worker keeps until a session takes them."""

MAX_CACHED_HINTS: Final = 4_096
"""Functions whose return types are remembered."""

MAX_CRASH_PLACES: Final = 2_000
"""Places at which `crash_everywhere` crashes a workflow."""

MAX_TURNS: Final = 20_000
"""Turns of one execution in `crash_everywhere`."""
