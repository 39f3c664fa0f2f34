// Keeps times up to date while a page is open, in the words of apps/web/templatetags/guildhall.py.

const EVERY = 30_000;
const WEEK = 7 * 86_400;
const UNITS = [["day", 86_400], ["hour", 3600], ["minute", 60]];

/** The distance of a moment from now, or its day; both are Dates. */
export function words(moment, now) {
  const apart = Math.abs(moment - now) / 1000;
  if (apart >= WEEK) return dayOf(moment, now);
  for (const [unit, seconds] of UNITS) {
    const count = Math.floor(Math.round(apart) / seconds);
    if (count) {
      const many = `${count} ${unit}${count > 1 ? "s" : ""}`;
      return moment > now ? `in ${many}` : `${many} ago`;
    }
  }
  return moment <= now ? "just now" : "in a moment";
}

function dayOf(moment, now) {
  const month = moment.toLocaleString("en", { month: "short", timeZone: "UTC" });
  const year = moment.getUTCFullYear();
  return `${moment.getUTCDate()} ${month}${year === now.getUTCFullYear() ? "" : ` ${year}`}`;
}

// Times that the server has written in such words have a title; others are left unchanged.
function refresh() {
  const now = new Date();
  for (const time of document.querySelectorAll("time[title]")) {
    const moment = new Date(time.dateTime);
    const text = words(moment, now);
    if (time.textContent !== text) time.textContent = text;
    time.title = moment.toLocaleString(undefined, { dateStyle: "long", timeStyle: "long" });
  }
}

setInterval(refresh, EVERY);
