/** Answers of the HTTP interface that only the page's calls use. */

import type { EndState, FilePart, Now, Queue, Run, RunState, Session, Todo } from "./view/wire";

export type * from "./view/wire";

export interface Page<T> {
  items: T[];
  cursor: string;
  next: string | null;
}

export interface Workspace {
  id: string;
  path: string;
  trusted: boolean;
  open: boolean;
  pending_approvals: number;
  pending_questions: number;
  running_jobs: number;
  created_at: string;
}

export interface SessionView extends Session {
  cursor: string;
  queue: Queue;
  todos: Todo[];
}

export interface Accepted {
  run: Run;
  decision: "started" | "queued" | "steered";
  position: number | null;
  not_steered: string | null;
}

export interface CoveredRun {
  run_id: string;
  session_id: string;
  was: RunState;
  doing: Now | null;
  ended_as: EndState | null;
  prompt: string;
  killed: string[];
  left_running: string[];
  stopped: boolean;
}

export interface Receipt {
  runs: CoveredRun[];
  durable: boolean;
}

export interface Model {
  name: string;
  title: string;
  provider: string;
  context_window: number;
  images: boolean;
  reasoning: string[];
}

export interface Models {
  providers: { id: string; name: string; active: boolean; missing: string }[];
  models: Model[];
  large: string | null;
}

export interface FileChange {
  path: string;
  change: "created" | "modified" | "deleted";
  diff: string;
  state: "applied" | "undone" | "changed_since";
  by_command: boolean;
}

export interface Changes {
  items: FileChange[];
  runs: { run_id: string; at: string; prompt: string; files: FileChange[]; notes: string[] }[];
}

export interface UndoPreview {
  runs: string[];
  files: { path: string; action: "restore" | "confirm" | "settled" | "skip"; why: string }[];
  notes: string[];
}

export interface PromptCommand {
  name: string;
  description: string;
  argument_hint: string;
  kind: string;
}

export interface Device {
  id: string;
  name: string;
  scope: "watch" | "answer" | "drive" | "admin";
}

export interface PromptBody {
  prompt: string;
  run_id: string;
  attachments?: FilePart[];
  delivery?: "queue" | "steer";
  model?: string;
  mode?: string;
  effort?: string;
}
