// What pages can do where scripts run. Without this file each page works all the same.
//
// It is served with all that it imports as one file (config/static.py): no name is declared twice.
// Drafts come last: they stop where the browser keeps nothing.

import "./times.js";
import "./live.js";
import "./keys.js";
import "./lines.js";
import "./drafts.js";
