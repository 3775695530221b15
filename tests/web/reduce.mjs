// Applies cases to the page's reducer as it is shipped, and prints the views.
//   node reduce.mjs VIEW_MODULE < cases.json > views.json
// A case is {"loads": [...], "events": [...], "each": bool}; its views follow every event, or only the last one.

import { readFileSync, writeSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { ViewFold } = await import(pathToFileURL(process.argv[2]).href);
const cases = JSON.parse(readFileSync(0, "utf8"));

function canonical(view) {
  return JSON.stringify(view, null, 1) + "\n";
}

function load(fold, { sessions, opened, approvals, questions, jobs }) {
  fold.loadSessions(sessions);
  for (const { session, messages, runs } of opened) {
    fold.openSession({ session, messages, runs, queue: session.queue, todos: session.todos });
  }
  fold.loadAsks(approvals, questions);
  fold.loadJobs(jobs);
}

const answers = cases.map(({ loads = [], events, each }) => {
  const fold = new ViewFold();
  for (const snapshot of loads) load(fold, snapshot);
  const views = [];
  const gaps = [];
  events.forEach((event, number) => {
    const isNew = event.kind === "session.created" && fold.session(event.session_id) === null;
    if (isNew && event.session.parent_id === null) fold.openSession({ session: event.session });
    if (fold.apply(event).includes("gap")) gaps.push(number);
    if (each) views.push(canonical(fold.view()));
  });
  return { views: each ? views : [canonical(fold.view())], gaps };
});
const text = Buffer.from(JSON.stringify(answers));
for (let at = 0; at < text.length; ) at += writeSync(1, text, at);
