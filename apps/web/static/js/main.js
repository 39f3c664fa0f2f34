// The scripts of the pages, all of which work without scripts too.
//
// This file is served together with its imports as one file (config/static.py): no top-level name may
// be declared twice. Drafts come last, because they throw if the browser blocks storage.

import "./times.js";
import "./live.js";
import "./keys.js";
import "./lines.js";
import "./drafts.js";
