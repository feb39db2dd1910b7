// The memory map under the pointer and under the arrow keys: which rows are alive at a firing, and whose they are.
"use strict";
const chart = document.getElementById("chart");
if (chart) {
  const steps = Number(chart.dataset.steps);
  const stages = JSON.parse(chart.dataset.stages);
  const words = document.getElementById("moment");
  const table = document.querySelector("#readout tbody");
  const pools = Array.from(chart.querySelectorAll("g.boxes"), readPool);
  let now = -1;

  function readPool(group) {
    const matrix = group.transform.baseVal.consolidate().matrix;
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    line.setAttribute("class", "cursor");
    group.parentNode.appendChild(line);
    const boxes = Array.from(group.querySelectorAll(".box > rect"), (rect) => ({
      first: Number(rect.getAttribute("x")), last: Number(rect.getAttribute("x")) + Number(rect.getAttribute("width")),
      offset: Number(rect.getAttribute("y")), size: Number(rect.getAttribute("height")),
      owner: rect.parentNode, title: rect.firstElementChild.textContent,
    }));
    const top = Math.max(1, ...boxes.map((box) => box.offset + box.size));
    return { name: group.id.replace("pool-", ""), matrix, line, boxes, top };
  }

  function show(step) {
    now = Math.max(0, Math.min(steps - 1, step));
    const stage = stages.findIndex(([first, last]) => first <= now && now < last);
    const alive = [];
    for (const pool of pools) {
      const x = pool.matrix.e + (now + 0.5) * pool.matrix.a;
      const ends = { x1: x, x2: x, y1: pool.matrix.f, y2: pool.matrix.f + pool.top * pool.matrix.d };
      for (const [name, value] of Object.entries(ends)) pool.line.setAttribute(name, value);
      alive.push(...tensors(pool));
    }
    alive.sort((a, b) => b.size - a.size);
    const total = alive.reduce((sum, tensor) => sum + tensor.size, 0);
    words.textContent = `Firing ${now} of ${steps}, stage ${stage}: ${total.toLocaleString("en")} B in ` +
      `${alive.length} ${alive.length === 1 ? "tensor" : "tensors"}`;
    table.replaceChildren(...alive.map(row));
    chart.setAttribute("aria-valuenow", now);
    chart.setAttribute("aria-valuetext", words.textContent);
  }

  function tensors(pool) {
    const found = new Map();
    for (const box of pool.boxes) {
      if (box.first > now || box.last <= now) continue;
      const tensor = found.get(box.owner) ||
        { owner: box.owner, pool: pool.name, name: box.owner.getAttribute("aria-label"), size: 0, boxes: [] };
      tensor.size += box.size;
      tensor.boxes.push(box);
      found.set(box.owner, tensor);
    }
    return Array.from(found.values());
  }

  function row(tensor) {
    const line = document.createElement("tr");
    const places = tensor.boxes.sort((a, b) => a.offset - b.offset).map((box) => box.offset.toLocaleString("en"));
    const places_shown = places.slice(0, 6).join("; ") + (places.length > 6 ? "; ..." : "");
    const writer = tensor.boxes[0].title.split(", by ").pop();
    for (const text of [tensor.name, tensor.pool, tensor.size.toLocaleString("en"), places_shown, writer]) {
      line.appendChild(document.createElement("td")).textContent = text;
    }
    line.children[2].className = "n";
    line.tabIndex = 0;
    for (const event of ["mouseenter", "focus"]) line.addEventListener(event, () => choose(tensor.owner));
    for (const event of ["mouseleave", "blur"]) line.addEventListener(event, () => choose(null));
    return line;
  }

  function choose(owner) {
    for (const lit of chart.querySelectorAll(".box.lit")) lit.classList.remove("lit");
    chart.classList.toggle("choosing", owner !== null);
    if (owner) owner.classList.add("lit");
  }

  function stageStep(direction) {
    const at = stages.findIndex(([first, last]) => first <= now && now < last);
    const next = stages[at + direction];
    return next ? next[0] : direction < 0 ? 0 : steps - 1;
  }

  const keys = {
    ArrowRight: () => now + 1, ArrowLeft: () => now - 1, ArrowUp: () => now + 10, ArrowDown: () => now - 10,
    PageDown: () => stageStep(1), PageUp: () => stageStep(-1), Home: () => 0, End: () => steps - 1,
    p: () => Number(chart.dataset.peak),
  };
  chart.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    show(keys[event.key]());
  });
  chart.addEventListener("pointermove", (event) => {
    const matrix = chart.querySelector("svg").getScreenCTM();
    const x = (event.clientX - matrix.e) / matrix.a;
    const pool = pools[0];
    if (!pool) return;
    const step = Math.floor((x - pool.matrix.e) / pool.matrix.a);
    if (step >= 0 && step < steps && step !== now) show(step);
  });
  show(Number(chart.dataset.peak));
}
