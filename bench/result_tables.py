"""What the runs of bench/results come to: medians, ranges, shares of ceilings, ratios; and tables of them.

Shares: a sample's speed times the work of a token (or the work over its seconds), divided by the ceiling that binds.
For memory that is the larger of the bandwidths measured directly before and after the sample; samples between which it
changed by more than a tenth count in no share. For everything else it is the best value that the run measured.
"""
import dataclasses
import statistics

STEADY = 1.1  # how much larger the bandwidth around a sample may be on one side


@dataclasses.dataclass
class Cell:
    """One engine at one thing: its speed or time, and what that is compared with."""
    unit: str
    median: float | None
    lowest: float | None
    highest: float | None
    runs: int | None
    share: tuple | None = None  # median, lowest, highest
    faster_than: dict = dataclasses.field(default_factory=dict)  # engine -> the same three
    p90: float | None = None
    p99: float | None = None


def three(values):
    return (statistics.median(values), min(values), max(values)) if values else None


def is_own(engine):
    return engine.startswith("qinfer")


def share_of_sample(run, sample):
    work, bound = sample.get("work"), sample.get("bound")
    if not work or not bound:
        return None
    rate = sample["tokens_per_second"] * work if sample.get("tokens_per_second") else work / sample["seconds"]
    around = [sample.get("bandwidth_before_gb_s"), sample.get("bandwidth_after_gb_s")]
    if bound == "read-bandwidth" and all(around):
        return rate / 1e9 / max(around) if max(around) <= STEADY * min(around) else None
    peaks = [sample.get("peak_before_gflops"), sample.get("peak_after_gflops")]
    ceiling = max(peaks) if all(peaks) else max(run.get("ceilings", {}).get(bound, [0]))
    return rate / 1e9 / ceiling if ceiling else None


def ratios(ours, theirs):
    """By how much one engine is faster than another, within rounds."""
    by_round = {sample["round"]: sample for sample in theirs}
    pairs = [(sample, by_round[sample["round"]]) for sample in ours if sample["round"] in by_round]
    return three([a["tokens_per_second"] / b["tokens_per_second"] if a.get("tokens_per_second")
                  else b["seconds"] / a["seconds"] for a, b in pairs])


def cell_of_samples(run, samples):
    samples = [sample for sample in samples if not sample.get("slow_phase")] or samples
    unit = "tokens_per_second" if samples[0].get("tokens_per_second") else "seconds"
    median, lowest, highest = three([sample[unit] for sample in samples])
    shares = [share_of_sample(run, sample) for sample in samples]
    return Cell(unit, median, lowest, highest, len(samples), three([share for share in shares if share]))


def cells(run):
    """what -> engine -> Cell, in the order of the file."""
    groups = {}
    for sample in run.get("samples", []):
        groups.setdefault(sample["what"], {}).setdefault(sample["engine"], []).append(sample)
    table = {what: {engine: cell_of_samples(run, samples) for engine, samples in engines.items()}
             for what, engines in groups.items()}
    for what, engines in groups.items():
        peers = [engine for engine in engines if not is_own(engine)]
        for engine in filter(is_own, engines):
            for peer in peers:
                if found := ratios(engines[engine], engines[peer]):
                    table[what][engine].faster_than[peer] = found
    for entry in run.get("summary", []):
        triple = lambda part: tuple(part.get(key) for key in ("median", "lowest", "highest"))  # noqa: E731
        table.setdefault(entry["what"], {})[entry["engine"]] = Cell(
            entry["unit"], *triple(entry), entry.get("runs"), triple(entry["share"]) if entry.get("share") else None,
            {peer: triple(part) for peer, part in (entry.get("faster_than") or {}).items()}, entry.get("p90"),
            entry.get("p99"))
    for row in table.values():
        compare_medians(row)
    return table


def compare_medians(row):
    """Where no ratio within rounds is known."""
    for engine, cell in row.items():
        for peer, other in row.items():
            if is_own(engine) and not is_own(peer) and peer not in cell.faster_than and cell.median and other.median:
                times = cell.median / other.median
                cell.faster_than[peer] = (times if cell.unit == "tokens_per_second" else 1 / times, None, None)


# ---- Text ----

def number(value, unit):
    if unit == "seconds":
        scale, name = next(((s, n) for s, n in ((1, "s"), (1e3, "ms")) if value * s >= 1), (1e6, "us"))
        return f"{value * scale:.3g} {name}" if value * scale < 100 else f"{value * scale:,.0f} {name}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def spread(triple, text):
    """"27.4 (27.2 to 28.2)"; what is not known is left out."""
    median, lowest, highest = triple
    has_range = lowest is not None and highest is not None and lowest != highest
    if median is None:
        return f"{text(lowest)} to {text(highest)}" if has_range else ""
    return text(median) + (f" ({text(lowest)} to {text(highest)})" if has_range else "")


def speed(cell):
    if cell is None:
        return ""
    return spread((cell.median, cell.lowest, cell.highest), lambda value: number(value, cell.unit))


def share(cell):
    """A share above 1 means that the ceiling was measured too low."""
    if cell is None or not cell.share:
        return ""
    text = spread(cell.share, lambda value: f"{100 * value:.0f} %")
    return text + (": ceiling too low" if max(filter(None, cell.share)) > 1 else "")


def ratio(triple):
    return spread(triple, lambda value: f"{value:.3g}x") if triple else ""


def markdown(header, rows):
    """Columns that are empty in all rows are left out, but the first."""
    used = [i for i in range(len(header)) if i == 0 or any(row[i] for row in rows)]
    lines = [[header[i] for i in used], ["---"] * len(used), *([row[i] for i in used] for row in rows)]
    lines[1] = None
    return "\n".join("|" + "---|" * len(used) if line is None else "| " + " | ".join(line) + " |" for line in lines)


def columns_of(table):
    """Headers, and for each a function of a row's engines: qinfer's engines first, each beside what it is compared to."""
    engines = list(dict.fromkeys(engine for row in table.values() for engine in row))
    own, peers = [e for e in engines if is_own(e)], [e for e in engines if not is_own(e)]
    columns = []
    for engine in own:
        columns.append((engine, lambda row, e=engine: speed(row.get(e))))
        columns.append(("of the ceiling", lambda row, e=engine: share(row.get(e))))
        for key, name in (("p90", "90 %"), ("p99", "99 %"), ("highest", "most")):
            columns.append((name, lambda row, e=engine, k=key: number(getattr(row[e], k), row[e].unit)
                            if e in row and row[e].p90 is not None else ""))
        for base in own:
            columns.append((f"faster than {base} by", lambda row, e=engine, b=base: ratio(
                row[e].faster_than.get(b)) if e in row else ""))
    # Each peer's speed, then how much faster each of qinfer's engines is.
    others = list(dict.fromkeys(peers + [p for row in table.values() for cell in row.values() for p in cell.faster_than
                                         if not is_own(p)]))
    for peer in others:
        columns.append((peer, lambda row, p=peer: speed(row.get(p))))
        for engine in own:
            name = "faster by" if len(own) == 1 else f"{engine} is faster by"
            columns.append((name, lambda row, e=engine, p=peer: ratio(row[e].faster_than.get(p)) if e in row else ""))
    return columns


def tables_of(rows):
    """rows: name -> engine -> Cell. A table for each kind of row: of engines, of layers, of operations."""
    groups = {}
    for name, row in rows.items():
        unit = next(iter(row.values())).unit
        groups.setdefault((unit, unit == "seconds" and any(e.startswith("qinfer-") for e in row)), {})[name] = row
    return "\n\n".join(map(table_of, groups.values()))


def table_of(rows):
    columns = columns_of(rows)
    unit = {cell.unit for row in rows.values() for cell in row.values()}
    head = "tokens/s" if unit == {"tokens_per_second"} else "time" if unit == {"seconds"} else ""
    return markdown([head, *(name for name, _ in columns)],
                    [[name, *(cell(row) for _, cell in columns)] for name, row in rows.items()])
