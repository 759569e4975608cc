"""How pages look: light and dark, on a phone and in print, with the fonts that are there."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1b1f24; --quiet: #5a6470; --rule: #d8dee4; --panel: #f5f7f9; --accent: #0b62a4;
  --c0: #0b62a4; --c1: #d1520a; --c2: #0a8f63; --c3: #a8417f; --c4: #a36a00; --c5: #3d8fb8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --ink: #e8ebee; --quiet: #a3adb8; --rule: #343b43; --panel: #1d2228; --accent: #6fb8ee;
    --c0: #5eb0ef; --c1: #ff9350; --c2: #35c795; --c3: #e58cc3; --c4: #e8b33c; --c5: #93d3f0;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .6rem; letter-spacing: -.01em; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 3rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
h4, .matrices h3, .routed h3 { font-size: 1rem; margin: 0 0 .4rem; }
p { margin: .5rem 0 .8rem; max-width: 46rem; }
h1, h2, h3, h4, p, li { overflow-wrap: anywhere; }
code { font: .9em ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.lead { font-size: 1.1rem; }
.note, figcaption { color: var(--quiet); font-size: .9rem; }
.reading { border-left: 4px solid var(--accent); background: var(--panel); padding: .8rem 1rem; font-size: 1.05rem;
  margin: 1.4rem 0; max-width: none; border-radius: 0 6px 6px 0; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table.figures { border-collapse: collapse; width: 100%; font-size: .93rem; font-variant-numeric: tabular-nums; }
table.figures th, table.figures td { padding: .35rem .55rem; text-align: right; border-bottom: 1px solid var(--rule);
  white-space: nowrap; }
table.figures thead th { color: var(--quiet); font-weight: 600; font-size: .88rem; vertical-align: bottom;
  white-space: normal; line-height: 1.25; }
table.figures th:first-child { text-align: left; }
table.figures tr.first > th, table.figures tr.first > td { background: var(--panel); }
table.figures td.words, table.figures th.words { text-align: left; }
table.figures .long { white-space: normal; min-width: 11rem; }
table.figures th:first-child { position: sticky; left: 0; background: var(--paper); }
table.figures th[scope="row"] { font-weight: 600; }
td.best { font-weight: 700; }
figure { margin: 1rem 0 1.6rem; }
figcaption { max-width: 46rem; margin-top: .4rem; }
svg { font: 13px system-ui, "DejaVu Sans", sans-serif; fill: var(--ink); }
svg.curves { width: 100%; max-width: 44rem; height: auto; display: block; }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .axis { stroke: var(--quiet); stroke-width: 1; }
svg .label { fill: var(--quiet); }
svg .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round; }
svg .line.front { stroke: var(--quiet); stroke-width: 1.2; stroke-dasharray: 3 4; }
svg .bold { font-weight: 700; }
svg .mark { stroke: var(--paper); stroke-width: 1; }
svg .mark.hollow { fill: var(--paper) !important; stroke-width: 2; }
.line.c0, .hollow.c0 { stroke: var(--c0); } .mark.c0 { fill: var(--c0); }
.line.c1, .hollow.c1 { stroke: var(--c1); } .mark.c1 { fill: var(--c1); }
.line.c2, .hollow.c2 { stroke: var(--c2); } .mark.c2 { fill: var(--c2); }
.line.c3, .hollow.c3 { stroke: var(--c3); } .mark.c3 { fill: var(--c3); }
.line.c4, .hollow.c4 { stroke: var(--c4); } .mark.c4 { fill: var(--c4); }
.line.c5, .hollow.c5 { stroke: var(--c5); } .mark.c5 { fill: var(--c5); }
ul.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; padding: 0; margin: .6rem 0; }
ul.legend svg { vertical-align: -3px; margin-right: .45rem; }
.matrices { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(21rem, 100%), 1fr)); gap: 1.2rem 2rem; }
.matrices h3 { padding-left: .2rem; }
svg.matrix { max-width: 100%; height: auto; display: block; }
svg.matrix text { font-size: 11px; }
svg.matrix text.value { font-size: 10.5px; }
.scale { color: var(--quiet); font-size: .9rem; }
.scale svg { vertical-align: -1px; border-radius: 3px; }
.routed { border: 1px solid var(--rule); border-radius: 8px; padding: .9rem 1rem; margin: 1rem 0; display: grid;
  grid-template-columns: 7.5rem 1fr; gap: 1rem 1.4rem; break-inside: avoid; }
.routed .seen img { width: 7.5rem; height: 7.5rem; border-radius: 4px; display: block; }
.routed h3 { margin: .5rem 0 0; overflow-wrap: anywhere; }
.routed .seen ul { list-style: none; padding: 0; margin: .3rem 0 0; font-size: .85rem; line-height: 1.4; }
.right::before { content: "\\2713\\00a0"; color: var(--c2); font-weight: 700; }
.wrong::before { content: "\\2717\\00a0"; color: var(--c1); font-weight: 700; }
.unasked { color: var(--quiet); }
.blocks { display: grid; grid-template-columns: repeat(auto-fit, minmax(15.8rem, 1fr)); gap: .8rem 1.1rem;
  min-width: 0; align-items: start; }
table.maps { border-collapse: separate; border-spacing: 3px; }
table.maps caption { text-align: left; font-weight: 600; font-size: .92rem; }
table.maps th { font-size: .74rem; font-weight: 400; color: var(--quiet); text-align: center; padding: 0; }
table.maps th[scope="row"] { text-align: right; padding-right: .2rem; min-width: 1.4rem; }
table.maps td { padding: 0; line-height: 0; }
img.map { width: 2.65rem; height: 2.65rem; border-radius: 3px; }
img { image-rendering: pixelated; }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--rule); color: var(--quiet);
  font-size: .9rem; }
@media (max-width: 40rem) {
  main { padding: 1.2rem .9rem 3rem; }
  h1 { font-size: 1.6rem; }
  h2 { margin-top: 2.2rem; }
  table.figures th, table.figures td { padding: .35rem .5rem; }
  .routed { grid-template-columns: 1fr; padding: .8rem; }
  .routed .seen { display: grid; grid-template-columns: auto 1fr; gap: .9rem; }
  .routed h3 { margin-top: 0; }
  img.map { width: 3rem; height: 3rem; }
  svg.curves { font-size: 17px; }
}
@media print {
  :root { --paper: #ffffff; --ink: #000000; --quiet: #444444; --rule: #bbbbbb; --panel: #f2f2f2; --accent: #0b62a4;
    --c0: #0b62a4; --c1: #d1520a; --c2: #0a8f63; --c3: #a8417f; --c4: #a36a00; --c5: #3d8fb8; }
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  figure, tr, .matrices > div { break-inside: avoid; }
  h2, h3, ul.legend { break-after: avoid; }
  .routed { grid-template-columns: 6rem 1fr; }
  .routed .seen img { width: 5.5rem; height: 5.5rem; }
  .blocks { grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); gap: .5rem; }
  table.maps { border-spacing: 2px; }
  img.map { width: 1.75rem; height: 1.75rem; }
  svg.curves { max-width: 32rem; }
  .scroll { overflow: visible; }
  table.figures, table.figures thead th { font-size: 7.5pt; }
  table.figures th, table.figures td { padding: .2rem .3rem; }
  table.figures .long { min-width: 6rem; }
  table.figures th:first-child { position: static; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
"""The whole style sheet."""
