"""The Hopfield library's own outputs, associations, gradients and counts come out of our layers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rwf.vit.routing import Routing
from rwf.vit.routing_reference import HopfieldPooling
from tests.shared import shared

FILES = (
    "default_heads4",
    "default_m1_L5_d16",
    "default_m3_L7_d16",
    "default_steps3",
    "plain_bias_m1_L4_d16",
    "plain_bias_m30_L20_d32",
    "plain_bias_m3_L8_d16",
    "plain_m1_L4_d16",
    "plain_m3_L8_d16",
    "static_m1_L4_d16",
    "static_m4_L9_d16",
    "static_noaffine_m1_L4_d16",
    "static_noaffine_m4_L9_d16",
    "static_noln",
)
NOT_OPTIONS = {"B", "L", "seed", "scaling_used"}


def golden(name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The arrays of one file and the options the library was given."""
    folder = shared("golden")
    with np.load(folder / f"hopfield_{name}.npz") as file:
        arrays = {key: torch.from_numpy(file[key]) for key in file.files}
    index = json.loads((folder / "INDEX.json").read_text())
    (entry,) = (e for e in index["fixtures"] if e["name"] == f"hopfield_{name}")
    return arrays, entry["hyper_parameters"]


def ours(name: str) -> str:
    """The name a parameter of the library has in our module."""
    return name.removeprefix("hopfield.").removeprefix("association_core.")


def weights(arrays: dict[str, Tensor], kind: str) -> dict[str, Tensor]:
    return {ours(key.removeprefix(kind)): value for key, value in arrays.items() if key.startswith(kind)}


def same(actual: Tensor | None, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12)


def test_no_golden_file_is_left_out() -> None:
    names = {path.stem.removeprefix("hopfield_") for path in shared("golden").glob("hopfield_*.npz")}
    assert names == {*FILES, "counts_init"}


@pytest.mark.parametrize("name", FILES)
def test_the_literal_layer_is_the_librarys(name: str) -> None:
    arrays, options = golden(name)
    layer = HopfieldPooling(**{k: v for k, v in options.items() if k not in NOT_OPTIONS}).double()
    layer.load_state_dict(weights(arrays, "param."))
    assert layer.scaling == pytest.approx(options["scaling_used"], rel=1e-15)
    z = arrays["Z"].clone().requires_grad_()
    out = layer(z)
    same(out, arrays["out"])
    same(layer.retrieve(z)[1], arrays["assoc"])
    (out * arrays["cotangent"]).sum().backward()
    same(z.grad, arrays["grad_Z"])
    gradients = weights(arrays, "grad.")
    assert gradients.keys() == dict(layer.named_parameters()).keys()
    for key, parameter in layer.named_parameters():
        same(parameter.grad, gradients[key])
    assert sum(p.numel() for p in layer.parameters()) == arrays["n_params_trainable"]


@pytest.mark.parametrize("name", [f for f in FILES if f.startswith("plain_m")])
def test_the_reading_equations_is_the_library_without_norm_and_bias(name: str) -> None:
    arrays, options = golden(name)
    w_q, w_k, w_v = (w.T for w in arrays["param.hopfield.association_core.in_proj_weight"].chunk(3))
    gradients = arrays["grad.hopfield.association_core.in_proj_weight"].chunk(3)
    routing = router_of(arrays, options, reading="equations", kv="random", train_kv="both")
    router = routing._router(0)
    router.load_state_dict({"queries": arrays["param.pooling_weights"][0], "w_q": w_q, "w_k": w_k, "w_v": w_v})
    check_fast(routing, arrays)
    for parameter, gradient in zip((router.w_q, router.w_k, router.w_v), gradients, strict=True):
        assert parameter is not None
        same(parameter.grad, gradient.T)


@pytest.mark.parametrize("name", [f for f in FILES if f.startswith("static_noaffine")])
def test_the_reading_hopfield_pooling_is_the_static_library_layer(name: str) -> None:
    """Static keys and values, parameter-free LayerNorm on both; of its bias only the queries' half does anything."""
    arrays, options = golden(name)
    d, core = options["input_size"], "hopfield.association_core."
    routing = router_of(arrays, options, reading="hopfield_pooling")
    router = routing._router(0)
    router.load_state_dict(
        {
            "queries": arrays["param.pooling_weights"][0],
            "w_q": arrays[f"param.{core}in_proj_weight"].T,
            "b_q": arrays[f"param.{core}in_proj_bias"][:d],
            "norm_q.weight": arrays["param.hopfield.norm_state_pattern.weight"],
            "norm_q.bias": arrays["param.hopfield.norm_state_pattern.bias"],
        }
    )
    check_fast(routing, arrays)
    assert router.w_q is not None
    assert router.b_q is not None
    same(router.w_q.grad, arrays[f"grad.{core}in_proj_weight"].T)
    same(router.b_q.grad, arrays[f"grad.{core}in_proj_bias"][:d])
    same(router.norm_q.weight.grad, arrays["grad.hopfield.norm_state_pattern.weight"])  # type: ignore[arg-type, union-attr]
    same(router.norm_q.bias.grad, arrays["grad.hopfield.norm_state_pattern.bias"])  # type: ignore[arg-type, union-attr]
    assert not arrays[f"grad.{core}in_proj_bias"][d:].any()
    assert routing.trained_numbers() == arrays["n_params_trainable"] - d


def router_of(arrays: dict[str, Tensor], options: dict[str, Any], **settings: Any) -> Routing:
    width, prompts = options["input_size"], options["quantity"]
    return Routing(width=width, depth=1, blocks=1, prompts=prompts, seed=0, **settings).double()


def check_fast(routing: Routing, arrays: dict[str, Tensor]) -> None:
    z = arrays["Z"].clone().requires_grad_()
    out = routing.prompts(0, z).flatten(1)
    same(out, arrays["out"])
    same(routing.maps(0, z), arrays["assoc"][:, 0])
    (out * arrays["cotangent"]).sum().backward()
    same(z.grad, arrays["grad_Z"])
    same(routing._router(0).queries.grad, arrays["grad.pooling_weights"][0])


STATIC = {"stored_pattern_as_static": True, "pattern_projection_as_static": True, "disable_out_projection": True}
NO_AFFINE = {"normalize_stored_pattern_affine": False, "normalize_pattern_projection_affine": False}


@pytest.mark.parametrize(
    ("kind", "options", "count"),
    [("full", {}, 2_390_016), ("static", STATIC, 619_008), ("static_noaff", STATIC | NO_AFFINE, 615_936)],
)
def test_counts_names_and_start_are_the_librarys(kind: str, options: dict[str, bool], count: int) -> None:
    with np.load(shared("golden") / "hopfield_counts_init.npz") as file:
        expected = {key.removeprefix(f"{kind}_"): file[key] for key in file.files if key.startswith(f"{kind}_")}
    layer = HopfieldPooling(768, quantity=30, **options)  # type: ignore[arg-type]
    assert sum(p.numel() for p in layer.parameters()) == expected["count"] == count
    shapes = {name: tuple(p.shape) for name, p in layer.named_parameters()}
    assert {f"{name} {shape}" for name, shape in shapes.items()} == {ours(str(name)) for name in expected["names"]}
    start = dict(zip((ours(str(n)).split(" ")[0] for n in expected["names"]), expected["mean_std"], strict=True))
    for name, parameter in layer.named_parameters():
        mean, std = start[name]
        assert parameter.mean().item() == pytest.approx(mean, abs=1e-3)
        assert parameter.std(correction=0).item() == pytest.approx(std, abs=1e-3)


def test_the_dead_half_of_the_bias_is_the_difference_to_our_count() -> None:
    library = sum(p.numel() for p in HopfieldPooling(768, quantity=30, **STATIC, **NO_AFFINE).parameters())  # type: ignore[arg-type]
    assert library - Routing(width=768, depth=12, blocks=1, seed=0).trained_numbers() == 768
