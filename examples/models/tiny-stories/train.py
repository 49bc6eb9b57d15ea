"""Trains the tiny story models, from nothing but plots.py.

Makes the stories, trains a byte-level BPE tokenizer on them, trains a small
Qwen3 network (the `transformers` class, so the architecture is the published
one) and saves it in bfloat16 next to this file, in the layout in which such
models are usually shared. With --moe, the network is a mixture of experts
(Qwen3-MoE), the tokenizer is the one of this folder, and the model is saved in
../tiny-stories-moe. Every random draw is seeded. Run `measure.py` afterwards:
it loads the saved files back and writes expected.json.

    python train.py                     # all of it
    python train.py --moe               # the mixture of experts
    python train.py --steps 60 --out quick          # a quick look at the loss
"""

import argparse
import json
import math
import pathlib
import random
import time

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM
from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

from generate_stories import make_stories

HERE = pathlib.Path(__file__).resolve().parent
MOE_FOLDER = HERE.parent / "tiny-stories-moe"

# Data. Held-out stories come from another seed; those that also occur in the
# training split (rare) are dropped from the training split.
TRAIN_SEED, TRAIN_STORIES = 1, 60000
HELDOUT_SEED, HELDOUT_STORIES = 2, 100

# Tokenizer.
VOCAB_SIZE = 1024
END = "<|endoftext|>"
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")

# Network: about 1.95 million weights, 3.9 MB in bfloat16.
MAX_POSITIONS = 512
NETWORK = dict(hidden_size=160, head_dim=32, num_attention_heads=6, num_key_value_heads=2, intermediate_size=448,
               num_hidden_layers=6, max_position_embeddings=MAX_POSITIONS, tie_word_embeddings=True, rms_norm_eps=1e-6)
ROPE_THETA = 10000.0
# The mixture of experts: a router and 8 experts in place of each feed-forward
# network, 2 of them for each token. About 2.88 million weights, 1.22 million
# of which work on any one token; 5.8 MB in bfloat16.
EXPERTS = dict(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=96, norm_topk_prob=True,
               decoder_sparse_step=1, mlp_only_layers=[])

# Training.
SEED = 20
STEPS = 4000
BATCH_TOKENS = 2048
PEAK_RATE, FINAL_RATE = 3e-3, 3e-5
WARMUP = 100
BETAS, WEIGHT_DECAY, CLIP = (0.9, 0.98), 0.1, 1.0
# Weight of the loss that keeps the experts of a layer about equally busy.
BALANCE = 0.01
# Share of the sequences that begin with the text itself, without END before
# it, so that a bare "Once upon a time" is a beginning the network knows.
BARE_START = 0.4
# Share of the sequences that hold two stories, so that the later positions
# and what follows END are trained too.
TWO_STORIES = 0.2


def train_tokenizer(stories):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    # All 256 bytes are in the alphabet, so no text is ever unknown. The
    # special token is added afterwards and is no part of the merges' vocabulary.
    tokenizer.train_from_iterator(stories, trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - 1, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_special_tokens([AddedToken(END, special=True, normalized=False)])
    return tokenizer


def make_sequences(encoded, end, rng):
    """Token sequences: [END] story END, some of them with a second story behind it."""
    sequences, at = [], 0
    while at < len(encoded):
        ids = ([] if rng.random() < BARE_START else [end]) + encoded[at] + [end]
        at += 1
        if at < len(encoded) and rng.random() < TWO_STORIES and len(ids) + len(encoded[at]) < MAX_POSITIONS:
            ids += encoded[at] + [end]
            at += 1
        sequences.append(ids)
    return sequences


def make_batches(sequences, rng):
    """Groups sequences of like length (little padding) into batches of about BATCH_TOKENS tokens."""
    batches = []
    for start in range(0, len(sequences), 1024):
        batch = []
        for ids in sorted(sequences[start:start + 1024], key=len):
            if batch and (len(batch) + 1) * len(ids) > BATCH_TOKENS:
                batches.append(batch)
                batch = []
            batch.append(ids)
        batches.append(batch)
    rng.shuffle(batches)
    return batches


def pad(batch):
    """Inputs and next-token targets. Padding is at the end, where causal attention never looks back from a real token."""
    width = max(map(len, batch)) - 1
    inputs = torch.zeros(len(batch), width, dtype=torch.long)
    targets = torch.full((len(batch), width), -100)
    for row, ids in enumerate(batch):
        inputs[row, :len(ids) - 1] = torch.tensor(ids[:-1])
        targets[row, :len(ids) - 1] = torch.tensor(ids[1:])
    return inputs, targets


def learning_rate(step, steps):
    """Linear warm-up, then a cosine down to FINAL_RATE."""
    if step < WARMUP:
        return PEAK_RATE * (step + 1) / WARMUP
    turn = (step - WARMUP) / max(1, steps - WARMUP)
    return FINAL_RATE + (PEAK_RATE - FINAL_RATE) * 0.5 * (1 + math.cos(math.pi * turn))


def is_moe(model):
    return isinstance(model, Qwen3MoeForCausalLM)


def balance_loss(router_logits, real):
    """How unevenly the real tokens are spread over the experts: the mean over the layers, so that one layer's favourite
    expert is not made up for by another layer's."""
    layers = [load_balancing_loss_func((logits,), EXPERTS["num_experts"], EXPERTS["num_experts_per_tok"], real)
              for logits in router_logits]
    return sum(layers) / len(layers)


def losses(model, batch):
    """Summed cross-entropy (nats) of a batch, how many tokens it covers, and the experts' balance loss (dense: 0)."""
    inputs, targets = pad(batch)
    wanted = {"output_router_logits": True} if is_moe(model) else {}
    output = model(input_ids=inputs, use_cache=False, **wanted)
    loss = torch.nn.functional.cross_entropy(output.logits.flatten(0, 1).float(), targets.flatten(), ignore_index=-100, reduction="sum")
    real = targets != -100
    balance = balance_loss(output.router_logits, real) if is_moe(model) else torch.zeros(())
    return loss, int(real.sum()), balance


@torch.no_grad()
def perplexity(model, encoded, end):
    """Each story alone as END + story + END; all tokens after the first count."""
    model.eval()
    total, count = 0.0, 0
    for ids in encoded:
        loss, tokens, _ = losses(model, [[end] + ids + [end]])
        total += loss.item()
        count += tokens
    model.train()
    return math.exp(total / count), count


def build_model(end, moe):
    torch.manual_seed(SEED)
    common = dict(vocab_size=VOCAB_SIZE, rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
                  bos_token_id=None, eos_token_id=end, pad_token_id=None, attention_dropout=0.0,
                  initializer_range=0.02, **NETWORK)
    if moe:
        model = Qwen3MoeForCausalLM(Qwen3MoeConfig(router_aux_loss_coef=BALANCE, **common, **EXPERTS))
        model.set_experts_implementation("eager")  # a loop over the experts: on a processor faster than "grouped_mm"
        return model.train()
    return Qwen3ForCausalLM(Qwen3Config(**common)).train()


def train(model, batches, steps, work):
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]  # the norms' gains
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}],
                                  lr=PEAK_RATE, betas=BETAS)
    started, seen, recent = time.time(), 0, []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        loss, tokens, balance = losses(model, batches[step % len(batches)])
        loss = loss / tokens
        (loss + BALANCE * balance).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seen += tokens
        recent = recent[-49:] + [loss.item()]
        if step % 20 == 19:
            spent = time.time() - started
            print(f"step {step + 1}/{steps}  loss {sum(recent) / len(recent):.4f}  balance {balance.item():.3f}  tokens {seen}  {spent:.0f} s  {seen / spent:.0f} tokens/s", flush=True)
        if work and (step % 250 == 249 or step + 1 == steps):
            torch.save(model.state_dict(), work / "checkpoint.pt")


def save(model, tokenizer, end, out):
    """The usual files of a shared model, weights in bfloat16."""
    model = model.to(torch.bfloat16)
    model.generation_config.eos_token_id = [end]
    model.save_pretrained(out)
    tokenizer.save(str(out / "tokenizer.json"))
    # Newer releases of transformers write the base of the rotary angles only
    # inside "rope_parameters"; readers of the published Qwen3 files look for
    # the older top-level name. Both are there, with the same value. Likewise
    # the number of experts, which they write as "num_local_experts".
    path = out / "config.json"
    config = json.loads(path.read_text())
    config["rope_theta"] = ROPE_THETA
    if is_moe(model):
        config["num_experts"] = EXPERTS["num_experts"]
    config["torch_dtype"] = "bfloat16"
    path.write_text(json.dumps(config, indent=2) + "\n")
    path = out / "generation_config.json"
    generation = json.loads(path.read_text())
    generation["eos_token_id"] = [end]
    path.write_text(json.dumps(generation, indent=2) + "\n")
    (out / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": None, "eos_token": END, "pad_token": END,
        "model_max_length": MAX_POSITIONS, "clean_up_tokenization_spaces": False}, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description="Train a tiny story model.")
    parser.add_argument("--moe", action="store_true", help="train the mixture of experts, with the dense model's tokenizer")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--threads", type=int, default=1, help="processor threads; another number may round differently")
    parser.add_argument("--out", type=pathlib.Path, help="default: this folder; with --moe: ../tiny-stories-moe")
    parser.add_argument("--work", type=pathlib.Path, help="folder for a checkpoint every 250 steps")
    parser.add_argument("--export", type=pathlib.Path, help="save the weights of this checkpoint instead of training")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    out = options.out or (MOE_FOLDER if options.moe else HERE)
    out.mkdir(parents=True, exist_ok=True)

    heldout = make_stories(HELDOUT_SEED, HELDOUT_STORIES)
    hidden = set(heldout)
    stories = [s for s in make_stories(TRAIN_SEED, TRAIN_STORIES) if s not in hidden]
    if options.moe:
        tokenizer = Tokenizer.from_file(str(HERE / "tokenizer.json"))
    else:
        tokenizer = train_tokenizer(stories[:20000])
    end = tokenizer.token_to_id(END)
    encode = lambda texts: [e.ids for e in tokenizer.encode_batch(texts)]
    rng = random.Random(SEED)
    batches = make_batches(make_sequences(encode(stories), end, rng), rng)
    print(f"{len(stories)} stories, {len(batches)} batches, {tokenizer.get_vocab_size()} tokens in the vocabulary", flush=True)

    model = build_model(end, options.moe)
    print(f"{sum(p.numel() for p in model.parameters())} weights", flush=True)
    if options.export:
        model.load_state_dict(torch.load(options.export))
    else:
        train(model, batches, options.steps, options.work)
    value, count = perplexity(model, encode(heldout), end)
    print(f"held-out perplexity, float32 weights: {value:.5f} over {count} tokens")
    save(model, tokenizer, end, out)


if __name__ == "__main__":
    main()
