// The page is read again when the server says that something has changed, and every few
// seconds while it cannot say so. Only what differs is written, in place: what is selected,
// focused, opened or filled in stays as it is, and so does what is scrolled.
import { showTimes } from "./times.js";

const polled = 5_000;   // without hints
const checked = 30_000; // with hints: some changes are no events
const kept = "input, select, textarea";

// matches reports whether a node of the page is to become the new one.
const matches = (old, next) => old && old.nodeType === next.nodeType && old.nodeName === next.nodeName && (old.id ?? "") === (next.id ?? "");

// filledIn reports whether the user has a hand in a field.
const filledIn = field => field === document.activeElement || field.value !== field.defaultValue && field.nodeName !== "SELECT" ||
  field.checked !== field.defaultChecked;

function copyAttributes(old, next) {
  const stays = name => name === "open" && old.nodeName === "DETAILS" || name === "hidden" && "copy" in old.dataset;
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name) && !stays(name)) old.removeAttribute(name);
  for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value && !stays(name)) old.setAttribute(name, value);
}

// become makes a node equal to the new one.
function become(old, next) {
  if (old.isEqualNode(next) || old.dataset?.stream && next.dataset.stream) return; // what is streamed is newer
  if (old.nodeType !== Node.ELEMENT_NODE) {
    const selection = getSelection();
    const selected = !selection.isCollapsed && (selection.anchorNode === old || selection.focusNode === old);
    if (old.data !== next.data && !selected) old.data = next.data;
    return;
  }
  if (old.matches(kept)) {
    if (!filledIn(old) && !document.activeElement?.matches("select")) copyAttributes(old, next);
    return;
  }
  if ("announce" in old.dataset && old.textContent.trim() !== next.textContent.trim()) announce(next.textContent.trim());
  copyAttributes(old, next);
  becomeChildren(old, next);
}

// Elements with an id are found by it, wherever they are. The others are found by their name
// among the next few, so that one that is added or removed leaves those after it alone.
const lookedAt = 6;

function find(at, child, ids) {
  for (let n = 0; at && n < lookedAt; n++, at = at.nextSibling) {
    if (!ids.has(at) && matches(at, child)) return at;
  }
}

function becomeChildren(old, next) {
  const named = new Map([...old.children].filter(child => child.id).map(child => [child.id, child]));
  const stay = new Set([...next.children].map(child => named.get(child.id)));
  let at = old.firstChild;
  for (const child of [...next.childNodes]) {
    const known = child.id ? named.get(child.id) : find(at, child, stay);
    if (!known || !matches(known, child)) {
      old.insertBefore(child, at);
      if (child.nodeName === "TR") child.classList.add("changed");
      continue;
    }
    if (child.id && known !== at) (old.moveBefore ?? old.insertBefore).call(old, known, at); // moveBefore keeps the focus
    while (at !== known && !child.id) at = removed(at, stay);
    at = known.nextSibling;
    become(known, child);
  }
  while (at) at = removed(at, new Set());
}

// removed removes a node, unless it stays, and returns the one after it.
function removed(node, stay) {
  const after = node.nextSibling;
  if (!stay.has(node)) node.remove();
  return after;
}

let announced = 0;

// announce tells screen readers about a change, at most every ten seconds.
function announce(text) {
  if (Date.now() - announced < 10_000) return;
  announced = Date.now();
  document.getElementById("announce").textContent = text;
}

// keepCurrent keeps what is in main current until the user pauses it. It returns a function that
// reads it now, and not as it was a moment ago.
export function keepCurrent(main) {
  const button = document.getElementById("live");
  let paused = sessionStorage.getItem("pawl-paused") === "yes";
  let source, reading = false, again = false, fresh = false, last = Date.now();

  const say = state => {
    button.dataset.state = state;
    button.textContent = { live: "Live: pause", polled: "Every 5 s: pause", away: "No answer: pause", paused: "Paused: resume" }[state];
  };

  async function read() {
    if (paused || document.hidden) return;
    if (reading) { again = true; return; }
    reading = true;
    last = Date.now();
    const headers = { Accept: "text/html", "Pawl-Automatic": fresh ? "fresh" : "1" };
    fresh = false;
    try {
      const answer = await fetch(location.href, { headers });
      if ([401, 403, 404].includes(answer.status)) { location.reload(); return; } // that page says why
      if (!answer.ok) throw new Error(answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.getElementById("main");
      showTimes(page);
      if (!paused) becomeChildren(main, next);
      for (const copy of main.querySelectorAll("[data-copy][hidden]")) copy.hidden = false;
      say(source?.readyState === EventSource.OPEN ? "live" : "polled");
    } catch {
      say("away"); // what is shown stays, and the next time may do better
    }
    reading = false;
    if (again) { again = false; setTimeout(read, 250); }
  }

  function listen() {
    source = new EventSource(new URL("../live", import.meta.url));
    source.addEventListener("changed", read);
    source.onopen = () => { if (!paused) say("live"); };
    source.onerror = () => { if (!paused) say("polled"); };
  }

  function stop() {
    source?.close();
    source = undefined;
  }

  // A hidden page is not kept current, and holds no connection.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stop();
    else if (!paused) { listen(); read(); }
  });
  button.addEventListener("click", () => {
    paused = !paused;
    sessionStorage.setItem("pawl-paused", paused ? "yes" : "no");
    if (paused) { stop(); say("paused"); } else { listen(); read(); }
  });
  setInterval(() => {
    const every = source?.readyState === EventSource.OPEN ? checked : polled;
    if (Date.now() - last >= every) read();
  }, 1_000);
  button.hidden = false;
  if (paused) say("paused");
  else { say("polled"); listen(); }
  return () => { fresh = true; return read(); };
}
