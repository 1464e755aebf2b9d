// A message grows while it is read.

// seen is replaceControl of package dashboard, for words that do not come from there.
const seen = text => text
  .replace(/[\u0000-\u0008\u000b-\u001f]/g, c => String.fromCharCode(0x2400 + c.charCodeAt(0)))
  .replace(/\u007f/g, "\u2421")
  .replace(/[\u0080-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

function add(parent, name, text, className) {
  const e = parent.appendChild(document.createElement(name));
  if (className) e.className = className;
  e.textContent = text;
  return e;
}

function say(words, chunk) {
  const type = chunk.type.replace("_", "-");
  const text = typeof chunk.text === "string" && chunk.type !== "error";
  let part = words.lastElementChild;
  if (!text || !part || part.dataset.type !== type || part.classList.contains("abandoned")) {
    part = add(words, "section", "", "said " + type);
    part.dataset.type = type;
    add(part, "h3", seen([type, chunk.tool_name].filter(Boolean).join(" ")));
  }
  if (chunk.text) (part.querySelector("p") || add(part, "p", "", "text")).append(seen(chunk.text));
  for (const value of [chunk.input, chunk.output, chunk.data]) {
    if (value !== undefined) add(part, "pre", seen(JSON.stringify(value, null, 2))).tabIndex = 0;
  }
}

// follow shows the chunks of a message as they come. What changes more than the end of it is
// shown by the page itself: stale is called, and from then on the words are like the rest of it.
export function follow(words, stale) {
  const source = new EventSource(words.dataset.stream + "?after=" + (words.dataset.offset - 1));
  const count = document.getElementById("chunks");
  words.classList.add("streaming");
  source.onmessage = event => {
    const frame = JSON.parse(event.data);
    for (const chunk of frame.chunks) say(words, chunk);
    count.textContent = frame.offset + frame.chunks.length;
  };
  for (const name of ["abandoned", "snapshot", "end", "refused"]) {
    source.addEventListener(name, () => {
      source.close();
      words.classList.remove("streaming");
      delete words.dataset.stream;
      stale();
    });
  }
}
