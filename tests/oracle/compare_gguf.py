"""Random blocks of every encoding that qinfer reads, against the gguf package; and blocks that qinfer writes.

Read: a small GGUF file, written with the gguf package, holds a llama model whose layer adds nothing. Once its LM head is
made of random blocks and its embedding is the identity: then the logits of token t are column t of the head, to the
bit. Once it is the other way round, and the logits are the embedding's row after the last norm.

Written: a random checkpoint exported as q8_0 and q4_0, and read back by the gguf package. The squared error of a matrix is
at most that of the blocks which the gguf package makes of it (qinfer searches for better scales). No value of q8_0 is a
step off. The search for q4_0's scales may cut off a block's largest value, if that lowers the squared error of the block;
then no value is further off than all of the block together in the gguf package's form, which is among those that are tried.
"""
import ctypes
import json
import pathlib
import sys
import tempfile

import gguf
import numpy
import qinfer
from oracle import FIXTURES
from qinfer import _abi
from qinfer._library import call, lib, sized
from safetensors.numpy import save_file

sys.path.insert(0, str(FIXTURES))
from make_block_fixtures import SCALES  # noqa: E402 - where each block has its f16 scales

Type = gguf.GGMLQuantizationType
WIDTH = 256  # also the vocabulary: the identity is square
PLAIN = ["F32", "F16", "BF16"]
# The norm adds 256 squares in f32, and rounds twice more: 2^-24 each, some 16 together on average, 256 at most.
NORM_BOUND = 260 * 2.0**-24


def finite_halves(numbers, count):
    """Random f16 numbers of every size, none infinite."""
    bits = numbers.integers(0, 1 << 16, count, dtype=numpy.uint16)
    bits[(bits & 0x7C00) == 0x7C00] &= 0x83FF
    return bits.view(numpy.uint8).reshape(count, 2)


def random_matrix(numbers, name, small):
    """The bytes [rows, bytes of a row] and the values of a matrix. small: scales near 2^-8 only, for values near one."""
    kind = Type[name]
    per_block, size = gguf.GGML_QUANT_SIZES[kind]
    count = WIDTH * WIDTH // per_block
    if name in PLAIN:
        values = numbers.normal(size=(WIDTH, WIDTH)).astype(numpy.float32)
        blocks = gguf.quantize(values, kind)
        return blocks, gguf.dequantize(blocks, kind)
    blocks = numbers.integers(0, 256, (count, size), dtype=numpy.uint8)
    for at in SCALES[name]:
        halves = finite_halves(numbers, count)
        if small:
            halves = (numbers.uniform(0.5, 1.5, count) / 256).astype(numpy.float16).view(numpy.uint8).reshape(count, 2)
        blocks[:, at : at + 2] = halves
    if name == "MXFP4":  # its scale is a power of two
        blocks[:, 0] = numbers.integers(*((120, 130) if small else (20, 240)), count)
    blocks = blocks.reshape(WIDTH, -1)
    return blocks, gguf.dequantize(blocks, kind)


def write_model(path, embedding, head, eps):
    """embedding, head: (name of the encoding, bytes or values)."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(2 * WIDTH)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("none")
    writer.add_quantization_version(2)
    one, nothing = numpy.ones(WIDTH, numpy.float32), numpy.zeros((WIDTH, WIDTH), numpy.float32)
    for name, (kind, data) in (("token_embd", embedding), ("output", head)):
        writer.add_tensor(f"{name}.weight", data, raw_dtype=Type[kind])
    # An embedding of ones has a root mean square of 1/16.
    writer.add_tensor("output_norm.weight", one / 16 if eps == 0 else one)
    for name in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{name}.weight", one)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", nothing)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def all_logits(path, target):
    """[token, logit] of all tokens in ascending order."""
    model = qinfer.Model(path, qinfer.Runtime(threads=1, exact=True, cpu_target=target))
    session = qinfer.Session(model, max_tokens=WIDTH, max_logits=WIDTH)
    session.append(range(WIDTH))
    session.evaluate(keep_logits=WIDTH)
    rows = numpy.stack([numpy.array(session.logits(back), copy=True) for back in reversed(range(WIDTH))])
    session.close()
    model.close()
    return rows


def check_values(comparison, found, wanted, bound, what):
    """bound: of the difference, as a share of the value that is wanted."""
    wanted = wanted.astype(numpy.float64)
    off = numpy.abs(found.astype(numpy.float64) - wanted) - bound * numpy.abs(wanted)
    off[~numpy.isfinite(found)] = numpy.inf

    def difference():
        row, column = numpy.unravel_index(int(numpy.argmax(off)), off.shape)
        return (f"{int((off > 0).sum())} of {off.size} values, most at row {row}, column {column}: "
                f"qinfer {found[row, column]!r}, expected {wanted[row, column]!r}")

    comparison.check(bool((off <= 0).all()), what, difference)


def check_read(comparison, folder, name, numbers, what):
    path, identity = folder / "model.gguf", numpy.eye(WIDTH, dtype=numpy.float32)
    blocks, values = random_matrix(numbers, name, False)
    write_model(path, ("F32", identity), (name, blocks), 0.0)
    for target in (None, "reference"):
        check_values(comparison, all_logits(path, target).T, values, 0, f"{what} as LM head, {target or 'default'} kernels")
    blocks, values = random_matrix(numbers, name, True)
    write_model(path, (name, blocks), ("F32", identity), 1.0)
    values = values.astype(numpy.float64)
    wanted = values / numpy.sqrt((values**2).mean(-1, keepdims=True) + 1.0)
    check_values(comparison, all_logits(path, None), wanted, NORM_BOUND, f"{what} as embedding")


TENSORS = {"self_attn.q_proj": ("attn_q", 128, 96), "self_attn.k_proj": ("attn_k", 64, 96),
           "self_attn.v_proj": ("attn_v", 64, 96), "self_attn.o_proj": ("attn_output", 96, 128),
           "mlp.gate_proj": ("ffn_gate", 160, 96), "mlp.up_proj": ("ffn_up", 160, 96), "mlp.down_proj": ("ffn_down", 96, 160)}


def write_checkpoint(folder, numbers):
    """A Qwen 3 of one layer; returns its matrices by their names in GGUF files."""
    config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 64, "hidden_size": 96,
              "intermediate_size": 160, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
              "head_dim": 32, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "dtype": "float32",
              "max_position_embeddings": 64, "tie_word_embeddings": False, "attention_bias": False}
    (folder / "config.json").write_text(json.dumps(config))
    sizes = {"input_layernorm": 96, "post_attention_layernorm": 96, "self_attn.q_norm": 32, "self_attn.k_norm": 32}
    stored = {f"model.layers.0.{name}.weight": numpy.ones(size, numpy.float32) for name, size in sizes.items()}
    stored["model.norm.weight"] = numpy.ones(96, numpy.float32)
    matrices = {}
    names = {f"model.layers.0.{name}.weight": (f"blk.0.{short}.weight", rows, columns)
             for name, (short, rows, columns) in TENSORS.items()}
    names |= {"model.embed_tokens.weight": ("token_embd.weight", 64, 96), "lm_head.weight": ("output.weight", 64, 96)}
    for name, (short, rows, columns) in names.items():
        scale = 10.0 ** numbers.uniform(-4, 2, (rows, columns // 32, 1))
        values = (numbers.normal(size=(rows, columns // 32, 32)) * scale).astype(numpy.float32)
        if numbers.random() < 0.3:  # few distinct values, of which several are largest, and blocks of zeros
            values = numpy.round(values / scale.astype(numpy.float32)).astype(numpy.float32)
        stored[name] = matrices[short] = values.reshape(rows, columns)
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    return matrices


def export(folder, out, weight_format):
    options = sized(_abi.qinfer_load_options, weight_format=weight_format.encode())
    with qinfer.Runtime(threads=1) as runtime:
        call(lib.qinfer_model_export_gguf, runtime, str(folder).encode(), ctypes.byref(options), str(out).encode())


def check_written(comparison, folder, weight_format, numbers, what):
    matrices = write_checkpoint(folder, numbers)
    export(folder, folder / "out.gguf", weight_format)
    written = {tensor.name: tensor for tensor in gguf.GGUFReader(folder / "out.gguf").tensors}
    for name, values in matrices.items():
        tensor = written[name]
        kind = tensor.tensor_type
        if kind.name.lower() != weight_format:
            comparison.left_out(f"matrices of {weight_format} in {kind.name}, which the gguf package does not write")
            continue
        theirs = gguf.quantize(values, kind)
        read, wanted = gguf.dequantize(numpy.asarray(tensor.data).reshape(theirs.shape), kind), gguf.dequantize(theirs, kind)
        ours, plain = (((back.astype(numpy.float64) - values) ** 2).sum() for back in (read, wanted))
        comparison.check(ours <= plain * (1 + 1e-6), f"{what}, {name}",
                         lambda ours=ours, plain=plain: f"squared error {ours:g}, of the gguf package's blocks {plain:g}")
        blocks = (values.reshape(-1, 32), read.reshape(-1, 32))
        largest = numpy.abs(blocks[0]).max(-1, keepdims=True)
        levels = {"q8_0": 127, "q4_0": 8}[weight_format]
        # Scales are multiples of 2^-24, and so half of that off, or have 11 bits: each level is so much off.
        bound = levels * 2.0**-25
        if weight_format == "q8_0":
            bound = bound + largest / levels
        else:
            errors = blocks[0].astype(numpy.float64) - wanted.reshape(-1, 32)
            bound = bound + largest * 2.0**-11 * (levels / 7) + numpy.sqrt((errors**2).sum(-1, keepdims=True))
        off = numpy.abs(blocks[0].astype(numpy.float64) - blocks[1]) / bound
        comparison.check(bool((off <= 1).all()), f"{what}, values of {name}",
                         lambda off=off: f"{int((off > 1).sum())} values, at most {off.max():g} of the bound off")


def compare(comparison):
    names = [*SCALES, *PLAIN]
    others = sorted({kind.name for kind in Type} - {*names, "F64", "I8", "I16", "I32", "I64"})
    comparison.left_out(f"encodings that qinfer does not read: {', '.join(others)}")
    for number, rng in comparison.cases():
        numbers = numpy.random.default_rng(rng.getrandbits(64))
        with tempfile.TemporaryDirectory() as work:
            folder = pathlib.Path(work)
            turn = number % (len(names) + 2)
            with numpy.errstate(over="ignore", invalid="ignore"):
                if turn < len(names):
                    check_read(comparison, folder, names[turn], numbers, f"case {number}, {names[turn]}")
                else:
                    weight_format = ["q8_0", "q4_0"][turn - len(names)]
                    check_written(comparison, folder, weight_format, numbers, f"case {number}, {weight_format}")
