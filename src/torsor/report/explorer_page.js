// What the explorer shows and how it answers; the numbers come from explorer_arithmetic.js.

const by = (id) => document.getElementById(id);
const trained = JSON.parse(by("trained").textContent);
const PROBES = 8;
let rates = [0.8, 0.9];
let turned = { yaw: 0.6, pitch: 0.35 };

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const shown = (value) => (value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(1) : value.toFixed(3));

function divisors(planes) {
  return Array.from({ length: planes }, (_, i) => i + 1).filter((g) => planes % g === 0 && g <= 8);
}

function chosen() {
  if (by("source").value === "trained") return trained.map;
  const dim = +by("width").value, planes = dim / 2, groups = +by("groups").value;
  const angles = { geometric: () => geometric(planes, groups, 10 ** +by("base").value), still: () => new Array(planes).fill(0),
    uniform: () => normals(2 * planes, 99).slice(0, planes).map((value) => Math.PI * Math.tanh(value)) };
  const step = +by("turn").value;
  return conformal(dim, rates.slice(0, groups), angles[by("frequencies").value]().map((angle) => angle * step));
}

function dimOf(map) { return map.blocks[map.blocks.length - 1][1]; }

function meanRate(map) {
  if (map.kind === "planes") return map.scale.reduce((sum, value) => sum + value, 0) / map.scale.length;
  if (map.kind === "diagonal") return map.values.reduce((sum, value) => sum + Math.abs(value), 0) / map.values.length;
  const dim = map.matrix.length;
  return Math.sqrt(map.matrix.flat().reduce((sum, value) => sum + value * value, 0) / dim);
}

function prepare(canvas, ratio) {
  const scale = window.devicePixelRatio || 1, wide = canvas.clientWidth, high = wide * ratio;
  canvas.width = wide * scale; canvas.height = high * scale; canvas.style.height = `${high}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale); pen.clearRect(0, 0, wide, high); pen.font = "11px system-ui, sans-serif";
  return { pen, wide, high };
}

function drawSphere(canvas, path, name) {
  const { pen, wide, high } = prepare(canvas, 1), radius = wide * 0.44, x0 = wide / 2, y0 = high / 2;
  const cy = Math.cos(turned.yaw), sy = Math.sin(turned.yaw), cp = Math.cos(turned.pitch), sp = Math.sin(turned.pitch);
  const at = ([x, y, z]) => { const u = cy * x + sy * z, w = -sy * x + cy * z; return [x0 + radius * u, y0 - radius * (cp * y - sp * w), sp * y + cp * w]; };
  pen.strokeStyle = colour("--line"); pen.lineWidth = 1;
  pen.beginPath(); pen.arc(x0, y0, radius, 0, 2 * Math.PI); pen.stroke();
  for (const circle of [(a) => [Math.cos(a), 0, Math.sin(a)], (a) => [Math.cos(a), Math.sin(a), 0], (a) => [0, Math.cos(a), Math.sin(a)]]) {
    pen.beginPath();
    for (let i = 0; i <= 72; i++) { const [x, y] = at(circle((i * Math.PI) / 36)); i ? pen.lineTo(x, y) : pen.moveTo(x, y); }
    pen.stroke();
  }
  pen.strokeStyle = pen.fillStyle = colour(name); pen.lineWidth = 1.4; pen.beginPath();
  path.forEach((point, t) => { const [x, y] = at(point); t ? pen.lineTo(x, y) : pen.moveTo(x, y); });
  pen.stroke();
  path.forEach((point, t) => { const [x, y, depth] = at(point); pen.globalAlpha = 0.55 + 0.45 * Math.max(0, depth); pen.beginPath(); pen.arc(x, y, t === 0 ? 5 : 3, 0, 2 * Math.PI); pen.fill(); });
  pen.globalAlpha = 1;
}

function drawGram(canvas, matrix, say) {
  const { pen, wide } = prepare(canvas, 1), steps = matrix.length, cell = wide / steps;
  const plus = colour("--plus"), minus = colour("--minus");
  pen.fillStyle = colour("--card"); pen.fillRect(0, 0, wide, wide);
  matrix.forEach((row, t) => row.forEach((value, s) => {
    pen.globalAlpha = Math.min(1, Math.abs(value)); pen.fillStyle = value < 0 ? minus : plus;
    pen.fillRect(s * cell, t * cell, cell + 0.5, cell + 0.5);
  }));
  pen.globalAlpha = 1;
  canvas.onmousemove = (event) => {
    const s = Math.min(steps - 1, Math.floor(event.offsetX / cell)), t = Math.min(steps - 1, Math.floor(event.offsetY / cell));
    if (s >= 0 && t >= 0) say.textContent = `step ${t} against step ${s}: ${matrix[t][s].toFixed(4)}`;
  };
  canvas.onmouseleave = () => { say.textContent = ""; };
}

function drawLines(canvas, curves, low, high, xName) {
  const { pen, wide, high: tall } = prepare(canvas, 0.5), left = 34, bottom = tall - 22, top = 8, count = curves[0].values.length;
  const x = (t) => left + ((wide - left - 8) * t) / Math.max(1, count - 1), y = (value) => bottom - ((bottom - top) * (value - low)) / (high - low);
  pen.strokeStyle = colour("--line"); pen.fillStyle = colour("--soft");
  for (let i = 0; i <= 4; i++) {
    const value = low + ((high - low) * i) / 4;
    pen.beginPath(); pen.moveTo(left, y(value)); pen.lineTo(wide - 8, y(value)); pen.stroke();
    pen.fillText(value.toFixed(high - low > 4 ? 0 : 2), 2, y(value) + 4);
  }
  pen.fillText(xName, left, tall - 4);
  for (const curve of curves) {
    pen.strokeStyle = colour(curve.name); pen.lineWidth = 1.8; pen.beginPath();
    curve.values.forEach((value, t) => { const at = y(Math.max(low, value)); t ? pen.lineTo(x(t), at) : pen.moveTo(x(t), at); });
    pen.stroke();
  }
}

function draw() {
  const map = chosen(), dim = dimOf(map), steps = +by("steps").value, seed = +by("probe").value;
  const other = diagonal(dim, meanRate(map), +by("spread").value);
  const probes = Array.from({ length: PROBES }, (_, i) => normals(dim, 1000 * (seed + 1) + i));
  const block = by("scope").value === "whole" ? null : map.blocks[+by("scope").value] || map.blocks[0];
  const v = block ? inside(probes[0], block) : probes[0];
  const mine = gram(directions(map, v, steps)), theirs = gram(directions(other, probes[0], steps));
  const here = principal(mine), there = principal(theirs);
  by("name-mine").textContent = by("source").value === "trained" ? trained.name : "conformal";
  drawSphere(by("sphere-mine"), here.points, "--row0"); drawSphere(by("sphere-other"), there.points, "--row1");
  by("kept-mine").textContent = `${(100 * here.kept).toFixed(0)} % of the squared length in these three axes`;
  by("kept-other").textContent = `${(100 * there.kept).toFixed(0)} %`;
  drawGram(by("gram-mine"), mine, by("say-mine")); drawGram(by("gram-other"), theirs, by("say-other"));
  const a = defects(map, probes, steps), b = defects(other, probes, steps);
  by("defect-mine").textContent = `Toeplitz defect: own blocks ${shown(a.own)}, whole vector ${shown(a.whole)}`;
  by("defect-other").textContent = `Toeplitz defect: own block ${shown(b.own)}, whole vector ${shown(b.whole)}`;
  drawLines(by("lags"), [{ name: "--row0", values: mine[0] }, { name: "--row1", values: theirs[0] }], -1, 1, "step: cosine with the first direction");
  const drift = shares(map, probes[0], steps);
  drawLines(by("drift"), map.blocks.slice(0, 6).map((_, g) => ({ name: `--block${g}`, values: drift.map((row) => row[g]) })), -8, 0, "step: log10 of a group's share of the norm");
}

function rebuild() {
  const own = by("source").value === "own", dim = +by("width").value, groups = by("groups");
  const kept = +groups.value, possible = divisors(dim / 2);
  groups.replaceChildren(...possible.map((g) => new Option(g, g)));
  groups.value = possible.includes(kept) ? kept : possible[Math.min(1, possible.length - 1)];
  const count = +groups.value;
  while (rates.length < count) rates.push(Math.min(0.98, 0.7 + 0.05 * rates.length));
  by("rates").replaceChildren(...rates.slice(0, count).map((rate, g) => {
    const label = document.createElement("label"), input = document.createElement("input"), out = document.createElement("output");
    Object.assign(input, { type: "range", min: 0.3, max: 0.999, step: 0.001, value: rate });
    out.textContent = rate.toFixed(3);
    input.oninput = () => { rates[g] = +input.value; out.textContent = rates[g].toFixed(3); draw(); };
    label.append(`rate of group ${g + 1} `, input, out);
    return label;
  }));
  by("making").hidden = !own;
  scopes();
  draw();
}

function scopes() {
  const select = by("scope"), kept = select.value, map = chosen();
  select.replaceChildren(new Option("whole vector", "whole"), ...map.blocks.slice(0, 16).map((_, g) => new Option(`block ${g + 1}`, g)));
  select.value = [...select.options].some((option) => option.value === kept) ? kept : "0";
}

for (const id of ["base", "turn", "steps", "spread", "probe", "frequencies", "scope"]) by(id).oninput = () => { by(`${id}-is`) && (by(`${id}-is`).textContent = id === "base" ? (10 ** +by(id).value).toFixed(0) : by(id).value); draw(); };
for (const id of ["width", "groups", "source"]) by(id).oninput = () => { by("width-is").textContent = by("width").value; rebuild(); };
for (const id of ["sphere-mine", "sphere-other"]) by(id).onpointermove = (event) => {
  if (event.buttons !== 1) return;
  turned = { yaw: turned.yaw + event.movementX / 120, pitch: Math.max(-1.5, Math.min(1.5, turned.pitch + event.movementY / 120)) };
  draw();
};
if (trained) { by("source").append(new Option(trained.name, "trained")); by("source").value = "trained"; }
window.onresize = draw;
window.matchMedia("(prefers-color-scheme: dark)").onchange = draw;
rebuild();
document.body.dataset.ready = "yes";
