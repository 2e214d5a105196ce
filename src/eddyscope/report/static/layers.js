// Quantities over layers, and models beside each other.

/** Place of each layer and head on the axis: heads stand side by side. */
function places(rows) {
  const heads = [...new Set(rows.map((row) => row.head))];
  return rows.map((row) => row.index + (heads.length > 1 ? (heads.indexOf(row.head) - (heads.length - 1) / 2) / heads.length * 0.7 : 0));
}
const layerAxis = () => ({ title: { text: "layer" }, dtick: study().layers.length > 20 ? undefined : 1 });

/** One quantity over layers: points with intervals, hollow where its status is not ok; the chosen layer ringed. */
function overLayers(name, label, colour, top) {
  const rows = study().byLayer, x = places(rows);
  const of = rows.map((row) => row.measures[name]);
  const single = rows.every((row) => row.head === "mean");
  const value = of.map((one) => isNumber(one.value) ? one.value : null);
  const sure = (one) => !one.status || one.status === "ok";
  const up = of.map((one) => one.high === "inf" ? Math.max(0, top - one.value) : isNumber(one.high) ? one.high - one.value : 0);
  const down = of.map((one) => isNumber(one.low) ? one.value - one.low : 0);
  const traces = [];
  if (of.some((one) => isNumber(one.twin))) {
    traces.push({
      type: "scatter", mode: single ? "lines+markers" : "markers", x, y: of.map((one) => one.twin), name: "untrained twin",
      line: { color: css("--null"), width: 1.5 }, marker: { color: css("--null"), symbol: "line-ew-open", size: 9 },
      hovertemplate: "untrained twin: %{y:.3g}<extra></extra>",
    });
  }
  traces.push({
    type: "scatter", mode: single ? "lines+markers" : "markers", x, y: value, name: label,
    line: { color: colour, width: 1 },
    error_y: { type: "data", symmetric: false, array: up, arrayminus: down, color: colour, thickness: 1, width: 3 },
    marker: {
      color: of.map((one) => sure(one) ? colour : css("--page")), size: rows.map((_, i) => i === state.place ? 12 : 8),
      line: { color: colour, width: 2 },
    },
    text: rows.map((row, i) => `${row.label}: ${withInterval(of[i])}${sure(of[i]) ? "" : ` (${of[i].status})`}`),
    hovertemplate: "%{text}<extra></extra>",
  });
  const open = rows.map((_, i) => i).filter((i) => of[i].high === "inf" && isNumber(of[i].value));
  if (open.length) {
    traces.push({
      type: "scatter", mode: "markers", x: open.map((i) => x[i]), y: open.map(() => top), showlegend: false, hoverinfo: "skip",
      marker: { symbol: "triangle-up", size: 8, color: colour }, cliponaxis: false,
    });
  }
  return { traces, rows, of };
}

function tableOf(rows, of) {
  return {
    columns: ["layer", "head", "value", "low", "high", "status", "untrained twin"],
    rows: rows.map((row, i) => [row.index, row.head, of[i].value, of[i].low, of[i].high, of[i].status, of[i].twin]),
  };
}

chart("rank", () => {
  const limit = Math.max(...study().byLayer.map((row) => row.limit));
  const known = study().byLayer.map((row) => row.measures.effective_rank).flatMap((m) => [m.value, m.high, m.twin]).filter(isNumber);
  if (!known.length) return nothing("This study holds no effective rank.");
  const top = 1.08 * Math.max(limit, ...known);
  const { traces, rows, of } = overLayers("effective_rank", "effective rank", css("--line-1"), top);
  const bad = of.filter((one) => one.status === "unresolved").length;
  const now = of[state.place];
  return {
    traces,
    layout: {
      xaxis: layerAxis(), yaxis: { title: { text: `modes, H*(${rows[0].tolerance})` }, range: [0, top * 1.03] },
      shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: limit, y1: limit, line: { dash: "dot", color: css("--ink"), width: 1 } }],
    },
    said: `${named()}: ${withInterval(now)}${now.status && now.status !== "ok" ? ` (${now.status})` : ""}. `
      + `Unresolved in ${bad} of ${of.length}; no more than ${limit} can be seen with these documents.`,
    ...tableOf(rows, of),
  };
});

chart("dimension", () => {
  const { traces, rows, of } = overLayers("participation_ratio", "effective dimension", css("--line-3"), 0);
  if (!of.some((one) => isNumber(one.value))) return nothing("No effective dimension: too few documents, or nothing fluctuates.");
  const now = of[state.place];
  return {
    traces,
    layout: { xaxis: layerAxis(), yaxis: { type: "log", title: { text: "modes" }, ...decades(of.flatMap((one) => [one.value, one.low, one.high, one.twin])) } },
    said: `${named()}: ${withInterval(now)}${now.status && now.status !== "ok" ? ` (${now.status})` : ""}.`,
    ...tableOf(rows, of),
  };
});

chart("sinks", () => {
  const sink = overLayers("sink_mass", "mass on the first key", css("--line-4"), 1);
  const level = overLayers("fluctuation_level", "fluctuation level", css("--line-1"), 1);
  if (![...sink.of, ...level.of].some((one) => isNumber(one.value))) return nothing("This study holds neither.");
  const own = (traces) => traces.filter((t) => t.name !== "untrained twin");
  return {
    traces: [...own(sink.traces), ...own(level.traces)],
    layout: { xaxis: layerAxis(), yaxis: { title: { text: "share" }, range: [0, 1.02], tickformat: ".0%" } },
    said: `${named()}: ${percent(sink.of[state.place].value)} of the attention on the first key; ${percent(level.of[state.place].value)} of the squared attention fluctuates.`,
    columns: ["layer", "head", "sink mass", "low", "high", "fluctuation level", "low", "high"],
    rows: sink.rows.map((row, i) => [row.index, row.head, sink.of[i].value, sink.of[i].low, sink.of[i].high, level.of[i].value, level.of[i].low, level.of[i].high]),
  };
});

const MEASURES = {
  median_lag: "distance that holds half, tokens", near_share: "share near", far_share: "share far",
  first_mode_energy: "share of the first mode", participation_ratio: "effective dimension", effective_rank: "effective rank",
  beta_published: "β as published", beta_resolved: "resolved β", sink_mass: "sink mass", fluctuation_level: "fluctuation level",
};

chart("models", () => {
  const name = state.measure || "median_lag", colours = palette();
  const traces = [], rows = [], said = [];
  shared.studies.forEach((one, s) => {
    const last = Math.max(...one.byLayer.map((row) => row.index), 1);
    const of = one.byLayer.map((row) => row.measures[name]);
    const known = of.map((m) => m.value).filter(isNumber);
    const single = one.byLayer.every((row) => row.head === "mean");
    traces.push({
      type: "scatter", mode: single ? "lines+markers" : "markers", x: one.byLayer.map((row) => row.index / last), name: one.name,
      y: of.map((m) => isNumber(m.value) ? m.value : null), line: { color: colours[s % colours.length] },
      marker: { color: colours[s % colours.length], size: 8, symbol: ["circle", "square", "diamond", "triangle-up"][s % 4] },
      error_y: {
        type: "data", symmetric: false, array: of.map((m) => isNumber(m.high) ? m.high - m.value : 0),
        arrayminus: of.map((m) => isNumber(m.low) ? m.value - m.low : 0), thickness: 1, width: 3,
      },
      text: one.byLayer.map((row) => `${one.name}, ${row.label}`), hovertemplate: "%{text}: %{y:.3g}<extra></extra>",
    });
    one.byLayer.forEach((row, i) => rows.push([one.name, row.index, row.head, of[i].value, of[i].low, of[i].high, of[i].status]));
    said.push(known.length ? `${one.name} from ${plain(Math.min(...known))} to ${plain(Math.max(...known))}` : `${one.name}: no numbers`);
  });
  return {
    traces, layout: { xaxis: { title: { text: "depth: 0 is the first layer, 1 the last" } }, yaxis: { title: { text: MEASURES[name] } } },
    said: `${MEASURES[name]}: ${said.join("; ")}.`,
    columns: ["model", "layer", "head", name, "low", "high", "status"], rows,
  };
});
