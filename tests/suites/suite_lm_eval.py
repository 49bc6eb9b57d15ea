"""lm-eval (the harness of most published scores) with its model local-completions, over tasks of our own: the next words of
stories among four, the likelihood of whole stories, and texts that are drawn greedily. The tokenizer is the server's, by
/tokenize.

Each number that lm-eval got from the server must be the one that the library gives in this process by its Python binding:
equal, not close, and with them the scores. The model is examples/models/tiny-stories.
"""
import json
import math
import os
import random
import subprocess
import sys

from suites import clean_environment

N_CHOICES = 4
TASKS = {
    "next_words": """
output_type: multiple_choice
doc_to_text: "{{context}}"
doc_to_choice: "{{choices}}"
doc_to_target: "{{answer}}"
target_delimiter: ""
metric_list: [{metric: acc}]
""",
    "whole_stories": """
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{story}}"
metric_list: [{metric: word_perplexity}]
""",
    "greedy_texts": """
output_type: generate_until
doc_to_text: "{{context}}"
doc_to_target: ""
generation_kwargs: {until: ["\\n"], max_gen_toks: 12, temperature: 0}
metric_list: [{metric: exact_match}]
""",
}


def write_tasks(context, folder):
    stories = (context.model("tiny-stories") / "heldout.txt").read_text().replace("\\n", "\n").splitlines()
    stories = [story for story in stories if len(story.split()) > 30][:40]
    draw, rows = random.Random(1), []
    for number, story in enumerate(stories):
        words = story.split(" ")
        n = draw.randrange(10, 25)
        others = draw.sample([one for one in stories if one != story], N_CHOICES - 1)
        choices = [" " + " ".join(words[n:n + 3])] + [" " + " ".join(one.split(" ")[n:n + 3]) for one in others]
        answer = draw.randrange(N_CHOICES)
        choices[0], choices[answer] = choices[answer], choices[0]
        rows.append({"context": " ".join(words[:n]), "choices": choices, "answer": answer, "story": story[:600]})
    (folder / "stories.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, text in TASKS.items():
        data = f"dataset_path: json\ndataset_kwargs: {{data_files: {{test: {folder / 'stories.jsonl'}}}}}\ntest_split: test\n"
        (folder / f"{name}.yaml").write_text(f"task: {name}\n{data}{text}")


def evaluate(context, folder, url, prefix):
    arguments = {"base_url": f"{url}/v1/completions", "model": "tiny-stories", "tokenizer_backend": "remote",
                 "num_concurrent": 4, "max_length": 512, "custom_prefix_token_id": prefix, "max_retries": 1}
    command = [context.environment("lm-eval") / "lm_eval", "run", "--model", "local-completions", "--model_args",
               ",".join(f"{key}={value}" for key, value in arguments.items()), "--include_path", folder, "--tasks",
               ",".join(TASKS), "--output_path", folder / "out", "--log_samples"]
    with open(folder / "log", "w") as log:
        done = subprocess.run(command, cwd=folder, stdout=log, stderr=log, timeout=1800,
                              env=clean_environment(OPENAI_API_KEY="x", HF_HOME=str(folder / "hub")))
    if done.returncode != 0:
        raise RuntimeError(f"lm_eval has ended with status {done.returncode}, see {folder / 'log'}")
    scores = json.loads(next((folder / "out").rglob("results_*.json")).read_text())["results"]
    samples = {name: [json.loads(line) for line in open(next((folder / "out").rglob(f"samples_{name}_*.jsonl")))]
               for name in TASKS}
    return scores, samples


class Engine:
    """What the library itself says."""

    def __init__(self, context):
        os.environ["QINFER_LIBRARY"] = str(context.library)
        sys.path.insert(0, str(context.root / "bindings/python/src"))
        import qinfer
        self.qinfer, self.model = qinfer, qinfer.Model(str(context.model("tiny-stories")))

    def tokens(self, text):
        return self.model.tokenize(text, special=False)

    def likelihood(self, before, tokens):
        """The sum of log probabilities, whether each is of a most likely token, and whether the text would end then."""
        session = self.qinfer.Session(self.model, max_logits=len(tokens) + 1)
        session.append(before + tokens)
        session.evaluate(keep_logits=len(tokens) + 1)
        total, greedy = 0, True
        for i, token in enumerate(tokens):
            back = len(tokens) - i
            logprob = session.logprobs([token], back)[0]
            total += logprob
            greedy = greedy and logprob == session.top_logprobs(1, back)[0][1]
        return total, greedy, session.top_logprobs(1)[0][0] in self.model.end_tokens

    def text(self, prompt, n, stop):
        session = self.qinfer.Session(self.model)
        session.set_sampler(temperature=0)
        session.append(self.tokens(prompt))
        return session.generate(n, stop=[stop]).text


def differing(pairs):
    """None, or what is wrong: pairs of what was got and what is right."""
    wrong = [(got, right) for got, right in pairs if got != right]
    return f"{len(wrong)} of {len(pairs)} differ, the first: {wrong[0]}" if wrong or not pairs else None


def given(sample):
    """(arguments, response) of each request."""
    arguments = [sample["arguments"][f"gen_args_{i}"] for i in range(len(sample["arguments"]))]
    return [((one["arg_0"], one.get("arg_1")), response) for one, response in zip(arguments, sample["resps"], strict=True)]


def differing_likelihoods(name, compared):
    """Of (got, right, whether the text would end then). lm-eval takes the last entry of an answer for the new token, which
    must be there although it ends the text."""
    return {f"{name}: log likelihoods": differing([pair for *pair, _ in compared]),
            f"{name}: log likelihoods where the text goes on": differing([pair for *pair, ends in compared if not ends])}


def compare_choices(engine, samples, score):
    compared, right = [], 0
    for sample in samples:
        sums = []
        for (context, words), response in given(sample):
            whole, n = engine.tokens(context + words), len(engine.tokens(context))
            expected = engine.likelihood(whole[:n], whole[n:])
            sums.append(expected[0])
            got = response[0]
            compared.append(((float(got[0]), str(got[1]) == "True"), expected[:2], expected[2]))
        right += sums.index(max(sums)) == sample["doc"]["answer"]
    return {**differing_likelihoods("next_words", compared),
            "next_words: acc": differing([(score["acc,none"], right / len(samples))])}


def compare_stories(engine, samples, score, prefix):
    compared, total, words = [], 0, 0
    for sample in samples:
        expected, _, ends = engine.likelihood([prefix], engine.tokens(sample["doc"]["story"]))
        got = sample["resps"][0][0]
        compared.append((float(got[0] if isinstance(got, list) else got), expected, ends))
        total += expected
        words += len(sample["doc"]["story"].split())
    perplexity = math.exp(-total / words)
    is_close = abs(score["word_perplexity,none"] / perplexity - 1) < 1e-12  # sums in another order
    return {**differing_likelihoods("whole_stories", compared),
            "whole_stories: word_perplexity": None if is_close else f"{score['word_perplexity,none']}, not {perplexity}"}


def compare_texts(engine, samples):
    pairs = [(response[0], engine.text(sample["doc"]["context"], 12, "\n"))
             for sample in samples for _, response in given(sample)]
    return {"greedy_texts: texts": differing(pairs)}


def run(context):
    folder = context.folder("lm-eval")
    write_tasks(context, folder)
    engine = Engine(context)
    prefix = engine.model.end_tokens[0]
    with context.serve(context.model("tiny-stories")) as url:
        scores, samples = evaluate(context, folder, url, prefix)
    print(f"  acc {scores['next_words']['acc,none']}, word_perplexity {scores['whole_stories']['word_perplexity,none']}")
    return {**compare_choices(engine, samples["next_words"], scores["next_words"]),
            **compare_stories(engine, samples["whole_stories"], scores["whole_stories"], prefix),
            **compare_texts(engine, samples["greedy_texts"])}
