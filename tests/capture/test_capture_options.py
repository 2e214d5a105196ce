"""Options of a capture, what it records, and that it leaves the model as it was."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tiny_models import tiny

from eddyscope.capture import capture, check, plan
from eddyscope.documents import Documents
from eddyscope.errors import InputError, UsageError


def state(model: Any) -> dict[str, Any]:
    return {
        "training": [module.training for module in model.modules()],
        "hooks": [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()],
        "implementation": [m.config._attn_implementation for m in model.modules() if hasattr(m, "config")],
        "asked": model.config.output_attentions,
        "weights": [p.detach().clone() for p in model.parameters()],
        "gradients": [p.requires_grad for p in model.parameters()],
    }


def assert_same_state(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert all(torch.equal(a, b) for a, b in zip(before.pop("weights"), after.pop("weights"), strict=True))
    assert before == after


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import eddyscope.capture, sys; assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_model_is_left_as_it_was(documents: Documents) -> None:
    model = tiny("gpt2").train()
    before = state(model)
    capture(model, documents)
    assert_same_state(before, state(model))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("passes", [0, 3])
def test_the_model_is_left_as_it_was_after_an_interrupt(
    error: type[BaseException], passes: int, documents: Documents
) -> None:
    model = tiny("llama").train()
    count = 0

    def interrupt(module: Any, arguments: Any) -> None:
        nonlocal count
        count += 1
        if count > passes:
            raise error("stop")

    handle = model.model.layers[1].register_forward_pre_hook(interrupt)
    before = state(model)
    with pytest.raises((KeyboardInterrupt, Exception), match="stop"):
        capture(model, documents, batch=2)
    assert_same_state(before, state(model))
    handle.remove()


def test_no_weights_outlive_their_layer(documents: Documents) -> None:
    model = tiny("llama")
    alive: list[int] = []
    maps: list[Any] = []
    import gc
    import weakref

    def look(module: Any, arguments: Any, output: Any) -> None:
        gc.collect()
        alive.append(sum(reference() is not None for reference in maps))
        maps.append(weakref.ref(output[1]))

    for layer in model.model.layers:
        layer.self_attn.register_forward_hook(look)
    capture(model, documents, checks=False)
    # Each map is gone by the time the next layer shows its own.
    assert len(alive) == 4 and max(alive) == 0


def test_the_same_capture_twice_is_equal_to_the_bit(documents: Documents) -> None:
    first, second = (capture(tiny("qwen2"), documents, heads="each") for _ in range(2))
    for name in first.layers:
        np.testing.assert_array_equal(first[name].values, second[name].values)


@pytest.mark.parametrize("batch", [1, 2, 5, 64])
def test_the_batch_size_does_not_matter(batch: int, documents: Documents) -> None:
    model = tiny("mistral")
    reference = capture(model, documents)
    ensemble = capture(model, documents, batch=batch)
    for name in reference.layers:
        np.testing.assert_allclose(ensemble[name].values, reference[name].values, atol=1e-6)


def test_a_band_of_lags_keeps_the_sums_of_whole_rows(documents: Documents) -> None:
    model = tiny("gpt2")
    whole, band = capture(model, documents), capture(model, documents, max_lag=4)
    assert band[0].lags.tolist() == [0, 1, 2, 3]
    for lag in range(4):
        np.testing.assert_array_equal(band[0].at_lag(lag), whole[0].at_lag(lag))
    for name in ("first_key", "row_sum"):
        np.testing.assert_array_equal(getattr(band[0], name), getattr(whole[0], name))
    assert band[0].row_sum is not None
    np.testing.assert_allclose(band[0].row_sum, 1, atol=1e-5)


def test_first_key_and_row_sums_are_those_of_the_field(documents: Documents) -> None:
    field = capture(tiny("llama"), documents, heads="each")[0]
    dense = field.dense()
    np.testing.assert_array_equal(field.first_key, dense[..., 0])
    np.testing.assert_allclose(field.row_sum, dense.sum(axis=-1), atol=1e-6)


def test_layers_are_chosen_by_position_or_name_and_keep_their_index(documents: Documents) -> None:
    model = tiny("gpt2", num_hidden_layers=4)
    ensemble = capture(model, documents, layers=[-1, "transformer.h.1.attn"])
    assert ensemble.layers == ("transformer.h.1.attn", "transformer.h.3.attn")
    assert [info.index for info in ensemble.info.values()] == [1, 3]
    with pytest.raises(InputError, match=r"Layer 4 is not in this model.*4 layers.*transformer\.h\.0\.attn"):
        capture(model, documents, layers=[4])


def test_fields_can_be_stored_in_float16(documents: Documents) -> None:
    model = tiny("gpt2")
    full, half = capture(model, documents), capture(model, documents, dtype="float16")
    assert half[0].values.dtype == np.float16
    np.testing.assert_array_equal(half[0].values, full[0].values.astype(np.float16))


def test_progress_counts_documents(documents: Documents) -> None:
    seen: list[tuple[int, int]] = []
    capture(tiny("gpt2"), documents, batch=2, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(2, 5), (4, 5), (5, 5)]


def test_without_checks_the_fields_are_the_same(documents: Documents) -> None:
    model = tiny("gemma2")
    with_checks, without = capture(model, documents), capture(model, documents, checks=False)
    assert without.provenance["checks"] == []
    np.testing.assert_array_equal(without[1].values, with_checks[1].values)


def test_plain_token_ids_are_taken_as_documents(documents: Documents, ids: NDArray[np.int64]) -> None:
    model = tiny("gpt2")
    reference = capture(model, documents)
    for given in (ids, torch.from_numpy(ids), ids.tolist()):
        np.testing.assert_array_equal(capture(model, given)[0].values, reference[0].values)
    with pytest.raises(InputError, match="documents are a string"):
        capture(model, "some text")  # type: ignore[arg-type]


def test_provenance_says_what_was_captured_and_how(documents: Documents) -> None:
    model = tiny("llama")
    provenance = capture(model, documents).provenance
    assert json.loads(json.dumps(provenance)) == json.loads(json.dumps(provenance, allow_nan=False))
    identity = provenance["model"]
    assert identity["class"] == "LlamaForCausalLM"
    assert identity["parameters"] == sum(p.numel() for p in model.parameters())
    assert (identity["layers"], identity["heads"], identity["key_value_heads"]) == (2, 4, 2)
    assert (identity["dtype"], provenance["device"]) == ("float32", "cpu")
    assert {"torch", "transformers", "numpy"} <= set(provenance["versions"])
    assert provenance["source"] == "huggingface"
    other = capture(tiny("llama", rope_parameters={"rope_type": "default", "rope_theta": 500.0}), documents)
    assert other.provenance["model"]["config_sha256"] != identity["config_sha256"]
    assert capture(tiny("llama"), documents).provenance["model"]["config_sha256"] == identity["config_sha256"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": "some"}, "heads is 'some', expected 'mean' or 'each'"),
        ({"dtype": "bfloat16"}, "dtype is 'bfloat16', expected 'float32' or 'float16'"),
        ({"heads": 2}, "heads is 2, expected numbers of heads from 0"),
        ({"heads": None}, "heads is None, expected numbers of heads from 0"),
        ({"batch": 0}, "batch is 0, expected at least 1 document, as a whole number"),
        ({"batch": 1.5}, "batch is 1.5, expected"),
        ({"batch": "4"}, "batch is '4', expected"),
        ({"max_lag": 2.5}, "max_lag is 2.5, expected at least 1 token, as a whole number"),
        ({"max_lag": True}, "max_lag is True, expected"),
        ({"layers": 0}, "layers is 0, expected a list of positions or names"),
        ({"layers": "transformer.h.0.attn"}, "layers is 'transformer.h.0.attn', expected a list"),
        ({"layers": [0.5]}, r"layers is \[0.5\], expected a list of positions"),
        ({"layers": [True]}, r"layers is \[True\], expected a list of positions"),
        ({"layers": [None]}, r"layers is \[None\], expected a list of positions"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str, documents: Documents) -> None:
    with pytest.raises(UsageError, match=message):
        capture(tiny("gpt2"), documents, **options)
    with pytest.raises(UsageError, match=message):
        plan(tiny("gpt2"), documents, **options)


def test_an_option_that_there_is_not_is_named(documents: Documents) -> None:
    with pytest.raises(UsageError, match=r"^'head' is not an option of a capture\.$"):
        plan(tiny("gpt2"), documents, head="each")


@pytest.mark.parametrize("chosen", [[1], (1,), range(1, 2), np.array([1]), [-1, 1], ["transformer.h.1.attn"]], ids=repr)
def test_layers_and_heads_are_listed_in_any_way(chosen: Any, documents: Documents) -> None:
    ensemble = capture(tiny("gpt2"), documents, layers=chosen, heads=range(2))
    assert list(ensemble) == ["transformer.h.1.attn"]
    assert ensemble[np.int64(0)].heads == ("0", "1")
    assert plan(tiny("gpt2"), documents, layers=chosen, heads=np.arange(2)).table() is not None


@pytest.mark.parametrize("device", ["nope", "meta", "cuda:99"])
def test_a_device_that_cannot_be_is_refused_and_the_model_keeps_its_weights(device: str, documents: Documents) -> None:
    model = tiny("gpt2")
    before = state(model)
    with pytest.raises(UsageError, match=rf"cannot be moved to device '{device}': .*\. Leave device \(--device\) out"):
        capture(model, documents, device=device)
    with pytest.raises(UsageError, match="cannot be moved"):
        check(model, device=device)
    assert_same_state(before, state(model))
