"""The plot of a CPU family: for each comparison with other engines, bars of prefill and decoding with their ranges."""
import html

from result_tables import is_own

PREFILL, DECODE = "prefill 512", "decode 64"
STYLE = """text { font: 14px system-ui, sans-serif; fill: #1f2328 } .title { font-weight: 600 }
.small { font-size: 12px; fill: #59636e } .peer { fill: #8c959f } .own { fill: #0969da } .range { stroke: #1f2328 }
@media (prefers-color-scheme: dark) { text { fill: #f0f6fc } .small { fill: #9198a1 } .peer { fill: #6e7681 }
.own { fill: #4493f8 } .range { stroke: #f0f6fc } }"""
WIDTH, PANEL, BAR, LABEL = 760, 372, 30, 96


def panel(engines, title, x, y):
    """A bar for each engine, its range over the samples as a line."""
    shown = {engine: cell for engine, cell in engines.items() if cell.median}
    largest = max((max(cell.median, cell.highest or 0) for cell in shown.values()), default=1)
    scale = (PANEL - LABEL - 64) / largest
    parts = [f'<text x="{x}" y="{y}">{html.escape(title)}</text>']
    for i, (engine, cell) in enumerate(shown.items()):
        top, left, end = y + 12 + BAR * i, x + LABEL, x + LABEL + cell.median * scale
        parts.append(f'<text x="{left - 8}" y="{top + 15}" text-anchor="end">{html.escape(engine)}</text>')
        parts.append(f'<rect class="{"own" if is_own(engine) else "peer"}" x="{left}" y="{top}" '
                     f'width="{cell.median * scale:.1f}" height="20" rx="3"/>')
        if cell.lowest and cell.highest and cell.lowest < cell.highest:
            first, end = left + cell.lowest * scale, left + cell.highest * scale
            parts.append(f'<line class="range" x1="{first:.1f}" x2="{end:.1f}" y1="{top + 10}" y2="{top + 10}" '
                         'stroke-width="2"/>')
        parts.append(f'<text x="{end + 6:.1f}" y="{top + 15}">{cell.median:.{0 if cell.median >= 100 else 1}f}</text>')
    return parts


def plot(name, comparisons):
    """comparisons: a title, and what -> engine -> Cell; "" where there is none."""
    parts, y = [], 0
    for title, table in comparisons:
        bars = max(len(table.get(what, {})) for what in (PREFILL, DECODE))
        parts.append(f'<text class="title" x="8" y="{y + 24}">{html.escape(title)}</text>')
        parts += panel(table.get(PREFILL, {}), "prompt of 512 tokens, tokens/s", 8, y + 48)
        parts += panel(table.get(DECODE, {}), "answer of 64 tokens, tokens/s", 8 + PANEL + 8, y + 48)
        y += 48 + 12 + BAR * bars + 16
    if not parts:
        return ""
    parts.append(f'<text class="small" x="8" y="{y + 16}">{html.escape(name)}. Medians; lines: lowest to highest.</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 28}" width="{WIDTH}" height="{y + 28}" ' \
           f'role="img" aria-label="Tokens per second of each engine on {html.escape(name)}">'
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>"]) + "\n"
