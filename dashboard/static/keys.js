// The keys of a list: j and k move, a and r go to the page that asks for the decision, ? shows
// the help. No key decides by itself.

const typing = e => e.closest("input, textarea, select, [contenteditable]");

// The list is looked up at each key, because a live page is changed in place.
document.addEventListener("keydown", event => {
  const list = document.querySelector("[data-keys]");
  if (!list || event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || document.querySelector("dialog[open]")) return;
  const rows = [...list.querySelectorAll("li")].filter(row => row.querySelector("a"));
  let at = rows.findIndex(row => row.contains(document.activeElement));
  const chosen = rows.findIndex(row => row.querySelector("[aria-current]"));
  const row = rows[at >= 0 ? at : chosen];
  switch (event.key) {
    case "j":
    case "k":
      at = at < 0 ? Math.max(chosen, 0) : Math.min(Math.max(at + (event.key === "j" ? 1 : -1), 0), rows.length - 1);
      rows[at]?.querySelector("a").focus();
      break;
    case "a":
    case "r": {
      const to = row?.dataset[event.key === "a" ? "approve" : "reject"];
      if (to) location.href = to;
      break;
    }
    case "?":
      document.querySelector("[data-keys-help]")?.showModal();
      break;
    default:
      return;
  }
  event.preventDefault();
});
