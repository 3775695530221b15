/**
 * The fold of events into what the page shows: sessions, asks, jobs, clients and opened sessions.
 *
 * It is `client/view_fold.py` in TypeScript. Any split of a log gives the same view: the server's values at some event,
 * then the events after it, are the same as all events. Events that a GET already contains may be applied again.
 */

import { OpenTexts } from "./open_texts";
import { TranscriptFold } from "./transcript_fold";
import {
  isEndState,
  readApproval,
  readClient,
  readJob,
  readQuestion,
  readSession,
  type ClientView,
  type OpenAsk,
  type StreamConnection,
} from "./values";
import type { Approval, Client, Event, Job, Message, Question, Queue, Run, Session, Todo } from "./wire";

/** What an event changed. `gap`: text is missing, reconnect; `reset`: read everything from the server again. */
export type Aspect =
  | "blocks"
  | "queue"
  | "active"
  | "todos"
  | "sessions"
  | "asks"
  | "jobs"
  | "clients"
  | "connection"
  | "gap"
  | "reset";

/** One session as the server's GETs returned it. */
export interface SessionSnapshot {
  session: Session;
  messages?: readonly Message[];
  /** Messages before this position are not included. */
  older?: string | null;
  /** At least the unfinished runs, and those of the messages. */
  runs?: readonly Run[];
  queue?: Queue;
  todos?: readonly Todo[];
}

export class ViewFold {
  connection: StreamConnection = { state: "connecting", since: "", detail: "" };
  /** The one prompted last at the end. */
  private readonly known = new Map<string, Session>();
  /** The active run of each session. */
  private readonly activeRuns = new Map<string, string>();
  private readonly queued = new Map<string, number>();
  private readonly openAsks = new Map<string, OpenAsk>();
  private knownJobs = new Map<string, Job>();
  private knownClients = new Map<string, Client>();
  private readonly transcripts = new Map<string, TranscriptFold>();
  private readonly open = new OpenTexts();
  /** The sessions of messages with open text. */
  private readonly sessionOfMessage = new Map<string, string>();

  // What is shown.

  /** Everything as one value. Costs as much as the history is long; meant for tests. */
  view(): ClientView {
    const ids = [...this.transcripts.keys()].sort((a, b) => (a < b ? -1 : 1));
    return {
      sessions: this.sessions,
      asks: this.asks,
      jobs: this.jobs,
      clients: this.clients,
      transcripts: Object.fromEntries(ids.map((id) => [id, this.transcripts.get(id)!.view()])),
      connection: this.connection,
    };
  }

  /** The one prompted last first; without sub-agents' sessions. */
  get sessions(): Session[] {
    return [...this.known.values()]
      .filter((session) => session.parent_id === null)
      .map((session) => this.current(session))
      .reverse();
  }

  get asks(): OpenAsk[] {
    return [...this.openAsks.values()];
  }

  get jobs(): Job[] {
    return [...this.knownJobs.values()];
  }

  get clients(): Client[] {
    return [...this.knownClients.values()];
  }

  /** A session with its current counts, also a sub-agent's. */
  session(sessionId: string): Session | null {
    const found = this.known.get(sessionId);
    return found ? this.current(found) : null;
  }

  /** An opened session, or a sub-agent's session below one. */
  transcript(sessionId: string): TranscriptFold | null {
    return this.transcripts.get(sessionId) ?? null;
  }

  /** The session that the user started, for a sub-agent's session. */
  rootOf(sessionId: string): string {
    let session = this.known.get(sessionId);
    while (session?.parent_id) {
      sessionId = session.parent_id;
      session = this.known.get(sessionId);
    }
    return sessionId;
  }

  private current(session: Session): Session {
    const fold = this.transcripts.get(session.id);
    return {
      ...session,
      busy: this.activeRuns.has(session.id),
      queued: fold ? fold.queued : (this.queued.get(session.id) ?? 0),
      clients: [...this.knownClients.values()].filter((client) => client.session_id === session.id).length,
    };
  }

  // Values from the server's GETs.

  /** Add sessions in the order of the server's list: the one prompted last first. */
  loadSessions(sessions: readonly Session[]): void {
    for (const given of [...sessions].reverse()) {
      const session = readSession(given);
      this.known.delete(session.id);
      this.known.set(session.id, session);
      if (session.busy && !this.activeRuns.has(session.id)) this.activeRuns.set(session.id, "");
      this.queued.set(session.id, session.queued);
    }
  }

  /** Replace the open approvals and questions. */
  loadAsks(approvals: readonly Approval[], questions: readonly Question[]): void {
    for (const id of [...this.openAsks.keys()]) this.closeAsk(id);
    for (const approval of approvals) this.putApproval(approval);
    for (const question of questions) this.putQuestion(question);
  }

  /** Replace the jobs, given as in the server's list: the newest first. */
  loadJobs(jobs: readonly Job[]): void {
    this.knownJobs = new Map([...jobs].reverse().map((job) => [job.id, readJob(job)]));
  }

  loadClients(clients: readonly Client[]): void {
    this.knownClients = new Map(clients.map((client) => [client.id, readClient(client)]));
  }

  /** Show a session. Opening it again replaces what was known of it. */
  openSession(snapshot: SessionSnapshot): TranscriptFold {
    const session = readSession(snapshot.session);
    this.dropTranscript(session.id);
    if (!this.known.has(session.id)) this.known.set(session.id, session);
    const queue = snapshot.queue ?? { session_id: "" };
    const fold = this.newTranscript(session.id);
    fold.setQueue(queue);
    fold.setTodos(snapshot.todos ?? []);
    fold.load(snapshot.messages ?? [], snapshot.runs ?? [], snapshot.older ?? null);
    this.queued.set(session.id, queue.run_ids?.length ?? 0);
    this.activeRuns.delete(session.id);
    if (queue.active) this.activeRuns.set(session.id, queue.active);
    for (const ask of this.openAsks.values()) this.showAsk(ask);
    return fold;
  }

  /** Add a page of older messages to an opened session. */
  loadOlder(sessionId: string, messages: readonly Message[], runs: readonly Run[], older: string | null): void {
    this.transcripts.get(sessionId)?.load(messages, runs, older);
  }

  /** Show a session and its sub-agents' sessions no longer. */
  closeSession(sessionId: string): void {
    this.dropTranscript(sessionId);
    for (const session of [...this.known.values()]) {
      if (session.parent_id === sessionId && this.transcripts.has(session.id)) this.closeSession(session.id);
    }
  }

  private dropTranscript(sessionId: string): void {
    this.transcripts.delete(sessionId);
    for (const [messageId, owner] of [...this.sessionOfMessage]) {
      if (owner !== sessionId) continue;
      this.open.drop(messageId);
      this.sessionOfMessage.delete(messageId);
    }
  }

  // Events.

  /** Apply an event, and return what it changed. */
  apply(event: Event): readonly Aspect[] {
    switch (event.kind) {
      case "delta":
      case "snapshot":
      case "message.created":
      case "message.updated":
      case "message.finished":
        return this.applyMessage(event);
      case "run.accepted":
      case "run.started":
      case "run.joined":
      case "run.stopping":
      case "run.updated":
      case "run.finished":
        return this.putRun(event.run, event.kind === "run.accepted");
      case "run.progress": {
        const fold = this.transcripts.get(event.session_id);
        fold?.setProgress(event.run_id, event.now);
        return fold ? ["active"] : [];
      }
      case "queue.changed":
        return this.setQueue(event.queue);
      case "approval.requested":
      case "approval.resolved":
        return this.putApproval(event.approval);
      case "question.asked":
      case "question.resolved":
        return this.putQuestion(event.question);
      case "session.created":
      case "session.updated":
        return this.putSession(event.session);
      case "session.deleted":
        return this.deleteSession(event.session_id);
      case "todo.changed": {
        const fold = this.transcripts.get(event.session_id);
        fold?.setTodos(event.todos);
        return fold ? ["todos"] : [];
      }
      case "job.started":
      case "job.finished":
        this.knownJobs.set(event.job.id, readJob(event.job));
        return ["jobs"];
      case "client.attached":
        this.knownClients.set(event.client.id, readClient(event.client, event.session_id ?? null));
        return ["clients", "sessions"];
      case "client.detached":
        this.knownClients.delete(event.client.id);
        return ["clients", "sessions"];
      case "hello":
        return this.connected(event.at);
      case "reset":
        this.forgetEverything();
        return ["reset"];
      default:
        return [];
    }
  }

  private applyMessage(
    event: Extract<
      Event,
      { kind: "delta" | "snapshot" | "message.created" | "message.updated" | "message.finished" }
    >,
  ): readonly Aspect[] {
    const fold = this.transcripts.get(event.session_id);
    if (!fold) return [];
    switch (event.kind) {
      case "delta":
        this.sessionOfMessage.set(event.message_id, event.session_id);
        if (!fold.append(event)) return ["gap"];
        break;
      case "snapshot":
        this.sessionOfMessage.set(event.message_id, event.session_id);
        fold.replaceOpen(event);
        break;
      case "message.finished":
        fold.finishMessage(event.message);
        this.sessionOfMessage.delete(event.message.id);
        break;
      default:
        fold.putMessage(event.message);
    }
    return ["blocks"];
  }

  private putRun(run: Run, accepted: boolean): readonly Aspect[] {
    const id = run.session_id;
    const active = this.activeRuns.get(id);
    if (run.state === "active" || run.state === "stopping") this.activeRuns.set(id, run.id);
    else if (isEndState(run.state) && (active === run.id || active === "")) this.activeRuns.delete(id);
    const session = this.known.get(id);
    if (accepted && session) {
      this.known.delete(id);
      this.known.set(id, session);
    }
    const fold = this.transcripts.get(id);
    if (!fold) return ["sessions"];
    fold.putRun(run);
    return ["sessions", "blocks", "queue", "active"];
  }

  private setQueue(queue: Queue): readonly Aspect[] {
    this.queued.set(queue.session_id, queue.run_ids?.length ?? 0);
    if (queue.active) this.activeRuns.set(queue.session_id, queue.active);
    else this.activeRuns.delete(queue.session_id);
    const fold = this.transcripts.get(queue.session_id);
    if (!fold) return ["sessions"];
    fold.setQueue(queue);
    return ["sessions", "queue", "active"];
  }

  private putApproval(given: Approval): readonly Aspect[] {
    const approval = readApproval(given);
    return this.putAsk({ id: approval.id, approval, question: null }, approval.state === "open");
  }

  private putQuestion(given: Question): readonly Aspect[] {
    const question = readQuestion(given);
    return this.putAsk({ id: question.id, approval: null, question }, question.state === "open");
  }

  private putAsk(ask: OpenAsk, isOpen: boolean): readonly Aspect[] {
    if (isOpen) {
      this.openAsks.set(ask.id, ask);
      this.showAsk(ask);
    } else this.closeAsk(ask.id);
    return ["asks", "blocks"];
  }

  private showAsk(ask: OpenAsk): void {
    const subject = ask.approval ?? ask.question;
    if (subject) this.transcripts.get(subject.session_id)?.setAsk(subject.call_id, ask.id);
  }

  private closeAsk(askId: string): void {
    const ask = this.openAsks.get(askId);
    this.openAsks.delete(askId);
    const subject = ask?.approval ?? ask?.question;
    if (subject) this.transcripts.get(subject.session_id)?.setAsk(subject.call_id, null);
  }

  private putSession(given: Session): readonly Aspect[] {
    const session = readSession(given);
    const isNew = !this.known.has(session.id);
    this.known.set(session.id, session);
    if (isNew && session.parent_id !== null && this.transcripts.has(session.parent_id)) {
      this.newTranscript(session.id); // everything in it follows as events
    }
    return ["sessions"];
  }

  private deleteSession(sessionId: string): readonly Aspect[] {
    this.closeSession(sessionId);
    this.known.delete(sessionId);
    this.activeRuns.delete(sessionId);
    this.queued.delete(sessionId);
    return ["sessions", "blocks"];
  }

  /** A new connection sends the open texts and the clients again. */
  private connected(at: string): readonly Aspect[] {
    for (const [messageId, sessionId] of this.sessionOfMessage) this.transcripts.get(sessionId)?.dropOpen(messageId);
    this.sessionOfMessage.clear();
    this.open.clear();
    this.connection = { state: "live", since: at, detail: "" };
    return ["connection", "blocks"];
  }

  private forgetEverything(): void {
    for (const values of [
      this.known,
      this.activeRuns,
      this.queued,
      this.openAsks,
      this.knownJobs,
      this.transcripts,
      this.sessionOfMessage,
    ]) {
      values.clear();
    }
    this.open.clear();
  }

  private newTranscript(sessionId: string): TranscriptFold {
    const fold = new TranscriptFold(sessionId, this.open);
    this.transcripts.set(sessionId, fold);
    return fold;
  }
}
