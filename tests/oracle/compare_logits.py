"""Random small models of every architecture: transformers' logits in float64 against qinfer's exact ones.

A case takes one of the variants of tests/fixtures/make_model_fixtures.py, gives it other sizes, weights and ids, and is
written as transformers writes it. qinfer evaluates the ids at once, in chunks, and token by token.

The bound is that of tests/models/hugging_face.cpp: 1e-4 of the largest logit, which is what the project promises for f32.
transformers' own float32 is within 2e-6 of its float64 on these models, and the smallest misreading of a configuration is
0.02. Sizes here are of the same order, and sums in f32 grow with the square root of what is added.
"""
import copy
import importlib.util
import json
import pathlib
import sys
import tempfile
import zlib

import numpy
import qinfer
from oracle import FIXTURES, LeftOut

BOUND = 1e-4


def fixtures():
    """make_model_fixtures.py as a module."""
    if importlib.util.find_spec("torch") is None:
        raise LeftOut("torch is not installed")
    sys.path.insert(0, str(FIXTURES))
    import make_model_fixtures
    import torch
    from transformers.utils import logging

    torch.cuda.is_current_stream_capturing = lambda: False  # transformers asks, and the stubs of CUDA cannot tell
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    return make_model_fixtures, torch


def resized(rng, config):
    """The configuration with other sizes; what belongs to the rotary embedding and to windows stays."""
    config = copy.deepcopy(config)
    kv_heads = rng.choice([1, 2, 3])
    heads = kv_heads * rng.choice([1, 2, 3])
    head_dim = rng.choice([8, 16, 24, 32, 40, 64])
    config["num_key_value_heads"], config["num_attention_heads"] = kv_heads, heads
    if "head_dim" in config:
        config["head_dim"] = head_dim
        config["hidden_size"] = heads * 2 * rng.randint(4, 20)
    else:
        config["hidden_size"] = heads * head_dim
    for key in ("intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size"):
        if config.get(key):
            config[key] = rng.randint(5, 150)
    config["vocab_size"] = rng.randint(60, 600)
    config["rms_norm_eps"] = rng.choice([1e-6, 1e-5, 1e-3])
    return config


def write(torch, make, spec, config, seed, folder):
    """make()'s first steps with other weights."""
    config_class, model_class = make.CLASSES[spec["arch"]]
    model = model_class(config_class(**config))
    make.randomize(model, f"{spec['arch']} {seed}", spec.get("scale", 1.0), spec.get("sharpness", 1.0))
    model = model.to(spec["dtype"])
    model.config.dtype = spec["dtype"]
    if "shared" in spec:
        model.config.num_kv_shared_layers = spec["shared"]
    model.save_pretrained(folder, **({"save_original_format": False} if spec.get("fused") else {}))
    (folder / "generation_config.json").unlink(missing_ok=True)


def expected(torch, make, spec, vocab, seed, n, folder):
    """Ids, and their logits in float64 or, of an encoder, its embeddings' last hidden states."""
    model = make.load(folder, spec, torch.float64)
    gen = torch.Generator().manual_seed(zlib.crc32(f"{seed} ids".encode()))
    with make.float64_pass(model):
        if spec["arch"] in make.MOE:
            ids = make.moe.ids_with_clear_choices(model, vocab, n, gen)
        else:
            ids = torch.randint(0, vocab, (n,), generator=gen)
        return ids.tolist(), make.logits_of(model, ids).numpy()


def evaluate(model, ids, chunk):
    session = qinfer.Session(model, max_logits=len(ids))
    rows = []
    for at in range(0, len(ids), chunk):
        part = ids[at : at + chunk]
        session.append(part)
        session.evaluate(keep_logits=len(part))
        rows += [numpy.array(session.logits(back), copy=True) for back in reversed(range(len(part)))]
    return numpy.stack(rows)


def check(comparison, model, ids, wanted, chunk, what):
    found = evaluate(model, ids, chunk).astype(numpy.float64)
    off = numpy.abs(found - wanted) / numpy.abs(wanted).max()
    worst = float(off.max()) if numpy.isfinite(found).all() else float("inf")
    comparison.worst = max(comparison.worst, worst)

    def difference():
        row, column = numpy.unravel_index(int(numpy.nanargmax(off)), off.shape)
        return (f"token {row}, logit {column}: qinfer {found[row, column]:.9g}, expected {wanted[row, column]:.9g}, "
                f"{worst:.3g} of the largest logit where {BOUND:g} is allowed")

    comparison.check(worst < BOUND, what, difference)


def run_case(comparison, modules, name, number, rng):
    make, torch = modules
    spec = make.VARIANTS[name]
    config = resized(rng, spec["config"])
    what = f"case {number}, like {name}, " + json.dumps({k: v for k, v in config.items() if isinstance(v, int)})
    n = rng.choice([3, 17, 40, 70])
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        seed = f"{comparison.seed} {number}"
        try:
            write(torch, make, spec, config, seed, folder)
            ids, wanted = expected(torch, make, spec, config["vocab_size"], seed, n, folder)
        except (AssertionError, ValueError, RuntimeError) as why:  # sizes that transformers or the seeds of ids refuse
            comparison.left_out(f"sizes that the fixtures' maker refuses: {str(why)[:80]}")
            return
        threads = rng.choice([1, 2])
        model = qinfer.Model(folder, qinfer.Runtime(threads=threads, exact=True))
        for chunk in (n, 1, 7):
            check(comparison, model, ids, wanted, chunk, f"{what}, {n} ids in chunks of {chunk}")
        model.close()


def compare(comparison):
    modules = fixtures()
    comparison.worst = 0.0
    variants = modules[0].VARIANTS
    names = [name for name, spec in variants.items()
             if not spec["arch"].endswith("encoder") and "shared" not in spec and "prepare" not in spec]
    comparison.left_out(f"variants with shared keys and values, and encoders: {len(variants) - len(names)} of {len(variants)}")
    architectures = sorted({variants[name]["arch"] for name in names})
    for number, rng in comparison.cases():
        # Every architecture in turn.
        arch = architectures[number % len(architectures)]
        name = rng.choice([name for name in names if variants[name]["arch"] == arch])
        run_case(comparison, modules, name, number, rng)
    print(f"logits: the largest deviation is {comparison.worst:.3g} of the largest logit")
