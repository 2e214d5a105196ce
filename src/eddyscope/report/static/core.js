"use strict";
// Data, state, and charts that are drawn when they come into view. All text goes into the page as text, never as HTML.

const read = (id) => JSON.parse(document.getElementById(id).textContent);
const shared = read("shared");
const state = { study: 0, place: shared.start, pod: "field", mode: 0, document: 0, query: -1, shade: "both", measure: "" };
const kept = new Map();

/** Results of one layer and head; parsed when they are first asked for. */
function layerData(study, place) {
  const id = `layer-${study}-${place}`;
  if (!kept.has(id)) kept.set(id, read(id));
  return kept.get(id);
}
const study = () => shared.studies[state.study];
const layer = () => layerData(state.study, state.place);
const pod = () => layer().pods.find((one) => one.key === state.pod) || layer().pods[0];
const mode = () => { const found = pod(); return found ? found.modes[state.mode] || found.modes[0] : undefined; };
function texts() {
  const id = `texts-${state.study}`;
  if (!kept.has(id)) kept.set(id, read(id));
  return kept.get(id);
}

// --- numbers ---------------------------------------------------------------------------------------------------------

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
/** Three significant digits; "–" where there is no number. */
function plain(value) {
  if (!isNumber(value)) return "–";
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}
const percent = (share) => isNumber(share)
  ? (share > 0 && share < 1e-4 ? "under 0.01 %" : `${Number((100 * share).toPrecision(share >= 0.0995 ? 2 : 2))} %`) : "–";
const withInterval = (one) => !isNumber(one.low) || !isNumber(one.value) ? plain(one.value)
  : one.high === "inf" ? `${plain(one.value)} (${plain(one.low)} or more, no upper end)`
    : `${plain(one.value)} (${plain(one.low)} to ${plain(one.high)})`;
/** The chosen layer and head, to begin a sentence. */
const named = () => layer().label.replace(/^l/, "L");

/** Bytes of a text in base 64. */
function bytes(text) {
  const packed = atob(text);
  const made = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) made[i] = packed.charCodeAt(i);
  return made;
}
const signed = (code, limit) => code === 0 ? null : Math.sign(code - 128) * ((code - 128) / 127) ** 2 * limit;
const linear = (code, low, high) => code === 0 ? null : low + (code - 1) / 254 * (high - low);

/** Rows of a map of codes; of a lower triangle the rest is null. */
function rowsOf(codes, rows, columns, lower, value) {
  const found = bytes(codes);
  const made = [];
  let next = 0;
  for (let i = 0; i < rows; i++) {
    const row = new Array(columns).fill(null);
    const last = lower ? i + 1 : columns;
    for (let j = 0; j < last; j++) row[j] = value(found[next++]);
    made.push(row);
  }
  return made;
}
const cells = (count, step, first = 0) => Array.from({ length: count }, (_, i) => first + i * step + (step - 1) / 2);

// --- colours ---------------------------------------------------------------------------------------------------------

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const rgb = (c) => `rgb(${c[0]},${c[1]},${c[2]})`;
const scaleOf = (stops) => stops.map((c, i) => [i / (stops.length - 1), rgb(c)]);
const palette = () => ["--line-1", "--line-2", "--line-3", "--line-4", "--line-5", "--line-6"].map(css);

function layout(more) {
  const axis = {
    gridcolor: css("--grid"), zerolinecolor: css("--grid"), linecolor: css("--rule"), tickcolor: css("--rule"),
    ticks: "outside", ticklen: 4, automargin: true, title: { standoff: 8 }, exponentformat: "power",
  };
  const made = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: css("--ink") },
    margin: { l: 56, r: 12, t: 8, b: 44 }, hovermode: "closest",
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 11 } },
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    ...more,
  };
  made.xaxis = { ...axis, ...more.xaxis };
  made.yaxis = { ...axis, ...more.yaxis };
  return made;
}
/** Ticks of a logarithmic axis: powers of ten, or 1-2-5 where there are few of them. */
function decades(values) {
  const known = values.filter((v) => isNumber(v) && v > 0);
  const low = Math.floor(Math.log10(Math.min(...known))), high = Math.ceil(Math.log10(Math.max(...known)));
  if (!known.length) return {};
  const step = Math.max(1, Math.ceil((high - low) / 6)), tickvals = [], ticktext = [];
  for (let p = low; p <= high; p += step) {
    for (const lead of high - low > 2 ? [1] : [1, 2, 5]) {
      tickvals.push(lead * 10 ** p);
      const short = Math.abs(p) <= 3 ? plain(lead * 10 ** p) : `${lead > 1 ? `${lead}·` : ""}10<sup>${p}</sup>`;
      ticktext.push(short);
    }
  }
  return { tickvals, ticktext };
}
const colourBar = (title) => ({
  title: { text: title, side: "right" }, thickness: 10, outlinewidth: 0, len: 1, tickfont: { size: 10 }, ticklen: 3,
});

// --- the charting library: unpacked once, when there is time, or when the first chart comes into view ---------------------------------------

let library;
function charting() {
  if (!library) {
    library = (async () => {
      const packed = bytes(document.getElementById("plotly").textContent.trim());
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
      const script = document.createElement("script");
      script.textContent = await new Response(stream).text();
      document.head.append(script);
      return window.Plotly;
    })();
  }
  return library;
}

// --- charts ----------------------------------------------------------------------------------------------------------

/** name -> () => {traces, layout, said, columns, rows} or {missing}. */
const charts = new Map();
const inView = new Set();
const stale = new Set();
const drawn = new Map();

function chart(name, make) { charts.set(name, make); stale.add(name); }

/** Draw again what depends on the state: now what is in view, the rest when it comes into view. */
function refresh(names = charts.keys()) {
  for (const name of names) {
    stale.add(name);
    const figure = document.getElementById(`figure-${name}`);
    if (figure) { delete figure.dataset.said; delete figure.dataset.drawn; }
    if (inView.has(name)) draw(name);
  }
}

async function draw(name) {
  if (!stale.has(name)) return;
  stale.delete(name);
  const figure = document.getElementById(`figure-${name}`);
  const made = charts.get(name)();
  drawn.set(name, made);
  figure.querySelector("figcaption").textContent = made.missing || made.said;
  figure.dataset.said = "yes";
  fillTable(figure, made);
  const place = figure.querySelector(".plot");
  if (!place) return;
  place.setAttribute("aria-label", `${figure.querySelector("h3").textContent}: ${made.missing || made.said}`);
  figure.classList.toggle("empty", Boolean(made.missing));
  const plotly = await charting();
  if (drawn.get(name) !== made) return;
  if (made.missing) { plotly.purge(place); place.replaceChildren(); return; }
  await plotly.react(place, made.traces, layout(made.layout), { displayModeBar: false, responsive: true });
  figure.dataset.drawn = "yes";
}

function watchCharts() {
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const name = entry.target.dataset.chart;
      if (entry.isIntersecting) { inView.add(name); draw(name); } else inView.delete(name);
    }
  }, { rootMargin: "200px" });
  for (const name of charts.keys()) {
    const figure = document.getElementById(`figure-${name}`);
    if (figure) { figure.dataset.chart = name; watcher.observe(figure); } else charts.delete(name);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => refresh());
  addEventListener("beforeprint", () => { for (const name of charts.keys()) draw(name); });
}

const NOTHING = { columns: [], rows: [], said: "" };
const nothing = (why) => ({ ...NOTHING, missing: why });
