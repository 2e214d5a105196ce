// Scalogram, spectrum and coherence of the chosen layer.

chart("scalogram", () => {
  const data = layer().scalogram;
  if (data.missing) return nothing(`${named()}: ${data.missing}.`);
  const map = data.map;
  const lags = cells(map.columns, 1, data.first_lag);
  const z = rowsOf(map.codes, map.rows, map.columns, false, (code) => linear(code, map.low, map.high));
  const energies = z.flat().filter(isNumber), most = energies.reduce((a, b) => Math.max(a, b), -Infinity);
  const least = Math.max(energies.reduce((a, b) => Math.min(a, b), Infinity), most - DECADES);
  const powers = [];
  for (let p = Math.ceil(least); p <= most; p++) powers.push(p);
  const traces = [{
    type: "heatmap", x: lags, y: data.wavelengths, z, zmin: least, zmax: most, colorscale: scaleOf(shared.sequential),
    colorbar: { ...colourBar("energy"), tickvals: powers.length > 1 ? powers : [least, most], ticktext: powers.length > 1 ? powers.map((p) => `10<sup>${p}</sup>`) : [least, most].map((p) => plain(10 ** p)) },
    customdata: z.map((row) => row.map((v) => v === null ? null : 10 ** v)),
    hovertemplate: "lag %{x}, wavelength %{y:.3g}<br>energy %{customdata:.3g}<extra></extra>",
  }];
  for (const side of ["cone_low", "cone_high"]) {
    traces.push({
      type: "scatter", mode: "lines", ...cone(data, side),
      line: { color: "#fff", width: 2 }, hoverinfo: "skip", showlegend: false,
    });
  }
  traces.push({
    type: "scatter", mode: "markers", x: data.marks.map((m) => m.lag), y: data.marks.map((m) => m.wavelength),
    marker: {
      size: 11, color: data.marks.map((m) => m.sure ? "#fff" : "rgba(0,0,0,0)"),
      line: { width: 2, color: data.marks.map((m) => m.sure ? "#000" : "#fff") },
    },
    text: data.marks.map((m) => m.status), hovertemplate: "wavelength %{y:.3g}, lag %{x}<br>%{text}<extra></extra>",
    showlegend: false,
  });
  const edge = data.statuses.indexOf("edge-affected");
  const shapes = edge > 0 ? [{
    type: "line", xref: "paper", x0: 0, x1: 1, y0: Math.sqrt(data.wavelengths[edge] * data.wavelengths[edge - 1]),
    y1: Math.sqrt(data.wavelengths[edge] * data.wavelengths[edge - 1]), line: { color: "#fff", width: 1.5, dash: "dash" },
  }] : [];
  const sure = data.marks.filter((m) => m.status === "ok");
  const rows = [];
  z.forEach((row, i) => row.forEach((v, j) => rows.push([lags[j], data.wavelengths[i], v === null ? null : 10 ** v])));
  return {
    traces,
    layout: {
      shapes, xaxis: { title: { text: "lag, tokens (positive looks back)" } },
      yaxis: { type: "log", title: { text: "wavelength, tokens" }, tickvals: [2, 4, 8, 16, 32, 64, 128, 256], ...fit(data.wavelengths) },
    },
    said: sure.length
      ? `${named()}: dominant at ${sure.map((m) => `${plain(m.wavelength)} tokens (loudest at lag ${plain(m.lag)})`).join(", ")}.`
      : `${named()}: no dominant wavelength.`,
    columns: ["lag", "wavelength", "energy"], rows,
  };
});

/** The border of the cone; with a gap where it jumps, since at the largest scales one end alone is respected. */
function cone(data, side) {
  const x = [], y = [];
  data[side].forEach((v, i) => {
    if (i && data.statuses[i] !== data.statuses[i - 1]) { x.push(null); y.push(null); }
    x.push(v === null ? null : v + data.first_lag);
    y.push(data.wavelengths[i]);
  });
  return { x, y };
}

const fit = (values) => ({ range: [Math.log10(values[0] * 0.97), Math.log10(values[values.length - 1] * 1.03)] });

chart("spectrum", () => {
  const { spectrum, scalogram } = layer(), label = named();
  const x = scalogram.wavelengths;
  if (scalogram.missing || !spectrum.fluctuation.some(isNumber)) return nothing(`${label}: ${scalogram.missing || "no spectrum"}.`);
  const colours = palette();
  const gap = scalogram.statuses.findIndex((s, i) => i && s !== scalogram.statuses[i - 1]);  // other positions are averaged there
  const broken = (values) => gap < 0 ? values : [...values.slice(0, gap), null, ...values.slice(gap)];
  const line = (y, name, color, more = {}) => ({
    type: "scatter", mode: "lines", x: broken(x), y: broken(y), name, line: { color, width: 2, ...more }, connectgaps: false,
    hovertemplate: `${name}<br>wavelength %{x:.3g}: %{y:.3g}<extra></extra>`,
  });
  const traces = [];
  spectrum.twin.forEach((y, i) => traces.push({ ...line(y, "untrained twin", css("--null"), { width: 1 }), showlegend: i === 0 }));
  spectrum.shuffled.forEach((y, i) => traces.push({ ...line(y, "shuffled documents", css("--null"), { width: 1, dash: "dot" }), showlegend: i === 0 }));
  if (spectrum.low.some(isNumber)) {
    for (const [first, stop] of gap < 0 ? [[0, x.length]] : [[0, gap], [gap, x.length]]) {
      const part = x.map((_, i) => i).slice(first, stop).filter((i) => isNumber(spectrum.low[i]));
      traces.push({
        type: "scatter", mode: "lines", x: [...part, ...[...part].reverse()].map((i) => x[i]),
        y: [...part.map((i) => spectrum.low[i]), ...[...part].reverse().map((i) => spectrum.high[i])],
        fill: "toself", fillcolor: css("--band"), line: { width: 0 }, hoverinfo: "skip", name: "95 % interval", showlegend: first === 0,
      });
    }
  }
  traces.push(line(spectrum.mean, "mean field", colours[1], { dash: "dash" }), line(spectrum.fluctuation, "fluctuation", colours[0]));
  const best = spectrum.fluctuation.reduce((top, v, i) => isNumber(v) && scalogram.statuses[i] === "ok" && (top < 0 || v > spectrum.fluctuation[top]) ? i : top, -1);
  return {
    traces,
    layout: {
      xaxis: { type: "log", title: { text: "wavelength, tokens" }, tickvals: [2, 4, 8, 16, 32, 64, 128, 256], ...fit(x) },
      shapes: gap < 0 ? [] : [{ type: "line", yref: "paper", y0: 0, y1: 1, x0: Math.sqrt(x[gap] * x[gap - 1]), x1: Math.sqrt(x[gap] * x[gap - 1]),
        line: { color: css("--soft"), width: 1, dash: "dash" } }],
      yaxis: { type: "log", title: { text: "energy" }, ...decades(spectrum.fluctuation.concat(spectrum.mean, ...spectrum.twin)) },
    },
    said: `${label}: the fluctuation has most energy at wavelength ${plain(x[best])}${best === 0 || scalogram.statuses[best + 1] !== "ok" ? ", at the end of the range" : ""}.`,
    columns: ["wavelength", "total", "mean", "fluctuation", "low", "high"],
    rows: x.map((w, i) => [w, spectrum.total[i], spectrum.mean[i], spectrum.fluctuation[i], spectrum.low[i] ?? null, spectrum.high[i] ?? null]),
  };
});

chart("coherence", () => {
  const data = layer().coherence;
  if (data.missing) return nothing(`${named()}: ${data.missing}.`);
  const map = data.map;
  const x = cells(map.columns, map.column_step), y = cells(map.rows, map.row_step);
  const z = rowsOf(map.codes, map.rows, map.columns, map.lower, (code) => linear(code, 0, 1));
  let above = 0, count = 0;
  const rows = [];
  z.forEach((row, i) => row.forEach((v, j) => {
    if (v === null) return;
    count += 1;
    above += v > data.chance;
    rows.push([y[i], x[j], v]);
  }));
  return {
    traces: [{
      type: "heatmap", x, y, z, zmin: 0, zmax: 1, colorscale: scaleOf(shared.sequential),
      colorbar: { ...colourBar("coherence"), tickvals: [0, data.chance, 0.5, 1], ticktext: ["0", `chance ${plain(data.chance)}`, "0.5", "1"] },
      hovertemplate: "query %{y:.0f}, key %{x:.0f}<br>coherence %{z:.2f}<extra></extra>",
    }],
    layout: { xaxis: { title: { text: "key, token" } }, yaxis: { title: { text: "query, token" }, autorange: "reversed" }, margin: { l: 56, r: 90, t: 8, b: 44 } },
    said: `${named()}, scale ${plain(data.scale)} tokens: chance gives about ${plain(data.chance)}; keys within ${plain(data.near)} tokens are left out. `
      + `${percent(above / Math.max(1, count))} of the cells lie above it${map.row_step > 1 ? " (each cell is the largest of its block, so more than of single pairs)" : ""}.`,
    columns: ["query", "key", "coherence"], rows,
  };
});
