// Pictures: what lies nearest to the pointer, or to a finger, tells its numbers.
const REACH = 36; // in pixels

function vertices(d) {
  return [...d.matchAll(/[ML](-?[\d.]+) (-?[\d.]+)/g)].map((found) => [Number(found[1]), Number(found[2])]);
}

// The middle of a dot, which is drawn as two half circles from its left end.
function middle(d) {
  const found = /^M(-?[\d.]+) (-?[\d.]+)a([\d.]+)/.exec(d);
  return found && [Number(found[1]) + Number(found[3]), Number(found[2])];
}

// The place in a list of points of the one nearest to a place, of equals the last; -1 where none is within reach.
function nearest(points, x, y, reach) {
  let best = -1, least = reach;
  points.forEach(([px, py], place) => {
    const distance = Math.hypot(px - x, py - y);
    if (distance <= least) [best, least] = [place, distance];
  });
  return best;
}

// The row and the column of a square of cells in which a place lies; null outside.
function cellAt(count, [left, top, side], x, y) {
  const row = Math.floor((count * (y - top)) / side), column = Math.floor((count * (x - left)) / side);
  return row >= 0 && column >= 0 && row < count && column < count ? [row, column] : null;
}

// What a curve says at each of its points, in the words of its axes; counted, if its points are, from 0.
function spoken(name, across, up, values, counted) {
  return values.split(";").map((pair, place) => {
    const [x, y] = pair.split(" ");
    return `${name ? `${name}\n` : ""}${counted ? `${counted} ${place}\n` : ""}${across} ${x}\n${up} ${y}`;
  });
}

// The points of a picture and what each says: of curves first, then dots, which lie over them, as means lie over seeds.
function marksOf(svg) {
  const points = [], texts = [], { across, up } = svg.dataset;
  for (const curve of svg.querySelectorAll("path[data-values]")) {
    points.push(...vertices(curve.getAttribute("d")));
    texts.push(...spoken(curve.dataset.name, across, up, curve.dataset.values, curve.dataset.counted));
  }
  for (const dot of svg.querySelectorAll("path[data-title]")) {
    const place = middle(dot.getAttribute("d"));
    if (place) [points.push(place), texts.push(dot.dataset.title)];
  }
  return { points, texts };
}

function readable(svg, tip, spot) {
  // the browser's own hint would lie over ours
  for (const title of svg.querySelectorAll("path > title")) {
    title.parentNode.dataset.title = title.textContent;
    title.remove();
  }
  const cells = svg.dataset.cells && svg.dataset.cells.split(";").map((row) => row.split(" "));
  let marks = null;
  const hide = () => [tip, spot].forEach((one) => (one.hidden = true));
  const show = (event) => {
    const toPage = svg.getScreenCTM(), at = new DOMPoint(event.clientX, event.clientY).matrixTransform(toPage.inverse());
    marks ??= marksOf(svg);
    const cell = cells && cellAt(cells.length, svg.dataset.square.split(" ").map(Number), at.x, at.y);
    const place = cell ? -1 : nearest(marks.points, at.x, at.y, REACH / toPage.a);
    if (!cell && place < 0) return hide();
    const [row, column] = cell ?? [];
    tip.textContent = cell ? `${svg.dataset.up} ${row} ${svg.dataset.across} ${column}: ${cells[row][column]}` : marks.texts[place];
    tip.hidden = false;
    spot.hidden = Boolean(cell);
    if (!cell) {
      const { x, y } = new DOMPoint(...marks.points[place]).matrixTransform(toPage);
      [spot.style.left, spot.style.top] = [`${x}px`, `${y}px`];
    }
    const beside = event.clientX + 14 + tip.offsetWidth < window.innerWidth - 8;
    const left = beside ? event.clientX + 14 : Math.max(8, event.clientX - 14 - tip.offsetWidth);
    [tip.style.left, tip.style.top] = [`${left}px`, `${Math.max(8, event.clientY - 14 - tip.offsetHeight)}px`];
  };
  for (const name of ["pointermove", "pointerdown"]) svg.addEventListener(name, show);
  for (const name of ["pointerleave", "pointercancel"]) svg.addEventListener(name, hide);
  window.addEventListener("scroll", hide, { passive: true });
}
