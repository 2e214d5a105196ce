"""Any module, with a function that gets its attention out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tiny_models import VOCABULARY
from torch import Tensor, nn

import eddyscope as es
from eddyscope.capture import capture
from eddyscope.documents import Documents
from eddyscope.errors import CaptureError, CheckError, UsageError

Ids = NDArray[np.int64]


class Reader(nn.Module):
    """Two causal layers of torch's own attention."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(VOCABULARY, 32)
        self.attention = nn.ModuleList(nn.MultiheadAttention(32, 4, dropout=0.5, batch_first=True) for _ in range(2))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        for layer in self.attention:
            x = x + layer(x, x, x, attn_mask=mask, need_weights=False)[0]
        return x


def weights_of(model: nn.Module, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """What every ``nn.MultiheadAttention`` weighs while the model reads; also in the docs."""
    found = {}

    def ask(module: nn.Module, arguments: Any, named: dict[str, Any]) -> Any:
        return arguments, named | {"need_weights": True, "average_attn_weights": False}

    handles = []
    for name, module in model.named_modules():
        if isinstance(module, nn.MultiheadAttention):
            handles.append(module.register_forward_pre_hook(ask, with_kwargs=True))
            handles.append(module.register_forward_hook(lambda m, a, out, name=name: found.update({name: out[1]})))
    try:
        model(inputs["input_ids"])
    finally:
        for handle in handles:
            handle.remove()
    return found


def test_a_plain_module_is_captured_by_an_extractor(ids: Ids) -> None:
    model = Reader().train()
    ensemble = capture(model, Documents.from_ids(ids), extract=weights_of, heads="each", batch=2)
    assert model.training
    assert ensemble.layers == ("attention.0", "attention.1")
    assert ensemble.info["attention.1"].attention_class == "MultiheadAttention"
    assert ensemble.provenance["way"] == "extractor weights_of"
    assert ensemble.provenance["options"]["extract"] == "weights_of"
    with torch.inference_mode():
        expected = weights_of(model.eval(), {"input_ids": torch.from_numpy(ids)})
    for name, weights in expected.items():
        assert ensemble[name].causal
        np.testing.assert_allclose(ensemble[name].dense(), weights.numpy(), atol=1e-6)
    checks = {check["check"] for check in ensemble.provenance["checks"]}
    assert {"shape", "rows sum to 1", "masked keys", "causality"} <= checks
    assert "outputs" not in checks  # they are not known, so nothing is said of them
    assert es.analyze(ensemble, intervals=False).summary().shape[0] == 2 * 4


def test_documents_may_be_whatever_the_extractor_reads() -> None:
    sound = np.random.default_rng(0).normal(size=(6, 12, 8)).astype(np.float32)

    def similarity(model: nn.Module, inputs: dict[str, Tensor]) -> dict[str, Any]:
        x = model(inputs["sound"])
        pooled = x[:, ::3]
        return {
            "own": (x @ x.mT).softmax(-1)[:, None],
            "cross": (x @ pooled.mT).softmax(-1)[:, None].numpy(),  # arrays will do
        }

    torch.manual_seed(0)
    ensemble = capture(nn.Linear(8, 8), {"sound": sound}, extract=similarity)
    assert {name: info.kind for name, info in ensemble.info.items()} == {"own": "self", "cross": "cross"}
    assert (ensemble["cross"].geometry.queries, ensemble["cross"].geometry.keys) == (12, 4)
    assert not ensemble["own"].causal
    assert ensemble.provenance["text"]["kind"] == "model inputs"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "returned a NoneType"),
        ({}, "returned an empty mapping"),
        ({"a": "b"}, "gave a str for layer 'a'"),
        ({"a": torch.zeros(1, 2, 3)}, r"gave shape \(1, 2, 3\) for layer 'a' and 1 documents"),
        ({"a": torch.zeros(3, 1, 4, 4)}, r"gave shape \(3, 1, 4, 4\) for layer 'a' and 1 documents"),
        ({"a": torch.zeros(1, 1, 4, 4, dtype=torch.int64)}, "gave a tensor of torch.int64 for layer 'a'"),
    ],
)
def test_an_extractor_that_gives_something_else_is_an_error(given: Any, message: str, documents: Documents) -> None:
    with pytest.raises(CaptureError, match=rf"{message}.*returns a mapping from layer name"):
        capture(Reader(), documents, extract=lambda model, inputs: given)


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("keep", ["fields", "statistics", "disk"])
def test_a_layer_that_falls_silent_is_an_error_and_not_what_memory_held(
    keep: str, checks: bool, ids: Ids, tmp_path: Path
) -> None:
    last = torch.from_numpy(ids[-1:])

    def sometimes(model: nn.Module, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        found = weights_of(model, inputs)
        if torch.equal(inputs["input_ids"], last):  # as a model with LayerDrop might; the shard before fits too
            del found["attention.1"]
        return found

    documents, options = Documents.from_ids(ids), {"batch": 1, "checks": checks, "extract": sometimes}
    silent = rf"Layer 'attention\.1' gave 0 of {ids.shape[1]} rows .* from document {len(ids) - 1} on, though it had"
    to_disk = {"path": tmp_path / "fields.zarr", "shard": 1}
    read, more = (es.capture_fields, to_disk) if keep == "disk" else (capture, {"keep": keep})
    with pytest.raises(CaptureError, match=silent):
        read(Reader(), documents, **more, **options)  # type: ignore[operator]


def test_two_layers_of_one_name_are_an_error(documents: Documents) -> None:
    def twice(model: nn.Module, inputs: dict[str, Tensor]) -> dict[Any, Tensor]:
        first, second = weights_of(model, inputs).values()
        return {0: first, "0": second}

    with pytest.raises(CaptureError, match=r"gave two layers of one name among \[0, '0'\]"):
        capture(Reader(), documents, extract=twice)


def test_an_extractor_is_a_function(documents: Documents) -> None:
    with pytest.raises(UsageError, match=r"extract is 5, expected a function of \(model, inputs\)"):
        capture(Reader(), documents, extract=5)


def test_scores_before_the_softmax_fail_the_checks(documents: Documents) -> None:
    def scores(model: nn.Module, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        x = model.embed(inputs["input_ids"])
        return {"scores": (x @ x.mT)[:, None]}

    with pytest.raises(CheckError, match="'rows sum to 1' failed in layer 'scores'"):
        capture(Reader(), documents, extract=scores)


def test_a_module_without_an_extractor_is_refused_with_the_way_to_one(documents: Documents) -> None:
    with pytest.raises(CaptureError, match=r"Reader is not a kind of model .*extract=function"):
        capture(Reader(), documents)
