// Energy of each layer and octave against the loss owed to it; on the page where windows were given.

chart("owed", () => {
  const { rows, unit } = shared.owed;
  const columns = ["layer", "head", "first distance", "last distance", "share of the energy", "density", `loss owed, ${unit}`, "low", "high"];
  const known = rows.filter((row) => isNumber(row[4]) && isNumber(row[6]));
  if (!known.length) return { ...nothing("No energy that fluctuates, or no loss."), columns, rows };
  const floor = 1e-3, above = (value) => Math.max(value, floor);
  const octaves = [...new Set(rows.map((row) => row[2]))].sort((a, b) => a - b);
  const x = known.map((row) => above(row[4])), y = known.map((row) => above(row[6]));
  const axis = (title, values) => ({
    type: "log", title: { text: title }, range: [Math.log10(floor) - 0.1, Math.log10(Math.max(...values)) + 0.15], ...decades([floor, ...values]),
  });
  const at = (row) => row[2] === row[3] ? `distance ${row[2]}` : `distances ${row[2]} to ${row[3]}`;
  const who = (row) => `layer ${row[0]}${row[1] === "all" ? "" : `, head ${row[1]}`}`;
  const most = known.reduce((a, b) => (b[6] > a[6] ? b : a));
  return {
    traces: [{
      type: "scatter", mode: "markers", x, y,
      marker: {
        color: known.map((row) => row[0]), colorscale: scaleOf(shared.sequential), cmin: 0, cmax: Math.max(1, ...rows.map((row) => row[0])),
        size: known.map((row) => 6 + 12 * octaves.indexOf(row[2]) / Math.max(1, octaves.length - 1)), opacity: 0.85,
        line: { color: css("--ink"), width: 0.5 }, colorbar: colourBar("layer"), showscale: true,
      },
      text: known.map((row) => `${who(row)}, ${at(row)}: ${withInterval({ value: row[6], low: row[7], high: row[8] })} ${unit}, ${percent(row[4])} of the energy, density ${plain(row[5])}`),
      hovertemplate: "%{text}<extra></extra>",
    }],
    layout: { xaxis: axis("share of the layer's energy", x), yaxis: axis(`loss owed, ${unit}`, y) },
    said: `Most is owed by ${who(most)} to ${at(most)}: ${plain(most[6])} ${unit}, at ${percent(most[4])} of its energy.`,
    columns, rows,
  };
});
