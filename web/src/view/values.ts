/**
 * What the page shows, as plain values. They are the values of `client/view_values.py`, field for field and in the same
 * order: a recorded log gives the same JSON in both languages.
 */

import type {
  Approval,
  Client,
  Delivery,
  EndState,
  FilePart,
  Job,
  JsonObject,
  Now,
  PauseReason,
  Question,
  ResultStatus,
  RunKind,
  RunState,
  Session,
  Todo,
  Usage,
} from "./wire";

export type CallState = "writing" | "waiting" | "running" | ResultStatus;

export interface AttachedFile {
  name: string;
  media_type: string;
}

export interface PromptBlock {
  type: "prompt";
  message_id: string;
  text: string;
  attachments: AttachedFile[];
  client: string;
  steered: boolean;
  unsent: boolean;
  id: string;
  run_id: string;
}

export interface TextBlock {
  type: "text";
  text: string;
  open: boolean;
  id: string;
  run_id: string;
}

export interface ThinkingBlock {
  type: "thinking";
  text: string;
  open: boolean;
  duration_ms: number | null;
  id: string;
  run_id: string;
}

export interface CallBlock {
  type: "call";
  call_id: string;
  name: string;
  state: CallState;
  title: string;
  arguments: JsonObject;
  written: string;
  output: string;
  display: JsonObject;
  images: AttachedFile[];
  duration_ms: number | null;
  ask_id: string | null;
  child_session_id: string | null;
  id: string;
  run_id: string;
}

export interface ShellBlock {
  type: "shell";
  command: string;
  output: string;
  open: boolean;
  exit_code: number | null;
  id: string;
  run_id: string;
}

export interface SummaryBlock {
  type: "summary";
  text: string;
  id: string;
  run_id: string;
}

export interface NoticeBlock {
  type: "notice";
  code: string;
  text: string;
  id: string;
  run_id: string;
}

export interface TurnEndBlock {
  type: "turn_end";
  kind: RunKind;
  state: EndState;
  reason: string | null;
  error: string;
  model: string;
  duration_ms: number | null;
  usage: Usage;
  steps: number;
  left_running: string[];
  id: string;
  run_id: string;
}

export type Block =
  | PromptBlock
  | TextBlock
  | ThinkingBlock
  | CallBlock
  | ShellBlock
  | SummaryBlock
  | NoticeBlock
  | TurnEndBlock;

export interface QueuedPrompt {
  run_id: string;
  prompt: string;
  kind: RunKind;
  delivery: Delivery;
  client: string;
  attachments: AttachedFile[];
}

export interface QueueState {
  queued: QueuedPrompt[];
  waiting: QueuedPrompt[];
  paused: PauseReason | null;
}

export interface ActiveTurn {
  run_id: string;
  kind: RunKind;
  state: RunState;
  started_at: string | null;
  now: Now | null;
}

export interface SessionTranscript {
  session_id: string;
  blocks: Block[];
  older: string | null;
  queue: QueueState;
  active: ActiveTurn | null;
  todos: Todo[];
  context_tokens: number;
}

export interface OpenAsk {
  id: string;
  approval: Approval | null;
  question: Question | null;
}

export interface StreamConnection {
  state: "connecting" | "live" | "lost";
  since: string;
  detail: string;
}

export interface ClientView {
  sessions: Session[];
  asks: OpenAsk[];
  jobs: Job[];
  clients: Client[];
  transcripts: { [sessionId: string]: SessionTranscript };
  connection: StreamConnection;
}

const END_STATES: ReadonlySet<string> = new Set(["completed", "cancelled", "failed", "interrupted"]);

export function isEndState(state: string | undefined): state is EndState {
  return state !== undefined && END_STATES.has(state);
}

/** Only the known fields, in the order of the Python values, and with their defaults. */

export function readUsage(usage: Usage | null | undefined): Usage {
  const read: Usage = {};
  if (!usage) return read;
  if (usage.input) read.input = usage.input;
  if (usage.output) read.output = usage.output;
  if (usage.cache_read) read.cache_read = usage.cache_read;
  if (usage.cache_write) read.cache_write = usage.cache_write;
  if (usage.cost !== undefined) read.cost = usage.cost;
  if (usage.estimated) read.estimated = usage.estimated;
  return read;
}

/** Tokens of the context window that a request and its answer used. */
export function contextTokens(usage: Usage): number {
  return (usage.input ?? 0) + (usage.cache_read ?? 0) + (usage.cache_write ?? 0) + (usage.output ?? 0);
}

export function readNow(now: Now): Now {
  const read: Now = { phase: now.phase };
  if (now.what) read.what = now.what;
  if (now.since) read.since = now.since;
  if (now.until) read.until = now.until;
  return read;
}

export function readSession(session: Partial<Session> & { id: string; workspace_id: string }): Session {
  return {
    id: session.id,
    workspace_id: session.workspace_id,
    parent_id: session.parent_id ?? null,
    forked_from: session.forked_from ?? null,
    title: session.title ?? "",
    archived: session.archived ?? false,
    busy: session.busy ?? false,
    queued: session.queued ?? 0,
    clients: session.clients ?? 0,
    usage: readUsage(session.usage),
    created_at: session.created_at ?? "",
    updated_at: session.updated_at ?? "",
    agent: session.agent ?? null,
  };
}

export function readClient(client: Partial<Client> & { id: string }, sessionId?: string | null): Client {
  return {
    id: client.id,
    name: client.name ?? "",
    session_id: sessionId === undefined ? (client.session_id ?? null) : sessionId,
    since: client.since ?? "",
  };
}

export function readJob(job: Partial<Job> & Pick<Job, "id" | "workspace_id" | "session_id" | "run_id" | "command">): Job {
  return {
    id: job.id,
    workspace_id: job.workspace_id,
    session_id: job.session_id,
    run_id: job.run_id,
    command: job.command,
    call_id: job.call_id ?? null,
    state: job.state ?? "running",
    exit_code: job.exit_code ?? null,
    output_path: job.output_path ?? "",
    started_at: job.started_at ?? "",
    finished_at: job.finished_at ?? null,
    left_running: job.left_running ?? [],
  };
}

export function readTodos(todos: readonly Todo[]): Todo[] {
  return todos.map((todo) => ({ text: todo.text, status: todo.status ?? "pending" }));
}

export function readApproval(approval: Approval): Approval {
  return {
    id: approval.id,
    workspace_id: approval.workspace_id,
    session_id: approval.session_id,
    root_session_id: approval.root_session_id,
    run_id: approval.run_id,
    call_id: approval.call_id,
    tool: approval.tool,
    title: approval.title,
    why: approval.why ?? "",
    patterns: approval.patterns ?? [],
    display: approval.display ?? {},
    state: approval.state ?? "open",
    decision: approval.decision ?? null,
    pattern: approval.pattern ?? [],
    scope: approval.scope ?? "project",
    feedback: approval.feedback ?? "",
    answered_by: approval.answered_by ?? null,
    created_at: approval.created_at ?? "",
    deadline_at: approval.deadline_at ?? null,
    resolved_at: approval.resolved_at ?? null,
  };
}

export function readQuestion(question: Question): Question {
  return {
    id: question.id,
    workspace_id: question.workspace_id,
    session_id: question.session_id,
    root_session_id: question.root_session_id,
    run_id: question.run_id,
    call_id: question.call_id,
    items: question.items.map((item) => ({
      text: item.text,
      kind: item.kind ?? "text",
      options: item.options ?? [],
    })),
    state: question.state ?? "open",
    answers: question.answers ?? null,
    dismissed: question.dismissed ?? false,
    answered_by: question.answered_by ?? null,
    created_at: question.created_at ?? "",
    deadline_at: question.deadline_at ?? null,
    resolved_at: question.resolved_at ?? null,
  };
}

export function attached(file: FilePart): AttachedFile {
  return { name: file.name, media_type: file.media_type };
}
