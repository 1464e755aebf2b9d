// In a timeline + and - zoom, and 0 shows all of it.

// A page that is read again in place does not change this sheet.
const zoomed = new CSSStyleSheet();
document.adoptedStyleSheets.push(zoomed);
let zoom = 1;

document.addEventListener("keydown", event => {
  const box = event.target.closest?.("[data-zoom]");
  const next = { "+": zoom * 2, "=": zoom * 2, "-": zoom / 2, "0": 1 }[event.key];
  if (!box || next === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  const middle = (box.scrollLeft + box.clientWidth / 2) / box.scrollWidth;
  zoom = Math.min(Math.max(next, 1), 64);
  zoomed.replaceSync(`[data-zoom] > svg { width: ${100 * zoom}%; }`);
  box.scrollLeft = middle * box.scrollWidth - box.clientWidth / 2;
  event.preventDefault();
});
