// The files of a pull: changes are loaded and marked in place, lines selected by Shift and a click,
// files filtered while somebody types. Each of these is a link or a form that works without this.

const FILE = ".diff[data-file]";
const ROW = ".diff tr";
let current = null;

function focusOn(element) {
  if (!element) return;
  if (!element.matches("a, button, textarea")) element.tabIndex = -1;
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "nearest" });
}

// One after the other, so that of two quick clicks each finds the file that the other has loaded.
let loaded = Promise.resolve();

function load(section, address, options, isOpen = true) {
  loaded = loaded.then(() => replace(section.id, address, options, isOpen));
  return loaded;
}

// Replaces a file by the HTML of its address. Leads there if the server does not send it.
async function replace(id, address, options, isOpen) {
  const section = document.getElementById(id);
  const url = new URL(address, location.href);
  url.searchParams.set("part", id);
  if (isOpen && !url.searchParams.getAll("open").includes(id)) url.searchParams.append("open", id);
  const answer = await fetch(url, options).catch(() => null);
  if (!answer?.ok) {
    if (options) location.reload();
    else location.assign(address);
    return null;
  }
  const box = document.createElement("template");
  box.innerHTML = await answer.text();
  const fresh = box.content.querySelector(FILE);
  const hop = section.querySelector(".hop");
  if (hop) fresh.querySelector(".hop")?.replaceWith(hop);
  const count = box.content.querySelector("[data-viewed-count]");
  const shown = document.querySelector("#viewed [data-viewed-count]");
  if (count && shown) shown.textContent = count.textContent;
  section.replaceWith(fresh);
  return fresh;
}

async function follow(link) {
  const section = link.closest(FILE);
  const fresh = await load(section, link.href);
  if (!fresh) return;
  const target = new URL(link.href).hash.slice(1);
  focusOn(fresh.querySelector("#say-line ~ * textarea, form[aria-labelledby=say-line] textarea") ?? document.getElementById(target) ?? fresh);
}

async function mark(form, button) {
  const section = document.getElementById(button.value);
  const body = new FormData(form, button);
  const fresh = await load(section, form.action, { method: "POST", body }, false);
  if (!fresh) return;
  const isViewed = fresh.dataset.viewed === "yes";
  const entry = document.querySelector(`.tree [data-file="${fresh.id}"]`);
  entry?.classList.toggle("is-viewed", isViewed);
  fresh.querySelector("[form=viewed]")?.focus({ preventScroll: true });
  if (fresh.getBoundingClientRect().top < 0) fresh.scrollIntoView();
}

function select(from, to) {
  const [, file, side, first] = /^(f\w+)-([no])(\d+)$/.exec(from) ?? [];
  const [, other, otherSide, last] = /^(f\w+)-([no])(\d+)$/.exec(to) ?? [];
  if (!file || file !== other || side !== otherSide) return false;
  const [start, end] = [Number(first), Number(last)].sort((a, b) => a - b);
  for (const row of document.querySelectorAll(".diff tr.marked")) row.classList.remove("marked");
  for (let line = start; line <= end; line++) {
    document.getElementById(`${file}-${side}${line}`)?.classList.add("marked");
  }
  const url = new URL(location.href);
  url.searchParams.set("lines", start === end ? from : `${file}-${side}${start}-${end}`);
  history.replaceState(null, "", url);
  pin();
  return true;
}

function pin() {
  const link = document.querySelector("[data-permalink][data-version]");
  if (!link) return;
  const url = new URL(location.href);
  url.searchParams.set("version", link.dataset.version);
  link.href = url;
}

function step(selector, by) {
  const rows = [...document.querySelectorAll(selector)];
  const at =
    document.activeElement.closest(selector) ??
    document.activeElement.closest(ROW) ??
    (current?.isConnected ? current : null);
  const side = by > 0 ? Node.DOCUMENT_POSITION_FOLLOWING : Node.DOCUMENT_POSITION_PRECEDING;
  const visible = rows.filter(row => row.getClientRects().length);
  const after = visible.filter(row => !at || at.compareDocumentPosition(row) & side);
  const next = by > 0 ? after[0] : after.at(-1);
  if (!next) return;
  current = next;
  next.tabIndex = -1;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "center" });
}

const CHANGE = ".diff tr:has(> .add, > .del)";
const FIRST = `${CHANGE}:not(:has(> .add, > .del) + tr), ${CHANGE}:first-child`;
const COMMENT = ".line-comment";
const LINE = ".diff tr:has(> .c)";
const KEYS = { n: [FIRST, 1], p: [FIRST, -1], c: [COMMENT, 1], C: [COMMENT, -1] };

document.addEventListener("shortcut", event => {
  if (!KEYS[event.detail]) return;
  event.preventDefault();
  step(...KEYS[event.detail]);
});

const ARROWS = { ArrowDown: 1, ArrowUp: -1 };

document.addEventListener("keydown", event => {
  if (!event.target.matches(ROW)) return;
  if (event.key === "Enter") event.target.querySelector(".say")?.click();
  if (!ARROWS[event.key]) return;
  event.preventDefault();
  step(LINE, ARROWS[event.key]);
});

// Adds a suggestion to the text, with its lines selected.
function suggest({ dataset, parentElement }) {
  const { body, kind } = parentElement.closest("form").elements;
  const start = body.value && !body.value.endsWith("\n") ? `${body.value}\n` : body.value;
  const [first, ...lines] = dataset.suggest.split("\n");
  body.value = start + dataset.suggest;
  kind.value = "suggestion";
  body.dispatchEvent(new Event("input"));
  body.focus();
  const at = start.length + first.length + 1;
  body.setSelectionRange(at, at + lines.slice(0, -2).join("\n").length);
}

document.addEventListener("click", event => {
  if (event.ctrlKey || event.metaKey || event.button) return;
  const suggestion = event.target.closest("[data-suggest]");
  if (suggestion) {
    event.preventDefault();
    return suggest(suggestion);
  }
  const number = event.shiftKey && event.target.closest(`${FILE} a[data-n]`);
  if (number) {
    if (select(location.hash.slice(1), number.closest("tr").id)) event.preventDefault();
    return;
  }
  const link = event.target.closest(`${FILE} :is(a[data-part], a.say)`);
  if (!link || event.shiftKey) return;
  event.preventDefault();
  follow(link);
});

document.addEventListener(
  "toggle",
  event => {
    if (!event.target.matches("details.closed[open]")) return;
    const section = event.target.closest(FILE);
    load(section, event.target.querySelector("a").href).then(fresh => focusOn(fresh?.querySelector("header a")));
  },
  true,
);

document.addEventListener("submit", event => {
  const form = event.target;
  if (form.matches(`${FILE} form[data-part]`)) {
    event.preventDefault();
    const body = new FormData(form, event.submitter);
    const id = form.closest(".line-comment").id;
    load(form.closest(FILE), form.action, { method: "POST", body }).then(fresh =>
      focusOn(fresh?.querySelector(`#${id} :is(summary, button)`)),
    );
  }
  if (form.id !== "viewed" || !event.submitter?.value) return;
  event.preventDefault();
  mark(form, event.submitter);
});

// `live.js` says what others have sent meanwhile. The changes stay as they are.
const NEWS = { "pull-pushed": "commits", "review-created": "review" };
const news = document.createElement("p");
news.className = "arrived";
news.setAttribute("role", "status");
document.querySelector("[data-news]")?.after(news);

addEventListener("news", ({ detail }) => {
  const link = document.createElement("a");
  link.className = "pill";
  link.href = location.pathname + location.search;
  link.textContent = `New ${NEWS[detail] ?? "comments"}: reload`;
  news.replaceChildren(link);
});

// Texts of `drafts.js` whose form is not open. A push may have removed the line, or the whole file.
function listUnsent(box) {
  const path = new URL(`${box.dataset.unsent}/`, location.href).pathname;
  const start = `draft ${document.documentElement.dataset.user} ${path}`;
  for (const key of Object.keys(localStorage)) {
    if (!key.startsWith(start)) continue;
    const place = key.slice(start.length).split(" ")[0];
    if (document.querySelector(`form[action*="/comments/${place}?"]`)) continue;
    const [, file, lines] = /^(f\w+)-[no]([\d-]+)$/.exec(place) ?? [];
    const to = /^(\d+)\/reply$/.exec(place)?.[1];
    const name = document.getElementById(file)?.dataset.file;
    const item = document.createElement(name || to ? "a" : "q");
    if (name) item.href = `?comment=${place}#say-line`;
    if (to) item.href = `?reply=${to}#say-line`;
    item.textContent = name ? `${name}, line ${lines}` : to ? `reply to ${to}` : localStorage.getItem(key);
    box.append(" ", item);
    box.hidden = false;
  }
}

const filter = document.querySelector("[data-filter] [name=name]");
filter?.addEventListener("input", () => {
  const text = filter.value.toLowerCase();
  for (const section of document.querySelectorAll(FILE)) {
    section.hidden = !section.dataset.file.toLowerCase().includes(text);
    const entry = document.querySelector(`.tree [data-file="${section.id}"]`);
    if (entry) entry.hidden = section.hidden;
  }
});
addEventListener("hashchange", pin);
pin();
const unsent = document.querySelector("[data-unsent]");
if (unsent) listUnsent(unsent);
