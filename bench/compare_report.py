"""What bench/compare reports: tables of engines, layers and operations with shares of the ceilings, and the chart.

Everything is computed from the samples that a Bench of bench/compare holds; nothing is measured here.
"""
import datetime
import json
import pathlib
import statistics

PREFILL, DECODE = "prefill 512", "decode 64"
DISTURBED = 0.03  # share of the CPUs that others may take


def spread(values, digits=1):
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}..{max(values):.{digits}f})"


def best(bench, ceiling):
    return max(bench.ceilings.get(ceiling, [0]))


def prefill_ceiling(bench):
    """Of the multiply-adds that qinfer's kernels are made of: its name, and GFLOP/s."""
    names = {"f32-fma": "f32 FMA peak", "f16-fma": "f16 FMA peak", "bf16-dot": "bf16 dot peak",
             "avx2-fma": "AVX2 FMA peak"}
    return names[bench.peak], best(bench, f"ceiling/{bench.peak}")


def share(bench, what, rate):
    ceiling = prefill_ceiling(bench)[1] if what.startswith("prefill") else best(bench, "ceiling/read-bandwidth")
    count = bench.counts.get(what)
    return f"{100 * rate * count / 1e9 / ceiling:.1f} %" if ceiling and count else ""


def ratio(ours, theirs):
    """Of medians, and the range over rounds: both engines ran in each."""
    pairs = [a / b for a, b in zip(ours, theirs)]
    text = f"{statistics.median(ours) / statistics.median(theirs):.2f}x"
    return text if len(pairs) == 1 else f"{text} ({min(pairs):.2f}..{max(pairs):.2f})"


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join("---" for _ in header) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def engine_table(bench):
    rows = []
    for what, engines in bench.samples.items():
        ours = engines.get("qinfer")
        for engine, rates in engines.items():
            versus = ratio(ours, rates) if ours and engine != "qinfer" else ""
            rows.append([what, engine, spread(rates), share(bench, what, statistics.median(rates)), versus])
    return table(["measurement", "engine", "tokens/s", "share of the ceiling", "qinfer is faster by"], rows)


def batch_line(bench):
    many, one = (bench.samples.get(what, {}).get("qinfer") for what in ("decode 64, 8 sessions", DECODE))
    return f"\nEight sessions decode {ratio(many, one)} as many tokens per second as one.\n" if many and one else ""


def layer_table(bench):
    """One row for each measurement of bench/layers: tokens per second, time of a layer, share of the ceiling."""
    rows = []
    for name, lines in bench.layers.items():
        rates = [line["tokens"] / line["seconds"] for line in lines]
        each = [1e3 * line["seconds"] / line["layers"] for line in lines]
        work, ceiling = layer_work(bench, lines[0])
        of_ceiling = f"{100 * work / statistics.median(line['seconds'] for line in lines) / 1e9 / ceiling:.1f} %" \
            if ceiling else ""
        experts = f"{lines[0]['experts']:.1f}" if lines[0].get("experts") else ""
        rows.append([name, spread(rates), spread(each, 3), experts, of_ceiling])
    return table(["measurement", "tokens/s", "ms of a layer", "experts of a layer", "share of the ceiling"], rows)


def layer_work(bench, line):
    """Bytes or FLOPs of one pass, and how many billions of them a second can have."""
    if "flops" in line:
        return line["flops"], prefill_ceiling(bench)[1]
    return line["bytes"], best(bench, "ceiling/read-bandwidth")


LAYERS_NOTE = """
Shares as above; of a mixture's weights those of the experts that a step used. One pass of several sessions reads an
expert once, whoever uses it.
"""


def operation_cell(bench, who, lines, peers):
    """Time, rate and its share of the ceiling that binds, and for qinfer the ratios to the peers' medians."""
    times = [line["seconds"] * 1e3 for line in lines]
    median = statistics.median(times)
    if memory_bound(bench, lines[0]):
        unit, rate, ceiling = "GB/s", lines[0]["gb_per_s"], best(bench, "ceiling/read-bandwidth")
    else:
        kind = "ceiling/f16-fma" if who.endswith("fp16") else "ceiling/f32-fma"
        unit, rate, ceiling = "GFLOP/s", lines[0]["gflops"], best(bench, kind)
    rate *= times[0] / median
    of_ceiling = f" = {100 * rate / ceiling:.0f} %" if ceiling else ""
    versus = ""
    if peers and who.startswith("qinfer"):
        versus = ", **" + " / ".join(f"{peer / median:.2f}x" for peer in peers) + "**"
    return f"{spread(times, 2)} ms, {rate:.1f} {unit}{of_ceiling}{versus}"


def operation_tables(bench):
    """One row for each operation, one column for each who."""
    operations = {}
    for name, lines in bench.items.items():
        item, who = name.rsplit("/", 1)
        operations.setdefault(item, {})[who] = lines
    tables = {}
    for item, by_who in operations.items():
        columns = sorted(by_who, key=lambda who: (who.startswith("onednn"), who))
        peers = [statistics.median(line["seconds"] * 1e3 for line in by_who[who])
                 for who in columns if who.startswith("onednn")]
        cells = [operation_cell(bench, who, by_who[who], peers) for who in columns]
        tables.setdefault(tuple(columns), []).append([item] + cells)
    return "\n".join(table(["operation", *columns], rows) for columns, rows in tables.items()) + OPERATIONS_NOTE


OPERATIONS_NOTE = """
Shares are of the read bandwidth where reading takes longest, otherwise of the FMA peak in the type of the sums. Last: how
much faster than oneDNN, in the order of its columns. qinfer-avx512 and oneDNN multiply bf16 weights and sum in f32;
qinfer-avx512_fp16 has f16 weights and sums runs of 64 products in f16. ITEM/SHAPE/ROWS: bench/items.h says more.
"""


def memory_bound(bench, line):
    """Whether reading the bytes takes longer than computing at the f32 peak."""
    bandwidth, flops = best(bench, "ceiling/read-bandwidth"), best(bench, "ceiling/f32-fma")
    return bandwidth and flops and line["gb_per_s"] / bandwidth > line["gflops"] / flops


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


def disturbance(bench):
    over = sum(value > DISTURBED for value in bench.disturbances)
    most = 100 * max(bench.disturbances, default=0)
    return f"other programs took at most {most:.0f} % of them, over {100 * DISTURBED:.0f} % in {over} of " \
           f"{len(bench.disturbances)} measurements"


def markdown(bench):
    name, peak = prefill_ceiling(bench)
    text = [f"# qinfer and its peers, {datetime.date.today().isoformat()}\n",
            f"{cpu_model()}, {bench.options.threads} threads on CPUs {bench.options.cpus}, "
            f"{bench.options.runs} round(s); {disturbance(bench)}. Medians over the rounds (lowest..highest).\n",
            f"Best ceilings of the run: read bandwidth {best(bench, 'ceiling/read-bandwidth'):.1f} GB/s, f32 FMA "
            f"{best(bench, 'ceiling/f32-fma'):.0f} GFLOP/s, f16 FMA {best(bench, 'ceiling/f16-fma'):.0f} GFLOP/s, "
            f"bf16 dot products {best(bench, 'ceiling/bf16-dot'):.0f} GFLOP/s.\n"]
    text += [f"- {engine}: {version}" for engine, version in bench.versions.items()]
    if bench.samples:
        text += [f"\n## {bench.title}\n", engine_table(bench), batch_line(bench),
                 f"Shares: of the {name} for prefill ({peak:.0f} GFLOP/s; products and causal attention counted), of\n"
                 "the read bandwidth for decode (weights, keys and values counted once per token). A cache that keeps\n"
                 "a part of the weights can lift decode above 100 %. qinfer and llama.cpp's npm package sample\n"
                 "greedily within the measured time, llama-bench does not sample.\n"]
    if bench.layers:
        text += ["\n## The layers of that model, without the LM head\n", layer_table(bench), LAYERS_NOTE]
    if bench.items:
        text += ["\n## Operations beside oneDNN\n", operation_tables(bench)]
    text += [f"- {note}" for note in bench.notes]
    return "\n".join(part for part in text if part) + "\n"


# ---- The chart ----

STYLE = """text { font: 14px system-ui, sans-serif; fill: #1f2328 } .title { font-weight: 600 }
.small { font-size: 12px; fill: #59636e } .peer { fill: #8c959f } .own { fill: #0969da } .range { stroke: #1f2328 }
@media (prefers-color-scheme: dark) { text { fill: #f0f6fc } .small { fill: #9198a1 } .peer { fill: #6e7681 }
.own { fill: #4493f8 } .range { stroke: #f0f6fc } }"""


def bars(bench, what, x, width):
    """One panel: a bar for each engine, its range over the rounds as a line."""
    engines = bench.samples.get(what, {})
    label, room = 96, width - 96 - 64
    scale = room / max((max(rates) for rates in engines.values()), default=1)
    parts = [f'<text class="title" x="{x}" y="24">{what} tokens, tokens/s</text>']
    for i, (engine, rates) in enumerate(engines.items()):
        y, median = 44 + 36 * i, statistics.median(rates)
        kind = "own" if engine == "qinfer" else "peer"
        left, end = x + label, x + label + median * scale
        parts.append(f'<text x="{left - 8}" y="{y + 17}" text-anchor="end">{engine}</text>')
        parts.append(f'<rect class="{kind}" x="{left}" y="{y}" width="{median * scale:.1f}" height="24" rx="3"/>')
        if len(rates) > 1:
            first, end = left + min(rates) * scale, left + max(rates) * scale
            parts.append(f'<line class="range" x1="{first:.1f}" x2="{end:.1f}" y1="{y + 12}" y2="{y + 12}" '
                         'stroke-width="2"/>')
        parts.append(f'<text x="{end + 6:.1f}" y="{y + 17}">{median:.{0 if median >= 100 else 1}f}</text>')
    return parts


def chart(bench):
    count = max(len(bench.samples.get(what, {})) for what in (PREFILL, DECODE))
    height = 44 + 36 * count + 28
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" width="760" height="{height}" '
             'role="img" aria-label="Tokens per second of each engine">', f"<style>{STYLE}</style>"]
    parts += bars(bench, PREFILL, 8, 372) + bars(bench, DECODE, 388, 372)
    parts.append(f'<text class="small" x="8" y="{height - 8}">{bench.title}; {bench.options.threads} threads, '
                 f'{cpu_model()}; medians of {bench.options.runs}, lines: lowest to highest</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


def write_results(bench):
    """After each round, so that a run that is interrupted loses only the round it was in."""
    text = markdown(bench)
    (bench.work / "results.md").write_text(text)
    if bench.samples:
        (bench.work / "results.svg").write_text(chart(bench))
    raw = {"cpu": cpu_model(), "disturbances": bench.disturbances, "options": vars(bench.options),
           "versions": bench.versions, "ceilings": bench.ceilings, "tokens_per_second": bench.samples,
           "work_per_token": bench.counts, "layers": bench.layers, "operations": bench.items, "notes": bench.notes}
    (bench.work / "results.json").write_text(json.dumps(raw, indent=1) + "\n")
