/** The values of the HTTP interface that the page uses, as the server sends them. Other fields are ignored. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export type RunKind = "prompt" | "compact" | "shell" | "undo" | "redo" | "delete";
export type EndState = "completed" | "cancelled" | "failed" | "interrupted";
export type RunState = "queued" | "waiting" | "joined" | "active" | "stopping" | EndState;
export type Delivery = "queue" | "steer";
export type Mode = "ask" | "accept_edits" | "plan" | "auto";
export type PauseReason = "user" | "server_stop" | "predecessor";
export type ResultStatus = "ok" | "error" | "denied" | "cancelled" | "unknown";
export type DeltaKind = "text" | "reasoning" | "arguments" | "output";
export type Decision = "once" | "session" | "always" | "deny";

export interface Usage {
  input?: number;
  output?: number;
  cache_read?: number;
  cache_write?: number;
  cost?: number;
  estimated?: boolean;
}

export interface Now {
  phase: string;
  what?: string;
  since?: string;
  until?: string;
}

export interface Session {
  id: string;
  workspace_id: string;
  parent_id: string | null;
  forked_from: string | null;
  title: string;
  archived: boolean;
  busy: boolean;
  queued: number;
  clients: number;
  usage: Usage;
  created_at: string;
  updated_at: string;
  agent: string | null;
}

export interface Client {
  id: string;
  name: string;
  session_id: string | null;
  since: string;
}

export interface Job {
  id: string;
  workspace_id: string;
  session_id: string;
  run_id: string;
  command: string;
  call_id: string | null;
  state: string;
  exit_code: number | null;
  output_path: string;
  started_at: string;
  finished_at: string | null;
  left_running: string[];
}

export interface Todo {
  text: string;
  status: string;
}

export interface Approval {
  id: string;
  workspace_id: string;
  session_id: string;
  root_session_id: string;
  run_id: string;
  call_id: string;
  tool: string;
  title: string;
  why: string;
  patterns: string[];
  display: JsonObject;
  state: string;
  decision: Decision | null;
  pattern: string[];
  scope: string;
  feedback: string;
  answered_by: string | null;
  created_at: string;
  deadline_at: string | null;
  resolved_at: string | null;
}

export interface QuestionItem {
  text: string;
  kind: string;
  options: string[];
}

export interface Question {
  id: string;
  workspace_id: string;
  session_id: string;
  root_session_id: string;
  run_id: string;
  call_id: string;
  items: QuestionItem[];
  state: string;
  answers: string[][] | null;
  dismissed: boolean;
  answered_by: string | null;
  created_at: string;
  deadline_at: string | null;
  resolved_at: string | null;
}

export interface FilePart {
  type: "file";
  name: string;
  media_type: string;
  text?: string | null;
  data?: string | null;
}

export interface ToolCallPart {
  type: "tool_call";
  id: string;
  name: string;
  arguments?: JsonObject;
  malformed?: string | null;
  child_session_id?: string | null;
}

export interface ToolResultPart {
  type: "tool_result";
  call_id: string;
  name: string;
  status?: ResultStatus;
  text?: string;
  files?: FilePart[];
  display?: JsonObject;
  duration?: number | null;
}

export interface ShellPart {
  type: "shell";
  command: string;
  output?: string;
  exit_code?: number | null;
}

export type Part =
  | { type: "text"; text: string }
  | { type: "reasoning"; text?: string; duration?: number | null }
  | FilePart
  | ToolCallPart
  | ToolResultPart
  | ShellPart
  | { type: "summary"; text: string }
  | { type: "notice"; code: string; text: string }
  | { type: "context" }
  | { type: "finish"; reason: string };

export interface Message {
  id: string;
  session_id: string;
  run_id: string;
  role: "user" | "assistant" | "tool";
  seq: number;
  created_at: string;
  parts?: Part[];
  unsent?: boolean;
  usage?: Usage | null;
  model?: string | null;
}

export interface Run {
  id: string;
  session_id: string;
  seq: number;
  kind?: RunKind;
  state?: RunState;
  reason?: string | null;
  delivery?: Delivery;
  prompt?: string;
  attachments?: FilePart[];
  arguments?: JsonObject;
  client?: string;
  model?: string | null;
  mode?: Mode | null;
  host_run_id?: string | null;
  parent_run_id?: string | null;
  started_at?: string | null;
  finished_at?: string | null;
  now?: Now | null;
  text?: string;
  usage?: Usage;
  steps?: number;
  error?: { code: string; message: string } | null;
  left_running?: string[];
}

export interface Queue {
  session_id: string;
  run_ids?: string[];
  waiting?: string[];
  active?: string | null;
  paused?: PauseReason | null;
}

export interface OpenPart {
  part: number;
  attempt: number;
  of: DeltaKind;
  text: string;
  call_id?: string | null;
  name?: string | null;
}

export interface Delta {
  kind: "delta";
  at: string;
  session_id: string;
  message_id: string;
  part: number;
  attempt: number;
  of: DeltaKind;
  offset: number;
  text: string;
}

export interface Snapshot {
  kind: "snapshot";
  at: string;
  session_id: string;
  message_id: string;
  parts: OpenPart[];
}

interface OfSession {
  at: string;
  session_id: string;
}

export type Event =
  | Delta
  | Snapshot
  | (OfSession & { kind: "message.created" | "message.updated" | "message.finished"; message: Message })
  | (OfSession & {
      kind: "run.accepted" | "run.started" | "run.joined" | "run.stopping" | "run.updated" | "run.finished";
      run: Run;
    })
  | (OfSession & { kind: "run.retrying"; run_id: string; attempt: number; cause: string; message: string; wait: number })
  | (OfSession & { kind: "run.progress"; run_id: string; now: Now })
  | (OfSession & { kind: "queue.changed"; queue: Queue })
  | (OfSession & { kind: "approval.requested" | "approval.resolved"; approval: Approval })
  | (OfSession & { kind: "question.asked" | "question.resolved"; question: Question })
  | (OfSession & { kind: "session.created" | "session.updated"; session: Session })
  | (OfSession & { kind: "session.deleted" })
  | (OfSession & { kind: "todo.changed"; todos: Todo[] })
  | (OfSession & { kind: "job.started" | "job.finished"; job: Job })
  | (OfSession & { kind: "file.changed"; run_id: string; path: string; change: string; diff: string })
  | { kind: "client.attached" | "client.detached"; at: string; client: Client; session_id?: string | null }
  | { kind: "hello"; at: string; cursor: string; heartbeat_seconds: number }
  | { kind: "reset"; at: string; cursor: string; reason: string }
  | { kind: "heartbeat"; at: string }
  | { kind: "pairing.failed"; at: string; address: string; failures: number }
  | { kind: "config.changed"; at: string; workspace_id?: string | null; keys?: string[] };
