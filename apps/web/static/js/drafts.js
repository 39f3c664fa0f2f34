// Keeps what somebody is writing until the server has it: a lost session, an old page or a server
// that is away cost no text.
//
// <textarea data-draft> is kept in this browser, by who is signed in, where its form leads, and its
// name. It is forgotten when a page says <html data-sent="/path">: a form that leads to this path
// has been accepted.

const root = document.documentElement;
const whose = root.dataset.user;

function placeOf(path) {
  return `draft ${whose} ${path} `;
}

function keyOf(area) {
  const path = new URL(area.form.getAttribute("action") ?? "", location.href).pathname;
  return placeOf(path) + area.name;
}

function forget(path) {
  for (const key of Object.keys(localStorage)) {
    if (key.startsWith(placeOf(path))) localStorage.removeItem(key);
  }
}

function keep(area) {
  const key = keyOf(area);
  const save = () => {
    if (area.value) localStorage.setItem(key, area.value);
    else localStorage.removeItem(key);
  };
  area.value ||= localStorage.getItem(key) ?? "";
  if (area.value !== area.defaultValue) save();
  area.addEventListener("input", save);
}

if (whose) {
  if (root.dataset.sent) forget(root.dataset.sent);
  for (const area of document.querySelectorAll("textarea[data-draft]")) keep(area);
}
