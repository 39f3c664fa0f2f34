// Shortcuts: single keys, and Ctrl+Enter, which submits a form. Single keys are off by the account's
// setting (<html data-shortcuts="off">), by the switch of this browser, and in fields.

const OFF = "shortcuts off";
const GO = { h: "/", i: "/inbox", p: "/pulls" };
const SOON = 1500;
const LIST = [
  ["/", "Search"],
  ["g h", "Home"],
  ["g i", "Inbox"],
  ["g p", "Pulls"],
  ["j, k", "Next and previous row, reply or file"],
  ["n, p", "Next and previous change"],
  ["↑, ↓", "From a change, the line above and below"],
  ["Enter", "Comment on the line"],
  ["c, C", "Next and previous comment"],
  ["r", "Reply"],
  ["y", "Permanent link"],
  ["?", "This list"],
  ["Ctrl + Enter", "Send"],
];
const ROWS = ".ledger > li, .replies > li, .diff";
const root = document.documentElement;
let pressedG = -SOON;
let row = null;

function storage() {
  try {
    return localStorage;
  } catch {
    return null; // the browser blocks storage
  }
}

function areOn() {
  return root.dataset.shortcuts !== "off" && !storage()?.getItem(OFF);
}

function move(step) {
  const rows = [...document.querySelectorAll(ROWS)];
  const inside = document.activeElement.closest?.(ROWS) ?? row;
  const at = rows.indexOf(inside);
  row = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step] ?? row;
  if (!row) return;
  row.tabIndex = -1;
  row.focus();
}

function reply() {
  const link = document.activeElement.closest(".replies > li")?.querySelector('a[href$="/reply#say"]');
  if (link) link.click();
  else document.querySelector("form[aria-labelledby=say] textarea")?.focus();
}

const ACTS = {
  "/": () => document.querySelector(".bar [type=search]")?.focus(),
  j: () => move(1),
  k: () => move(-1),
  r: reply,
  y: () => document.querySelector("a[data-permalink]")?.click(),
  "?": () => open(),
};

function closeMenu() {
  const menu = document.querySelector("header details[open]");
  if (!menu) return;
  if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
  menu.open = false;
}

function onKey(event) {
  if (event.key === "Escape" && !dialog?.open) closeMenu();
  const field = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && field?.form) {
    event.preventDefault();
    field.form.requestSubmit(field.form.querySelector("button:not([type=button])"));
    return;
  }
  const modified = event.ctrlKey || event.metaKey || event.altKey;
  if (field || modified || event.defaultPrevented || !areOn() || dialog?.open) return;
  const goes = event.timeStamp - pressedG < SOON && GO[event.key];
  pressedG = event.key === "g" ? event.timeStamp : -SOON;
  if (goes) location.assign(goes);
  else if (ACTS[event.key]) ACTS[event.key]();
  else if (document.dispatchEvent(new CustomEvent("shortcut", { detail: event.key, cancelable: true }))) return;
  event.preventDefault();
}

let dialog = null;

function element(name, text, inside) {
  const made = document.createElement(name);
  made.textContent = text;
  inside?.append(made);
  return made;
}

function make() {
  dialog = document.body.appendChild(element("dialog", ""));
  dialog.setAttribute("aria-labelledby", "shortcuts");
  element("h2", "Keyboard shortcuts", dialog).id = "shortcuts";
  const list = element("dl", "", dialog);
  list.className = "facts";
  for (const [keys, does] of LIST) {
    element("dt", does, list);
    element("kbd", keys, element("dd", "", list));
  }
  const row = element("form", "", dialog);
  row.method = "dialog";
  row.className = "row";
  element("button", "Close", row);
  if (root.dataset.shortcuts === "off") {
    element("p", "Your account has single keys switched off.", dialog).className = "small soft";
    return;
  }
  if (!storage()) return;
  const turn = element("button", "", row);
  turn.type = "button";
  const show = () => (turn.textContent = `Switch single keys ${areOn() ? "off" : "on"} in this browser`);
  turn.addEventListener("click", () => {
    if (areOn()) localStorage.setItem(OFF, "yes");
    else localStorage.removeItem(OFF);
    show();
  });
  show();
}

function open() {
  if (!dialog) make();
  dialog.showModal();
}

document.addEventListener("keydown", onKey);
const opener = document.querySelector("[data-keys]");
if (opener) {
  opener.classList.add("ready");
  opener.addEventListener("click", open);
}
