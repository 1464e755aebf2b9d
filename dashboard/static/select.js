// Marking all rows of a list at once, and counting the marked ones.

function count(form) {
  const boxes = [...form.querySelectorAll("input[name=item]")];
  const marked = boxes.filter(box => box.checked).length;
  const all = form.querySelector("[data-select-all]");
  if (all.hidden) all.hidden = false;
  all.setAttribute("aria-label", "mark all on this page");
  all.checked = marked > 0 && marked === boxes.length;
  all.indeterminate = marked > 0 && marked < boxes.length;
  const text = `${marked} of ${boxes.length} marked:`;
  const shown = form.querySelector("[data-select-count]");
  if (shown.textContent !== text) shown.textContent = text;
}

const countAll = () => { for (const all of document.querySelectorAll("[data-select] [data-select-all]")) count(all.form); };

countAll();
new MutationObserver(countAll).observe(document.getElementById("main"), { subtree: true, childList: true, characterData: true, attributeFilter: ["hidden"] });
document.addEventListener("change", event => {
  const form = event.target.closest("[data-select]");
  if (!form || !form.querySelector("[data-select-all]")) return;
  if (event.target.matches("[data-select-all]")) {
    for (const box of form.querySelectorAll("input[name=item]")) box.checked = event.target.checked;
  }
  count(form);
});
