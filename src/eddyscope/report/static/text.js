// The documents of a mode, token by token.

const KIND = { word: 1, line: 2, punctuation: 4, wordEnd: 8, sentenceEnd: 16, special: 32 };
const HIDDEN = /[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f]/g;
const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** What is seen of a token: controls and marks that would move other text become signs. */
function visible(text) {
  return text
    .replace(CONTROL, (c) => c === "\u007f" ? "␡" : String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(HIDDEN, (c) => `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`)
    .replace(LONE, "\ufffd")
    .replace(/\n/g, "↵")
    .replace(/^(?=\p{M})/u, "◌");
}

const top = () => { const one = mode(); return one && one.top[Math.min(state.document, one.top.length - 1)]; };
const shares = (codes, limit) => Array.from(bytes(codes), (code) => signed(code, limit) || 0);
let current;
/** How far back the nearest of some lags is. */
function back(lags) {
  const near = lags.filter((lag) => lag >= 0).reduce((a, b) => Math.min(a, b), Infinity);
  return near === Infinity ? "before this document" : near === 0 ? "here" : `${near} token${near === 1 ? "" : "s"} back`;
}

function showReader() {
  const why = study().noText || (layer().no_modes ? `${named()}: ${layer().no_modes}.` : "")
    || (top() ? "" : "Of this mode the page holds no documents: choose one of the first modes of a band.");
  document.getElementById("reader").hidden = Boolean(why);
  const note = document.getElementById("no-text");
  note.hidden = !why;
  note.textContent = why;
  current = undefined;
  if (why) return;
  const picker = document.getElementById("pick-document");
  picker.replaceChildren(...mode().top.map((one, i) => {
    const text = texts().find((t) => t.number === one.document);
    const value = mode().coefficients[one.document];
    const source = text && text.source ? ` of ${visible(text.source)}` : "";
    return element("option", `${one.document}: coefficient ${plain(value)}${source}`, { value: i });
  }));
  picker.value = String(Math.min(state.document, mode().top.length - 1));
  document.getElementById("coincidence").textContent = (study().lines[state.place] || {})[`${state.pod}/${state.mode}`]
    || "There are too few documents, or no texts, to say what this mode's peaks coincide with.";
  showDocument();
}

function showDocument() {
  const found = top();
  const text = texts().find((one) => one.number === found.document);
  const place = document.getElementById("document");
  const query = shares(found.queries, found.query_limit), key = shares(found.keys, found.key_limit);
  current = { found, text, query, key, pair: shares(found.pairs, found.pair_limit), spans: [] };
  const parts = [];
  text.tokens.forEach((token, i) => {
    if (text.gaps[i]) parts.push(document.createTextNode(visible(text.gaps[i])));
    const special = text.kinds[i] & KIND.special && token === "";
    const span = element("bdi", special ? "⟨special⟩" : token === "" ? "⋯" : visible(token), { class: "token", "data-token": i });
    shade(span, query[i] / found.query_limit, key[i] / found.key_limit);
    current.spans.push(span);
    parts.push(span);
    if (token.includes("\n")) parts.push(document.createTextNode("\n".repeat(token.split("\n").length - 1)));
  });
  place.replaceChildren(...parts);
  choose(state.query >= 0 ? state.query : strongest(query));
}

const strongest = (values) => values.reduce((best, v, i) => v > values[best] ? i : best, 0);

function shade(span, query, key) {
  const strength = (share) => share > 0 ? (0.6 * Math.sqrt(share)).toFixed(3) : 0;
  const blue = state.shade === "key" ? 0 : strength(query), orange = state.shade === "query" ? 0 : strength(key);
  const of = { query: `rgba(var(--query),${blue})`, key: `rgba(var(--key),${orange})` };
  if (!Number(blue) && !Number(orange)) return;
  span.style.background = state.shade === "both" ? `linear-gradient(${of.query} 50%,${of.key} 50%)` : of[state.shade];
}

/** Mark a token, and the token that it is paired with: as query its key, as key the query that uses it most. */
function choose(index, asKey = false) {
  if (!current) return;
  for (const span of current.spans) span.classList.remove("chosen", "partner");
  const { found, pair, spans } = current;
  let query = index, key = found.partner[index] ?? -1;
  if (asKey || key < 0) {
    const users = found.partner.map((k, q) => k === index ? q : -1).filter((q) => q >= 0);
    if (users.length) { query = users.reduce((best, q) => pair[q] > pair[best] ? q : best); key = index; }
  }
  spans[index].classList.add("chosen");
  const other = index === query ? key : query;
  if (key >= 0 && other >= 0 && spans[other]) spans[other].classList.add("partner");
  state.query = index;
  const name = (i) => `“${current.text.tokens[i] ? visible(current.text.tokens[i]).trim() || "space" : "special"}” (${i})`;
  const share = (value) => isNumber(value) ? `${Number((100 * value).toPrecision(2))} %` : "–";
  document.getElementById("pair").textContent = key >= 0
    ? `Query ${name(query)} and key ${query === key ? "itself" : `${name(key)}, ${Math.abs(query - key)} ${query > key ? "back" : "ahead"}`}: ${share(pair[query])} of the coefficient. `
      + `As a query ${name(index)} gives ${share(current.query[index])}, as a key ${share(current.key[index])}.`
    : `${name(index)} is paired with no key here. As a query it gives ${share(current.query[index])}, as a key ${share(current.key[index])}.`;
  refresh(["ticks"]);
}

function watchReader() {
  const place = document.getElementById("document");
  place.addEventListener("pointerover", (event) => {
    const span = event.target.closest(".token");
    if (span) choose(Number(span.dataset.token), event.altKey);
  });
  place.addEventListener("click", (event) => {
    const span = event.target.closest(".token");
    if (span) choose(Number(span.dataset.token), event.altKey);
  });
  place.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }[event.key];
    if (!step || !current) return;
    event.preventDefault();
    choose(Math.max(0, Math.min(current.spans.length - 1, state.query + step)));
    current.spans[state.query].scrollIntoView({ block: "nearest" });
  });
}

chart("ticks", () => {
  if (!current) return nothing("No document is shown, so there are no words to count back from.");
  const one = mode(), found = pod(), { text } = current, query = state.query;
  const words = [], sentences = [];
  text.kinds.forEach((kind, i) => {
    const lag = query - i;
    if (layer().causal && lag < 0) return;
    if (kind & KIND.wordEnd) words.push(lag);
    if (kind & (KIND.sentenceEnd | KIND.line)) sentences.push(lag);
  });
  const size = Math.max(...one.profile.filter(isNumber).map(Math.abs), 1e-30);
  const shown = found.lags.filter((_, i) => Math.abs(one.profile[i] || 0) > 0.01 * size);
  const last = Math.max(8, Math.max(...shown, 0) * 1.1), first = layer().causal ? -0.5 : -last;
  const tick = (lags, length, color, name) => {
    const kept = lags.filter((lag) => lag >= first && lag <= last);
    return {
      type: "scatter", mode: "lines", name, line: { color, width: 1.5 }, hoverinfo: "skip",
      x: kept.flatMap((lag) => [lag, lag, null]), y: kept.flatMap(() => [-1.25 * size, (-1.25 + length) * size, null]),
    };
  };
  const near = sentences.filter((lag) => lag >= 0).sort((a, b) => a - b)[0];
  return {
    traces: [
      { type: "scatter", mode: "lines", x: found.lags, y: one.profile, name: `mode ${state.mode + 1}`, line: { color: css("--line-1"), width: 2 },
        hovertemplate: "lag %{x}: %{y:.3g}<extra></extra>" },
      tick(words, 0.18, css("--null"), "word ends"), tick(sentences, 0.42, css("--line-2"), "sentence or line ends"),
    ],
    layout: { xaxis: { title: { text: "lag back from the query, tokens" }, range: [first, last] }, yaxis: { title: { text: "mode by lag" }, range: [-1.3 * size, 1.1 * size] } },
    said: `Query ${query} of document ${current.found.document}: the last word ended ${back(words)}`
      + (near === undefined ? ", and no sentence or line before it." : `, the last sentence or line ${back(sentences)}.`),
    columns: ["lag", "mode", "word ends", "sentence or line ends"],
    rows: found.lags.map((lag, i) => [lag, one.profile[i], words.includes(lag) ? 1 : 0, sentences.includes(lag) ? 1 : 0]),
  };
});
