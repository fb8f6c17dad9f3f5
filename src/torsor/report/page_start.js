for (const table of document.querySelectorAll("table.sortable")) sortable(table);
const [tip, spot] = ["tip", "spot"].map((name) => {
  const made = document.createElement("div");
  made.className = name;
  made.hidden = true;
  made.setAttribute("aria-hidden", "true"); // the same numbers stand in the tables
  return made;
});
document.body.append(tip, spot);
for (const svg of document.querySelectorAll("svg[data-across]")) readable(svg, tip, spot);
document.documentElement.dataset.ready = "yes";
