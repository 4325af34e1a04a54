"""Every error that this library raises on purpose.

    LinlyError
    ├─ ConfigError          unknown engine or setting, neighbours whose types do not fit, a missing extra
    ├─ MediaError           audio, image or video that is unreadable, truncated, empty or unsupported; no face found
    ├─ ModelError           weights that are missing, truncated, a Git-LFS pointer, or of the wrong model
    ├─ StageError           a stage failed: .stage .request_id .elapsed_s, and __cause__ is the original
    │   ├─ StageTimeout     no first item, no progress, or no end after it was cancelled, within the deadline
    │   └─ StageUnavailable every engine of a Fallback failed: .attempts
    ├─ SinkError            writing failed, or clear() was not acknowledged in time
    └─ TurnCancelled        only seen by whoever awaits a turn that was cancelled or superseded

A message names the thing (file, stage, setting), what was wrong, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence


class LinlyError(Exception):
    """Base of all errors of this library."""


class ConfigError(LinlyError):
    """The pipeline cannot be built as asked: unknown engine or setting, types that do not fit, a missing extra."""

    @classmethod
    def missing_extra(cls, what: str, extra: str, module: str) -> ConfigError:
        """The sentence for an engine whose Python package is not installed."""
        return cls(f"{what} needs the package '{module}': pip install 'linly-pipeline[{extra}]'")


class MediaError(LinlyError):
    """Audio, image or video could not be used; the message says which file and why."""


class ModelError(LinlyError):
    """Model weights are missing or not what they should be; the message says which file and how to get it."""


class StageError(LinlyError):
    """A stage failed while a turn ran.

    Attributes:
        stage: name of the stage.
        request_id: the turn's request ID.
        elapsed_s: seconds from the start of the turn to the failure.
    """

    def __init__(self, message: str, *, stage: str, request_id: str = "", elapsed_s: float = 0.0) -> None:
        super().__init__(message)
        self.stage = stage
        self.request_id = request_id
        self.elapsed_s = elapsed_s


class StageTimeout(StageError):
    """A stage gave no first item, made no progress, or did not end when cancelled, within its deadline."""


class StageUnavailable(StageError):
    """Every engine of a Fallback failed.

    Attributes:
        attempts: (engine name, the error it failed with), in the order tried.
    """

    def __init__(
        self,
        message: str,
        *,
        stage: str,
        attempts: Sequence[tuple[str, BaseException]],
        request_id: str = "",
        elapsed_s: float = 0.0,
    ) -> None:
        super().__init__(message, stage=stage, request_id=request_id, elapsed_s=elapsed_s)
        self.attempts = tuple(attempts)


class SinkError(LinlyError):
    """A sink could not write or play, or did not acknowledge clear() within its deadline."""


class TurnCancelled(LinlyError):
    """The awaited turn was cancelled, or superseded by a newer one."""
