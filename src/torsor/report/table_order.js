"use strict";
// Tables: a heading sorts by its column, then the other way round, then gives the first order back.
const NEXT = { none: "ascending", ascending: "descending", descending: "none" };

function compared(a, b) {
  const numbers = typeof a === "number" && typeof b === "number";
  return numbers ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}

// Places of the keys in order. What is absent (null) comes last either way; equals stay as they stood.
function order(keys, direction) {
  const places = keys.map((_, place) => place);
  if (direction === "none") return places;
  const sign = direction === "ascending" ? 1 : -1;
  return places.sort((p, q) => {
    if (keys[p] === null || keys[q] === null) return (keys[p] === null) - (keys[q] === null);
    return sign * compared(keys[p], keys[q]);
  });
}

// What a cell is sorted by: its number, else its words, else null.
function key(number, text) {
  if (number !== null) return Number(number);
  const plain = text.trim();
  if (plain === "" || plain === "–") return null;
  const digits = plain.replace(/[\s\u202f]/g, "");
  return /^-?[\d.]+$/.test(digits) ? Number(digits) : plain;
}

// The headings of single columns, each with its column, under spans of rows and columns.
function headings(head) {
  const taken = [...head.rows].map(() => []), found = [];
  [...head.rows].forEach((row, down) => {
    let column = 0;
    for (const cell of row.cells) {
      while (taken[down][column]) column++;
      for (let below = down; below < Math.min(down + cell.rowSpan, taken.length); below++)
        for (let beside = 0; beside < cell.colSpan; beside++) taken[below][column + beside] = true;
      if (cell.scope === "col") found.push([cell, column]);
      column += cell.colSpan;
    }
  });
  return found;
}

function keyOfRow(row, column) {
  let passed = 0;
  for (const cell of row.cells) {
    passed += cell.colSpan;
    if (column >= passed) continue;
    if (cell.colSpan > 1) return null; // it speaks of several columns, and has a number for none
    const number = cell.querySelector("data");
    return key(number && number.value, cell.textContent);
  }
  return null;
}

// A body holds a setting and its seeds: it moves as one, by the first of its rows that has the number.
function keyOfItem(item, column) {
  for (const row of item.rows ?? [item]) {
    const found = keyOfRow(row, column);
    if (found !== null) return found;
  }
  return null;
}

// What is put in order, and where it lies. Of a table of one body its rows, of several the bodies as wholes, since a
// setting stands with its seeds; where bodies are only parts, their rows, each in its own part and under its first line.
function parts(table) {
  const bodies = [...table.tBodies], whole = bodies.length > 1 && !("parts" in table.dataset);
  const rows = (body) => [...body.rows].filter((row) => !row.classList.contains("part"));
  return whole ? [[table, bodies]] : bodies.map((body) => [body, rows(body)]);
}

function sortable(table) {
  const columns = headings(table.tHead), all = parts(table);
  if (all.every(([, items]) => items.length < 2)) return;
  for (const [heading, column] of columns) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const direction = NEXT[heading.getAttribute("aria-sort") ?? "none"];
      for (const [other] of columns) other.removeAttribute("aria-sort");
      if (direction !== "none") heading.setAttribute("aria-sort", direction);
      table.toggleAttribute("data-sorted", direction !== "none");
      for (const [home, items] of all) {
        const keys = items.map((item) => keyOfItem(item, column));
        home.append(...order(keys, direction).map((place) => items[place]));
      }
    });
  }
}
