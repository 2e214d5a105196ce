// Modes: map, lag profile, coefficients, eigenvalues.

const podName = () => state.pod === "field" ? "no window" : pod().label;

chart("mode", () => {
  const one = mode();
  if (!one) return nothing(`${named()}: ${layer().no_modes || "no such mode"}.`);
  if (!one.codes) return nothing("This decomposition is along the lag alone: see the profile beside.");
  const x = cells(one.columns, one.column_step), y = cells(one.rows, one.row_step);
  const z = rowsOf(one.codes, one.rows, one.columns, one.lower, (code) => code === 0 ? null : (code - 128) / 127);
  const value = (v) => Math.sign(v) * v * v * one.limit;
  const ticks = [-1, -0.5, 0, 0.5, 1];
  const rows = [];
  z.forEach((row, i) => row.forEach((v, j) => { if (v !== null) rows.push([y[i], x[j], value(v)]); }));
  return {
    traces: [{
      type: "heatmap", x, y, z, zmin: -1, zmax: 1, colorscale: scaleOf(shared.diverging),
      colorbar: { ...colourBar("mode (unit norm)"), tickvals: ticks, ticktext: ticks.map((t) => plain(value(t))) },
      customdata: z.map((row) => row.map((v) => v === null ? null : value(v))),
      hovertemplate: "query %{y:.0f}, key %{x:.0f}<br>%{customdata:.2g}<extra></extra>",
    }],
    layout: { xaxis: { title: { text: "key, token" } }, yaxis: { title: { text: "query, token" }, autorange: "reversed" } },
    said: `${named()}, ${podName()}: mode ${state.mode + 1} holds ${percent(one.share)} of the energy`
      + (isNumber(one.overlap) ? `; two halves of the documents agree on it to ${percent(one.overlap)} (100 % is the same mode).` : ".")
      + (one.row_step > 1 ? ` Cells of ${one.row_step} tokens, each the largest of its block.` : ""),
    columns: ["query", "key", "mode"], rows,
  };
});

chart("profile", () => {
  const found = pod();
  if (!found || !mode()) return nothing(`${named()}: ${layer().no_modes || "no such mode"}.`);
  const colours = palette();
  const traces = [];
  const most = Math.max(...found.modes.flatMap((m) => m.profile.filter(isNumber).map(Math.abs)), 1e-30);
  if (found.weights.length && state.pod !== "field") {
    traces.push({
      type: "scatter", mode: "lines", x: [...found.lags, ...[...found.lags].reverse()],
      y: [...found.weights.map((w) => w * most), ...[...found.weights].reverse().map((w) => -w * most)],
      fill: "toself", fillcolor: css("--window"), line: { width: 0 }, hoverinfo: "skip", name: "window",
    });
  }
  found.modes.forEach((one, k) => traces.push({
    type: "scatter", mode: "lines", x: found.lags, y: one.profile, name: `mode ${k + 1}`,
    line: { color: colours[k % colours.length], width: k === state.mode ? 3 : 1 }, opacity: k === state.mode ? 1 : 0.6,
    hovertemplate: `mode ${k + 1}<br>lag %{x}: %{y:.3g}<extra></extra>`,
  }));
  const one = mode();
  const peak = one.profile.reduce((top, v, i) => isNumber(v) && (top < 0 || Math.abs(v) > Math.abs(one.profile[top])) ? i : top, -1);
  return {
    traces,
    layout: { xaxis: { title: { text: "lag, tokens" } }, yaxis: { title: { text: "mean over queries" } } },
    said: `${named()}, ${podName()}: mode ${state.mode + 1} is largest at lag ${plain(found.lags[peak])}.`,
    columns: ["lag", ...found.modes.map((_, k) => `mode ${k + 1}`)],
    rows: found.lags.map((lag, i) => [lag, ...found.modes.map((m) => m.profile[i])]),
  };
});

chart("coefficients", () => {
  const one = mode();
  if (!one || !one.coefficients.length) return nothing(one ? "Along the lag there is no coefficient for a document." : `${named()}: ${layer().no_modes || "no such mode"}.`);
  const x = one.coefficients.map((_, i) => i);
  const top = one.top.map((t) => t.document);
  const order = [...x].sort((a, b) => Math.abs(one.coefficients[b]) - Math.abs(one.coefficients[a]));
  const energy = one.coefficients.reduce((sum, v) => sum + v * v, 0);
  const few = order.slice(0, 5).reduce((sum, i) => sum + one.coefficients[i] ** 2, 0) / (energy || 1);
  return {
    traces: [{
      type: "bar", x, y: one.coefficients, marker: { color: x.map((i) => top.includes(i) ? css("--line-2") : css("--line-1")) },
      hovertemplate: "document %{x}: %{y:.3g}<extra></extra>",
    }],
    layout: { xaxis: { title: { text: "document" } }, yaxis: { title: { text: "coefficient" } }, bargap: 0.1 },
    said: `The 5 documents with the largest coefficients hold ${percent(few)} of this mode's energy; largest in document ${order[0]}.`,
    columns: ["document", "coefficient"], rows: x.map((i) => [i, one.coefficients[i]]),
  };
});

chart("eigenvalues", () => {
  const found = layer().pods;
  if (!found.length) return nothing(`${named()}: ${layer().no_modes || "no such mode"}.`);
  const colours = palette();
  const traces = [], rows = [];
  const chosen = pod();
  for (const [kind, dash] of [["twin", "solid"], ["shuffled", "dot"]]) {
    (chosen.spectrum[kind] || []).forEach((y, i) => traces.push({
      type: "scatter", mode: "lines", x: chosen.spectrum.ranks, y, name: kind === "twin" ? "untrained twin" : "shuffled documents",
      line: { color: css("--null"), width: 1, dash }, showlegend: i === 0, hoverinfo: "skip",
    }));
  }
  found.forEach((one, i) => {
    const thick = one.key === chosen.key;
    traces.push({
      type: "scatter", mode: "lines", x: one.spectrum.ranks, y: one.spectrum.eigenvalues, name: one.label,
      line: { color: one.key === "field" ? css("--ink") : colours[(i - 1) % colours.length], width: thick ? 3 : 1.5 },
      hovertemplate: `${one.label}<br>rank %{x}: %{y:.3g}<extra></extra>`,
    });
    one.spectrum.ranks.forEach((rank, j) => rows.push([one.label, rank, one.spectrum.eigenvalues[j], one.spectrum.noise_reduced[j] ?? null]));
  });
  const { measures, fitted, intercept, effective_rank: ranks } = chosen.spectrum;
  if (fitted.length && isNumber(intercept) && isNumber(measures.beta_published.value)) {
    traces.push({
      type: "scatter", mode: "lines", x: fitted, y: fitted.map((r) => Math.exp(intercept) * r ** -measures.beta_published.value),
      name: "power law as published", line: { color: css("--line-2"), dash: "dash", width: 2 }, hoverinfo: "skip",
    });
  }
  const said = (one) => `${withInterval(one)}${one.status && one.status !== "ok" ? ` (${one.status})` : ""}`;
  const rank = ranks[0];
  return {
    traces,
    layout: {
      xaxis: { type: "log", title: { text: "rank of the mode" }, tickvals: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] },
      yaxis: { type: "log", title: { text: "eigenvalue" }, ...decades(found.flatMap((one) => one.spectrum.eigenvalues)) },
    },
    said: `${named()}, ${chosen.label}: β as published ${said(measures.beta_published)}; `
      + `resolved β ${said(measures.beta_resolved)}; `
      + `effective dimension ${said(measures.participation_ratio)}`
      + (rank ? `; H*(${rank.tolerance}) ${said(rank)}.` : "."),
    columns: ["decomposition", "rank", "eigenvalue", "noise-reduced eigenvalue"], rows,
  };
});
