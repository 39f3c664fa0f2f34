// Stores the text of each <textarea data-draft> by account, address of the form and name, until a
// page says that the server has accepted the form: <html data-sent="/path">.
// "Reply" moves the form of a thread below the reply that it answers. A button may post to another
// address, which then is that of the draft.

const { user, sent } = document.documentElement.dataset;

function draftsOf(path) {
  return `draft ${user} ${path} `;
}

function keyOf(area, button) {
  const address = button?.getAttribute("formaction") ?? area.form.getAttribute("action") ?? "";
  return draftsOf(new URL(address, location.href).pathname) + area.name;
}

function forget(path) {
  for (const key of Object.keys(localStorage)) {
    if (key.startsWith(draftsOf(path))) localStorage.removeItem(key);
  }
}

function restoreDraft(area) {
  area.value ||= localStorage.getItem(keyOf(area)) ?? "";
  for (const button of area.form.querySelectorAll("[formaction]")) {
    const draft = localStorage.getItem(keyOf(area, button));
    if (!draft) continue;
    localStorage.removeItem(keyOf(area, button));
    area.value ||= draft;
    localStorage.setItem(keyOf(area), area.value);
  }
}

// If the server accepts the form, it names the address to which the button has posted.
function moveDraft(area, button) {
  if (!button?.hasAttribute("formaction")) return;
  localStorage.removeItem(keyOf(area));
  if (area.value) localStorage.setItem(keyOf(area, button), area.value);
}

const kept = new WeakSet();

function keep(area) {
  if (kept.has(area)) return;
  kept.add(area);
  const save = () => {
    const key = keyOf(area);
    if (area.value) localStorage.setItem(key, area.value);
    else localStorage.removeItem(key);
  };
  restoreDraft(area);
  if (area.value !== area.defaultValue) save();
  area.addEventListener("input", save);
  area.form.addEventListener("submit", (event) => moveDraft(area, event.submitter));
}

// The form gets its own row, which stays when the reply is replaced.
function answer(event) {
  const link = event.target.closest('[href$="/reply#say"]');
  const area = document.querySelector("[aria-labelledby=say] textarea");
  if (!link || !area || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const above = link.closest("li");
  const row = area.closest("li") ?? document.createElement("li");
  const depth = Number(above.dataset.depth) + 1;
  localStorage.removeItem(keyOf(area));
  row.className = `d${Math.min(depth, 7)}`;
  row.dataset.depth = depth;
  const name = above.id.replace("-", " ");
  document.getElementById("say").innerHTML = `Reply to <a href="#${above.id}">${name}</a>`;
  area.form.action = link.href;
  for (const button of area.form.querySelectorAll("[formaction]")) button.remove();
  above.after(row);
  row.append(area.form);
  area.value ||= localStorage.getItem(keyOf(area)) ?? "";
  area.dispatchEvent(new Event("input"));
  area.focus();
}

document.addEventListener("click", answer);

if (user) {
  if (sent) forget(sent);
  for (const area of document.querySelectorAll("textarea[data-draft]")) keep(area);
  // A form that arrives later is kept from its first focus on.
  document.addEventListener("focusin", event => event.target.dataset.draft !== undefined && keep(event.target));
}
