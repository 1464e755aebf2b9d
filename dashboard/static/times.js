// Times: how long ago, as package dashboard writes it, and the exact time in UTC or in the
// browser's zone.
const units = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];

function ago(at) {
  const seconds = Math.trunc((Date.now() - at) / 1_000);
  const far = Math.abs(seconds);
  const [of, name] = units.find(([of]) => far >= of) ?? units.at(-1);
  const distance = `${Math.trunc(far / of)} ${name}`;
  return seconds < 0 ? `in ${distance}` : `${distance} ago`;
}

const two = n => String(n).padStart(2, "0");
const local = at => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ` +
  `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())} ${zone(at)}`;
const zone = at => new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(at)
  .find(part => part.type === "timeZoneName").value;

// write changes a text, unless the user has selected a part of it.
function write(element, text) {
  if (element.textContent === text) return;
  const selection = getSelection();
  if (!selection.isCollapsed && selection.containsNode(element, true)) return;
  element.textContent = text;
}

// showTimes writes all times below an element.
export function showTimes(below) {
  const here = document.documentElement.dataset.zone === "local";
  for (const time of below.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if ("exact" in time.dataset) {
      if (here) write(time, local(at));
      continue;
    }
    if (here) time.title = local(at);
    write(time, ago(at));
  }
}
