// The arithmetic of the geometry explorer: maps, carried directions, their Gram matrix and its Toeplitz defect.
// A map is {kind: "planes", scale, angle, blocks}, {kind: "diagonal", values, blocks} or {kind: "dense", matrix, blocks};
// blocks are [start, stop) pairs. A plane holds adjacent coordinates. tests/test_explorer.py compares it with the library.

const geometric = (planes, groups, base) => {
  const each = planes / groups;
  return Array.from({ length: planes }, (_, i) => base ** (-(i % each) / each));
};

const equalBlocks = (dim, groups) => Array.from({ length: groups }, (_, g) => [(g * dim) / groups, ((g + 1) * dim) / groups]);

// One rate for each group, a turn for each plane.
const conformal = (dim, rates, angle) => ({
  kind: "planes", angle, blocks: equalBlocks(dim, rates.length),
  scale: Array.from({ length: dim / 2 }, (_, i) => rates[Math.floor((i * rates.length) / (dim / 2))]),
});

// Rates spread evenly between mean - spread and mean + spread, cut to (0, 1).
const diagonal = (dim, mean, spread) => ({
  kind: "diagonal", blocks: [[0, dim]],
  values: Array.from({ length: dim }, (_, i) => Math.min(0.9999, Math.max(0.0001, mean + spread * ((2 * i) / (dim - 1) - 1)))),
});

const carry = (map, x) => {
  if (map.kind === "diagonal") return x.map((value, i) => map.values[i] * value);
  if (map.kind === "dense") return map.matrix.map((row) => row.reduce((sum, m, i) => sum + m * x[i], 0));
  const carried = new Array(x.length);
  for (let i = 0; i < map.scale.length; i++) {
    const cos = map.scale[i] * Math.cos(map.angle[i]), sin = map.scale[i] * Math.sin(map.angle[i]);
    carried[2 * i] = cos * x[2 * i] - sin * x[2 * i + 1];
    carried[2 * i + 1] = sin * x[2 * i] + cos * x[2 * i + 1];
  }
  return carried;
};

const norm = (x) => {
  const largest = x.reduce((most, value) => Math.max(most, Math.abs(value)), 0); // first: squares of small numbers underflow
  return largest === 0 ? 0 : largest * Math.sqrt(x.reduce((sum, value) => sum + (value / largest) ** 2, 0));
};

// p_t = M^t v / |M^t v| for t below steps, renormalised at every step.
const directions = (map, v, steps) => {
  const path = [];
  let state = v;
  for (let t = 0; t < steps; t++) {
    if (t) state = carry(map, path[t - 1]);
    const length = norm(state);
    path.push(state.map((value) => value / length));
  }
  return path;
};

// A probe that lives in one block: zero outside, so that a map which does not mix blocks stays inside.
const inside = (v, [start, stop]) => v.map((value, i) => (i >= start && i < stop ? value : 0));

const gram = (path) => path.map((p) => path.map((q) => p.reduce((sum, value, i) => sum + value * q[i], 0)));

// |G - P(G)|_F / |G|_F, P(G) the mean along every diagonal.
const toeplitzDefect = (matrix) => {
  const steps = matrix.length;
  let off = 0, all = 0;
  for (let lag = 1 - steps; lag < steps; lag++) {
    const entries = [];
    for (let t = Math.max(0, -lag); t < Math.min(steps, steps - lag); t++) entries.push(matrix[t][t + lag]);
    const mean = entries.reduce((sum, value) => sum + value, 0) / entries.length;
    for (const value of entries) { off += (value - mean) ** 2; all += value ** 2; }
  }
  return Math.sqrt(off / all);
};

// Mean defect over the probes: inside the map's own blocks, and over the whole vector.
const defects = (map, probes, steps) => {
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const over = (block) => mean(probes.map((v) => toeplitzDefect(gram(directions(map, block ? inside(v, block) : v, steps)))));
  return { own: mean(map.blocks.map(over)), whole: over(null) };
};

// log10 of the share of |M^t v| that each block has, for t below steps.
const shares = (map, v, steps) =>
  directions(map, v, steps).map((p) => map.blocks.map(([start, stop]) => Math.log10(Math.max(1e-16, norm(p.slice(start, stop))))));

// Coordinates of the directions on the three leading axes of their Gram matrix, by power iteration.
const principal = (matrix) => {
  const steps = matrix.length, rest = matrix.map((row) => row.slice());
  const points = matrix.map(() => []);
  let kept = 0;
  for (let axis = 0; axis < 3; axis++) {
    let q = Array.from({ length: steps }, (_, t) => Math.sin(1 + t * (axis + 1)));
    let value = 0;
    for (let round = 0; round < 200; round++) {
      const next = rest.map((row) => row.reduce((sum, entry, t) => sum + entry * q[t], 0));
      value = norm(next);
      if (value < 1e-12) break;
      q = next.map((entry) => entry / value);
    }
    for (let t = 0; t < steps; t++) {
      points[t].push(value < 1e-12 ? 0 : Math.sqrt(value) * q[t]);
      for (let s = 0; s < steps; s++) rest[t][s] -= value * q[t] * q[s];
    }
    kept += value;
  }
  return { points, kept: kept / steps };
};

// Standard normal numbers of a seed (mulberry32, Box-Muller), for probes.
const normals = (count, seed) => {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return Array.from({ length: count }, () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform()));
};
