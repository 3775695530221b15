/** The calls of the HTTP interface. A cookie that scripts cannot read and the page's key together name the device. */

import type {
  Accepted,
  Approval,
  Changes,
  Decision,
  Device,
  Job,
  Message,
  Models,
  Page,
  PromptBody,
  PromptCommand,
  Question,
  Queue,
  Receipt,
  Run,
  Session,
  SessionView,
  UndoPreview,
  Workspace,
} from "./wire_types";

/** An answer with an error status. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly detail: Record<string, unknown> = {},
  ) {
    super(message);
  }
}

/** The server did not answer. */
export class Unreachable extends Error {}

export function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const IS_PHONE = matchMedia("(pointer: coarse)").matches;
export const CLIENT_ID = randomId();
export const CLIENT_HEADER = `${IS_PHONE ? "phone" : "web"}/1 ${CLIENT_ID}`;

const REQUEST_SECONDS = 30;
const PAGE_KEY = "holdfast.page_key";

/** The cookie goes to all ports of this host, the page's storage belongs to this port: the server wants both. */
export function identity(): Record<string, string> {
  const key = localStorage.getItem(PAGE_KEY);
  return { "X-Holdfast-Client": CLIENT_HEADER, ...(key ? { "X-Holdfast-Page": key } : {}) };
}

export function keepPageKey(key: string | null): void {
  if (key) localStorage.setItem(PAGE_KEY, key);
}

async function request<T>(method: string, path: string, body?: unknown, seconds = REQUEST_SECONDS): Promise<T> {
  const headers = identity();
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
      signal: AbortSignal.timeout(seconds * 1000),
    });
    if (response.ok) {
      const isJson = response.headers.get("content-type")?.startsWith("application/json");
      return (isJson ? await response.json() : await response.text()) as T;
    }
  } catch (error) {
    throw new Unreachable(`the server does not answer (${error instanceof Error ? error.message : String(error)})`);
  }
  throw await readError(response);
}

export async function readError(response: Response): Promise<ApiError> {
  try {
    const { error } = await response.json();
    return new ApiError(response.status, String(error.code), String(error.message), error.detail ?? {});
  } catch {
    return new ApiError(response.status, "unknown", `the server answered with status ${response.status}`);
  }
}

const CONCURRENT_REQUESTS = 6;

export async function inParallel(work: (() => Promise<void>)[]): Promise<void> {
  const left = [...work];
  const worker = async (): Promise<void> => {
    for (let next = left.shift(); next; next = left.shift()) await next();
  };
  await Promise.all(Array.from({ length: CONCURRENT_REQUESTS }, worker));
}

const get = <T>(path: string): Promise<T> => request<T>("GET", path);
const post = <T>(path: string, body: unknown = {}, seconds?: number): Promise<T> =>
  request<T>("POST", path, body, seconds);
const id = encodeURIComponent;

export const api = {
  pair: (code: string, name: string) =>
    post<{ device: Device; page_key: string | null }>("/v1/pairing", { code, name }),
  device: () => get<{ device: Device } | Device>("/v1/device"),
  server: () => get<{ pid: number; version: string }>("/v1/server"),

  workspaces: () => get<Page<Workspace>>("/v1/workspaces"),
  openWorkspace: (path: string) => post<Workspace>("/v1/workspaces", { path }),
  models: (workspace: string) => get<Models>(`/v1/models?workspace=${id(workspace)}`),
  config: (workspace: string) => get<{ values: Record<string, unknown> }>(`/v1/workspaces/${id(workspace)}/config`),
  commands: (workspace: string) => get<Page<PromptCommand>>(`/v1/workspaces/${id(workspace)}/commands`),
  files: (workspace: string, q: string) =>
    get<{ items: string[] }>(`/v1/workspaces/${id(workspace)}/files?limit=12&q=${id(q)}`),
  approvals: (workspace: string) => get<Page<Approval>>(`/v1/workspaces/${id(workspace)}/approvals`),
  questions: (workspace: string) => get<Page<Question>>(`/v1/workspaces/${id(workspace)}/questions`),
  jobs: (workspace: string) => get<Page<Job>>(`/v1/workspaces/${id(workspace)}/jobs`),
  jobOutput: (job: string) => get<string>(`/v1/jobs/${id(job)}/output?last=65536`),
  killJob: (job: string) => post<Job>(`/v1/jobs/${id(job)}/kill`),

  sessions: (workspace: string, page: { limit: number; archived: boolean; before?: string | null }) =>
    get<Page<Session>>(
      `/v1/workspaces/${id(workspace)}/sessions?limit=${page.limit}&archived=${page.archived}` +
        (page.before ? `&before=${id(page.before)}` : ""),
    ),
  session: (session: string) => get<SessionView>(`/v1/sessions/${id(session)}`),
  changeSession: (session: string, change: { title?: string; archived?: boolean }) =>
    request<Session>("PATCH", `/v1/sessions/${id(session)}`, change),
  deleteSession: (session: string) => request<Receipt>("DELETE", `/v1/sessions/${id(session)}`),
  fork: (session: string) => post<Session>(`/v1/sessions/${id(session)}/fork`),
  messages: (session: string, before: string, limit: number) =>
    get<Page<Message>>(`/v1/sessions/${id(session)}/messages?limit=${limit}&before=${id(before)}`),
  runs: (session: string, limit: number, before: string | null) =>
    get<Page<Run>>(`/v1/sessions/${id(session)}/runs?limit=${limit}${before === null ? "" : `&before=${id(before)}`}`),
  changes: (session: string) => get<Changes>(`/v1/sessions/${id(session)}/changes`),
  exportMarkdown: (session: string) => get<string>(`/v1/sessions/${id(session)}/export?format=markdown`),
  callOutput: (call: string) => get<string>(`/v1/calls/${id(call)}/output`),

  start: (session: string, body: PromptBody) => post<Accepted>(`/v1/sessions/${id(session)}/runs`, body, 120),
  startSession: (workspace: string, body: PromptBody) =>
    post<Accepted>(`/v1/workspaces/${id(workspace)}/runs`, body, 120),
  shell: (session: string, command: string) => post<Accepted>(`/v1/sessions/${id(session)}/shell`, { command }),
  compact: (session: string, instruction: string) =>
    post<Accepted>(`/v1/sessions/${id(session)}/compact`, { instruction }),
  acceptPlan: (session: string, note: string) => post<Accepted>(`/v1/sessions/${id(session)}/accept-plan`, { note }),
  cancel: (session: string, scope: "active" | "session") => post<Receipt>(`/v1/sessions/${id(session)}/cancel`, { scope }),
  cancelRun: (run: string) => post<Receipt>(`/v1/runs/${id(run)}/cancel`),
  changeRun: (run: string, change: { prompt?: string; position?: number }) =>
    request<Run>("PATCH", `/v1/runs/${id(run)}`, change),
  pause: (session: string) => post<Queue>(`/v1/sessions/${id(session)}/pause`),
  resume: (session: string) => post<Queue>(`/v1/sessions/${id(session)}/resume`),
  previewUndo: (session: string) => get<UndoPreview>(`/v1/sessions/${id(session)}/undo`),
  undo: (session: string, confirmedRuns: string[]) =>
    post<Accepted>(`/v1/sessions/${id(session)}/undo`, { confirmed_runs: confirmedRuns }),
  redo: (session: string) => post<Accepted>(`/v1/sessions/${id(session)}/redo`),

  decide: (
    approval: string,
    answer: { decision: Decision; pattern?: string[]; scope?: "project" | "all"; feedback?: string },
  ) => post<Approval>(`/v1/approvals/${id(approval)}`, answer),
  answer: (question: string, answer: { answers: string[][] } | { dismiss: true }) =>
    post<Question>(`/v1/questions/${id(question)}`, answer),
};
