// Controls, and the beginning.

const pick = (name) => document.getElementById(`pick-${name}`);

function options(select, items, chosen) {
  select.replaceChildren(...items.map(([value, text]) => element("option", text, { value })));
  select.value = String(chosen);
  select.disabled = items.length < 2;
}

/** Bring the controls in line with the state, and the state in line with what the layer has. */
function showControls() {
  const all = study().layers;
  const now = all[state.place];
  const indices = [...new Set(all.map((one) => one.index))];
  options(pick("layer"), indices.map((i) => [i, String(i)]), now.index);
  const heads = all.map((one, i) => [i, one]).filter(([, one]) => one.index === now.index);
  options(pick("head"), heads.map(([i, one]) => [i, one.head]), state.place);
  const pods = layer().pods;
  if (!pods.some((one) => one.key === state.pod)) state.pod = pods.length ? pods[0].key : "field";
  options(pick("band"), pods.map((one) => [one.key, one.label]), state.pod);
  const count = pod() ? pod().modes.length : 0;
  state.mode = Math.max(0, Math.min(state.mode, count - 1));
  options(pick("mode"), Array.from({ length: count }, (_, k) => [k, `${k + 1}, ${percent(pod().modes[k].share)}`]), state.mode);
  pick("study").value = String(state.study);
  document.getElementById("shown").textContent = `${shared.studies.length > 1 ? `${study().name}, ` : ""}${now.label}`
    + (pod() ? `, ${pod().label}, mode ${state.mode + 1}` : "");
  for (const button of document.querySelectorAll("button.pick")) {
    const chosen = Number(button.dataset.study) === state.study && Number(button.dataset.place) === state.place;
    if (chosen) button.setAttribute("aria-current", "true"); else button.removeAttribute("aria-current");
  }
}

function showConclusions() {
  document.getElementById("concluded").replaceChildren(...layer().conclusions.map((text) => element("li", text)));
}

/** Change the state and everything that depends on it. */
function change(more) {
  const before = { study: state.study, head: study().layers[state.place].head };
  Object.assign(state, more);
  if (more.study !== undefined && more.study !== before.study && more.place === undefined) state.place = 0;
  if (more.query === undefined) state.query = -1;
  showControls();
  if (state.study !== before.study || study().layers[state.place].head !== before.head) showThumbnails();
  showConclusions();
  showReader();
  refresh();
}

/** The same head of another layer, or its first. */
function placeOf(index) {
  const all = study().layers, head = all[state.place].head;
  const same = all.findIndex((one) => one.index === index && one.head === head);
  return same >= 0 ? same : all.findIndex((one) => one.index === index);
}

function start() {
  pick("study").addEventListener("change", (e) => change({ study: Number(e.target.value), document: 0 }));
  pick("layer").addEventListener("change", (e) => change({ place: placeOf(Number(e.target.value)), document: 0 }));
  pick("head").addEventListener("change", (e) => change({ place: Number(e.target.value), document: 0 }));
  pick("band").addEventListener("change", (e) => change({ pod: e.target.value, document: 0 }));
  pick("mode").addEventListener("change", (e) => change({ mode: Number(e.target.value), document: 0 }));
  pick("document").addEventListener("change", (e) => { state.document = Number(e.target.value); state.query = -1; showDocument(); });
  pick("shade").addEventListener("change", (e) => { state.shade = e.target.value; const at = state.query; showDocument(); choose(at); });
  if (pick("measure")) {
    options(pick("measure"), Object.entries(MEASURES), "median_lag");
    pick("measure").addEventListener("change", (e) => { state.measure = e.target.value; refresh(["models"]); });
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.pick");
    if (button) change({ study: Number(button.dataset.study), place: Number(button.dataset.place), document: 0 });
  });
  watchTables();
  watchReader();
  showControls();
  showThumbnails();
  showConclusions();
  showReader();
  watchCharts();
  // The library is unpacked while the answer is read, so that the first chart does not wait for it.
  (window.requestIdleCallback || ((later) => setTimeout(later, 500)))(() => charting(), { timeout: 3000 });
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}
start();
