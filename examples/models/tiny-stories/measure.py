"""Measures a saved model and writes what tests compare with.

Loads the bfloat16 weights back, computes in float32, and writes heldout.txt
(the held-out stories, one per line, line breaks written as \\n; next to this
file, the same for every model) and, in the model's folder, expected.json (the
greedy continuation of the prompt with its tightest decision, and the
perplexity of heldout.txt). Of a mixture of experts it also prints how the
tokens of heldout.txt are spread over the experts. Then it prints sampled
stories for a person to judge.

    python measure.py              # write both files, print ten samples
    python measure.py --samples 0
    python measure.py --folder ../tiny-stories-moe      # the mixture of experts
"""

import argparse
import json
import pathlib

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from generate_stories import make_stories
from train import END, HELDOUT_SEED, HELDOUT_STORIES, HERE, MAX_POSITIONS, is_moe, perplexity

PROMPT = "Once upon a time"
TEMPERATURE = 0.8
SAMPLE_SEED = 5


def load(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    if is_moe(model):
        model.set_experts_implementation("eager")  # as in training
    return model, Tokenizer.from_file(str(folder / "tokenizer.json"))


@torch.no_grad()
def decode(model, ids, end, choose):
    """New ids up to and including END. Recomputes the whole sequence for each token: slow, but nothing to get wrong."""
    new = []
    while not new or (new[-1] != end and len(ids) + len(new) < MAX_POSITIONS):
        logits = model(input_ids=torch.tensor([ids + new]), use_cache=False).logits[0, -1]
        new.append(choose(logits))
    return new


def greedy(model, ids, end):
    """The greedy continuation and the smallest lead the best logit ever had over the second best."""
    gaps = []

    def choose(logits):
        best = logits.topk(2)
        gaps.append((best.values[0] - best.values[1]).item())
        return best.indices[0].item()

    return decode(model, ids, end, choose), gaps


def sample(model, ids, end, seed):
    draw = torch.Generator().manual_seed(seed)
    return decode(model, ids, end, lambda logits: torch.multinomial(
        torch.softmax(logits / TEMPERATURE, -1), 1, generator=draw).item())


@torch.no_grad()
def router_logits(model, sequences):
    """The router's logits of each layer, for all tokens of the sequences one after the other: [layers, tokens, experts]."""
    return torch.cat([torch.stack(model(input_ids=torch.tensor([ids]), use_cache=False, output_router_logits=True).router_logits)
                      for ids in sequences], dim=1)


def choice_gap(model, logits):
    """The smallest lead, in logits, of a chosen expert over one that was not chosen."""
    top_k = model.config.num_experts_per_tok
    best = logits.topk(top_k + 1).values
    return (best[..., top_k - 1] - best[..., top_k]).min().item()


def print_expert_use(model, sequences, greedy_ids):
    logits = router_logits(model, sequences)
    layers, tokens, experts = logits.shape
    chosen = logits.topk(model.config.num_experts_per_tok).indices
    print(f"share of the choices that fell on each expert, in %, over {tokens} tokens (even: {100 / experts:.1f}):")
    for layer in range(layers):
        counts = torch.bincount(chosen[layer].flatten(), minlength=experts)
        print(f"layer {layer} " + " ".join(f"{100 * count / chosen[layer].numel():5.1f}" for count in counts.tolist()))
    print(f"tightest choice of an expert: {choice_gap(model, logits):.2e}, "
          f"in the greedy story {choice_gap(model, router_logits(model, [greedy_ids])):.2e}")


def main():
    parser = argparse.ArgumentParser(description="Measure a tiny story model.")
    parser.add_argument("--folder", type=pathlib.Path, default=HERE, help="the model's folder; default: this one")
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--dry", action="store_true", help="write no files")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = load(options.folder)
    end = tokenizer.token_to_id(END)

    # One line per story; a story has no backslashes, so the escape is unambiguous.
    lines = [story.replace("\n", "\\n") for story in make_stories(HELDOUT_SEED, HELDOUT_STORIES)]
    assert not any("\\" in line.replace("\\n", "") for line in lines)
    stories = [line.replace("\\n", "\n") for line in lines]
    encoded = [tokenizer.encode(story).ids for story in stories]
    value, count = perplexity(model, encoded, end)
    model.eval()  # perplexity() leaves the model in training mode

    prompt = tokenizer.encode(PROMPT).ids
    new, gaps = greedy(model, prompt, end)
    cached = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                            do_sample=False, max_length=MAX_POSITIONS, pad_token_id=end)[0, len(prompt):].tolist()
    assert cached == new, "the library's own greedy decoding, with its key/value cache, must agree"
    text = tokenizer.decode(new, skip_special_tokens=True)
    expected = {
        "prompt": PROMPT, "prompt_ids": prompt, "greedy_ids": new, "text": text, "min_top2_gap": round(min(gaps), 6),
        "heldout": {"stories": len(stories), "tokens": count, "perplexity": round(value, 6)},
    }
    if not options.dry:
        (HERE / "heldout.txt").write_text("\n".join(lines) + "\n")
        members = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in expected.items())
        (options.folder / "expected.json").write_text("{\n" + members + "\n}\n")
    print(f"held-out perplexity, bfloat16 weights in float32: {value:.5f} over {count} tokens of {len(stories)} stories")
    print(f"greedy: {len(new)} new tokens, ends with {END}: {new[-1] == end}, tightest decision {min(gaps):.4f}")
    print(f"five tightest: {[(round(g, 4), tokenizer.decode([new[i]])) for g, i in sorted((g, i) for i, g in enumerate(gaps))[:5]]}")
    print(PROMPT + text)
    if is_moe(model):
        print_expert_use(model, [[end] + ids for ids in encoded], prompt + new[:-1])
    for number in range(options.samples):
        new = sample(model, prompt, end, SAMPLE_SEED + number)
        print(f"\n---- sample {number}, {len(new)} tokens, ends: {new[-1] == end}\n" + PROMPT + tokenizer.decode(new))


if __name__ == "__main__":
    main()
