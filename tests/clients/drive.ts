// The main job, by openapi-fetch with the types that openapi-typescript generates: from a team to a
// merged pull. Takes GUILDHALL, ALICE and BOB from the environment: an address and two tokens.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Event = components["schemas"]["EventRecord"];
type Answer<T> = { data?: T; error?: components["schemas"]["ErrorBody"]; response: Response };

function variable(name: string): string {
  const found = process.env[name];
  assert(found, name);
  return found;
}

const site = variable("GUILDHALL");

function clientOf(token: string) {
  return createClient<paths>({
    baseUrl: `${site}/api/v1`,
    headers: { Authorization: `Bearer ${token}` },
  });
}

const alice = clientOf(variable("ALICE"));
const bob = clientOf(variable("BOB"));

async function done<T>(asked: Promise<Answer<T>>): Promise<T> {
  const { data, error } = await asked;
  assert.equal(error, undefined);
  assert(data !== undefined);
  return data;
}

async function refused(asked: Promise<Answer<unknown>>, status: number, code: string) {
  const { error, response } = await asked;
  assert.deepEqual([response.status, error?.error], [status, code]);
}

// Two branches: `world` is one commit ahead of `main`.
function push(cloneUrl: string) {
  const remote = cloneUrl.replace("://", `://alice:${variable("ALICE")}@`);
  const person = ["-c", "user.name=Alice", "-c", "user.email=alice@example.org"];
  for (const command of [
    ["init", "-q", "-b", "main"],
    [...person, "commit", "-q", "--allow-empty", "-m", "Say hello"],
    ["push", "-q", remote, "main"],
    [...person, "commit", "-q", "--allow-empty", "-m", "Greet the world"],
    ["push", "-q", remote, "HEAD:world"],
  ]) {
    execFileSync("git", command);
  }
}

// The stream, until an event of this kind: a generator cannot know how to read one.
async function follow(scope: string, last: Event["kind"]): Promise<Event[]> {
  const { data } = await alice.GET("/tail-events", {
    params: { query: { scope: [scope], last_event_id: "0" } },
    parseAs: "stream",
  });
  assert(data);
  const seen: Event[] = [];
  let text = "";
  for await (const chunk of data.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    const frames = text.split("\n\n");
    text = frames.pop() ?? "";
    for (const frame of frames) {
      const line = frame.split("\n").find((one) => one.startsWith("data: "));
      if (line) seen.push(JSON.parse(line.slice("data: ".length)));
    }
    if (seen.some((event) => event.kind === last)) break;
  }
  return seen;
}

const team = { team_slug: "ts" };
const path = { ...team, repo_slug: "hello" };
const first = { ...path, number: 1 };
const role = "member" as const;

await done(alice.POST("/teams", { body: { name: "Ts", slug: "ts" } }));
await refused(bob.POST("/teams", { body: { name: "Ts", slug: "ts" } }), 409, "slug_taken");
await done(
  alice.POST("/teams/{team_slug}/members", {
    params: { path: team },
    body: { username: "bob", role },
  }),
);
const repo = await done(
  alice.POST("/teams/{team_slug}/repos", {
    params: { path: team },
    body: { name: "Hello", slug: "hello", description: null },
  }),
);
push(repo.clone_url);

const wanted = { title: "World", body: "", source_branch: "world", target_branch: "main" };
const pulls = "/teams/{team_slug}/repos/{repo_slug}/pulls" as const;
const pull = await done(bob.POST(pulls, { params: { path }, body: wanted }));
await refused(bob.POST(pulls, { params: { path }, body: wanted }), 409, "pull_already_exists");

const replies = "/teams/{team_slug}/repos/{repo_slug}/threads/{number}/replies" as const;
const question = { kind: "question", body: "All of it?" };
const asked = await done(alice.POST(replies, { params: { path: first }, body: question }));
const answer = { kind: "answer", body: "Yes.", parent_reply_number: asked.number };
await done(bob.POST(replies, { params: { path: first }, body: answer }));
const page = await done(bob.GET(replies, { params: { path: first } }));
assert.deepEqual(
  page.results.map((one) => [one.number, one.depth]),
  [[1, 0], [2, 1]],
);

await done(
  alice.POST("/teams/{team_slug}/repos/{repo_slug}/pulls/{number}/reviews", {
    params: { path: first },
    body: { status: "approved" },
  }),
);
function merge(expected_head_sha: string) {
  return alice.POST("/teams/{team_slug}/repos/{repo_slug}/pulls/{number}/merge", {
    params: { path: first, query: { expected_head_sha } },
    body: {},
  });
}
await refused(merge("0".repeat(40)), 409, "head_changed");
assert(pull.head_sha);
const merged = await done(merge(pull.head_sha));
assert.equal(merged.pull.merged_by_username, "alice");
const listed = await done(bob.GET(pulls, { params: { path, query: { status: ["merged"] } } }));
assert.equal(listed.results[0]?.merge_commit_sha, merged.merge_commit_sha);

const scope = "repo:teams/ts/hello";
const events = await done(alice.GET("/events", { params: { query: { scope: [scope] } } }));
const newest = events.results[0];
assert(newest?.kind === "pull-merged");
assert.equal(newest.target.number, 1);
assert.equal(newest.data.merge_commit_sha, merged.merge_commit_sha);
const seen = await follow(scope, "pull-merged");
assert.deepEqual(
  seen.map((event) => event.id),
  events.results.map((event) => event.id).reverse(),
);
console.log("merged", merged.merge_commit_sha);
