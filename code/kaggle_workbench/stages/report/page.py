"""The page itself: its form, its look on small and wide, light and dark screens, and what it may not do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from jinja2 import Environment, StrictUndefined, Template

import kaggle_workbench
from kaggle_workbench.stages.report.facts import Row, Score
from kaggle_workbench.stages.report.notebooks import Notebook

# Nothing is fetched, nothing runs: the browser refuses what the cleaning might have missed.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_STYLE = """
:root { color-scheme: light dark; --page: #f6f7f9; --paper: #fff; --ink: #1f2933; --soft: #5f6b78; --line: #dfe4ea;
  --code: #f3f5f8; --blue: #1f6fb2; --grey: #9aa3ad; --good: #2e7d4f; --bad: #b3431f; --wait: #8a6a00;
  --k: #0b5cad; --s: #2e7d4f; --c: #6b7580; --m: #a3461b; }
@media (prefers-color-scheme: dark) { :root { --page: #14181d; --paper: #1c2127; --ink: #e3e8ed; --soft: #9aa6b2;
  --line: #333b45; --code: #14181d; --blue: #6db3ee; --grey: #8b95a1; --good: #6cc48f; --bad: #ef8e6b;
  --wait: #e0b84a; --k: #7ab8f5; --s: #86cf9f; --c: #8b95a1; --m: #eba27c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI",
  Roboto, "Helvetica Neue", Arial, sans-serif; overflow-wrap: break-word; }
main, header, footer { max-width: 62rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 1.75rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 .6rem 0 0; display: inline-block; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .7rem; }
a[href] { color: var(--blue); }
.kwb-status { display: inline-block; vertical-align: .25rem; padding: .05rem .6rem; border-radius: 1rem;
  border: 1px solid currentColor; font-size: .85rem; font-weight: 600; color: var(--soft); }
.kwb-done { color: var(--good); } .kwb-failed, .kwb-died { color: var(--bad); }
.kwb-paused, .kwb-running { color: var(--wait); }
.kwb-under { margin: .3rem 0 1.2rem; color: var(--soft); }
.kwb-scores { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem; margin: 1rem 0; }
.kwb-scores div, .kwb-paper, details.kwb-notebook { background: var(--paper); border: 1px solid var(--line);
  border-radius: .6rem; }
.kwb-scores div { padding: .7rem .9rem; }
.kwb-scores span { display: block; color: var(--soft); font-size: .85rem; }
.kwb-scores b { display: block; font-size: 1.55rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.kwb-paper { padding: .9rem 1.1rem; overflow-x: auto; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.kwb-table { border-collapse: collapse; width: 100%; font-size: .95rem; }
.kwb-table th { text-align: left; font-weight: 500; color: var(--soft); }
.kwb-table th, .kwb-table td { padding: .3rem 1rem .3rem 0; vertical-align: top; border-bottom: 1px solid var(--line); }
.kwb-table tr:last-child td { border-bottom: none; }
.kwb-error td { color: var(--bad); white-space: pre-wrap; overflow-wrap: anywhere; }
.kwb-error small { display: block; color: var(--ink); }
.kwb-notes { border-left: 4px solid var(--wait); padding: .1rem 0 .1rem .9rem; margin: 1rem 0; }
.kwb-notes p { margin: .2rem 0; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; align-items: center; margin: 1.4rem 0 0; font-size: .95rem; }
nav label { margin-left: auto; color: var(--soft); cursor: pointer; }
.kwb-curves { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-size: .95rem; margin-bottom: .3rem; }
.kwb-key { margin-left: .8rem; color: var(--soft); } .kwb-key::before { content: "■ "; }
.kwb-train-key::before { color: var(--grey); } .kwb-dev-key::before { color: var(--blue); }
svg { width: 100%; height: auto; display: block; }
svg text { font-size: 10px; fill: var(--soft); } .kwb-grid { stroke: var(--line); }
svg polyline { fill: none; stroke-width: 2; stroke-linejoin: round; }
.kwb-train { stroke: var(--grey); } .kwb-dev { stroke: var(--blue); }
img { max-width: 100%; height: auto; border-radius: .3rem; background: #fff; }
details.kwb-notebook { margin: 0 0 1rem; }
details.kwb-notebook > summary { cursor: pointer; padding: .7rem 1.1rem; }
details.kwb-notebook[open] > summary { border-bottom: 1px solid var(--line); }
summary h2 { display: inline; margin: 0; } summary span { color: var(--soft); margin-left: .6rem; }
.kwb-cells { padding: .2rem 1.1rem 1.1rem; }
.kwb-cells h3 { font-size: 1.3rem; margin: 1.1rem 0 .4rem; }
.kwb-cells h4 { font-size: 1.05rem; margin: 1.6rem 0 .2rem; }
.kwb-cells p { margin: .3rem 0 .6rem; } .kwb-cells ul { margin: .3rem 0; padding-left: 1.3rem; }
pre, code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: .86rem; }
pre { margin: 0; overflow-x: auto; line-height: 1.45; white-space: pre; }
p code, li code, td code { background: var(--code); padding: .05rem .3rem; border-radius: .25rem; }
.input { background: var(--code); border: 1px solid var(--line); border-radius: .4rem; padding: .6rem .8rem;
  margin: .5rem 0; }
.output { overflow-x: auto; margin: .5rem 0; } .output_area { margin: .35rem 0; }
.output table { border-collapse: collapse; font-size: .92rem; }
.output table.dataframe td, .output table.dataframe th { padding: .15rem .6rem; text-align: right; }
.output_error pre { border-left: 4px solid var(--bad); padding-left: .8rem; }
.k, .kc, .kd, .kn, .kp, .kr, .kt, .ow { color: var(--k); } .s, .s1, .s2, .sa, .sb, .sd, .se, .si { color: var(--s); }
.c, .c1, .ch, .cm, .cs { color: var(--c); font-style: italic; } .m, .mb, .mf, .mh, .mi, .mo { color: var(--m); }
.nf, .nc { font-weight: 600; }
.ansi-red-fg, .ansi-red-intense-fg { color: var(--bad); } .ansi-green-fg, .ansi-green-intense-fg { color: var(--good); }
.ansi-yellow-fg, .ansi-yellow-intense-fg { color: var(--wait); } .ansi-bold { font-weight: 700; }
.ansi-blue-fg, .ansi-blue-intense-fg, .ansi-cyan-fg, .ansi-cyan-intense-fg { color: var(--blue); }
body:has(#kwb-code:not(:checked)) .input { display: none; }
footer { color: var(--soft); font-size: .85rem; padding-top: 1rem; padding-bottom: 2.5rem; }
@media (max-width: 42rem) {
  main, header, footer { padding-left: .8rem; padding-right: .8rem; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .45rem; }
  .kwb-scores { grid-template-columns: 1fr 1fr; gap: .5rem; }
  .kwb-stacked thead { display: none; } .kwb-stacked tr { display: block; padding: .4rem 0; }
  .kwb-stacked tr:not(:last-child) { border-bottom: 1px solid var(--line); }
  .kwb-stacked td { display: block; border: none; padding: .05rem 0; }
  .kwb-stacked td.kwb-first { display: inline-block; margin-right: .6rem; }
  .kwb-stacked td[data-name]::before { content: attr(data-name) " "; color: var(--soft); }
  .kwb-stacked td:empty { display: none; }
  .kwb-paper, .kwb-cells, details.kwb-notebook > summary { padding-left: .8rem; padding-right: .8rem; }
}
@media print { nav { display: none; } body { background: #fff; } .input, .output { break-inside: avoid; } }
"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="kaggle-workbench {{ version }}">
<title>{{ run }}{% if "competition" in about %}, {{ about["competition"] }}{% endif %}</title>
<link rel="icon" href="data:,">
<style>{{ style | safe }}</style>
</head>
<body>
<header>
<h1>{{ run }}</h1><span class="kwb-status kwb-{{ mood }}">{{ status }}</span>
<p class="kwb-under">{{ under }}</p>
{% if notes %}<div class="kwb-notes">{% for note in notes %}<p>{{ note }}</p>{% endfor %}</div>{% endif %}
{% if scores %}<div class="kwb-scores" id="scores">
{% for score in scores %}<div><span>{{ score.label }}</span><b>{{ score.value }}</b><span>{{ score.note }}</span></div>
{% endfor %}</div>{% endif %}
<nav aria-label="On this page">
{% if rows %}<a href="#ran">What ran</a>{% endif %}
{% if curves %}<a href="#curves">Curves</a>{% endif %}
{% if pictures %}<a href="#pictures">Pictures</a>{% endif %}
{% for notebook in notebooks %}<a href="#notebook-{{ loop.index }}">{{ notebook.name }}</a>
{% endfor %}
{% if notebooks %}<label><input type="checkbox" id="kwb-code" checked> code</label>{% endif %}
</nav>
</header>
<main>
{% if rows %}<h2 id="ran">What ran where</h2>
<div class="kwb-paper"><table class="kwb-table kwb-stacked">
<thead><tr><th>stage</th><th>status</th><th>place</th><th>computes on</th><th>started (UTC)</th><th>took</th>
<th>peak memory</th></tr></thead>
<tbody>{% for row in rows %}
<tr><td class="kwb-first"><b>{{ row.stage }}</b></td>
<td class="kwb-first"><span class="kwb-{{ moods[loop.index0] }}">{{ row.status }}</span></td>
<td data-name="place">{{ row.place }}</td>
<td{% if row.computes %} data-name="computes on"{% endif %}>{{ row.computes }}</td>
<td data-name="started">{{ row.started }}</td><td data-name="took">{{ row.took }}</td>
<td{% if row.memory %} data-name="peak memory"{% endif %}>{{ row.memory }}</td></tr>
{% if row.error %}<tr class="kwb-error"><td colspan="7">{{ row.error | trim }}
{%- if row.hint %}<small>{{ row.hint | trim }}</small>{% endif %}</td></tr>{% endif %}
{% endfor %}</tbody></table></div>{% endif %}
{% if curves %}<h2 id="curves">Curves by epoch</h2>
<div class="kwb-paper kwb-curves">{% for curve in curves %}{{ curve | safe }}{% endfor %}</div>{% endif %}
{% if changed %}<h2>Parameters that differ from the defaults</h2>
<div class="kwb-paper"><table class="kwb-table"><thead><tr><th>name</th><th>value</th><th>default</th></tr></thead>
<tbody>{% for name, value, default in changed %}<tr><td>{{ name }}</td><td>{{ value }}</td><td>{{ default }}</td></tr>
{% endfor %}</tbody></table></div>{% endif %}
{% if about %}<h2>Facts</h2>
<div class="kwb-paper"><dl>{% for name, value in about.items() %}<dt>{{ name }}</dt><dd>{{ value }}</dd>
{% endfor %}</dl></div>{% endif %}
{% if pictures %}<h2 id="pictures">Pictures</h2>
<div class="kwb-paper">{% for name, text, content in pictures %}
<figure><figcaption>{{ name }}</figcaption><img alt="{{ text }}" src="data:image/png;base64,{{ content }}"></figure>
{% endfor %}</div>{% endif %}
<h2>Notebooks as they were executed</h2>
{% if without %}<p class="kwb-under">No executed copy is here of: {{ without | unique | join(", ") }}. Stages that
are run cell by cell in JupyterLab leave none.</p>{% endif %}
{% if not notebooks %}<p class="kwb-under">There is no executed notebook in this run's folder.</p>{% endif %}
{% for notebook in notebooks %}
<details class="kwb-notebook" id="notebook-{{ loop.index }}" open>
<summary><h2>{{ notebook.name }}</h2><span>{{ notebook.cells | length }} cells</span></summary>
<div class="kwb-cells">
{% for note in notebook.notes %}<p class="kwb-notes">{{ note }}</p>{% endfor %}
{% for cell in notebook.cells %}<div>{{ cell | safe }}</div>
{% endfor %}</div>
</details>
{% endfor %}
</main>
<footer>Written {{ written }} by kaggle-workbench {{ version }} from this run's folder. The page fetches nothing and
runs nothing.</footer>
</body>
</html>
"""


def page(
    *,
    run: str,
    status: str,
    about: Mapping[str, str],
    scores: Sequence[Score],
    rows: Sequence[Row],
    changed: Sequence[tuple[str, str, str]],
    curves: Sequence[str],
    pictures: Sequence[tuple[str, str, str]],
    notebooks: Sequence[Notebook],
    without: Sequence[str],
    notes: Sequence[str],
    written: str,
) -> str:
    """The whole page; every text is escaped but the curves and the notebooks' cells, which are clean HTML."""
    return _template().render(
        run=run,
        status=status,
        mood=_mood(status),
        about=about,
        under=", ".join(filter(None, map(about.get, ("competition", "begun", "took")))),
        scores=scores,
        rows=rows,
        moods=[_mood(row.status) for row in rows],
        changed=changed,
        curves=curves,
        pictures=pictures,
        notebooks=notebooks,
        without=without,
        notes=notes,
        written=written,
        policy=POLICY,
        style=_STYLE,
        version=kaggle_workbench.__version__,
    )


@cache
def _template() -> Template:
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(_PAGE)


def _mood(status: str) -> str:
    return status if status in ("done", "failed", "died", "paused", "running") else "unknown"
