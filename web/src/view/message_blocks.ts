/** The blocks that a message or the end of a run is shown as. */

import type { OpenText } from "./open_texts";
import {
  attached,
  isEndState,
  readUsage,
  type Block,
  type CallBlock,
  type QueuedPrompt,
  type ShellBlock,
  type TurnEndBlock,
} from "./values";
import type { FilePart, JsonObject, Message, Part, Run, ShellPart, ToolCallPart, ToolResultPart } from "./wire";

/** What the blocks of a message show besides the message. */
export interface BlockSources {
  readonly results: ReadonlyMap<string, ToolResultPart>;
  readonly asks: ReadonlyMap<string, string>;
  readonly runs: ReadonlyMap<string, Run>;
  output(callId: string): string | null;
}

const MAIN_ARGUMENTS = ["command", "path", "pattern", "url", "query", "title", "prompt", "job"];

/** White space as Python's `str.strip` has it; JavaScript's differs by a few characters. */
const BLANK = /^[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*$/;

/** Messages with results of calls have no blocks: their calls show them. */
export function messageBlocks(
  message: Message,
  openParts: ReadonlyMap<number, OpenText>,
  sources: BlockSources,
): Block[] {
  if (message.role === "user") return userBlocks(message, openParts, sources);
  return message.role === "assistant" ? assistantBlocks(message, openParts, sources) : [];
}

function userBlocks(message: Message, openParts: ReadonlyMap<number, OpenText>, sources: BlockSources): Block[] {
  const blocks: Block[] = [];
  const parts = message.parts ?? [];
  const run = sources.runs.get(message.run_id);
  const files = parts.filter((part): part is FilePart => part.type === "file").map(attached);
  const text = parts.map((part) => (part.type === "text" ? part.text : "")).join("");
  if (text || files.length) {
    blocks.push({
      type: "prompt",
      message_id: message.id,
      text,
      attachments: files,
      client: run?.client ?? "",
      steered: run !== undefined && (run.host_run_id ?? null) !== null,
      unsent: message.unsent ?? false,
      id: message.id,
      run_id: message.run_id,
    });
  }
  parts.forEach((part, number) => {
    const id = `${message.id}.${number}`;
    if (part.type === "shell") blocks.push(shellBlock(id, message, part, openParts.get(number)));
    else if (part.type === "summary") blocks.push({ type: "summary", text: part.text, id, run_id: message.run_id });
    else if (part.type === "notice") {
      blocks.push({ type: "notice", code: part.code, text: part.text, id, run_id: message.run_id });
    }
  });
  if (!parts.length && run?.kind === "shell") {
    // the first event of a shell run has no parts
    const command = run.arguments?.["command"];
    const shell: ShellPart = { type: "shell", command: typeof command === "string" ? command : "" };
    blocks.push(shellBlock(`${message.id}.0`, message, shell, openParts.get(0)));
  }
  return blocks;
}

function shellBlock(id: string, message: Message, part: ShellPart, live: OpenText | undefined): ShellBlock {
  const exitCode = part.exit_code ?? null;
  return {
    type: "shell",
    command: part.command,
    output: part.output || live?.text || "",
    open: exitCode === null && !part.output,
    exit_code: exitCode,
    id,
    run_id: message.run_id,
  };
}

/** A message that is read while it is written contains the text so far. The live text takes its place. */
function assistantBlocks(message: Message, openParts: ReadonlyMap<number, OpenText>, sources: BlockSources): Block[] {
  const blocks: (Block | null)[] = [];
  const written = [...openParts].filter(([, live]) => live.of !== "output").sort(([a], [b]) => a - b);
  const isWritten = new Set(written.map(([number]) => number));
  (message.parts ?? []).forEach((part, number) => {
    if (!isWritten.has(number)) blocks.push(storedBlock(`${message.id}.${number}`, message.run_id, part, sources));
  });
  for (const [number, live] of written) blocks.push(openBlock(`${message.id}.${number}`, message.run_id, live));
  return blocks.filter((block) => block !== null);
}

function storedBlock(id: string, runId: string, part: Part, sources: BlockSources): Block | null {
  switch (part.type) {
    case "text":
      return BLANK.test(part.text) ? null : { type: "text", text: part.text, open: false, id, run_id: runId };
    case "reasoning": {
      const text = part.text ?? "";
      if (BLANK.test(text)) return null;
      return { type: "thinking", text, open: false, duration_ms: milliseconds(part.duration), id, run_id: runId };
    }
    case "tool_call":
      return callBlock(id, runId, part, sources);
    case "notice":
      return { type: "notice", code: part.code, text: part.text, id, run_id: runId };
    case "file":
      return { type: "notice", code: "file", text: part.name, id, run_id: runId };
    case "tool_result":
    case "shell":
    case "summary":
    case "context":
    case "finish":
      return null;
    default:
      // a part of a newer version
      return { type: "notice", code: "unknown", text: String((part as { type: unknown }).type), id, run_id: runId };
  }
}

function openBlock(id: string, runId: string, live: OpenText): Block | null {
  switch (live.of) {
    case "text":
      return BLANK.test(live.text) ? null : { type: "text", text: live.text, open: true, id, run_id: runId };
    case "reasoning":
      return { type: "thinking", text: live.text, open: true, duration_ms: null, id, run_id: runId };
    case "arguments":
      return {
        type: "call",
        call_id: live.callId ?? "",
        name: live.name ?? "",
        state: "writing",
        title: "",
        arguments: {},
        written: live.text,
        output: "",
        display: {},
        images: [],
        duration_ms: null,
        ask_id: null,
        child_session_id: null,
        id,
        run_id: runId,
      };
    default:
      return null;
  }
}

function callBlock(id: string, runId: string, call: ToolCallPart, sources: BlockSources): CallBlock {
  const result = sources.results.get(call.id);
  const askId = result ? null : (sources.asks.get(call.id) ?? null);
  const display = result?.display ?? {};
  const ownName = display["tool"];
  return {
    type: "call",
    call_id: call.id,
    name: (typeof ownName === "string" ? ownName : "") || call.name,
    state: result ? (result.status ?? "ok") : askId ? "waiting" : "running",
    title: callTitle(call.arguments ?? {}, display),
    arguments: call.arguments ?? {},
    written: call.malformed ?? "",
    output: result ? (result.text ?? "") : (sources.output(call.id) ?? ""),
    display,
    images: (result?.files ?? []).map(attached),
    duration_ms: result ? milliseconds(result.duration) : null,
    ask_id: askId,
    child_session_id: call.child_session_id ?? null,
    id,
    run_id: runId,
  };
}

/** The main argument of a call. The result has it if the call was repaired. */
function callTitle(callArguments: JsonObject, display: JsonObject): string {
  const understood = display["title"];
  if (typeof understood === "string") return understood;
  for (const name of MAIN_ARGUMENTS) {
    const value = callArguments[name];
    if (typeof value === "string") return value;
  }
  return "";
}

export function turnEndBlock(run: Run, model: string): TurnEndBlock {
  return {
    type: "turn_end",
    kind: run.kind ?? "prompt",
    state: isEndState(run.state) ? run.state : "completed",
    reason: run.reason ?? null,
    error: run.error?.message ?? "",
    model: model || run.model || "",
    duration_ms: between(run.started_at, run.finished_at),
    usage: readUsage(run.usage),
    steps: run.steps ?? 0,
    left_running: run.left_running ?? [],
    id: `${run.id}.end`,
    run_id: run.id,
  };
}

export function queuedPrompt(runId: string, run: Run | undefined): QueuedPrompt {
  return {
    run_id: runId,
    prompt: run?.prompt ?? "",
    kind: run?.kind ?? "prompt",
    delivery: run?.delivery ?? "queue",
    client: run?.client ?? "",
    attachments: (run?.attachments ?? []).map(attached),
  };
}

/** Whole milliseconds, rounded as Python rounds: halves to the even number. */
function milliseconds(seconds: number | null | undefined): number | null {
  if (seconds === null || seconds === undefined) return null;
  const exact = seconds * 1000;
  const rounded = Math.round(exact);
  return exact % 1 === 0.5 && rounded % 2 === 1 ? rounded - 1 : rounded;
}

function between(start: string | null | undefined, end: string | null | undefined): number | null {
  if (!start || !end) return null;
  const span = Date.parse(end) - Date.parse(start);
  return Number.isNaN(span) ? null : span;
}
