// In a timeline + and - zoom, and 0 shows all of it: wherever the page is, and with buttons.
import { typing } from "./typing.js";

// A page that is read again in place does not change this sheet.
const zoomed = new CSSStyleSheet();
document.adoptedStyleSheets.push(zoomed);
let zoom = 1;

// to zooms as a key says, and reports whether it is one of those.
function to(key, box) {
  const next = { "+": zoom * 2, "=": zoom * 2, "-": zoom / 2, "0": 1 }[key];
  if (!box || next === undefined) return false;
  const middle = (box.scrollLeft + box.clientWidth / 2) / box.scrollWidth;
  zoom = Math.min(Math.max(next, 1), 64);
  zoomed.replaceSync(`[data-zoom] > svg { width: ${100 * zoom}%; }`);
  box.scrollLeft = middle * box.scrollWidth - box.clientWidth / 2;
  return true;
}

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (to(event.key, document.querySelector("[data-zoom]"))) event.preventDefault();
});
document.addEventListener("click", event => {
  const button = event.target.closest("[data-zoom-key]");
  if (button) to(button.dataset.zoomKey, button.closest("figure").querySelector("[data-zoom]"));
});

// The buttons are shown where they work. An attribute would be set back when the page is read again.
const shown = new CSSStyleSheet();
shown.replaceSync(".timeline [data-zooms] { display: flex; }");
document.adoptedStyleSheets.push(shown);
