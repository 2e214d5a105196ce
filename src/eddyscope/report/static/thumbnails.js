// Scalograms of all layers, small: one canvas each, painted when it comes into view.

/** Decades that colours span. */
const DECADES = 4;

function paint(canvas, data) {
  const width = canvas.width = 304, height = canvas.height = 176;
  const { rows, columns } = data.map;
  const found = bytes(data.map.codes);
  const small = new OffscreenCanvas(columns, rows);
  const image = small.getContext("2d").createImageData(columns, rows);
  const stops = shared.sequential;
  const span = data.map.high - data.map.low, floor = Math.max(0, 1 - DECADES / (span || 1));  // the same for all layers
  for (let i = 0; i < rows; i++) {
    const low = data.cone_low[i], high = data.cone_high[i];
    for (let j = 0; j < columns; j++) {
      const at = 4 * ((rows - 1 - i) * columns + j);
      const code = found[i * columns + j];
      const part = code === 0 ? 0 : Math.max(0, ((code - 1) / 254 - floor) / (1 - floor));
      const c = stops[Math.round(part * (stops.length - 1))];
      const outside = !isNumber(low) || j < low || j > high;
      for (let k = 0; k < 3; k++) image.data[at + k] = outside ? Math.round(0.45 * c[k] + 0.55 * 235) : c[k];
      image.data[at + 3] = 255;
    }
  }
  small.getContext("2d").putImageData(image, 0, 0);
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small, 0, 0, width, height);
  for (const mark of data.marks) {
    const x = width * (mark.lag - data.first_lag + 0.5) / columns;
    const y = height * (1 - (position(data.wavelengths, mark.wavelength) + 0.5) / rows);
    pen.beginPath();
    pen.arc(x, y, 7, 0, 2 * Math.PI);
    pen.lineWidth = 2;
    pen.strokeStyle = mark.sure ? "#000" : "#fff";
    pen.fillStyle = "#fff";
    if (mark.sure) pen.fill();
    pen.stroke();
  }
}

/** Where a wavelength lies on the grid of wavelengths, as a fraction of a row. */
function position(wavelengths, wanted) {
  let i = 0;
  while (i < wavelengths.length - 2 && wavelengths[i + 1] < wanted) i++;
  return i + Math.log(wanted / wavelengths[i]) / Math.log(wavelengths[i + 1] / wavelengths[i]);
}

let painter;
function showThumbnails() {
  const place = document.getElementById("thumbnails");
  const head = study().layers[state.place].head;
  if (painter) painter.disconnect();
  painter = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      painter.unobserve(entry.target);
      const data = layerData(state.study, Number(entry.target.dataset.place)).scalogram;
      const canvas = entry.target.querySelector("canvas");
      if (data.missing) canvas.replaceWith(element("span", data.missing, { class: "missing" }));
      else paint(canvas, data);
    }
  }, { rootMargin: "300px" });
  const made = [];
  study().layers.forEach((one, i) => {
    if (one.head !== head) return;
    const button = element("button", undefined, { type: "button", class: "pick", "data-study": state.study, "data-place": i });
    button.append(element("canvas", undefined, { "aria-hidden": "true" }), element("span", one.label));
    if (i === state.place) button.setAttribute("aria-current", "true");
    made.push(button);
  });
  place.replaceChildren(...made);
  for (const button of made) painter.observe(button);
  const figure = document.getElementById("figure-thumbnails");
  figure.querySelector("figcaption").textContent = head === "mean"
    ? `${made.length} layer${made.length === 1 ? "" : "s"}, the mean over heads.` : `Head ${head} of ${made.length} layers.`;
}
