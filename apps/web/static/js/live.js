// Live updates: the list with `data-live` follows the stream of events. docs/pages.md describes the
// attributes, and why this is not an EventSource. Nothing here scrolls or moves the focus.

import { words } from "./times.js";

const STREAMS = 4; // per browser: HTTP/1.1 allows six connections for all of its tabs
const POLL_INTERVAL = 30_000; // how often a tab without a stream loads its page again
const SILENCE = 60_000; // the server sends a heartbeat every 20 seconds
const FIRST_WAIT = 1000;
const LONGEST_WAIT = 30_000;
const ANNOUNCE_INTERVAL = 5000;
const SEEN_AFTER = 2000;
const FINAL_STATUSES = [401, 403, 404];

const list = document.querySelector("[data-live]");
const isTree = list?.classList.contains("replies");
let after = list?.dataset.after;

// The connection ---------------------------------------------------------------------------------

let paused = false;
let running = null;

function startOrStop() {
  const wanted = document.visibilityState === "visible" && !paused;
  if (wanted && !running) {
    running = new AbortController();
    follow(running.signal);
  } else if (!wanted && running) {
    running.abort();
    running = null;
    showState(paused ? "Paused" : "Waiting", false);
  }
}

function restart() {
  running?.abort();
  running = null;
  startOrStop();
}

async function follow(signal) {
  const polling = setInterval(() => pollPage(signal).catch(() => {}), POLL_INTERVAL);
  const waiting = setTimeout(() => showState(`Every ${POLL_INTERVAL / 1000} seconds`, true), FIRST_WAIT);
  await whenFree(signal, async () => {
    clearInterval(polling);
    clearTimeout(waiting);
    let failures = 0;
    while (!signal.aborted) {
      const began = Date.now();
      const status = await stream(signal).catch(() => 0);
      if (signal.aborted) return;
      if (FINAL_STATUSES.includes(status)) return askToReload();
      failures = Date.now() - began > LONGEST_WAIT ? 1 : failures + 1;
      if (failures >= 3) showState("Reconnecting", false);
      await wait(Math.min(FIRST_WAIT * 2 ** (failures - 1), LONGEST_WAIT), signal);
    }
  });
  clearInterval(polling);
  clearTimeout(waiting);
}

/** Run this work while at most `STREAMS` tabs run theirs; a hidden tab gives up its slot. */
async function whenFree(signal, work) {
  if (!navigator.locks) return work(); // the browser has none over plain http
  const rest = new AbortController();
  signal.addEventListener("abort", () => rest.abort());
  let mine = false;
  const requests = Array.from({ length: STREAMS }, (_, n) =>
    navigator.locks.request(`guildhall-live-${n}`, { signal: rest.signal }, () => {
      if (mine || signal.aborted) return null;
      mine = true;
      rest.abort();
      return work();
    }),
  );
  await Promise.allSettled(requests);
}

/** Read one stream to its end; returns its status. Throws if there is no connection. */
async function stream(signal) {
  const query = new URLSearchParams({ html: "true", last_event_id: after });
  for (const scope of list.dataset.scope.split(" ")) query.append("scope", scope);
  for (const kind of list.dataset.kinds?.split(" ") ?? []) query.append("kind", kind);
  const controller = new AbortController();
  const giveUp = () => controller.abort();
  signal.addEventListener("abort", giveUp);
  let silence = setTimeout(giveUp, SILENCE);
  try {
    const response = await fetch(`/api/v1/tail-events?${query}`, { signal: controller.signal });
    if (!response.ok) return response.status;
    showState("Live", true);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ; ) {
      const { value, done } = await reader.read();
      if (done) return response.status;
      clearTimeout(silence);
      silence = setTimeout(giveUp, SILENCE);
      const frames = (text + value).split("\n\n");
      text = frames.pop();
      frames.forEach(readFrame);
    }
  } finally {
    clearTimeout(silence);
    signal.removeEventListener("abort", giveUp);
  }
}

/** Wait about this long: a random part keeps browsers from reconnecting all at once. */
function wait(milliseconds, signal) {
  return new Promise((done) => {
    signal.addEventListener("abort", done);
    setTimeout(done, milliseconds * (0.75 + Math.random() / 2));
  });
}

/** Show new rows of the page. */
async function pollPage(signal) {
  const response = await fetch(location.pathname + location.search, { signal });
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  let last = null;
  for (const row of [...(page.querySelector("[data-live]")?.children ?? [])]) {
    const here = document.getElementById(row.id);
    if (!here) showRow(row, last ? last.nextElementSibling : list.firstElementChild);
    last = here ?? row;
  }
}

// Events -----------------------------------------------------------------------------------------

function readFrame(frame) {
  const data = [];
  let id = "";
  for (const line of frame.split("\n")) {
    if (line.startsWith("data: ")) data.push(line.slice(6));
    if (line.startsWith("id: ")) id = line.slice(4);
  }
  if (!id) return; // a heartbeat
  after = id;
  arrive(parse(data.join("\n")).firstElementChild);
}

function parse(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  return holder.content;
}

function arrive(event) {
  const { kind, thread, branch, reply } = event.dataset;
  const { verdict, branches, thread: own = thread, news } = list.dataset;
  const ours = own === thread;
  if (verdict && (ours ? !kind.startsWith("reply-") : branches.split(" ").includes(branch))) {
    refreshVerdict();
  }
  if (!ours) return;
  if (news) dispatchEvent(new CustomEvent("news", { detail: kind }));
  else if (!isTree) addToFeed(event);
  else if (reply) showReply(event);
  else if (verdict) addToConversation(event);
  else announce(sentenceOf(event));
}

function sentenceOf(event) {
  return (event.querySelector(".sentence") ?? event).textContent.trim().replace(/\s+/g, " ");
}

function addToFeed(event) {
  for (const part of event.querySelectorAll("template, .event-body")) part.remove();
  if (showRow(event, list.firstElementChild)) announce(sentenceOf(event));
}

// The same markup as in templates/web/_event.html.
function addToConversation(event) {
  const { review, kind } = event.dataset;
  if (review && document.getElementById(`review-${review}`)) return;
  const line = document.createElement("p");
  const text = line.appendChild(document.createElement("span"));
  const time = event.querySelector("time");
  time.title = time.dateTime;
  time.textContent = words(new Date(time.dateTime), new Date());
  line.className = "byline";
  text.className = "sentence";
  text.append(...event.querySelector(".sentence").childNodes);
  line.append(time);
  if (review || kind === "pull-pushed") line.append(reloadLink("Reload to show it"));
  event.className = "d0";
  event.replaceChildren(line);
  if (showRow(event, null)) announce(sentenceOf(event));
}

function showReply(event) {
  const row = event.querySelector("template")?.content.firstElementChild;
  if (!row) return removeReply(document.getElementById(`reply-${event.dataset.reply}`));
  const place = placeOf(event.dataset);
  if (place !== undefined || document.getElementById(row.id)) {
    if (!showRow(row, place)) return;
  } else if (event.dataset.kind !== "reply-created") {
    return;
  }
  announce(`New reply by ${row.querySelector("h3 b")?.textContent ?? "somebody"}`);
}

/** The row before which a reply belongs, null for the end; undefined if on another page. */
function placeOf({ parent }) {
  if (!parent) return "more" in list.dataset ? undefined : null;
  const above = document.getElementById(`reply-${parent}`);
  let next = above?.nextElementSibling;
  while (next && Number(next.dataset.depth) > Number(above.dataset.depth)) {
    next = next.nextElementSibling;
  }
  return above ? next : undefined;
}

/** Remove a deleted reply, and placeholders above it that have no replies left. */
function removeReply(row) {
  if (!row) return;
  const above = row.previousElementSibling;
  const next = row.nextElementSibling;
  whenLeft(row, () => row.remove());
  const hasAnswer = next && Number(next.dataset.depth) > Number(above?.dataset.depth);
  if (above?.querySelector(":scope > .gone") && !hasAnswer) removeReply(above);
}

let verdictTimer = 0;

function refreshVerdict() {
  clearTimeout(verdictTimer);
  verdictTimer = setTimeout(async () => {
    const response = await fetch(list.dataset.verdict).catch(() => null);
    if (!response?.ok) return;
    for (const part of parse(await response.text()).querySelectorAll("[data-part]")) {
      const old = document.querySelector(`[data-part="${part.dataset.part}"]`);
      whenLeft(old, () => {
        keepFields(old, part);
        old.replaceWith(part);
      });
    }
  }, 200);
}

// People merge the head that they have seen, with what they have typed and chosen.
function keepFields(old, part) {
  for (const field of old.querySelectorAll("[name^=expected_], select, textarea, [type=checkbox]")) {
    const same = part.querySelector(`#${field.id}`);
    if (same) [same.value, same.checked] = [field.value, field.checked];
  }
  if (old.querySelector("details[open]")) part.querySelector("details")?.setAttribute("open", "");
}

// Rows -------------------------------------------------------------------------------------------

/** Show a row: in place of the one with its id, or before `next`. Returns whether it is new. */
function showRow(row, next) {
  const old = document.getElementById(row.id);
  if (old) {
    const acts = old.querySelector(".acts"); // they have the links for the author
    whenLeft(old, () => {
      if (acts) row.querySelector(".acts")?.replaceWith(acts);
      old.replaceWith(row);
      if (old.classList.contains("fresh")) mark(row);
    });
    return false;
  }
  list.insertBefore(row, next);
  list.parentElement.querySelector(".empty")?.remove();
  mark(row);
  return true;
}

function mark(row) {
  row.classList.add("fresh");
  watcher.observe(row);
}

/** Change an element once the focus is outside it, so that nobody loses the focus. */
function whenLeft(element, change) {
  if (!element.contains(document.activeElement)) return change();
  const again = () => setTimeout(() => whenLeft(element, change));
  element.addEventListener("focusout", again, { once: true });
}

// New rows are marked until they have been in view for a while. The pill links to the others.
const timers = new Map();
const unseen = new Set();
const pill = document.createElement("p");
const link = pill.appendChild(document.createElement("a"));
pill.className = "arrived";
link.className = "pill";

const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    clearTimeout(timers.get(target));
    if (isIntersecting) {
      unseen.delete(target);
      timers.set(target, setTimeout(() => settle(target), SEEN_AFTER));
    } else if (!timers.has(target)) {
      unseen.add(target);
    }
  }
  showPill();
});

function settle(row) {
  watcher.unobserve(row);
  timers.delete(row);
  row.classList.remove("fresh");
}

function showPill() {
  const rows = [...unseen].filter((row) => row.isConnected);
  if (!rows.length) return pill.remove();
  const isAbove = rows[0].getBoundingClientRect().top < 0;
  link.href = `#${rows[0].id}`;
  link.textContent = `${isAbove ? "↑" : "↓"} ${counted(rows.length)}`;
  if (!pill.isConnected) list.after(pill);
}

function counted(number) {
  const noun = isTree ? ["reply", "replies"] : ["event", "events"];
  return `${number} new ${noun[number === 1 ? 0 : 1]}`;
}

// Status -----------------------------------------------------------------------------------------

const status = document.createElement("p");
status.setAttribute("role", "status");
status.className = "unseen";
let news = [];
let announceTimer = 0;
let announcedAt = 0;

/** Announce to screen readers, at most every five seconds, all events since in one text. */
function announce(text) {
  news.push(text);
  announceTimer ||= setTimeout(() => {
    status.textContent = news.length > 1 ? counted(news.length) : news[0];
    news = [];
    announceTimer = 0;
    announcedAt = Date.now();
  }, Math.max(0, announcedAt + ANNOUNCE_INTERVAL - Date.now()));
}

const controls = document.querySelector("[data-controls]");
const word = document.createElement("span");
const button = document.createElement("button");

function showState(text, isOn) {
  if (!word.isConnected) controls?.prepend(word);
  word.textContent = text;
  word.className = isOn ? "live" : "live off";
}

function reloadLink(text) {
  const reload = document.createElement("a");
  reload.href = location.pathname + location.search;
  reload.textContent = text;
  return reload;
}

function askToReload() {
  word.replaceChildren(reloadLink("Reload to go on"));
  word.className = "live off";
  button.remove();
}

button.type = "button";
button.className = "plain";
button.textContent = "Pause";
button.addEventListener("click", () => {
  paused = !paused;
  button.textContent = paused ? "Resume" : "Pause";
  startOrStop();
});
// When another tab signs out, connect again: the server decides whether this tab may follow.
const WHO = "who is signed in";
try {
  localStorage.setItem(WHO, document.documentElement.dataset.user ?? "");
} catch {
  // Without storage, tabs do not notice each other.
}

if (list) {
  addEventListener("storage", ({ key }) => key === WHO && restart());
  controls?.append(button);
  list.parentElement.append(status); // directly after the list it would shift the next element
  document.addEventListener("visibilitychange", startOrStop);
  startOrStop();
}
