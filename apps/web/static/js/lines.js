// Marks several lines of a file, #L12-L20; the browser itself marks a single one. Shift and a click
// on another number selects all lines between the two.

const LINES = /^#L(\d+)(?:-L(\d+))?$/;

function markLines() {
  const [from, to] = (LINES.exec(location.hash) ?? []).slice(1).sort((a, b) => a - b);
  let first = null;
  for (const line of document.querySelectorAll(".lines tr[id^=L]")) {
    const number = line.id.slice(1);
    const isOne = number - from >= 0 && to - number >= 0;
    line.classList.toggle("marked", isOne);
    if (isOne) first ??= line;
  }
  first?.scrollIntoView({ block: "center" });
}

addEventListener("click", event => {
  const link = event.shiftKey && event.target.closest(".lines tr[id^=L] a[data-n]");
  const begun = LINES.exec(location.hash);
  if (!link || !begun) return;
  event.preventDefault();
  location.hash = `L${begun[1]}-L${link.dataset.n}`;
});
addEventListener("hashchange", markLines);
markLines();
