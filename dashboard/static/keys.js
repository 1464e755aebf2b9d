// The keys of a list: j and k move and show what they come to, a and r go to the page that asks for the decision, ? shows
// the help. No key decides by itself.

import { showTimes } from "./times.js";
import { typing } from "./typing.js";

let asked = 0;

// preview shows a row of the list beside it, as its link does, and leaves the focus in the list.
async function preview(row) {
  const link = row?.querySelector("a"), number = ++asked;
  if (!link) return;
  await new Promise(done => setTimeout(done, 120)); // of a key that is held the last one counts
  if (number !== asked) return;
  const answer = await fetch(link.href, { headers: { Accept: "text/html" } });
  if (!answer.ok || number !== asked) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const next = page.querySelector("#shown"), old = document.querySelector("#shown");
  if (!next || !old) return;
  showTimes(page);
  old.replaceWith(next);
  history.replaceState(null, "", link.href);
  for (const other of document.querySelectorAll("[data-keys] [aria-current]")) other.removeAttribute("aria-current");
  document.getElementById(row.id)?.querySelector("a").setAttribute("aria-current", "true");
}

// The list is looked up at each key, because a live page is changed in place.
document.addEventListener("keydown", event => {
  const list = document.querySelector("[data-keys]");
  if (!list || event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  const rows = [...list.querySelectorAll("li")].filter(row => row.querySelector("a"));
  let at = rows.findIndex(row => row.contains(document.activeElement));
  const chosen = rows.findIndex(row => row.querySelector("[aria-current]"));
  const row = rows[at >= 0 ? at : chosen];
  switch (event.key) {
    case "j":
    case "k":
      at = at < 0 ? Math.max(chosen, 0) : Math.min(Math.max(at + (event.key === "j" ? 1 : -1), 0), rows.length - 1);
      rows[at]?.querySelector("a").focus();
      preview(rows[at]);
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
