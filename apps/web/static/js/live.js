// The list with `data-live` follows the live stream of events, as docs/pages.md says, which also
// says why this is no EventSource. Nothing here scrolls or moves the focus.

import { words } from "./times.js";

const STREAMS = 4; // that one browser has open: HTTP/1.1 allows six connections for all its tabs
const LOOK_EVERY = 30_000; // how often a tab without a stream looks at its page
const SILENCE = 60_000; // the server says something every 20 seconds
const FIRST_WAIT = 1000;
const LONGEST_WAIT = 30_000;
const TELL_EVERY = 5000;
const SEEN_AFTER = 2000;
const GONE = [401, 403, 404];

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
    say(paused ? "Paused" : "Waiting", false);
  }
}

function restart() {
  running?.abort();
  running = null;
  startOrStop();
}

async function follow(signal) {
  const looking = setInterval(() => look(signal).catch(() => {}), LOOK_EVERY);
  const waiting = setTimeout(() => say(`Every ${LOOK_EVERY / 1000} seconds`, true), FIRST_WAIT);
  await whenFree(signal, async () => {
    clearInterval(looking);
    clearTimeout(waiting);
    let failures = 0;
    while (!signal.aborted) {
      const began = Date.now();
      const status = await stream(signal).catch(() => 0);
      if (signal.aborted) return;
      if (GONE.includes(status)) return askToReload();
      failures = Date.now() - began > LONGEST_WAIT ? 1 : failures + 1;
      if (failures >= 3) say("Reconnecting", false);
      await wait(Math.min(FIRST_WAIT * 2 ** (failures - 1), LONGEST_WAIT), signal);
    }
  });
  clearInterval(looking);
  clearTimeout(waiting);
}

/** Do this work while no more than `STREAMS` tabs do theirs; a hidden tab gives up its turn. */
async function whenFree(signal, work) {
  if (!navigator.locks) return work(); // not over plain http
  const rest = new AbortController();
  signal.addEventListener("abort", () => rest.abort());
  let mine = false;
  const asked = Array.from({ length: STREAMS }, (_, n) =>
    navigator.locks.request(`guildhall-live-${n}`, { signal: rest.signal }, () => {
      if (mine || signal.aborted) return null;
      mine = true;
      rest.abort();
      return work();
    }),
  );
  await Promise.allSettled(asked);
}

/** Read one stream to its end; returns its status. Raises where there is no connection. */
async function stream(signal) {
  const query = new URLSearchParams({ html: "true", last_event_id: after });
  for (const scope of list.dataset.scope.split(" ")) query.append("scope", scope);
  for (const kind of list.dataset.kinds?.split(" ") ?? []) query.append("kind", kind);
  const given = new AbortController();
  const giveUp = () => given.abort();
  signal.addEventListener("abort", giveUp);
  let silence = setTimeout(giveUp, SILENCE);
  try {
    const response = await fetch(`/api/v1/tail-events?${query}`, { signal: given.signal });
    if (!response.ok) return response.status;
    say("Live", true);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ; ) {
      const { value, done } = await reader.read();
      if (done) return response.status;
      clearTimeout(silence);
      silence = setTimeout(giveUp, SILENCE);
      const frames = (text + value).split("\n\n");
      text = frames.pop();
      frames.forEach(take);
    }
  } finally {
    clearTimeout(silence);
    signal.removeEventListener("abort", giveUp);
  }
}

/** Wait so long, a little more or less, so that not all come back at once. */
function wait(milliseconds, signal) {
  return new Promise((done) => {
    signal.addEventListener("abort", done);
    setTimeout(done, milliseconds * (0.75 + Math.random() / 2));
  });
}

/** Read the page anew and show what it has that this one has not. */
async function look(signal) {
  const response = await fetch(location.pathname + location.search, { signal });
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  let last = null;
  for (const row of [...(page.querySelector("[data-live]")?.children ?? [])]) {
    const here = document.getElementById(row.id);
    if (!here) put(row, last ? last.nextElementSibling : list.firstElementChild);
    last = here ?? row;
  }
}

// Events -----------------------------------------------------------------------------------------

function take(frame) {
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
  const { kind, thread, branch } = event.dataset;
  const ours = !list.dataset.thread || list.dataset.thread === thread;
  if (list.dataset.verdict && (ours ? !kind.startsWith("reply-") : branch === list.dataset.branch)) {
    refreshVerdict();
  }
  if (!ours) return;
  if (!isTree) addToFeed(event);
  else if (event.dataset.reply) showReply(event);
  else if (list.dataset.verdict) addToConversation(event);
  else tell(sentenceOf(event));
}

function sentenceOf(event) {
  return (event.querySelector(".sentence") ?? event).textContent.trim().replace(/\s+/g, " ");
}

function addToFeed(event) {
  for (const part of event.querySelectorAll("template, .event-body")) part.remove();
  if (put(event, list.firstElementChild)) tell(sentenceOf(event));
}

// As templates/web/_told.html has it.
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
  if (kind === "pull-pushed") {
    const link = document.createElement("a");
    link.href = location.pathname;
    link.textContent = "Show what was pushed";
    line.append(link);
  }
  event.className = "d0";
  event.replaceChildren(line);
  if (put(event, null)) tell(sentenceOf(event));
}

function showReply(event) {
  const row = event.querySelector("template")?.content.firstElementChild;
  if (!row) return removeReply(document.getElementById(`reply-${event.dataset.reply}`));
  const place = placeOf(event.dataset);
  if (place !== undefined || document.getElementById(row.id)) {
    if (!put(row, place)) return;
  } else if (event.dataset.kind !== "reply-created") {
    return;
  }
  tell(`New reply by ${row.querySelector("h3 b")?.textContent ?? "somebody"}`);
}

/** The row before which a reply belongs, null for the end; undefined: it is on another page. */
function placeOf({ parent }) {
  if (!parent) return "more" in list.dataset ? undefined : null;
  const above = document.getElementById(`reply-${parent}`);
  let next = above?.nextElementSibling;
  while (next && Number(next.dataset.depth) > Number(above.dataset.depth)) {
    next = next.nextElementSibling;
  }
  return above ? next : undefined;
}

/** Remove a reply that nobody sees any more, and placeholders above it that have no answer left. */
function removeReply(row) {
  if (!row) return;
  const above = row.previousElementSibling;
  const next = row.nextElementSibling;
  whenLeft(row, () => row.remove());
  const hasAnswer = next && Number(next.dataset.depth) > Number(above?.dataset.depth);
  if (above?.querySelector(":scope > .gone") && !hasAnswer) removeReply(above);
}

let asked = 0;

function refreshVerdict() {
  clearTimeout(asked);
  asked = setTimeout(async () => {
    const response = await fetch(list.dataset.verdict).catch(() => null);
    if (!response?.ok) return;
    for (const found of parse(await response.text()).querySelectorAll("[data-part]")) {
      const old = document.querySelector(`[data-part="${found.dataset.part}"]`);
      whenLeft(old, () => {
        keepFields(old, found);
        old.replaceWith(found);
      });
    }
  }, 200);
}

// What is merged is the head that its reader has seen: the one that the page began with.
function keepFields(old, found) {
  for (const field of old.querySelectorAll("[name=expected_head_sha], select")) {
    const same = found.querySelector(`[name="${field.name}"]`);
    if (same) same.value = field.value;
  }
}

// Rows -------------------------------------------------------------------------------------------

/** Show a row: in place of the one with its id, or before `next`. Returns whether it is new. */
function put(row, next) {
  const old = document.getElementById(row.id);
  if (old) {
    const acts = old.querySelector(".acts"); // they have what only its author is offered
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

/** Change an element when the focus is not in it: it is never taken from where somebody is. */
function whenLeft(element, change) {
  if (!element.contains(document.activeElement)) return change();
  const again = () => setTimeout(() => whenLeft(element, change));
  element.addEventListener("focusout", again, { once: true });
}

// New rows have a mark until they have been in view for a while; the pill leads to those that have
// not been in view at all.
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

// What is said -----------------------------------------------------------------------------------

const status = document.createElement("p");
status.setAttribute("role", "status");
status.className = "unseen";
let news = [];
let telling = 0;
let told = 0;

/** Tell those who do not see it, every five seconds at most, and then of all at once. */
function tell(text) {
  news.push(text);
  telling ||= setTimeout(() => {
    status.textContent = news.length > 1 ? counted(news.length) : news[0];
    news = [];
    telling = 0;
    told = Date.now();
  }, Math.max(0, told + TELL_EVERY - Date.now()));
}

const controls = document.querySelector("[data-controls]");
const word = document.createElement("span");
const button = document.createElement("button");

function say(text, isOn) {
  if (!word.isConnected) controls?.prepend(word);
  word.textContent = text;
  word.className = isOn ? "live" : "live off";
}

function askToReload() {
  const reload = document.createElement("a");
  reload.href = location.pathname + location.search;
  reload.textContent = "Reload to go on";
  word.replaceChildren(reload);
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
// When another tab has signed out, the server is asked anew whether this one may follow.
const WHO = "who is signed in";
try {
  localStorage.setItem(WHO, document.documentElement.dataset.user ?? "");
} catch {
  // A browser that keeps nothing tells its tabs nothing.
}

if (list) {
  addEventListener("storage", ({ key }) => key === WHO && restart());
  controls?.append(button);
  list.parentElement.append(status); // right behind the list it would move what stands there
  document.addEventListener("visibilitychange", startOrStop);
  startOrStop();
}
