"""How a model gets to the workers: by its name where they can load it, else as it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eddyscope.capture.origins import Origin, origin_of
from eddyscope.capture.shards import fingerprint
from eddyscope.cluster.engine import Engine
from eddyscope.errors import CaptureError, EddyscopeError

_HOW = "Save it to a folder that all workers can read, and load it from there with eddyscope.load_model."


@dataclass(frozen=True)
class Passage:
    """What a worker needs to have a model.

    Parameters
    ----------
    fingerprint : str
        Of the weights here, which those of the worker must equal.
    described : str
        For errors.
    origin : Origin, optional
        Where to load it from.
    file : str, optional
        A pickle that was written here, for workers of this machine.
    """

    fingerprint: str
    described: str
    origin: Origin | None = None
    file: str | None = None

    def load(self, sent: bytes | None) -> Any:
        """The model, on the worker.

        Parameters
        ----------
        sent : bytes, optional
            The model as :func:`passage_of` scattered it, where there is neither an origin nor a file.
        """
        model = self._loaded(sent)
        found = fingerprint(model)
        if found != self.fingerprint:
            raise CaptureError(
                f"The weights that a worker loaded as {self.described} are not those that were loaded here.",
                "Give all machines the same folder, or the same revision in their caches.",
            )
        return model

    def _loaded(self, sent: bytes | None) -> Any:
        import cloudpickle

        if self.origin is not None:
            try:
                return self.origin.load()
            except EddyscopeError as error:
                raise CaptureError(f"A worker cannot load {self.described}: {error.message}", error.remedy) from error
        return cloudpickle.loads(sent if self.file is None else Path(self.file).read_bytes())


def passage_of(model: Any, engine: Engine) -> tuple[Passage, Any]:
    """How a model gets to the workers of a cluster, and the future of its pickle where it is sent to them.

    To be called before the model is read: what some libraries hang on a model then cannot be pickled.

    Raises
    ------
    CaptureError
        Where it was not loaded by name and cannot be pickled.
    """
    import cloudpickle

    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    digest, kind = fingerprint(model), type(model).__name__
    origin = origin_of(model)
    if origin is not None:
        return Passage(digest, f"'{origin.name}'", origin), None
    try:
        content = cloudpickle.dumps(model)
    except Exception as error:  # whatever a class of the user's raises
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise CaptureError(f"The {kind} cannot travel to workers: {reason}.", _HOW) from error
    if not engine.local:
        return Passage(digest, f"the {kind} that was sent"), engine.send(content)
    file = engine.folder / f"{digest[:16]}.model"
    file.touch(mode=0o600)
    file.write_bytes(content)
    return Passage(digest, f"the {kind} that was sent", file=str(file)), None
