/** What is known about the shown session: usage, context, todos, changed files, jobs and clients. */

import { api } from "./api";
import { app, useApp } from "./app_state";
import { countLines, Diff } from "./diff";
import { confirmDialog, openDialog, showText } from "./dialogs";
import { contextTokens } from "./view";
import { clientKind, cost, joined, plainOutput, tokens, visible } from "./words";
import type { FileChange, UndoPreview } from "./wire_types";

const TODO_MARKS: Record<string, string> = { completed: "✓", in_progress: "●", pending: "○" };
const CHANGE_WORDS: Record<string, string> = { created: "new", modified: "", deleted: "deleted" };

export function Details() {
  useApp("sessions", "todos", "jobs", "clients", "changes", "settings", "route", "blocks");
  const session = app.session;
  const transcript = app.transcript;
  if (!session || !transcript) return <aside class="pane details" aria-label="Details" />;
  const path = app.workspaces.get(session.workspace_id)?.path ?? "";
  const model = app.models.get(session.workspace_id)?.models.find((model) => model.name === app.modelName);
  const used = transcript.contextTokens;
  const window = model?.context_window ?? 0;
  const share = window ? Math.min(100, Math.round((100 * used) / window)) : 0;
  const jobs = app.fold.jobs.filter((job) => app.fold.rootOf(job.session_id) === session.id);
  const clients = app.fold.clients.filter((client) => client.session_id === session.id);
  const todos = transcript.todos;
  const done = todos.filter((todo) => todo.status === "completed").length;
  return (
    <aside class="pane details" aria-label="Details">
      <header class="bar">
        <button
          type="button"
          class="icon back"
          aria-label="Back to the session"
          onClick={() => app.go({ page: "session", sessionId: session.id, details: false })}
        >
          ←
        </button>
        <h2>Details</h2>
      </header>
      <div class="details-scroll">
        <section>
          <h3>Session</h3>
          <p class="path">{visible(path)}</p>
          <p>{joined(`${tokens(contextTokens(session.usage))} tokens`, cost(session.usage))}</p>
          {used > 0 && (
            <div class="context">
              {window > 0 && <progress max={100} value={share} aria-label="Context used" />}
              <span>{window ? `${share} % of ${tokens(window)} context` : `${tokens(used)} tokens of context`}</span>
            </div>
          )}
        </section>
        {todos.length > 0 && (
          <section>
            <h3>
              Tasks {done}/{todos.length}
            </h3>
            <ul class="todos">
              {todos.map((todo, number) => (
                <li key={number} class={`todo-${todo.status}`}>
                  <span class="mark" role="img" aria-label={todo.status.replace("_", " ")}>
                    {TODO_MARKS[todo.status] ?? "○"}
                  </span>
                  {visible(todo.text)}
                </li>
              ))}
            </ul>
          </section>
        )}
        <ChangedFiles sessionId={session.id} />
        {jobs.length > 0 && (
          <section>
            <h3>Background jobs</h3>
            <ul class="jobs">
              {jobs.map((job) => (
                <li key={job.id}>
                  <button type="button" class="row" onClick={() => showJob(job.id, job.command)}>
                    <code>{visible(job.command)}</code>
                    <small>{job.state === "running" ? "running" : joined(job.state, job.exit_code !== null && `exit ${job.exit_code}`)}</small>
                  </button>
                  {job.state === "running" && app.can("drive") && (
                    <button type="button" class="quiet" onClick={() => killJob(job.id, job.command)}>
                      Kill
                    </button>
                  )}
                </li>
              ))}
            </ul>
          </section>
        )}
        {clients.length > 0 && (
          <section>
            <h3>Here now</h3>
            <ul class="clients">
              {clients.map((client) => (
                <li key={client.id}>{visible(clientKind(client.name || client.id))}</li>
              ))}
            </ul>
          </section>
        )}
        <section class="keyboard">
          <h3>Keys</h3>
          <dl class="keys">
            <dt>Enter</dt>
            <dd>send, or queue behind the run</dd>
            <dt>Ctrl Enter</dt>
            <dd>steer the run</dd>
            <dt>Esc</dt>
            <dd>cancel the run</dd>
            <dt>@ / !</dt>
            <dd>file, command, your own command</dd>
          </dl>
        </section>
      </div>
    </aside>
  );
}

function showJob(jobId: string, command: string): void {
  void app.attempt(async () => showText(visible(command).slice(0, 100), plainOutput(await api.jobOutput(jobId)) || "no output yet"));
}

function killJob(jobId: string, command: string): void {
  confirmDialog({
    title: "Kill this job?",
    text: <pre class="command">{visible(command)}</pre>,
    action: "Kill it with all its processes",
    danger: true,
    run: () => void app.attempt(() => api.killJob(jobId)),
  });
}

function ChangedFiles({ sessionId }: { sessionId: string }) {
  const changes = app.changes?.sessionId === sessionId ? app.changes.value : null;
  if (!changes?.items.length) return null;
  const hasUndone = changes.items.some((file) => file.state === "undone");
  const hasApplied = changes.items.some((file) => file.state !== "undone");
  return (
    <section>
      <h3>Changed files</h3>
      <ul class="changes">
        {changes.items.map((file) => (
          <FileRow key={file.path} file={file} />
        ))}
      </ul>
      {app.can("drive") && (
        <p class="buttons">
          {hasApplied && (
            <button type="button" onClick={() => startUndo(sessionId)}>
              Undo last run…
            </button>
          )}
          {hasUndone && (
            <button type="button" onClick={() => app.attempt(() => api.redo(sessionId))}>
              Redo
            </button>
          )}
        </p>
      )}
    </section>
  );
}

function FileRow({ file }: { file: FileChange }) {
  const { added, removed } = countLines(file.diff);
  const note = joined(
    CHANGE_WORDS[file.change],
    file.state === "undone" && "undone",
    file.state === "changed_since" && "changed since",
  );
  const show = () =>
    openDialog(visible(file.path), () =>
      file.diff ? <Diff diff={file.diff} withFile={false} /> : <p class="empty">The changes cannot be shown.</p>,
    );
  return (
    <li>
      <button type="button" class="row" onClick={show}>
        <span class="change-path">{visible(file.path)}</span>
        <small>
          {note && <span>{note} </span>}
          <span class="added">+{added}</span> <span class="removed">−{removed}</span>
        </small>
      </button>
    </li>
  );
}

const ACTIONS: Record<string, string> = {
  restore: "restored",
  confirm: "restored only if you include it",
  settled: "already as before",
  skip: "not touched",
};

/** Undo shows first what it would do with each file. */
function startUndo(sessionId: string): void {
  void app.attempt(async () => {
    const preview = await api.previewUndo(sessionId);
    const undo = (runs: string[]) => void app.attempt(() => api.undo(sessionId, runs));
    openDialog("Undo the last run's changes?", (close) => <UndoForm preview={preview} close={close} undo={undo} />);
  });
}

function UndoForm(props: { preview: UndoPreview; close: () => void; undo: (confirmedRuns: string[]) => void }) {
  const { preview, close, undo } = props;
  const needsConfirmation = preview.files.some((file) => file.action === "confirm");
  const run = (runs: string[]) => {
    close();
    undo(runs);
  };
  return (
    <>
      <ul class="undo-files">
        {preview.files.map((file) => (
          <li key={file.path}>
            <code>{visible(file.path)}</code>
            <small>{joined(ACTIONS[file.action], visible(file.why))}</small>
          </li>
        ))}
      </ul>
      {!preview.files.length && <p class="empty">There is nothing to undo.</p>}
      {preview.notes.map((note, number) => (
        <p class="ask-note" key={number}>
          {visible(note)}
        </p>
      ))}
      <footer>
        <button type="button" onClick={close}>
          Not now
        </button>
        {needsConfirmation && (
          <button type="button" class="danger" onClick={() => run(preview.runs)}>
            Undo, also what commands changed
          </button>
        )}
        {preview.files.length > 0 && (
          <button type="button" class="primary" onClick={() => run([])}>
            Undo
          </button>
        )}
      </footer>
    </>
  );
}
