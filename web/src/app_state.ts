/** The state of the page and what can be done with it. Components read it and draw again once a frame if it changed. */

import { api, ApiError, CLIENT_ID, inParallel, keepPageKey, randomId, Unreachable } from "./api";
import { Drawn, useDrawn, type Topic } from "./drawing";
import { EventStream, type StreamState } from "./event_stream";
import { tellOutside } from "./notifications";
import { parseRoute, routeHash, type Route } from "./route";
import { mergeSessions, SessionPages, sortNewestFirst } from "./session_pages";
import { ViewFold, type TranscriptFold } from "./view";
import { clientKind, decisionWords, deviceName, receiptWords, visible } from "./words";
import type {
  Approval,
  Changes,
  Device,
  Event,
  FilePart,
  Mode,
  Models,
  PromptBody,
  PromptCommand,
  Question,
  Session,
  Workspace,
} from "./wire_types";

export interface Toast {
  id: number;
  text: string;
  kind: "info" | "error";
}

export type LinkState = "starting" | "pairing" | "live" | "connecting" | "lost";

const MESSAGES_PER_PAGE = 100;
const RUNS_PER_PAGE = 300;

/** Settings of the next prompts of a session. */
export interface PromptSettings {
  mode: Mode | null;
  model: string | null;
  effort: string | null;
}

const NO_SETTINGS: PromptSettings = { mode: null, model: null, effort: null };

export class AppState extends Drawn {
  fold = new ViewFold();
  route: Route = { page: "list" };
  link: LinkState = "starting";
  linkDetail = "";
  lostSince = 0;
  device: Device | null = null;
  pairingError = "";
  workspaces = new Map<string, Workspace>();
  models = new Map<string, Models>();
  configuredModes = new Map<string, Mode>();
  commands = new Map<string, PromptCommand[]>();
  changes: { sessionId: string; value: Changes } | null = null;
  toasts: Toast[] = [];
  /** Why the shown session cannot be shown. */
  sessionProblem = "";
  private readonly settings = new Map<string, PromptSettings>();
  readonly sessionPages = new SessionPages();
  private readonly olderRuns = new Map<string, string | null>();
  private readonly sentPrompts = new Map<string, string>();
  private stream: EventStream | null = null;
  private streamDone: Promise<void> = Promise.resolve();
  private cursor = "";
  private serverPid = 0;
  private loading: Promise<void> = Promise.resolve();
  private isLoaded = false;
  private nextToast = 1;

  tell(text: string, kind: Toast["kind"] = "info"): void {
    const toast = { id: this.nextToast++, text, kind };
    this.toasts = [...this.toasts.slice(-2), toast];
    this.changed("toasts");
    window.setTimeout(() => this.dismiss(toast.id), kind === "error" ? 12_000 : 6_000);
  }

  dismiss(id: number): void {
    this.toasts = this.toasts.filter((toast) => toast.id !== id);
    this.changed("toasts");
  }

  tellError(error: unknown): void {
    const text = error instanceof Error ? error.message : String(error);
    if (error instanceof ApiError && error.status === 403 && error.code === "forbidden") {
      this.tell(`This device may not do that: ${text}`, "error");
    } else this.tell(text.charAt(0).toUpperCase() + text.slice(1), "error");
  }

  /** Do something for the user; say so if it fails. Returns whether it succeeded. */
  async attempt(what: () => Promise<unknown>): Promise<boolean> {
    try {
      await what();
      return true;
    } catch (error) {
      this.tellError(error);
      return false;
    }
  }

  // What is shown.

  get sessionId(): string | null {
    return this.route.page === "session" ? this.route.sessionId : null;
  }

  get transcript(): TranscriptFold | null {
    return this.sessionId === null ? null : this.fold.transcript(this.sessionId);
  }

  get session(): Session | null {
    return this.sessionId === null ? null : this.fold.session(this.sessionId);
  }

  get workspaceId(): string | null {
    if (this.route.page === "new") return this.route.workspaceId ?? this.recentWorkspaces[0]?.id ?? null;
    return this.session?.workspace_id ?? null;
  }

  get recentWorkspaces(): Workspace[] {
    const order = new Map<string, number>();
    this.fold.sessions.forEach((session, number) => {
      if (!order.has(session.workspace_id)) order.set(session.workspace_id, number);
    });
    return [...this.workspaces.values()].sort((a, b) => (order.get(a.id) ?? 1e9) - (order.get(b.id) ?? 1e9));
  }

  can(scope: "answer" | "drive" | "admin"): boolean {
    const scopes = ["watch", "answer", "drive", "admin"];
    return this.device === null || scopes.indexOf(this.device.scope) >= scopes.indexOf(scope);
  }

  promptSettings(): PromptSettings {
    return this.settings.get(this.sessionId ?? "") ?? NO_SETTINGS;
  }

  get mode(): Mode {
    return this.promptSettings().mode ?? this.configuredModes.get(this.workspaceId ?? "") ?? "ask";
  }

  get modelName(): string {
    return this.promptSettings().model ?? this.models.get(this.workspaceId ?? "")?.large ?? "";
  }

  /** The levels of effort that the model of the next prompts has, from least to most. */
  get efforts(): readonly string[] {
    const models = this.models.get(this.workspaceId ?? "")?.models ?? [];
    return models.find((model) => model.name === this.modelName)?.reasoning ?? [];
  }

  /** The effort of the next prompts; empty: as configured. */
  get effort(): string {
    const { effort } = this.promptSettings();
    return effort !== null && this.efforts.includes(effort) ? effort : "";
  }

  choose(change: Partial<PromptSettings>): void {
    this.settings.set(this.sessionId ?? "", { ...this.promptSettings(), ...change });
    this.changed("settings");
  }

  // Connecting.

  async start(): Promise<void> {
    addEventListener("hashchange", () => this.follow());
    const code = /^#pair=(.+)$/.exec(location.hash)?.[1];
    if (code) {
      history.replaceState(null, "", "/");
      await this.pair(decodeURIComponent(code), deviceName());
      return;
    }
    this.route = parseRoute(location.hash);
    await this.connect();
  }

  async pair(code: string, name: string): Promise<void> {
    this.pairingError = "";
    try {
      const paired = await api.pair(code.trim(), name);
      keepPageKey(paired.page_key);
      this.device = paired.device;
      await this.connect();
    } catch (error) {
      this.pairingError = error instanceof Error ? error.message : String(error);
      this.setLink("pairing");
    }
  }

  /** Read everything, then follow the events. Tries until it succeeds. */
  private async connect(): Promise<void> {
    for (let failures = 0; ; failures++) {
      try {
        await this.load();
        break;
      } catch (error) {
        if (error instanceof ApiError && error.status === 401) {
          this.setLink("pairing");
          return;
        }
        this.setLink("lost", error instanceof Error ? error.message : String(error));
        await new Promise((resolve) => window.setTimeout(resolve, Math.min(500 * 2 ** failures, 10_000)));
      }
    }
    this.isLoaded = true;
    this.followEvents();
    this.follow();
  }

  private async load(): Promise<void> {
    const [found, page, server] = await Promise.all([
      api.device().catch((error: unknown) => {
        if (error instanceof ApiError && error.status !== 401) return null; // the server's own token
        throw error;
      }),
      api.workspaces(),
      api.server().catch(() => null),
    ]);
    this.device = found && ("device" in found ? found.device : found);
    this.serverPid = server?.pid ?? 0;
    this.cursor = page.cursor;
    this.workspaces = new Map(page.items.map((workspace) => [workspace.id, workspace]));
    const sessions: Session[] = [];
    const approvals: Approval[] = [];
    const questions: Question[] = [];
    const work = page.items.map((workspace) => async () => {
      sessions.push(...(await this.sessionPages.first(workspace.id)));
      if (workspace.pending_approvals) approvals.push(...(await api.approvals(workspace.id)).items);
      if (workspace.pending_questions) questions.push(...(await api.questions(workspace.id)).items);
    });
    await inParallel(work);
    this.fold = new ViewFold();
    this.fold.loadSessions(sortNewestFirst(sessions));
    this.fold.loadAsks(approvals, questions);
    this.changed("workspaces", "sessions", "asks", "blocks");
  }

  private followEvents(): void {
    const stream = new EventStream(this.cursor, (event) => this.applyEvent(event), (state) => this.streamChanged(state));
    this.stream = stream;
    this.streamDone = stream.run(this.sessionId);
  }

  private applyEvent(event: Event): "go on" | "reconnect" | "stop" {
    const aspects = this.fold.apply(event);
    this.changed(...aspects);
    if (aspects.includes("gap")) return "reconnect";
    if (aspects.includes("reset")) {
      void this.reload();
      return "stop";
    }
    this.noteEvent(event);
    return "go on";
  }

  private noteEvent(event: Event): void {
    switch (event.kind) {
      case "approval.requested":
        tellOutside("Needs your answer", event.approval.title, this.opener(event.approval.root_session_id));
        break;
      case "question.asked":
        tellOutside("Has a question", event.question.items[0]?.text ?? "", this.opener(event.question.root_session_id));
        break;
      case "approval.resolved":
        if (this.isElsewhere(event.approval.answered_by)) {
          this.tell(`${capital(decisionWords(event.approval.decision))}, by ${visible(clientKind(event.approval.answered_by ?? ""))}.`);
        }
        break;
      case "question.resolved":
        if (this.isElsewhere(event.question.answered_by)) {
          this.tell(`Answered by ${visible(clientKind(event.question.answered_by ?? ""))}.`);
        }
        break;
      case "run.finished":
        if (!event.run.parent_run_id && event.run.kind === "prompt" && event.run.reason !== "user_cancel") {
          const text = event.run.text || event.run.prompt || "";
          tellOutside(capital(event.run.state ?? ""), text, this.opener(event.session_id));
        }
        if (event.session_id === this.sessionId) {
          void this.loadChanges();
          void this.refreshSession(event.session_id, event.at);
        }
        break;
      case "file.changed":
        if (this.fold.rootOf(event.session_id) === this.sessionId) void this.loadChanges();
        break;
      case "session.created":
        if (!this.workspaces.has(event.session.workspace_id)) void this.loadWorkspaces();
        break;
      case "session.deleted":
        if (event.session_id === this.sessionId) {
          this.tell("This session was deleted.");
          this.go({ page: "list" });
        }
        break;
      case "pairing.failed":
        this.tell(`A wrong pairing code came from ${visible(event.address)}; ${event.failures} in the last minute.`, "error");
        break;
      case "config.changed":
        this.models.clear();
        this.configuredModes.clear();
        if (this.workspaceId) void this.loadSurroundings(this.workspaceId);
        break;
      default:
    }
  }

  /** What a click on a notification does. */
  private opener(sessionId: string): () => void {
    return () => this.go({ page: "session", sessionId, details: false });
  }

  private isElsewhere(client: string | null): boolean {
    return client !== null && !client.endsWith(CLIENT_ID);
  }

  private streamChanged(state: StreamState): void {
    if (state.state === "unauthorized") {
      this.pairingError = "This device is not paired any more.";
      this.setLink("pairing");
    } else if (state.state === "lost") {
      this.fold.connection = { state: "lost", since: new Date().toISOString(), detail: state.why };
      this.setLink("lost", state.why);
    } else if (state.state === "live") {
      const wasLost = this.link === "lost";
      this.setLink("live");
      if (wasLost) void this.checkRestart();
    }
  }

  private setLink(link: LinkState, detail = ""): void {
    if (link === "lost" && this.link !== "lost") this.lostSince = Date.now();
    this.link = link;
    this.linkDetail = detail;
    this.changed("link");
  }

  /** A server that started again continues its queues when a client asks for the workspace. */
  private async checkRestart(): Promise<void> {
    try {
      const { pid } = await api.server();
      const isNew = this.serverPid !== 0 && pid !== this.serverPid;
      this.serverPid = pid;
      if (!isNew) return;
      this.tell("The server was started again. Nothing that it accepted is lost.");
      const path = this.workspaces.get(this.workspaceId ?? "")?.path;
      if (path && this.can("drive")) await api.openWorkspace(path);
    } catch {
      // the next connection tries again
    }
  }

  private async reload(): Promise<void> {
    await this.streamDone;
    await this.connect();
  }

  private async loadWorkspaces(): Promise<void> {
    try {
      const page = await api.workspaces();
      this.workspaces = new Map(page.items.map((workspace) => [workspace.id, workspace]));
      this.changed("workspaces");
    } catch {
      // the name of the workspace is shown with the next one
    }
  }

  /** Add older sessions to the list, or the archived ones. */
  async loadSessions(which: "older" | "archived"): Promise<void> {
    await this.attempt(async () => {
      const pages = this.sessionPages;
      const found = await (which === "older" ? pages.older() : pages.archived(this.workspaces.keys()));
      this.fold.loadSessions(mergeSessions(this.fold.sessions, found));
    });
    this.changed("sessions");
  }

  // The shown session.

  go(route: Route): void {
    const hash = routeHash(route);
    if (location.hash !== hash) location.hash = hash;
    else this.follow();
  }

  private follow(): void {
    const before = this.sessionId;
    this.route = parseRoute(location.hash);
    this.changed("route");
    if (!this.isLoaded) return;
    const now = this.sessionId;
    if (now !== before && before !== null) this.fold.closeSession(before);
    if (now !== null && (now !== before || !this.fold.transcript(now))) void this.show(now);
    else if (now === null && before !== null) void this.withoutStream(async () => undefined);
    if (this.workspaceId) void this.loadSurroundings(this.workspaceId);
  }

  /** Load a session and continue the stream. */
  private async show(sessionId: string): Promise<void> {
    this.sessionProblem = "";
    try {
      await this.withoutStream(() => this.loadSession(sessionId));
      const workspaceId = this.fold.session(sessionId)?.workspace_id;
      if (workspaceId) await Promise.all([this.loadSurroundings(workspaceId), this.loadChanges()]);
    } catch (error) {
      this.sessionProblem = error instanceof Error ? error.message : String(error);
      if (error instanceof Unreachable) window.setTimeout(() => this.sessionId === sessionId && void this.show(sessionId), 2000);
    }
    this.changed("blocks", "route", "sessions");
  }

  /** Load the session of a sub-agent, to show it below the call that started it. */
  async showSubagent(sessionId: string): Promise<void> {
    await this.withoutStream(() => this.loadSession(sessionId));
    this.changed("blocks");
  }

  /**
   * Do something between two connections of the stream, which continues at its cursor. What is read meanwhile is not older
   * than the cursor, so no event is missed; the new connection sends the texts that are still being written.
   */
  private withoutStream(work: () => Promise<void>): Promise<void> {
    const next = this.loading.then(async () => {
      const stream = this.stream;
      stream?.stop();
      await this.streamDone;
      if (stream) this.cursor = stream.cursor;
      try {
        await work();
      } finally {
        if (this.link !== "pairing") this.followEvents();
      }
    });
    this.loading = next.catch(() => undefined);
    return next;
  }

  private async loadSession(sessionId: string): Promise<void> {
    const session = await api.session(sessionId);
    const [messages, runs, jobs] = await Promise.all([
      api.messages(sessionId, "end", MESSAGES_PER_PAGE),
      api.runs(sessionId, RUNS_PER_PAGE, null),
      session.parent_id === null ? api.jobs(session.workspace_id) : null,
    ]);
    this.olderRuns.set(sessionId, runs.next);
    this.fold.openSession({
      session,
      messages: messages.items,
      older: messages.next,
      runs: runs.items,
      queue: session.queue,
      todos: session.todos,
    });
    if (jobs) this.fold.loadJobs(jobs.items);
    this.changed("blocks", "queue", "active", "todos", "sessions", "jobs");
  }

  /** Read the session again after a run, for its usage. */
  private async refreshSession(sessionId: string, at: string): Promise<void> {
    try {
      const session = await api.session(sessionId);
      this.changed(...this.fold.apply({ kind: "session.updated", at, session_id: sessionId, session }));
    } catch {
      // it is read again after the next run
    }
  }

  private loadingOlder = false;

  /** Load the page of messages before the first one. */
  async loadOlder(): Promise<void> {
    const fold = this.transcript;
    if (!fold || fold.older === null || this.loadingOlder) return;
    this.loadingOlder = true;
    try {
      const messages = await api.messages(fold.sessionId, fold.older, MESSAGES_PER_PAGE);
      const before = this.olderRuns.get(fold.sessionId) ?? null;
      const runs = before === null ? null : await api.runs(fold.sessionId, RUNS_PER_PAGE, before);
      if (runs) this.olderRuns.set(fold.sessionId, runs.next);
      if (this.fold.transcript(fold.sessionId) === fold) {
        this.fold.loadOlder(fold.sessionId, messages.items, runs?.items ?? [], messages.next);
      }
    } catch (error) {
      this.tellError(error);
    } finally {
      this.loadingOlder = false;
      this.changed("blocks");
    }
  }

  private async loadSurroundings(workspaceId: string): Promise<void> {
    if (this.models.has(workspaceId)) return;
    try {
      const [models, config, commands] = await Promise.all([
        api.models(workspaceId),
        api.config(workspaceId).catch(() => null),
        api.commands(workspaceId).catch(() => null),
      ]);
      this.models.set(workspaceId, models);
      const approvals = config?.values["approvals"] as { mode?: Mode } | undefined;
      if (approvals?.mode) this.configuredModes.set(workspaceId, approvals.mode);
      if (commands) this.commands.set(workspaceId, commands.items);
      this.changed("settings");
    } catch {
      // read again with the next session
    }
  }

  private changesTimer = 0;
  private changesAgain = false;

  /** Read the changed files, at most twice a second. */
  async loadChanges(): Promise<void> {
    if (this.changesTimer) {
      this.changesAgain = true;
      return;
    }
    this.changesTimer = window.setTimeout(() => {
      this.changesTimer = 0;
      if (this.changesAgain) void this.loadChanges();
    }, 500);
    this.changesAgain = false;
    const sessionId = this.sessionId;
    if (sessionId === null) return;
    try {
      this.changes = { sessionId, value: await api.changes(sessionId) };
      this.changed("changes");
    } catch {
      // read again with the next change
    }
  }

  // What the user does.

  /**
   * Send a prompt; the first one starts a session. A prompt that is sent again, because the answer to it was lost, has the
   * same id, so the server runs it once. Rejects if it was not accepted: the caller keeps the text.
   */
  async send(prompt: string, attachments: FilePart[], delivery: "queue" | "steer"): Promise<void> {
    const sessionId = this.sessionId;
    const settings = this.promptSettings();
    const { mode, model } = settings;
    const effort = this.effort;
    const what = JSON.stringify([sessionId ?? this.workspaceId, prompt, attachments, delivery, mode, model, effort]);
    const runId = this.sentPrompts.get(what) ?? `run_${randomId()}`;
    this.sentPrompts.set(what, runId);
    const body: PromptBody = { prompt, run_id: runId, delivery };
    if (attachments.length) body.attachments = attachments;
    if (mode) body.mode = mode;
    if (model) body.model = model;
    if (effort) body.effort = effort;
    if (sessionId !== null) {
      const accepted = await api.start(sessionId, body);
      if (delivery === "steer" && accepted.decision === "queued") this.tell("Queued: the active run cannot be steered now.");
    } else {
      const workspaceId = this.workspaceId;
      if (workspaceId === null) throw new Error("choose a directory first");
      const accepted = await api.startSession(workspaceId, body);
      this.settings.set(accepted.run.session_id, settings);
      this.go({ page: "session", sessionId: accepted.run.session_id, details: false });
    }
    this.sentPrompts.delete(what);
  }

  /** Cancel the active run and hold the queue if there is one. If it is held already, cancel all of it. */
  async cancel(): Promise<void> {
    const transcript = this.transcript;
    if (!transcript) return;
    const { queued, waiting, paused } = transcript.queue;
    const hasMore = queued.length + waiting.length > 0;
    const id = transcript.sessionId;
    if (!transcript.active && !hasMore) return;
    await this.attempt(async () => {
      if (hasMore && paused === null) await api.pause(id); // first, so that the next prompt does not start in between
      const receipt = await api.cancel(id, hasMore && paused !== null ? "session" : "active");
      this.tell(receiptWords(receipt));
    });
  }
}


function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export const app = new AppState();

/** The state of the page; the component is drawn again when one of the topics changes. */
export function useApp(...topics: Topic[]): AppState {
  useDrawn(app, topics);
  return app;
}
