"""What tests of serving share: a model that takes its time, processes of the cluster and what they cost."""

import json
import os
import pathlib
import shutil
import time

import numpy

END = "1273"  # tiny-chat's end token


def write_slow_model(folder, like):
    """A model of tiny-chat's kind and vocabulary, of random weights and 110 MB, whose tokens take some milliseconds."""
    like = pathlib.Path(like)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        shutil.copy(like / name, folder)
    config = json.loads((like / "config.json").read_text())
    n, ffn, layers, width = 768, 2048, 8, 64
    heads, kv_heads = n // width, 4
    config |= {
        "hidden_size": n, "intermediate_size": ffn, "num_hidden_layers": layers, "head_dim": width,
        "layer_types": ["full_attention"] * layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], n), "model.norm.weight": (n,)}
    for layer in range(layers):
        at = f"model.layers.{layer}."
        shapes |= {at + f"self_attn.{name}_norm.weight": (width,) for name in "qk"}
        shapes |= {at + f"{name}_layernorm.weight": (n,) for name in ("input", "post_attention")}
        shapes |= {at + f"self_attn.{name}_proj.weight": (kv_heads * width, n) for name in "kv"}
        shapes |= {at + f"mlp.{name}_proj.weight": (ffn, n) for name in ("gate", "up")}
        shapes[at + "self_attn.q_proj.weight"] = (heads * width, n)
        shapes[at + "self_attn.o_proj.weight"] = (n, heads * width)
        shapes[at + "mlp.down_proj.weight"] = (n, ffn)
    random, header, data = numpy.random.default_rng(1), {}, []
    offset = 0
    for name, shape in shapes.items():
        values = random.standard_normal(shape, numpy.float32) * 0.05
        if len(shape) == 1:
            values[:] = 1
        halves = (values.view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes()  # bf16
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + len(halves)]}
        offset += len(halves)
        data.append(halves)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(data))


class AsAFileSays:
    """A policy of Ray Serve's autoscaling: as many replicas as a file says."""

    def __init__(self, path):
        self._path = path

    def __call__(self, _):
        with open(self._path) as file:
            return int(file.read()), {}


def processes(root=None):
    """Of this process and all below it: id, command and seconds of CPU."""
    found = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            stat = pathlib.Path(entry.path, "stat").read_text()
            command = pathlib.Path(entry.path, "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        fields = stat.rpartition(")")[2].split()
        seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        found[int(entry.name)] = int(fields[1]), fields[0], command, seconds
    below = {root or os.getpid()}
    while True:
        more = {pid for pid, (parent, *_) in found.items() if parent in below} - below
        if not more:
            break
        below |= more
    return {pid: (found[pid][2], found[pid][3]) for pid in below if pid in found and found[pid][1] != "Z"}


def replica_pids(app):
    return sorted(pid for pid, (command, _) in processes().items() if f"ServeReplica:{app}:Replica" in command)


def cores_taken(seconds):
    """Cores that all processes below this one have taken meanwhile, on average: those of applications and their controller,
    and the others."""
    before, begun = processes(), time.monotonic()
    time.sleep(seconds)
    after, took = processes(), time.monotonic() - begun
    taken = {pid: (after[pid][1] - before[pid][1]) / took for pid in before if pid in after and pid != os.getpid()}
    serving = sum(taken[pid] for pid in taken if "ServeReplica:" in after[pid][0] or "ServeController" in after[pid][0])
    return serving, sum(taken.values()) - serving


def wait_until(condition, seconds, what):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"{what}: not within {seconds} s"
        time.sleep(0.1)
