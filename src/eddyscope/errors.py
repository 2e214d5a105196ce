"""The error family: each says what happened, what was received and what to do.

Every error that a user can cause derives from :class:`EddyscopeError`, so that the command line can print one
line and a notebook user can catch one class. Warnings derive from :class:`EddyscopeWarning` and carry a slug that
``docs/warnings.md`` explains.
"""

from __future__ import annotations


class EddyscopeError(Exception):
    """Base of all errors raised for bad input or a check that failed.

    Parameters
    ----------
    message : str
        One line: what happened, what was received, what was expected.
    remedy : str, optional
        What to do next; appended to the message.
    """

    def __init__(self, message: str, remedy: str | None = None) -> None:
        self.message = message
        self.remedy = remedy
        super().__init__(message if remedy is None else f"{message} {remedy}")


class UsageError(EddyscopeError):
    """An option or argument is wrong; the command line exits with 2."""


class InputError(EddyscopeError):
    """Text, arrays or token ids cannot be used as they are."""


class CaptureError(EddyscopeError):
    """Attention cannot be read from the model."""


class CheckError(CaptureError):
    """A self-check of the capture failed; names the layer and the check."""


class StoreError(EddyscopeError):
    """A study, store or output folder cannot be read or written."""


class ClusterError(EddyscopeError):
    """Workers cannot be reached or started, were lost, or failed in a way that is no fault of the input."""


class MissingDependencyError(EddyscopeError):
    """An optional package is not installed.

    Parameters
    ----------
    package : str
        The package that is missing.
    feature : str
        What needs it.
    extra : str
        The extra of eddyscope that brings it.
    """

    def __init__(self, package: str, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the package '{package}', which is not installed.",
            f"Install it with: pip install 'eddyscope[{extra}]'",
        )


class EddyscopeWarning(UserWarning):
    """A result deserves attention; ``slug`` names the entry in ``docs/warnings.md``.

    Parameters
    ----------
    message : str
        One line.
    slug : str
        Short name of the warning.
    """

    def __init__(self, message: str, slug: str) -> None:
        self.slug = slug
        super().__init__(f"{message} [{slug}]")
