"""Trains tiny-chat, from nothing but generate_chats.py.

Makes the conversations, writes them with chat_template.jinja, trains a
byte-level BPE tokenizer on them, trains a small Qwen3 network (the
`transformers` class, so the architecture is the published one) and saves it in
bfloat16 next to this file, in the layout in which such models are usually
shared. Every random draw is seeded. Run `measure.py` afterwards: it loads the
saved files back and writes expected.json and heldout.txt.

    python train.py                            # all of it
    python train.py --steps 60 --out quick     # a quick look at the loss
"""

import argparse
import json
import math
import pathlib
import random
import shutil
import time

import jinja2
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import Qwen3Config, Qwen3ForCausalLM

from generate_chats import make_chats, make_heldouts

HERE = pathlib.Path(__file__).resolve().parent
TEMPLATE = HERE / "chat_template.jinja"

TRAIN_SEED, TRAIN_CHATS = 1, 70000
HELDOUT_SEED, HELDOUT_EACH = 2, 4

# Tokenizer. A capital letter is split from the letters after it, so that "Rome" is written with the same last token
# after a space and after a quotation mark: names are copied from the one place to the other.
VOCAB_SIZE = 1280
END, TURN, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
MARKS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
SPLIT = r" ?\p{Lu}| ?[\p{Ll}\p{Lt}\p{Lm}\p{Lo}\p{M}]+|\p{N}| ?[^\s\p{L}\p{N}\p{M}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

MAX_POSITIONS = 1024
NETWORK = dict(hidden_size=160, head_dim=32, num_attention_heads=6, num_key_value_heads=2, intermediate_size=448,
               num_hidden_layers=6, max_position_embeddings=MAX_POSITIONS, tie_word_embeddings=True, rms_norm_eps=1e-6)
ROPE_THETA = 10000.0

SEED = 20
STEPS = 2800
BATCH_TOKENS = 2048
PEAK_RATE, FINAL_RATE = 3e-3, 3e-5
WARMUP = 100
BETAS, WEIGHT_DECAY, CLIP = (0.9, 0.98), 0.1, 1.0
# Weight of the loss of what others than the model say; the model's own tokens weigh 1.
PROMPT_WEIGHT = 0.03
EMPTY_THOUGHT = "<think>\n\n</think>\n\n"


class Template:
    """chat_template.jinja, set up as transformers sets templates up."""

    def __init__(self, path=TEMPLATE):
        environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
        self.template = environment.from_string(path.read_text())

    def __call__(self, chat, add_generation_prompt=False):
        return self.template.render(add_generation_prompt=add_generation_prompt, **chat)


def train_tokenizer(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    # All 256 bytes are in the alphabet, so no text is ever unknown. The added tokens are no part of the merges.
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - 3 - len(MARKS), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in (END, TURN, TURN_END)])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in MARKS])
    return tokenizer


def plain_text(text):
    """What the tokenizer's merges are trained on: without the added tokens."""
    for mark in (END, TURN, TURN_END, *MARKS):
        text = text.replace(mark, "\n")
    return text


class Encoder:
    """Conversations as tokens, each with the weight of its loss."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.start = [tokenizer.token_to_id(TURN)] + tokenizer.encode("assistant\n").ids
        self.end = tokenizer.token_to_id(TURN_END)
        self.empty = tokenizer.encode(EMPTY_THOUGHT).ids

    def weights(self, ids):
        weights, at = [PROMPT_WEIGHT] * len(ids), 0
        n, e = len(self.start), len(self.empty)
        while at < len(ids):
            if ids[at:at + n] != self.start:
                at += 1
                continue
            at += n
            if ids[at:at + e] == self.empty:  # the template writes it, not the model
                weights[at:at + e] = [0.0] * e
                at += e
            while at < len(ids):
                weights[at] = 1.0
                at += 1
                if ids[at - 1] == self.end:
                    break
        return weights

    def __call__(self, texts):
        return [(e.ids, self.weights(e.ids)) for e in self.tokenizer.encode_batch(texts)]


def make_batches(sequences, rng):
    """Groups sequences of like length (little padding) into batches of about BATCH_TOKENS tokens."""
    batches = []
    for start in range(0, len(sequences), 1024):
        batch = []
        for pair in sorted(sequences[start:start + 1024], key=lambda pair: len(pair[0])):
            if batch and (len(batch) + 1) * len(pair[0]) > BATCH_TOKENS:
                batches.append(batch)
                batch = []
            batch.append(pair)
        batches.append(batch)
    rng.shuffle(batches)
    return batches


def pad(batch):
    """Inputs, next-token targets and their weights. Padding is at the end, where causal attention never looks back from
    a real token."""
    width = max(len(ids) for ids, _ in batch) - 1
    inputs, targets = (torch.zeros(len(batch), width, dtype=torch.long) for _ in range(2))
    weights = torch.zeros(len(batch), width)
    for row, (ids, weight) in enumerate(batch):
        inputs[row, :len(ids) - 1] = torch.tensor(ids[:-1])
        targets[row, :len(ids) - 1] = torch.tensor(ids[1:])
        weights[row, :len(ids) - 1] = torch.tensor(weight[1:])
    return inputs, targets, weights


def learning_rate(step, steps):
    """Linear warm-up, then a cosine down to FINAL_RATE."""
    if step < WARMUP:
        return PEAK_RATE * (step + 1) / WARMUP
    turn = (step - WARMUP) / max(1, steps - WARMUP)
    return FINAL_RATE + (PEAK_RATE - FINAL_RATE) * 0.5 * (1 + math.cos(math.pi * turn))


def losses(model, batch):
    """The weighted mean of the cross-entropy (nats), and the mean and number of the model's own tokens."""
    inputs, targets, weights = pad(batch)
    logits = model(input_ids=inputs, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="none")
    weights = weights.flatten()
    own = weights == 1
    return (loss * weights).sum() / weights.sum(), loss.detach()[own].mean(), int(own.sum())


@torch.no_grad()
def validate(model, sequences):
    model.eval()
    parts = [losses(model, sequences[at:at + 8])[1:] for at in range(0, len(sequences), 8)]
    model.train()
    return sum(mean.item() * n for mean, n in parts) / sum(n for _, n in parts)


def build_model(end):
    torch.manual_seed(SEED)
    return Qwen3ForCausalLM(Qwen3Config(
        vocab_size=VOCAB_SIZE, rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA}, bos_token_id=None,
        eos_token_id=end, pad_token_id=None, attention_dropout=0.0, initializer_range=0.02, **NETWORK)).train()


def train(model, batches, steps, heldout, work):
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]  # the norms' gains
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}],
                                  lr=PEAK_RATE, betas=BETAS)
    started, seen, recent = time.time(), 0, []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        batch = batches[step % len(batches)]
        loss, own, _ = losses(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seen += sum(len(ids) for ids, _ in batch)
        recent = recent[-49:] + [own.item()]
        if step % 20 == 19:
            print(f"step {step + 1}/{steps}  loss {sum(recent) / len(recent):.4f}  tokens {seen}  {time.time() - started:.0f} s", flush=True)
        if step % 200 == 199:
            print(f"  held-out loss {validate(model, heldout):.4f}", flush=True)
        if work and (step % 200 == 199 or step + 1 == steps):
            torch.save(model.state_dict(), work / "checkpoint.pt")


def save(model, tokenizer, ends, out):
    """The usual files of a shared model, weights in bfloat16."""
    model = model.to(torch.bfloat16)
    model.save_pretrained(out)
    tokenizer.save(str(out / "tokenizer.json"))
    # Newer releases of transformers write the base of the rotary angles only inside "rope_parameters"; readers of the
    # published Qwen3 files look for the older top-level name. Both are there, with the same value.
    path = out / "config.json"
    config = json.loads(path.read_text())
    config["rope_theta"] = ROPE_THETA
    config["torch_dtype"] = "bfloat16"
    path.write_text(json.dumps(config, indent=2) + "\n")
    path = out / "generation_config.json"
    generation = json.loads(path.read_text())
    generation["eos_token_id"] = ends
    path.write_text(json.dumps(generation, indent=2) + "\n")
    (out / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": None, "eos_token": TURN_END, "pad_token": END,
        "model_max_length": MAX_POSITIONS, "clean_up_tokenization_spaces": False}, indent=2) + "\n")
    if out != HERE:
        shutil.copy(TEMPLATE, out)


def main():
    parser = argparse.ArgumentParser(description="Train a tiny chat model.")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--threads", type=int, default=1, help="processor threads; another number may round differently")
    parser.add_argument("--out", type=pathlib.Path, default=HERE, help="default: this folder")
    parser.add_argument("--work", type=pathlib.Path, help="folder for a checkpoint every 200 steps")
    parser.add_argument("--export", type=pathlib.Path, help="save the weights of this checkpoint instead of training")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.out.mkdir(parents=True, exist_ok=True)

    write = Template()
    texts = [write(chat) for chat in make_chats(TRAIN_SEED, TRAIN_CHATS)]
    tokenizer = train_tokenizer(plain_text(text) for text in texts[:20000])
    encode = Encoder(tokenizer)
    rng = random.Random(SEED)
    batches = make_batches(encode(texts), rng)
    heldout = encode([write(chat) for _, chat in make_heldouts(HELDOUT_SEED, HELDOUT_EACH)])
    print(f"{len(texts)} conversations, {sum(len(ids) for batch in batches for ids, _ in batch)} tokens, {len(batches)} batches", flush=True)

    end = tokenizer.token_to_id(TURN_END)
    model = build_model(end)
    print(f"{sum(p.numel() for p in model.parameters())} weights", flush=True)
    if options.export:
        model.load_state_dict(torch.load(options.export))
    else:
        train(model, batches, options.steps, heldout, options.work)
    print(f"held-out loss {validate(model, heldout):.5f}")
    save(model, tokenizer, [end, tokenizer.token_to_id(END)], options.out)


if __name__ == "__main__":
    main()
