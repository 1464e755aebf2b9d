// typing reports whether the user writes in an element, or a dialog is open: keys are no commands then.
export const typing = e => e.closest?.("input, textarea, select, [contenteditable]") || document.querySelector("dialog[open]");
