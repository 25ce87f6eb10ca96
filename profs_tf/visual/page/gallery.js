"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);

  // What comes from the data set becomes text or an attribute, never markup.
  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  const nameOf = (image) => data.classes[data.images[image].class];
  const label = (image) => `${nameOf(image)}, ${data.images[image].name}`;
  const picture = (image, alt) =>
    element("img", { src: data.images[image].uri, alt: alt ?? label(image), title: label(image) });

  function neighbor(query, [image, distance]) {
    const correct = nameOf(image) === nameOf(query.image);
    const verdict = correct ? "\u2713 correct" : "\u2717 wrong";
    const caption = element("figcaption", {}, element("b", {}, verdict), ` ${distance.toFixed(3)}`);
    if (!correct) caption.append(element("span", {}, nameOf(image)));
    return element("figure", { class: correct ? "correct" : "wrong" },
      picture(image, `${correct ? "correct" : "wrong"}: ${label(image)}`), caption);
  }

  function showImages(row, query) {
    const own = data.images[query.image];
    const about = data.class_notes[own.class];
    row.append(
      element("h3", {}, nameOf(query.image), " ", element("small", {}, about)),
      element("div", { class: "row" },
        element("figure", { class: "self" }, picture(query.image, `query: ${label(query.image)}`),
          element("figcaption", {}, `query ${own.name}`)),
        ...query.neighbors.map((found) => neighbor(query, found))));
  }

  // A row is filled when it comes near the window, so that thousands of rows cost little.
  const waiting = new Map();
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting || !waiting.has(entry.target)) continue;
      showImages(entry.target, waiting.get(entry.target));
      waiting.delete(entry.target);
      observer.unobserve(entry.target);
    }
  }, { rootMargin: "800px" });

  const rows = data.queries.map((query) => {
    const row = element("li", { class: "query" });
    waiting.set(row, query);
    observer.observe(row);
    const nearest = query.neighbors[0][0];
    return {
      row, name: nameOf(query.image).toLowerCase(), class: data.images[query.image].class,
      found: new Set(query.neighbors.map(([image]) => data.images[image].class)),
      correct: nameOf(nearest) === nameOf(query.image),
    };
  });
  byId("queries").append(...rows.map(({ row }) => row));

  let pair = null;
  let text = "";
  let kind = "all";
  function matches(name, index, correct) {
    if (kind !== "all" && (kind === "correct") !== correct) return false;
    return pair ? pair.includes(index) : name.includes(text);
  }
  function filter() {
    text = byId("name").value.trim().toLowerCase();
    kind = byId("kind").value;
    let shown = 0;
    for (const item of rows) {
      // Of a pair of classes, only queries with a neighbor of the other class.
      const other = !pair || item.found.has(pair[0] === item.class ? pair[1] : pair[0]);
      item.row.hidden = !(matches(item.name, item.class, item.correct) && other);
      shown += !item.row.hidden;
    }
    const of = pair ? `, ${data.classes[pair[0]]} and ${data.classes[pair[1]]}` : "";
    byId("count").textContent = `${shown} of ${rows.length} queries${of}`;
    draw();
  }
  byId("name").addEventListener("input", () => { pair = null; filter(); });
  byId("kind").addEventListener("change", filter);
  byId("filter").addEventListener("submit", (event) => event.preventDefault());
  byId("reset").addEventListener("click", () => {
    pair = null;
    byId("name").value = "";
    byId("kind").value = "all";
    filter();
  });
  byId("names").append(...[...new Set(data.queries.map((query) => nameOf(query.image)))].sort()
    .map((name) => element("option", { value: name })));

  byId("confusions").append(...data.confusions.map(({ classes, images, count }) => {
    const [first, second] = classes.map((index) => data.classes[index]);
    const show = element("button", { type: "button", "aria-label": `Show queries of ${first} and ${second}` }, "Show");
    show.addEventListener("click", () => {
      pair = classes;
      byId("name").value = "";
      filter();
      byId("queries-title").scrollIntoView();
    });
    return element("tr", {},
      element("td", {}, `${first} \u2014 ${second}`),
      element("td", { class: "pair" }, ...images.map((image) => picture(image))),
      element("td", { class: "number" }, String(count)),
      element("td", {}, show));
  }));
  if (!data.confusions.length) {
    byId("confusions").append(element("tr", {}, element("td", { colspan: "4" }, "None.")));
  }

  const canvas = byId("map");
  const points = data.map.map(([x, y, image, correct]) => ({ x, y, image, correct: Boolean(correct) }));
  const inOrder = [...points].sort((a, b) => a.x - b.x);
  let chosen = null;
  const hue = (index) => (index * 137.508) % 360;
  const margin = 12;
  // One scale for both axes, as large as fits.
  const [width, height] = ["x", "y"].map((axis) => Math.max(1e-9, ...points.map((point) => point[axis])));
  function positionOf(point) {
    const [roomX, roomY] = [canvas.clientWidth - 2 * margin, canvas.clientHeight - 2 * margin];
    const scale = Math.min(roomX / width, roomY / height);
    return [
      margin + (roomX - scale * width) / 2 + scale * point.x,
      margin + (roomY - scale * height) / 2 + scale * (height - point.y),
    ];
  }
  function draw() {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const styles = getComputedStyle(document.documentElement);
    const lightness = styles.getPropertyValue("--lightness");
    for (const point of points) {
      const [x, y] = positionOf(point);
      const index = data.images[point.image].class;
      pen.globalAlpha = matches(data.classes[index].toLowerCase(), index, point.correct) ? 0.85 : 0.08;
      pen.fillStyle = pen.strokeStyle = `hsl(${hue(index)} 65% ${lightness})`;
      pen.beginPath();
      if (point.correct) {
        pen.arc(x, y, 3.5, 0, 2 * Math.PI);
        pen.fill();
      } else {
        pen.lineWidth = 1.8;
        pen.moveTo(x - 3.5, y - 3.5);
        pen.lineTo(x + 3.5, y + 3.5);
        pen.moveTo(x - 3.5, y + 3.5);
        pen.lineTo(x + 3.5, y - 3.5);
        pen.stroke();
      }
    }
    if (chosen) {
      pen.globalAlpha = 1;
      pen.lineWidth = 2;
      pen.strokeStyle = styles.getPropertyValue("--ink");
      pen.beginPath();
      pen.arc(...positionOf(chosen), 8, 0, 2 * Math.PI);
      pen.stroke();
    }
  }
  function choose(point) {
    if (point === chosen) return;
    chosen = point;
    draw();
    const box = byId("map-shown");
    box.hidden = !point;
    if (!point) return;
    box.replaceChildren(picture(point.image),
      element("span", {}, `${label(point.image)}: nearest image ${point.correct ? "correct" : "wrong"}`));
    const [x, y] = positionOf(point);
    box.style.left = `${Math.max(0, Math.min(x + 12, canvas.clientWidth - box.offsetWidth))}px`;
    box.style.top = `${Math.max(0, Math.min(y + 12, canvas.clientHeight - box.offsetHeight))}px`;
  }
  function chooseNearest(event) {
    let best = null;
    let least = 20 ** 2;
    for (const point of points) {
      const [x, y] = positionOf(point);
      const distance = (x - event.offsetX) ** 2 + (y - event.offsetY) ** 2;
      if (distance < least) [best, least] = [point, distance];
    }
    choose(best);
  }
  canvas.addEventListener("pointermove", chooseNearest);
  canvas.addEventListener("pointerdown", chooseNearest);
  // Lifting a finger also fires this event: its choice stays until the next tap.
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") choose(null);
  });
  canvas.addEventListener("blur", () => choose(null));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") choose(null);
    if (!step || !inOrder.length) return;
    event.preventDefault();
    const from = chosen ? inOrder.indexOf(chosen) : step > 0 ? -1 : inOrder.length;
    choose(inOrder[Math.max(0, Math.min(inOrder.length - 1, from + step))]);
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new ResizeObserver(draw).observe(canvas);
  filter();
})();
