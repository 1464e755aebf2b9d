// The key / goes to the search of the page, and the list of namespaces needs no button.
import { typing } from "./typing.js";

document.addEventListener("keydown", event => {
  const field = document.querySelector("[data-find]");
  if (event.key !== "/" || !field || event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  field.focus();
  field.select();
  event.preventDefault();
});

document.addEventListener("change", event => {
  if (event.target.matches?.("[data-submit]")) event.target.form.requestSubmit();
});
for (const list of document.querySelectorAll("[data-submit]")) {
  const button = list.form.querySelector("button");
  if (button) button.hidden = true;
}
