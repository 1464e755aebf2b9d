// Only what needs a program is here: changes are shown as they come, exact times are
// converted to the browser's zone, and commands are copied. All else works without it.
import { follow } from "./message.js";
import { keepCurrent } from "./refresh.js";
import { showTimes } from "./times.js";
import "./find.js";
import "./zoom.js";

showTimes(document);
setInterval(() => showTimes(document), 10_000);

for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
document.addEventListener("click", async event => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.previousElementSibling.textContent);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 2_000);
});

const main = document.querySelector("main[data-live]");
if (main) {
  const readNow = keepCurrent(main);
  // A message may begin, or go on after a cut, while the page is open.
  const followNew = () => {
    const words = document.querySelector("[data-stream]:not(.streaming)");
    if (words) follow(words, () => readNow().then(followNew));
  };
  followNew();
  setInterval(followNew, 2_000);
}
