/** The shown session: its transcript, what it waits for, and the composer. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { api } from "./api";
import { app, useApp } from "./app_state";
import { AskPanel } from "./asks";
import { BlockView, estimatedHeight } from "./blocks";
import { Composer } from "./composer";
import { askText, confirmDialog } from "./dialogs";
import { QueueList } from "./queue_list";
import type { ActiveTurn, Block, TranscriptFold } from "./view";
import { VirtualList, type ListItem } from "./virtual_list";
import { lastName, phaseWords, span, visible } from "./words";
import type { FilePart, Message, Session } from "./wire_types";

interface BlockItem extends ListItem {
  block: Block;
  message: Message | null;
}

const CONTINUE = "Continue where you were cut off. Check first what is done already.";

export function SessionPane() {
  useApp("blocks", "queue", "active", "asks", "sessions", "route", "link");
  const { transcript, session, route } = app;
  const [follows, setFollows] = useState(true);
  const [toEnd, setToEnd] = useState(0);
  const nearStart = useCallback(() => void app.loadOlder(), []);
  const estimates = useRef(new WeakMap<Block, BlockItem>());
  if (route.page === "new") return <NewSession />;
  if (route.page === "list") {
    return (
      <main class="pane chat empty-chat">
        <p>Choose a session, or start a new one.</p>
      </main>
    );
  }
  const asks = app.fold.asks.filter((ask) => (ask.approval ?? ask.question)?.root_session_id === route.sessionId);
  const items = transcript ? cachedItems(transcript, estimates.current) : [];
  return (
    <main class="pane chat" aria-label="Session">
      <ChatHeader />
      {transcript ? (
        <div class="transcript">
          <VirtualList
            name={route.sessionId}
            items={items}
            label="Transcript"
            toEnd={toEnd}
            nearStart={nearStart}
            onFollow={setFollows}
            draw={(item) => <BlockView block={item.block} message={item.message} />}
          />
          {!follows && (
            <button type="button" class="to-end" onClick={() => setToEnd(toEnd + 1)}>
              ↓ Newest
            </button>
          )}
        </div>
      ) : (
        <div class="transcript empty-chat">
          <p>{app.sessionProblem ? visible(app.sessionProblem) : "Loading…"}</p>
        </div>
      )}
      {transcript && session && (
        <div class="dock">
          <QueueList queue={transcript.queue} sessionId={session.id} />
          {asks.length > 0 && <AskPanel asks={asks} />}
          {transcript.active && <ActiveLine active={transcript.active} />}
          {!transcript.active && <CutOff transcript={transcript} />}
          <Composer busy={transcript.active !== null} />
        </div>
      )}
    </main>
  );
}

/** An item is made once per block, and its height is estimated once. */
function cachedItems(transcript: TranscriptFold, cache: WeakMap<Block, BlockItem>): BlockItem[] {
  const items: BlockItem[] = [];
  for (const { blocks, message } of transcript.entries) {
    for (const block of blocks) {
      let item = cache.get(block);
      if (!item) {
        let estimate = 0;
        item = { key: block.id, estimate: () => (estimate ||= estimatedHeight(block)), block, message };
        cache.set(block, item);
      }
      items.push(item);
    }
  }
  return items;
}

function ChatHeader() {
  const session = app.session;
  const id = app.sessionId ?? "";
  const path = session ? (app.workspaces.get(session.workspace_id)?.path ?? "") : "";
  return (
    <header class="bar">
      <button type="button" class="icon back" aria-label="All sessions" onClick={() => app.go({ page: "list" })}>
        ←
      </button>
      <div class="titles">
        <h1>{session ? visible(session.title) || "Untitled session" : " "}</h1>
        <p>{visible(lastName(path))}</p>
      </div>
      {session && app.can("drive") && <SessionMenu session={session} />}
      <button
        type="button"
        class="icon details-button"
        aria-label="Details"
        onClick={() => app.go({ page: "session", sessionId: id, details: true })}
      >
        <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true" focusable="false">
          <path d="M4 6h16M4 12h16M4 18h10" stroke="currentColor" stroke-width="2" stroke-linecap="round" />
        </svg>
      </button>
    </header>
  );
}

function SessionMenu({ session }: { session: Session }) {
  const { id: sessionId, title, archived } = session;
  const menu = useRef<HTMLDetailsElement>(null);
  const act = (what: () => void) => () => {
    menu.current?.removeAttribute("open");
    what();
  };
  const rename = () =>
    askText({
      title: "Rename the session",
      label: "Title",
      value: title,
      action: "Rename",
      run: (text) => void app.attempt(() => api.changeSession(sessionId, { title: text.trim().slice(0, 500) })),
    });
  const fork = () =>
    void app.attempt(async () => app.go({ page: "session", sessionId: (await api.fork(sessionId)).id, details: false }));
  const archive = () =>
    void app.attempt(async () => {
      await api.changeSession(sessionId, { archived: !archived });
      if (!archived) app.go({ page: "list" });
    });
  const save = () =>
    void app.attempt(async () => saveText(await api.exportMarkdown(sessionId), `${fileName(title) || "session"}.md`));
  const remove = () =>
    confirmDialog({
      title: "Delete this session?",
      text: <p>Its runs are cancelled and its messages are removed. Files stay as they are.</p>,
      action: "Delete",
      danger: true,
      run: () => void app.attempt(() => api.deleteSession(sessionId)),
    });
  return (
    <details class="menu" ref={menu} onKeyDown={(event) => event.key === "Escape" && menu.current?.removeAttribute("open")}>
      <summary class="icon" aria-label="More">
        ⋯
      </summary>
      <div class="menu-items">
        <button type="button" onClick={act(rename)}>
          Rename…
        </button>
        <button type="button" onClick={act(fork)}>
          Fork
        </button>
        <button type="button" onClick={act(archive)}>
          {archived ? "Restore from the archive" : "Archive"}
        </button>
        <button type="button" onClick={act(save)}>
          Export
        </button>
        <button type="button" class="danger-text" onClick={act(remove)}>
          Delete…
        </button>
      </div>
    </details>
  );
}

function fileName(title: string): string {
  return title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60);
}

function saveText(text: string, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** What the active run is doing and since when, with the button that cancels it. */
function ActiveLine({ active }: { active: ActiveTurn }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = window.setInterval(() => tick((count) => count + 1), 1000);
    return () => window.clearInterval(timer);
  }, []);
  const now = active.now;
  const since = Date.parse(now?.since ?? active.started_at ?? "");
  const until = now?.until ? Date.parse(now.until) : NaN;
  const words = active.state === "stopping" ? "stopping" : now ? phaseWords(now.phase, now.what) : "starting";
  const time = Number.isNaN(until)
    ? Number.isNaN(since)
      ? ""
      : span((Date.now() - since) / 1000)
    : `again in ${span((until - Date.now()) / 1000)}`;
  return (
    <div class="active-line">
      <span class="dot dot-busy" aria-hidden="true" />
      <span class="active-words">{words}</span>
      <span class="active-time">{time}</span>
      {app.can("drive") && (
        <button type="button" class="stop" disabled={active.state === "stopping"} onClick={() => void app.cancel()}>
          Stop
        </button>
      )}
    </div>
  );
}

interface CutOffRun {
  prompt: string;
  files: FilePart[];
}

/** The last run, if it did not complete and nothing follows it. */
function cutOffRun(transcript: TranscriptFold): CutOffRun | null {
  const queue = transcript.queue;
  if (transcript.active || queue.queued.length || queue.waiting.length) return null;
  let runId: string | null = null;
  for (const entry of transcript.entries.toReversed()) {
    for (const block of [...entry.blocks].reverse()) {
      if (runId === null) {
        if (block.type !== "turn_end" || block.kind !== "prompt" || block.state === "completed") return null;
        runId = block.run_id;
      } else if (block.type === "prompt" && block.run_id === runId && !block.unsent) {
        const files = (entry.message?.parts ?? []).filter((part): part is FilePart => part.type === "file");
        return { prompt: block.text, files };
      }
    }
  }
  return null;
}

function CutOff({ transcript }: { transcript: TranscriptFold }) {
  const run = cutOffRun(transcript);
  if (!run || !app.can("drive")) return null;
  return (
    <div class="cut-off">
      <span>The last run did not complete.</span>
      <button type="button" onClick={() => app.attempt(() => app.send(CONTINUE, [], "queue"))}>
        Continue
      </button>
      <button type="button" onClick={() => app.attempt(() => app.send(run.prompt, run.files, "queue"))}>
        Send again
      </button>
    </div>
  );
}

function NewSession() {
  useApp("workspaces", "route", "settings");
  const workspaces = app.recentWorkspaces;
  const chosen = app.workspaceId;
  return (
    <main class="pane chat" aria-label="New session">
      <header class="bar">
        <button type="button" class="icon back" aria-label="All sessions" onClick={() => app.go({ page: "list" })}>
          ←
        </button>
        <div class="titles">
          <h1>New session</h1>
        </div>
      </header>
      <div class="transcript empty-chat">
        {workspaces.length ? (
          <label class="field workspace-field">
            <span>Directory</span>
            <select
              value={chosen ?? ""}
              onChange={(event) => app.go({ page: "new", workspaceId: event.currentTarget.value })}
            >
              {workspaces.map((workspace) => (
                <option key={workspace.id} value={workspace.id} selected={workspace.id === chosen}>
                  {visible(workspace.path)}
                </option>
              ))}
            </select>
          </label>
        ) : (
          <p>Open a directory first: run “holdfast” in it.</p>
        )}
      </div>
      <div class="dock">{chosen && <Composer busy={false} />}</div>
    </main>
  );
}
