"""Models in, attention ensembles out: the only part of Eddyscope that reads models.

``capture``, ``check`` and ``load_model`` import torch when they are called, never before, so that importing this
package costs nothing and works without torch. ``eddyscope.capture`` is the function ``capture`` once the package
``eddyscope`` has been imported; what is in here stays importable by its full name (``from eddyscope.capture import
check``, ``from eddyscope.capture.checks import Check``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from eddyscope.errors import MissingDependencyError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from eddyscope.documents import Documents
    from eddyscope.ensemble import AttentionEnsemble
    from eddyscope.fieldstore import FieldStore
    from eddyscope.plans import Plan
    from eddyscope.statistics import AttentionStatistics

    #: Documents of tokens, or inputs of a model by name: of all documents, or of each.
    Readable = Documents | Mapping[str, Any] | Sequence[Mapping[str, Any]]

__all__ = ["capture", "capture_fields", "check", "load_model", "plan"]


@overload
def capture(
    model: Any, documents: Readable, *, keep: Literal["fields"] = "fields", **options: Any
) -> AttentionEnsemble: ...


@overload
def capture(model: Any, documents: Readable, *, keep: Literal["statistics"], **options: Any) -> AttentionStatistics: ...


def capture(  # type: ignore[misc]  # the overloads leave the options to this one
    model: Any,
    documents: Readable,
    *,
    keep: str = "fields",
    heads: str | Sequence[int] = "mean",
    weight: str = "attention",
    way: str = "auto",
    layers: Sequence[int | str] | None = None,
    batch: int | None = None,
    max_lag: int | None = None,
    device: str | None = None,
    dtype: str = "float32",
    drop_bad: bool = False,
    allow_failed_checks: bool = False,
    checks: bool = True,
    extract: Callable[..., Any] | None = None,
    sinks: Sequence[str] = ("mask", "keep"),
    memory_budget: int | str | None = None,
    workers: int | None = None,
    dask: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> AttentionEnsemble | AttentionStatistics:
    """Let a model read documents and keep the attention of every layer.

    The model is put into eval mode without gradients and under the eager implementation of its attention, and is
    left as it was found, also after an error or an interrupt. A hook on each attention module (or an attention
    function, see ``way``) reduces the weights in float32 on the layer's device and lets them go, so that no layer's
    weights outlive the layer.

    Parameters
    ----------
    model : torch.nn.Module
        A model of Hugging Face (decoder, encoder, encoder-decoder, vision, speech) or TransformerLens, a checkpoint of
        nanoGPT, one of the GPTs in ``eddyscope.models``, or with ``extract`` any module.
    documents : Documents, mapping, or list of mappings
        Token ids, shape (document, token). Documents of unequal length (``documents.mask``) are read one length at a
        time, without padding; the field then covers the first tokens that all of them have, which is warned about.
        Or inputs of the model by name, such as ``{"pixel_values": array}``, the document as first axis of each; or a
        list with the inputs of each document.
    keep : {"fields", "statistics"}
        Keep the fields of all documents, or turn them into statistics as they come, in memory that does not grow with
        the number of documents: enough for everything along the lag, with intervals, but not for the POD of the field.
    heads : {"mean", "each"} or sequence of int
        Keep the mean over heads, each head, or the heads with these numbers.
    weight : {"attention", "value-norm"}
        What is kept of each entry: the weight, or the weight times the norm of the key's value once its head has
        projected it into the residual stream. Rows of the latter do not sum to 1.
    way : {"auto", "hooks", "function", "blocks"}
        How the attention is seen, see ``docs/capture.md``: by hooks under eager, by an attention function around
        eager, or recomputed in blocks of query rows. ``auto`` takes hooks; a function where values are needed; blocks
        where ``max_lag`` is given and one layer's whole weights of a document would take more than 1 GiB.
    layers : sequence of int or str, optional
        Layers to keep, by position in reading order or by qualified module name; all by default.
    batch : int, optional
        Documents read at a time; chosen from the size of one layer's weights by default. Float32 results may differ in
        the last bits between batch sizes.
    max_lag : int, optional
        Keep a band of lags, see :class:`~eddyscope.lagfield.LagGeometry`. Row sums and the mass on the first key are
        taken before the cut.
    device : str, optional
        Move the model there for the capture, and back afterwards; by default it stays where it is.
    dtype : {"float32", "float16"}
        How the fields are stored; they are reduced in float32 in any case.
    drop_bad : bool
        Leave out documents in which a layer gives NaN or Inf, with a warning, instead of refusing.
    allow_failed_checks : bool
        Go on when a self-check fails; the ensemble's provenance then lists it under ``failed_checks``.
    checks : bool
        Run the self-checks, see ``docs/capture.md``. Without them only what the fields need is found out.
    extract : callable, optional
        For modules that are none of these models: called as ``extract(model, inputs)`` in eval mode without gradients,
        ``inputs`` a dict of tensors (``input_ids``, or what the documents have); returns a mapping from layer name to
        weights of shape (document, head, query, key). Maps that are not square are taken for cross attention.
    sinks : sequence of str
        With ``keep="statistics"`` the treatments of sinks that an analysis will be able to choose from: ``mask``,
        ``keep``, ``first=K``. Documents are read a second time where a late one leaves out a query (nearly all its mass
        on a masked key) that was counted before.
    memory_budget : int or str, optional
        Bytes, or an amount such as ``"4GB"``, that the process may take for the capture and the analysis after it, by
        the estimate of :func:`plan`. Chooses the batch, and the way where that is left open; what cannot fit is refused
        before any work.
    workers : int, optional
        With ``keep="statistics"``: processes on this machine that share the documents, one thread each. Needs the extra
        ``cluster``. ``model`` may then be a name, which each worker loads; see ``docs/cluster.md``.
    dask : str or distributed.Client, optional
        In place of ``workers``: address of the scheduler of a Dask cluster that is there, or a client of it.
    progress : callable, optional
        Called with (documents done, documents in all) after each batch; with workers after each shard.

    Returns
    -------
    AttentionEnsemble, or AttentionStatistics
        One field (or set of statistics) per layer, in reading order; ``provenance`` holds the model's identity, the way
        taken, versions, options, every check with its result, and the time taken.

    Raises
    ------
    CaptureError
        Where the model's attention cannot be read, with the classes that are in the way, or where a document gives
        NaN or Inf.
    CheckError
        Where a self-check fails; names layer and check.
    ClusterError
        Where workers cannot be started or reached, or are lost for good.
    InputError
        Where documents or options are wrong.
    MissingDependencyError
        Where torch is not installed, or Dask where workers are asked for.
    """
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("torch", "Capture from a model", "hf") from error
    from eddyscope.capture.options import Options
    from eddyscope.capture.run import run
    from eddyscope.capture.streaming import stream

    if keep not in ("fields", "statistics"):
        raise UsageError(f"keep is {keep!r}, expected 'fields' or 'statistics'.")
    given = {
        "heads": heads,
        "weight": weight,
        "way": way,
        "layers": layers,
        "batch": batch,
        "max_lag": max_lag,
        "device": device,
        "dtype": dtype,
        "drop_bad": drop_bad,
        "allow_failed_checks": allow_failed_checks,
        "checks": checks,
        "extract": extract,
    }
    options = Options.of(given)
    on_cluster = workers is not None or dask is not None
    if on_cluster and keep == "fields":
        raise UsageError(
            "Fields that workers capture go to disk.",
            "Use capture_fields(model, documents, path, workers=...), or keep='statistics'.",
        )
    if on_cluster and isinstance(model, str):
        model, _ = load_model(model)
    if memory_budget is not None:
        from eddyscope.capture.planning import prepared

        goal = "run" if keep == "fields" else "statistics"
        _, options = prepared(model, documents, options, goal, budget=memory_budget)
    if on_cluster:
        from eddyscope.cluster.statistics import stream_on

        return stream_on(model, documents, options, sinks, workers, dask, progress)
    if keep == "statistics":
        return stream(model, documents, options, sinks, progress)
    return run(model, documents, options, progress)


def capture_fields(
    model: Any,
    documents: Readable,
    path: str | Path,
    *,
    shard: int | None = None,
    resume: bool = False,
    force: bool = False,
    memory_budget: int | str | None = None,
    workers: int | None = None,
    dask: Any = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> FieldStore:
    """Let a model read documents and keep the attention of every layer on disk, in shards of documents.

    One shard is in memory at a time. Each is written whole, with checksums; what is interrupted goes on from the last
    whole shard, and gives, bit for bit, what it would have given in one go on the same machine.

    Parameters
    ----------
    model : torch.nn.Module
    documents : Documents
        As for :func:`capture`.
    path : str or Path
        The store, such as ``"fields.zarr"``.
    shard : int, optional
        Documents of a shard; by default at most 64, and less where their fields would take more than 256 MiB.
    resume : bool
        Go on with a store that is there, and begin where there is none. Shards that are damaged are captured again.
    force : bool
        Replace a store that is there.
    memory_budget : int or str, optional
        Bytes, or an amount such as ``"4GB"``, that the process may take. Chooses batch, shards and the way where they
        are left open; a store that is gone on with keeps its own. With workers, of each of them.
    workers : int, optional
        Processes on this machine that share the shards, one thread each. Needs the extra ``cluster``. ``model`` may
        then be a name, which each worker loads; see ``docs/cluster.md``.
    dask : str or distributed.Client, optional
        In place of ``workers``: address of the scheduler of a Dask cluster that is there, or a client of it. All of its
        workers must see ``path``.
    progress : callable, optional
        Called with (documents done, documents in all) after each batch; with workers after each shard.
    **options
        Any other argument of :func:`capture`.

    Returns
    -------
    FieldStore
        ``store.ensemble()`` is what :func:`eddyscope.analyze` takes; it reads a layer at a time.

    Raises
    ------
    StoreError
        Where the place cannot be written, something is there already, or ``resume`` finds a store that was begun with
        another model, other documents or other options (named).
    ClusterError
        Where workers cannot be started or reached, or are lost for good.
    CaptureError, CheckError, InputError, MissingDependencyError
        As for :func:`capture`. Shards that are whole by then stay, and ``resume`` goes on from there.
    """
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("torch", "Capture from a model", "hf") from error
    from eddyscope.capture.options import Options
    from eddyscope.capture.shards import capture_to_store

    given: dict[str, Any] = {"shard": shard, "resume": resume, "force": force, "budget": memory_budget}
    given["progress"] = progress
    if workers is not None or dask is not None:
        from eddyscope.cluster.shards import capture_to_store_on

        return capture_to_store_on(model, documents, path, Options.of(options), workers, dask, **given)
    return capture_to_store(model, documents, path, Options.of(options), **given)


def plan(
    model: Any,
    documents: Readable,
    *,
    shard: int | None = None,
    memory_budget: int | str | None = None,
    measure: bool = False,
    workers: int | None = None,
    **options: Any,
) -> Plan:
    """Say what a capture and its analysis will take, before the work.

    Parameters
    ----------
    model : torch.nn.Module
        As for :func:`capture`. Only its sizes are looked at, unless ``measure`` is given, so it may be without weights,
        on the device ``meta``.
    documents : Documents
        As for :func:`capture`.
    shard : int, optional
        Documents of a shard, for fields on disk; as for :func:`capture_fields` by default.
    memory_budget : int or str, optional
        Bytes, or an amount such as ``"4GB"``: batch and way are chosen to fit a run, else statistics, else fields on
        disk.
    measure : bool
        Read a first shard, and say how long reading all documents will take.
    workers : int, optional
        Processes that would share the work: memory is then that of each, and ``travels`` what goes between them.
    **options
        Any other argument of :func:`capture`.

    Returns
    -------
    Plan
        ``print(plan)`` shows it; ``plan.table()`` holds the bytes of everything, for a run with fields in memory, for
        statistics, for fields on disk and for their analysis. Memory is an upper estimate of what the process takes,
        the libraries included; disk is the size before compression.

    Raises
    ------
    UsageError
        Where nothing fits in the budget.
    CaptureError, InputError, MissingDependencyError
        As for :func:`capture`.
    """
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("torch", "Planning a capture", "hf") from error
    from eddyscope.capture.options import Options, whole_number
    from eddyscope.capture.planning import measured, plan_within

    made = Options.of(options)
    found = plan_within(model, documents, made, shard=shard, budget=memory_budget)
    found = replace(found, workers=whole_number("workers", workers, "process"))
    return measured(found, model, documents, made) if measure else found


def check(
    model: Any,
    documents: Readable | None = None,
    *,
    layers: Sequence[int | str] | None = None,
    device: str | None = None,
) -> pd.DataFrame:
    """Make the self-checks of a capture alone, and give their results whatever they are.

    Parameters
    ----------
    model : torch.nn.Module
        As for :func:`capture`.
    documents : Documents, optional
        What the model reads; by default one document of 32 random token ids (fewer where the model's context is
        shorter) of the model's vocabulary, the same in every call. Few are enough: they are captured. Those that give
        NaN or Inf are left out, with a warning.
    layers : sequence of int or str, optional
        Layers that are captured; all by default. As in a capture, the pass that comes before it checks every layer.
    device : str, optional
        Move the model there for the checks, and back afterwards.

    Returns
    -------
    pandas.DataFrame
        One row for each check of each layer, in the order in which they are made, exactly what
        ``capture(model, documents, layers=layers).provenance["checks"]`` holds: ``check``, ``layer`` (None where the
        check is of the whole model), ``passed``, ``value``, ``tolerance`` and ``note``. ``docs/capture.md`` says what
        each check means. ``rows sum to 1`` and ``masked keys`` have two rows, of the first pass and of all documents.

    Raises
    ------
    CaptureError
        Where the model's attention cannot be read at all, or every document gives NaN or Inf. A check that fails is a
        result and no error.
    InputError
        Where documents or layers are wrong.
    MissingDependencyError
        Where torch is not installed.
    """
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("torch", "Checking a model", "hf") from error
    from eddyscope.capture.selfcheck import check_table, checked

    return check_table(checked(model, documents, layers=layers, device=device))


def load_model(
    name: str,
    *,
    gguf_file: str | None = None,
    device: str | None = None,
    dtype: str = "float32",
    trust_pickle: bool = False,
) -> tuple[Any, Any]:
    """Load a model and its tokenizer: a bundled model, a folder, or a model of the Hugging Face hub.

    Parameters
    ----------
    name : str
        In this order: a bundled model (:func:`eddyscope.models.names`); a folder, written by ``eddyscope train`` or by
        transformers, or a checkpoint of nanoGPT; a hub id. It is taken as a folder only where it contains a separator
        and either exists or cannot be a hub id (``./model``, ``a/b/c``).
    gguf_file : str, optional
        Name of a GGUF file in the folder or repository; its weights are dequantised.
    device : str, optional
        Where to put the model; the CPU by default.
    dtype : str
        Floating-point type of the weights: ``"float32"``, ``"float16"``, ``"bfloat16"``, or ``"auto"`` for the type
        they are stored in.
    trust_pickle : bool
        Allow weights stored as a pickle, which can run code when loaded. By default only safetensors (and GGUF) are
        read.

    Returns
    -------
    model : torch.nn.Module
        In eval mode; with a language-model head where the checkpoint is a causal language model, else the bare model.
    tokenizer : object or None
        What :func:`eddyscope.read_documents` takes; None where there is none beside the model.

    Raises
    ------
    CaptureError, InputError, StoreError
        Where the model cannot be found or loaded, or the checkpoint does not fill the model exactly.
    MissingDependencyError
        Where torch, or for a model of Hugging Face transformers, is not installed.
    UsageError
        Where an option does not apply to this kind of model.
    """
    from eddyscope.capture.origins import Origin, is_own, remember

    own = is_own(name)
    for package in ("torch",) if own else ("torch", "transformers"):
        try:
            __import__(package)
        except ImportError as error:
            raise MissingDependencyError(package, "Loading a model", "hf") from error
    from eddyscope.capture.load import load, load_own

    if own:
        return load_own(name, gguf_file=gguf_file, device=device, dtype=dtype)
    model, tokenizer = load(name, gguf_file=gguf_file, device=device, dtype=dtype, trust_pickle=trust_pickle)
    remember(model, Origin(name, gguf_file=gguf_file, dtype=dtype, trust_pickle=trust_pickle))
    return model, tokenizer
