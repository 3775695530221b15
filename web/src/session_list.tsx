/** The sessions of all workspaces: those that wait for an answer first, then the one prompted last. */

import { useEffect, useState } from "preact/hooks";
import { app, useApp } from "./app_state";
import { notifySettings, setNotify } from "./notifications";
import { ago, cost, joined, lastName, visible } from "./words";
import type { Session } from "./wire_types";

/** So many sessions are drawn at first, and so many more with each click. */
const ROWS = 100;

export function SessionList() {
  useApp("sessions", "asks", "workspaces", "route", "link");
  const [filter, setFilter] = useState("");
  const [rows, setRows] = useState(ROWS);
  const [showsArchived, setShowsArchived] = useState(false);
  const [loading, setLoading] = useState(false);
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = window.setInterval(() => tick((count) => count + 1), 30_000);
    return () => window.clearInterval(timer);
  }, []);
  const waiting = new Map<string, number>();
  for (const ask of app.fold.asks) {
    const root = (ask.approval ?? ask.question)?.root_session_id ?? "";
    waiting.set(root, (waiting.get(root) ?? 0) + 1);
  }
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const load = async (which: "older" | "archived") => {
    setLoading(true);
    await app.loadSessions(which);
    setLoading(false);
  };
  const more = async () => {
    if (rest.length - rows < ROWS && app.sessionPages.hasOlder) await load("older");
    setRows((count) => count + ROWS);
  };
  const toggleArchived = async () => {
    if (!showsArchived && !app.sessionPages.withArchived) await load("archived");
    setShowsArchived(!showsArchived);
  };
  const matching = app.fold.sessions.filter((session) => {
    const path = app.workspaces.get(session.workspace_id)?.path ?? "";
    const text = `${session.title} ${path}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const sessions = matching.filter((session) => !session.archived);
  const archived = matching.filter((session) => session.archived);
  const first = sessions.filter((session) => waiting.has(session.id));
  const rest = sessions.filter((session) => !waiting.has(session.id));
  return (
    <nav class="pane list" aria-label="Sessions">
      <header class="bar">
        <h1 class="brand">Holdfast</h1>
        <span class="spring" />
        {app.can("drive") && (
          <button type="button" class="primary" onClick={() => app.go({ page: "new", workspaceId: null })}>
            New
          </button>
        )}
      </header>
      <div class="filter">
        <input
          type="search"
          placeholder="Filter by title or directory"
          aria-label="Filter sessions"
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
      </div>
      <div class="list-scroll">
        {first.length > 0 && (
          <>
            <h2 class="list-heading">Waiting for you</h2>
            <ul>
              {first.map((session) => (
                <SessionRow key={session.id} session={session} asks={waiting.get(session.id) ?? 0} />
              ))}
            </ul>
            {rest.length > 0 && <h2 class="list-heading">All sessions</h2>}
          </>
        )}
        <ul>
          {rest.slice(0, rows).map((session) => (
            <SessionRow key={session.id} session={session} asks={0} />
          ))}
        </ul>
        {showsArchived && (
          <>
            <h2 class="list-heading">Archived</h2>
            <ul>
              {archived.map((session) => (
                <SessionRow key={session.id} session={session} asks={0} />
              ))}
            </ul>
            {!archived.length && <p class="empty">{filter ? "No archived session matches." : "No session is archived."}</p>}
          </>
        )}
        {!sessions.length && app.link !== "starting" && (
          <p class="empty">{filter ? "No session matches." : "No sessions yet."}</p>
        )}
        <p class="list-more">
          {(rest.length > rows || app.sessionPages.hasOlder) && (
            <button type="button" class="quiet" disabled={loading} onClick={more}>
              {loading ? "Loading…" : "Older sessions"}
            </button>
          )}
          <button type="button" class="quiet" disabled={loading} aria-pressed={showsArchived} onClick={toggleArchived}>
            {showsArchived ? "Hide archived" : "Show archived"}
          </button>
        </p>
      </div>
      <footer class="list-footer">
        <NotifyToggles />
      </footer>
    </nav>
  );
}

function SessionRow({ session, asks }: { session: Session; asks: number }) {
  const path = app.workspaces.get(session.workspace_id)?.path ?? "";
  const isCurrent = session.id === app.sessionId;
  const state = asks
    ? asks > 1
      ? `${asks} answers needed`
      : "needs your answer"
    : session.busy
      ? "running"
      : session.queued
        ? "queued"
        : "";
  return (
    <li>
      <a
        class={`session${isCurrent ? " current" : ""}`}
        href={`#/s/${encodeURIComponent(session.id)}`}
        aria-current={isCurrent ? "page" : undefined}
      >
        <span class={`dot ${asks ? "dot-asks" : session.busy ? "dot-busy" : session.queued ? "dot-queued" : ""}`} />
        <span class="session-title">{visible(session.title) || "Untitled session"}</span>
        <span class="session-age">{ago(session.updated_at)}</span>
        <span class="session-facts">
          {joined(
            visible(lastName(path)),
            state,
            session.queued > 0 && (session.busy || asks > 0) && `${session.queued} queued`,
            cost(session.usage),
            session.clients > 1 && `${session.clients} here`,
          )}
        </span>
      </a>
    </li>
  );
}

function NotifyToggles() {
  const [settings, setSettings] = useState(notifySettings());
  const change = async (name: "notify" | "sound", value: boolean) => {
    const now = await setNotify({ [name]: value });
    setSettings(now);
    if (name === "notify" && value && !now.notify) app.tell("This browser does not allow notifications here.");
  };
  return (
    <>
      <label class="toggle">
        <input
          type="checkbox"
          checked={settings.notify}
          onChange={(event) => change("notify", event.currentTarget.checked)}
        />
        <span>Notify me</span>
      </label>
      <label class="toggle">
        <input
          type="checkbox"
          checked={settings.sound}
          onChange={(event) => change("sound", event.currentTarget.checked)}
        />
        <span>Sound</span>
      </label>
      {app.device && <span class="device">{visible(app.device.name)}</span>}
    </>
  );
}
