"""Attention arrays are read from what people save, in the order that was meant, and never as code."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import zarr

import eddyscope as es
from eddyscope.arrays import identify, read_arrays
from eddyscope.errors import InputError


def weights(*shape: int) -> np.ndarray:
    """Uniform causal attention of this shape, plus one to tell entries apart."""
    lower = np.tril(np.ones(shape[-2:], dtype=np.float32))
    return np.broadcast_to(lower / lower.sum(axis=-1, keepdims=True), shape) + np.float32(0)


def test_npy_is_the_array_and_is_not_read_into_memory(tmp_path: Path) -> None:
    array = weights(5, 2, 8, 8)
    np.save(tmp_path / "a.npy", array)
    read = read_arrays(tmp_path / "a.npy")
    assert isinstance(read, np.memmap)
    np.testing.assert_array_equal(read, array)


def test_npz_with_one_array_is_all_layers(tmp_path: Path) -> None:
    array = weights(5, 2, 8, 8)
    np.savez(tmp_path / "a.npz", attention=array)
    np.testing.assert_array_equal(read_arrays(tmp_path / "a.npz"), array)


def test_npz_with_one_array_of_three_dimensions_is_one_layer(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", top=weights(5, 8, 8))
    read = read_arrays(tmp_path / "a.npz")
    assert isinstance(read, dict)
    assert list(read) == ["top"]


def test_npz_keeps_the_order_of_its_layers(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{"encoder/10": weights(5, 8, 8), "decoder/2": weights(5, 8, 8)})
    read = read_arrays(tmp_path / "a.npz")
    assert isinstance(read, dict)
    assert list(read) == ["encoder.10", "decoder.2"]


def test_safetensors_layers_come_in_natural_order(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    layers = {f"h.{i}.attn": weights(5, 3, 8, 8) * np.float32(i + 1) for i in range(12)}
    numpy.save_file(layers, tmp_path / "a.safetensors")
    read = read_arrays(tmp_path / "a.safetensors")
    assert isinstance(read, dict)
    assert list(read) == [f"h.{i}.attn" for i in range(12)]
    np.testing.assert_array_equal(read["h.10.attn"], layers["h.10.attn"])


def test_bfloat16_is_refused_by_name(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    save_file({"h.0": torch.zeros(2, 4, 4, dtype=torch.bfloat16)}, tmp_path / "a.safetensors")
    with pytest.raises(InputError, match=r"Tensor 'h\.0' of 'a\.safetensors' is bfloat16.*Save it in float32"):
        read_arrays(tmp_path / "a.safetensors")


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_arrays_and_groups(tmp_path: Path, version: int) -> None:
    array = weights(5, 2, 8, 8)
    zarr.create_array(tmp_path / "a.zarr", data=array, zarr_format=version)
    np.testing.assert_array_equal(read_arrays(tmp_path / "a.zarr"), array)
    group = zarr.create_group(tmp_path / "g.zarr", zarr_format=version)
    for index in (10, 2):
        group.create_array(f"layers/{index}/attn", data=array[:, 0])
    read = read_arrays(tmp_path / "g.zarr")
    assert isinstance(read, dict)
    assert list(read) == ["layers.2.attn", "layers.10.attn"]
    np.testing.assert_array_equal(read["layers.2.attn"], array[:, 0])


def test_what_was_read_makes_an_ensemble(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=weights(5, 8, 8), b=weights(5, 8, 8))
    ensemble = es.AttentionEnsemble.from_arrays(read_arrays(tmp_path / "a.npz"))
    assert ensemble.layers == ("a", "b")
    assert ensemble.count == 5


class Exploit:
    """Leaves a trace when it is unpickled."""

    trace = ""

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return (open, (self.trace, "w"))


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.pkl", "a.pt", "a.bin", "a.dat"])
def test_a_pickle_is_never_opened(tmp_path: Path, name: str) -> None:
    exploit = Exploit()
    exploit.trace = str(tmp_path / "trace")
    (tmp_path / name).write_bytes(pickle.dumps(exploit))
    with pytest.raises(InputError, match=rf"'{name}' is a pickle, which can run code when it is opened"):
        read_arrays(tmp_path / name)
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("save", [np.save, np.savez])
def test_an_array_of_objects_is_a_pickle(tmp_path: Path, save: object) -> None:
    exploit = Exploit()
    exploit.trace = str(tmp_path / "trace")
    name = "a.npy" if save is np.save else "a.npz"
    save(tmp_path / name, np.array([exploit], dtype=object))  # type: ignore[operator]
    with pytest.raises(InputError, match=rf"'{name}' is a pickle.*numpy\.save"):
        read_arrays(tmp_path / name)
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.npy", b"\x93NUMPY\x01\x00", r"'a\.npy' cannot be read: .*\. It may be cut or of another format"),
        ("a.npy", b"", r"'a\.npy' cannot be read"),
        ("a.npy", b"hello", r"'a\.npy' cannot be read"),
        ("a.npz", b"PK\x03\x04half", r"'a\.npz' cannot be read"),
        ("a.npz", b"hello", r"'a\.npz' cannot be read"),
        ("a.safetensors", b"\x10\x00\x00\x00\x00\x00\x00\x00{}", r"'a\.safetensors' cannot be read"),
        ("a.csv", b"1,2", r"'a\.csv' is not a kind of file that holds attention\. Expected \.npy, \.npz"),
    ],
)
def test_broken_files_give_one_line(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=message) as raised:
        read_arrays(tmp_path / name)
    assert "\n" not in str(raised.value)


def test_a_truncated_npy_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", weights(5, 2, 8, 8))
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-100])
    with pytest.raises(InputError, match=r"'a\.npy' cannot be read"):
        read_arrays(tmp_path / "a.npy")


def test_what_is_not_there_and_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no file or folder '.*x\.npy'\. Expected attention as \.npy"):
        read_arrays(tmp_path / "x.npy")
    with pytest.raises(InputError, match=r"is a folder, but not a Zarr one"):
        read_arrays(tmp_path)
    (tmp_path / "zarr.json").write_text("{")
    with pytest.raises(InputError, match=r"cannot be read"):
        read_arrays(tmp_path)


def test_a_study_is_not_attention(tmp_path: Path) -> None:
    study = es.analyze(es.AttentionEnsemble.from_arrays(weights(4, 1, 8, 8)), intervals=False)
    study.save(tmp_path / "out" / "study.zarr")
    for place in (tmp_path / "out", tmp_path / "out" / "study.zarr"):
        with pytest.raises(InputError, match=r"is a study of eddyscope, not attention\. Look at it with: eddyscope"):
            read_arrays(place)


def test_names_that_become_equal_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{"a/b": weights(5, 8, 8), "a.b": weights(5, 8, 8)})
    with pytest.raises(InputError, match=r"Two of the 2 layers have the same name once '/' is read as '\.'"):
        read_arrays(tmp_path / "a.npz")


def test_identity_is_that_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert identify(tmp_path / "a") == {
        "name": "a",
        "bytes": 3,
        "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    }
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "x").write_bytes(b"abc")
    first = identify(tmp_path / "f")
    (tmp_path / "f" / "x").rename(tmp_path / "f" / "y")
    assert identify(tmp_path / "f")["sha256"] != first["sha256"]
    assert first["bytes"] == 3


@pytest.mark.parametrize("kind", ["npy", "npz", "zarr", "zarr-group", "safetensors", "pt", "pt-layers"])
def test_every_kind_of_file_gives_the_same_attention(tmp_path: Path, kind: str) -> None:
    torch = pytest.importorskip("torch")
    numpy_safetensors = pytest.importorskip("safetensors.numpy")
    attention = weights(6, 16, 16)
    path = tmp_path / f"a.{kind.partition('-')[0]}"
    match kind:
        case "npy":
            np.save(path, attention[:, None])
        case "npz":
            np.savez(path, layer0=attention)
        case "zarr":
            zarr.save_array(path, attention[:, None])
        case "zarr-group":
            zarr.open_group(path, mode="w").create_array("layer0", data=attention)
        case "safetensors":
            numpy_safetensors.save_file({"layer0": attention}, path)
        case "pt":
            torch.save(torch.from_numpy(attention)[:, None], path)
        case "pt-layers":
            torch.save({"layer0": torch.from_numpy(attention)}, path)
    ensemble = es.AttentionEnsemble.from_arrays(read_arrays(path))
    expected = es.AttentionEnsemble.from_arrays(torch.from_numpy(attention)[:, None])
    np.testing.assert_array_equal(ensemble[0].values, expected[0].values)


def test_half_precision_of_torch_is_read_as_float32(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"layer0": torch.from_numpy(weights(4, 16, 16)).bfloat16()}, tmp_path / "a.pt")
    ensemble = es.AttentionEnsemble.from_arrays(read_arrays(tmp_path / "a.pt"))
    assert ensemble[0].values.dtype == np.float32


def test_a_file_of_tensors_with_code_in_it_is_a_pickle(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    exploit, trace = Exploit(), tmp_path / "trace"
    exploit.trace = str(trace)
    torch.save({"layer0": torch.zeros(2, 4, 4), "more": exploit}, tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"'a.pt' is a pickle, which can run code"):
        read_arrays(tmp_path / "a.pt")
    assert not trace.exists()


def test_a_checkpoint_in_the_place_of_attention_is_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"model": {"w": torch.zeros(2)}, "iter_num": 3}, tmp_path / "ckpt.pt")
    with pytest.raises(InputError, match=r"'ckpt.pt' holds a dict, expected a tensor.*no attention: capture the model"):
        read_arrays(tmp_path / "ckpt.pt")
