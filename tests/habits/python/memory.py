"""What a model and its conversations will take, before it is loaded, and files made of it."""

import pathlib
import sys
import tempfile

import qinfer

path = sys.argv[1]
for kv_type in ("f32", "bf16"):
    plan = qinfer.plan(path, sessions=4, context=512, kv_type="f32" if kv_type == "f32" else "bf16")
    print(kv_type, plan["kv_cache_bytes"] > 0, plan["total"] > plan["kv_cache_bytes"])
print(len(qinfer.plan_map(path)["regions"]) > 1, qinfer.inspect(path)["n_layers"] == qinfer.Model(path).info["n_layers"])
print("reference" in [one.name for one in qinfer.kernel_sets()])
with tempfile.TemporaryDirectory() as folder:
    small = pathlib.Path(folder) / "small.gguf"
    qinfer.export_gguf(path, small, weight_format="q8_0")
    qinfer.pack(path, pathlib.Path(folder) / "packed")
    print(qinfer.Chat(small).send("Hello!")[:6], qinfer.Chat(pathlib.Path(folder) / "packed").send("Hello!"))
try:
    qinfer.Model(path, memory_budget=1000)
except qinfer.NoMemoryError as failure:
    print(failure.detail > 1000)
# f32 True True
# bf16 True True
# True True
# True
# Hello! Hello! What can I do for you?
# True
