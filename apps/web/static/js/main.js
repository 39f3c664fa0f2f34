// What pages can do where scripts run. Without this file each page works all the same.
//
// A page loads what it has a use for; the rest comes when the page is there.

if (document.querySelector("[data-live]")) import("./live.js");
if (document.querySelector("[data-draft]") || document.documentElement.dataset.sent) {
  import("./drafts.js");
}
addEventListener("load", () => {
  import("./keys.js");
  import("./times.js");
});
