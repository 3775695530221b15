/**
 * One session as it is shown: its messages and events become blocks, a queue and a state.
 *
 * A message's blocks are made when they are read, and only if something in them has changed, so a delta costs the same in
 * a long session as in a short one. Every change is the replacement of a value with an id: events that are applied again
 * after a newer snapshot lead to the same view.
 */

import { messageBlocks, queuedPrompt, turnEndBlock } from "./message_blocks";
import type { OpenTexts } from "./open_texts";
import {
  contextTokens,
  isEndState,
  readNow,
  readTodos,
  type ActiveTurn,
  type Block,
  type QueueState,
  type SessionTranscript,
} from "./values";
import type { Delta, Message, Now, Queue, Run, Snapshot, Todo, ToolResultPart } from "./wire";

/** The place of an entry: the position of its message, then 0 for the message and 1 for the end of a run. */
type EntryKey = readonly [seq: number, kind: 0 | 1, id: string];

function isBefore(a: EntryKey, b: EntryKey): boolean {
  return a[0] !== b[0] ? a[0] < b[0] : a[1] !== b[1] ? a[1] < b[1] : a[2] < b[2];
}

/** The blocks of one message, or the end of one run. */
export class TranscriptEntry {
  /** Grows with each change. Equal revisions of an entry have equal blocks. */
  revision = 0;
  private made: readonly Block[] | null = null;

  constructor(
    private readonly fold: TranscriptFold,
    readonly key: EntryKey,
    public message: Message | null,
    readonly runId: string,
  ) {}

  get blocks(): readonly Block[] {
    this.made ??= this.fold.makeBlocks(this.message, this.runId);
    return this.made;
  }

  change(revision: number, message?: Message): void {
    this.message = message ?? this.message;
    this.made = null;
    this.revision = revision;
  }
}

export class TranscriptFold {
  /** In order. New entries are nearly always added at the end. */
  readonly entries: TranscriptEntry[] = [];
  /** Grows with each change of an entry. */
  revision = 0;
  older: string | null = null;
  todos: Todo[] = [];
  contextTokens = 0;
  readonly results = new Map<string, ToolResultPart>();
  readonly asks = new Map<string, string>();
  readonly runs = new Map<string, Run>();
  private lane: Queue;
  private readonly now = new Map<string, Now>();
  private readonly byMessage = new Map<string, TranscriptEntry>();
  /** The entries of the ends of runs. */
  private readonly byRun = new Map<string, TranscriptEntry>();
  private readonly messageOfCall = new Map<string, string>();
  /** The position of the last message of each turn, and the model that wrote its last answer. */
  private readonly lastMessage = new Map<string, readonly [number, string]>();
  private readonly messagesOfRun = new Map<string, string[]>();
  private contextSeq = -1;

  constructor(
    readonly sessionId: string,
    private readonly open: OpenTexts,
  ) {
    this.lane = { session_id: sessionId };
  }

  // What is shown.

  view(): SessionTranscript {
    return {
      session_id: this.sessionId,
      blocks: this.entries.flatMap((entry) => entry.blocks),
      older: this.older,
      queue: this.queue,
      active: this.active,
      todos: this.todos,
      context_tokens: this.contextTokens,
    };
  }

  get queue(): QueueState {
    return {
      queued: (this.lane.run_ids ?? []).map((id) => queuedPrompt(id, this.runs.get(id))),
      waiting: (this.lane.waiting ?? []).map((id) => queuedPrompt(id, this.runs.get(id))),
      paused: this.lane.paused ?? null,
    };
  }

  get active(): ActiveTurn | null {
    const run = this.runs.get(this.lane.active ?? "");
    if (!run || isEndState(run.state)) return null;
    const now = this.now.get(run.id) ?? run.now;
    return {
      run_id: run.id,
      kind: run.kind ?? "prompt",
      state: run.state ?? "queued",
      started_at: run.started_at ?? null,
      now: now ? readNow(now) : null,
    };
  }

  get queued(): number {
    return this.lane.run_ids?.length ?? 0;
  }

  output(callId: string): string | null {
    return this.open.output(callId);
  }

  makeBlocks(message: Message | null, runId: string): readonly Block[] {
    if (message) return messageBlocks(message, this.open.parts(message.id), this);
    const run = this.runs.get(runId);
    return run ? [turnEndBlock(run, this.lastMessage.get(runId)?.[1] ?? "")] : [];
  }

  // What changes it.

  /** Add a page of messages, and the runs that they belong to. */
  load(messages: Iterable<Message>, runs: Iterable<Run>, older: string | null): void {
    this.older = older;
    for (const run of runs) this.putRun(run);
    for (const message of messages) this.putMessage(message);
  }

  setQueue(queue: Queue): void {
    this.lane = queue;
  }

  setTodos(todos: readonly Todo[]): void {
    this.todos = readTodos(todos);
  }

  /** Store a run. Its prompt and its end are shown again. */
  putRun(run: Run): void {
    this.runs.set(run.id, run);
    if ((run.state === "active" || run.state === "stopping") && !run.host_run_id) {
      const waiting = (this.lane.run_ids ?? []).filter((id) => id !== run.id);
      this.lane = { ...this.lane, session_id: this.sessionId, run_ids: waiting, active: run.id };
    }
    if (isEndState(run.state)) this.now.delete(run.id);
    for (const messageId of this.messagesOfRun.get(run.id) ?? []) {
      const entry = this.byMessage.get(messageId);
      if (!entry) continue;
      this.mark(entry);
      this.noteLast(entry.key[0], run.id, null);
    }
    this.showEnd(run);
  }

  setProgress(runId: string, now: Now): void {
    if (!isEndState(this.runs.get(runId)?.state)) this.now.set(runId, now);
  }

  putMessage(message: Message): void {
    let entry = this.byMessage.get(message.id);
    this.open.closeStored(message);
    for (const part of message.parts ?? []) {
      if (part.type === "tool_call") this.messageOfCall.set(part.id, message.id);
      else if (part.type === "tool_result") {
        this.results.set(part.call_id, part);
        this.markCall(part.call_id);
      }
    }
    if (!entry) {
      entry = new TranscriptEntry(this, [message.seq, 0, message.id], message, message.run_id);
      this.byMessage.set(message.id, entry);
      const ofRun = this.messagesOfRun.get(message.run_id);
      if (ofRun) ofRun.push(message.id);
      else this.messagesOfRun.set(message.run_id, [message.id]);
      this.insert(entry);
    }
    this.mark(entry, message);
    if (message.usage && message.seq >= this.contextSeq) {
      this.contextSeq = message.seq;
      this.contextTokens = contextTokens(message.usage);
    }
    this.noteLast(message.seq, message.run_id, message.model ?? null);
  }

  finishMessage(message: Message): void {
    this.putMessage(message);
    this.open.drop(message.id);
  }

  append(delta: Delta): boolean {
    if (!this.open.append(delta)) return false;
    this.markMessage(delta.message_id);
    return true;
  }

  replaceOpen(snapshot: Snapshot): void {
    this.open.replace(snapshot);
    this.markMessage(snapshot.message_id);
  }

  dropOpen(messageId: string): void {
    this.open.drop(messageId);
    this.markMessage(messageId);
  }

  /** A call waits for an approval or a question; null: no longer. */
  setAsk(callId: string, askId: string | null): void {
    if (askId === null) this.asks.delete(callId);
    else this.asks.set(callId, askId);
    this.markCall(callId);
  }

  private markMessage(messageId: string): void {
    const entry = this.byMessage.get(messageId);
    if (entry) this.mark(entry);
  }

  private markCall(callId: string): void {
    const messageId = this.messageOfCall.get(callId);
    if (messageId !== undefined) this.markMessage(messageId);
  }

  private mark(entry: TranscriptEntry, message?: Message): void {
    this.revision++;
    entry.change(this.revision, message);
  }

  private insert(entry: TranscriptEntry): void {
    let low = 0;
    let high = this.entries.length;
    const last = this.entries[high - 1];
    if (!last || !isBefore(entry.key, last.key)) {
      this.entries.push(entry);
      return;
    }
    while (low < high) {
      const middle = (low + high) >> 1;
      const found = this.entries[middle];
      if (found && isBefore(entry.key, found.key)) high = middle;
      else low = middle + 1;
    }
    this.entries.splice(low, 0, entry);
  }

  /** The end of a turn is shown below the last of its messages, also those of the runs that joined it. */
  private noteLast(seq: number, runId: string, model: string | null): void {
    const turn = this.runs.get(runId)?.host_run_id || runId;
    const [last, lastModel] = this.lastMessage.get(turn) ?? [-1, ""];
    this.lastMessage.set(turn, [Math.max(seq, last), (model && seq >= last ? model : lastModel) || ""]);
    const run = this.runs.get(turn);
    if (run) this.showEnd(run);
  }

  private showEnd(run: Run): void {
    const known = this.lastMessage.get(run.id);
    if (!isEndState(run.state) || run.host_run_id || !run.started_at || !known) return;
    let entry = this.byRun.get(run.id);
    if (entry && entry.key[0] !== known[0]) {
      this.entries.splice(this.entries.indexOf(entry), 1);
      entry = undefined;
    }
    if (!entry) {
      entry = new TranscriptEntry(this, [known[0], 1, run.id], null, run.id);
      this.byRun.set(run.id, entry);
      this.insert(entry);
    }
    this.mark(entry);
  }
}
