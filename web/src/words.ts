/** Times, sizes and states in words. */

import { contextTokens, type CallBlock, type TurnEndBlock } from "./view";
import type { Json, Receipt, Usage } from "./wire_types";

export function duration(milliseconds: number): string {
  const seconds = milliseconds / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d`;
}

/** Whole seconds, for a clock that counts. */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

export function ago(time: string, now = Date.now()): string {
  const then = Date.parse(time);
  if (Number.isNaN(then)) return "";
  const minutes = Math.floor((now - then) / 60_000);
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h`;
  if (minutes < 7 * 24 * 60) return `${Math.floor(minutes / 1440)} d`;
  return new Date(then).toLocaleDateString(undefined, { day: "numeric", month: "short" });
}

export function tokens(count: number): string {
  if (count >= 1_000_000) return `${(count / 1_000_000).toFixed(1)}M`;
  return count >= 1000 ? `${(count / 1000).toFixed(count >= 100_000 ? 0 : 1)}k` : `${count}`;
}

export function cost(usage: Usage): string {
  return (usage.cost ?? 0) >= 0.005 ? `$${(usage.cost ?? 0).toFixed(2)}` : "";
}

export function joined(...parts: (string | null | undefined | false)[]): string {
  return parts.filter(Boolean).join(" · ");
}

/** A path as people write it: the last two names. */
export function shortPath(path: string): string {
  const names = path.split("/").filter(Boolean);
  return names.length > 2 ? `…/${names.slice(-2).join("/")}` : path;
}

export function lastName(path: string): string {
  return path.split("/").filter(Boolean).at(-1) ?? path;
}

/** The kind of a client: `phone/1 abc` is a phone. */
export function clientKind(client: string): string {
  return client.split(/[/ ]/, 1)[0] ?? "";
}

// eslint-disable-next-line no-control-regex
const HIDDEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

const JOINER = 0x200d;
const IN_EMOJI = /[\p{Extended_Pictographic}\ufe0f\u{1f3fb}-\u{1f3ff}]$/u;

/** Characters that cannot be seen, or that change the order of others, shown by their numbers. Lines and tabs stay. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (character, offset: number) => {
    const code = character.codePointAt(0) ?? 0;
    if (code === JOINER && IN_EMOJI.test(text.slice(Math.max(0, offset - 3), offset))) return character;
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `‹U+${code.toString(16).toUpperCase().padStart(4, "0")}›`;
  });
}

// eslint-disable-next-line no-control-regex
const ESCAPES = /\x1b(?:\[[0-9;:?<=>]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])/g;

/** The output of a command without the codes for terminals; of a line that was written over, the last state. */
export function plainOutput(text: string): string {
  const plain = text.includes("\x1b") ? text.replace(ESCAPES, "") : text;
  const lines = plain.includes("\r") ? plain.replace(/\r+\n/g, "\n").replace(/[^\n]*\r(?=[^\n])/g, "") : plain;
  return visible(lines);
}

const STATES: Record<string, string> = {
  writing: "writing",
  waiting: "waiting for you",
  running: "running",
  error: "failed",
  denied: "denied",
  cancelled: "stopped",
  unknown: "may have run",
};

function number(value: Json | undefined): number {
  return typeof value === "number" ? value : 0;
}

/** What a call came to, in a few words. */
export function callOutcome(block: CallBlock): string {
  if (block.state !== "ok" && block.state !== "error") return STATES[block.state] ?? block.state;
  const files = block.display["files"];
  if (Array.isArray(files) && files.length) {
    let added = 0;
    let removed = 0;
    for (const file of files) {
      if (file && typeof file === "object" && !Array.isArray(file)) {
        added += number(file["added"]);
        removed += number(file["removed"]);
      }
    }
    return `+${added} −${removed}`;
  }
  const code = block.display["exit_code"];
  if (typeof code === "number" && code !== 0) return `exit ${code}`;
  if (block.state === "error") return "failed";
  const lines = block.output ? block.output.split("\n").length : 0;
  return lines > 1 && ["view", "grep", "glob", "ls"].includes(block.name) ? `${lines} lines` : "";
}

const DECISIONS: Record<string, string> = {
  once: "allowed once",
  session: "allowed for the session",
  always: "allowed always",
  deny: "denied",
};

export function decisionWords(decision: string | null): string {
  return DECISIONS[decision ?? ""] ?? "answered";
}

/** `allowed once, by phone`: who answered the approval of a call, if it was another kind of client than this one. */
export function answeredBy(block: CallBlock, ownKind: string): string {
  const approval = block.display["approval"];
  if (!approval || typeof approval !== "object" || Array.isArray(approval)) return "";
  const by = approval["by"];
  const decision = approval["decision"];
  if (typeof by !== "string" || !by || clientKind(by) === ownKind) return "";
  return `${decisionWords(typeof decision === "string" ? decision : "")}, by ${visible(clientKind(by))}`;
}

export function callTitle(block: CallBlock): string {
  if (block.title) return block.title;
  const files = block.display["files"];
  if (Array.isArray(files)) {
    return files
      .map((file) => (file && typeof file === "object" && !Array.isArray(file) ? String(file["path"] ?? "") : ""))
      .join(" ");
  }
  if (block.state === "writing") return block.written.slice(-200);
  return Object.entries(block.arguments)
    .filter(([, value]) => typeof value === "string" || typeof value === "number")
    .map(([name, value]) => `${name}=${String(value)}`)
    .join(" ");
}

const ENDS: Record<string, string> = {
  user_cancel: "Cancelled by you",
  user_remove: "Removed from the queue",
  server_stop: "Interrupted: the server was stopped",
  server_crash: "Interrupted: the server crashed",
  limit_steps: "Stopped at the limit of steps",
  limit_time: "Stopped at the limit of time",
  limit_cost: "Stopped at the limit of cost",
  loop: "Stopped: the same calls again and again",
  auth: "Failed: the provider refused the key",
  no_model: "Failed: no model is set up",
};

export function endWords(block: TurnEndBlock): string {
  const state = block.state.charAt(0).toUpperCase() + block.state.slice(1);
  return ENDS[block.reason ?? ""] ?? (block.reason ? `${state}: ${block.reason.replaceAll("_", " ")}` : state);
}

export function endFacts(block: TurnEndBlock): string {
  const total = contextTokens(block.usage);
  return joined(
    visible(block.model.slice(block.model.lastIndexOf("/") + 1)),
    block.duration_ms !== null && block.duration_ms >= 100 && duration(block.duration_ms),
    total > 0 && `${tokens(total)} tokens`,
    cost(block.usage),
  );
}

const PHASES: Record<string, string> = {
  starting: "starting",
  first_token: "waiting for the model",
  streaming: "the model writes",
  tool: "running",
  approval: "needs your answer",
  question: "has a question",
  retry: "waiting to try again",
  compacting: "compacting the conversation",
  stopping: "stopping",
  store: "waiting for the disk",
};

export function phaseWords(phase: string, what: string | undefined): string {
  if (phase === "tool" && what) return visible(what);
  const words = PHASES[phase] ?? phase;
  return what && phase !== "streaming" && phase !== "first_token" ? `${words}: ${visible(what)}` : words;
}

/** What a cancel did, as one sentence or two. */
export function receiptWords(receipt: Receipt): string {
  const stopped = receipt.runs.filter((run) => run.was === "active" || run.was === "stopping");
  const dropped = receipt.runs.filter((run) => run.was === "queued" || run.was === "waiting" || run.was === "joined");
  const killed = receipt.runs.flatMap((run) => run.killed ?? []);
  const left = receipt.runs.flatMap((run) => run.left_running ?? []);
  if (!receipt.runs.length) return "Nothing was running.";
  const doing = stopped[0]?.doing;
  const parts = [];
  if (stopped.length) {
    const what = doing?.what ? ` (${visible(doing.what).slice(0, 80)})` : "";
    const open = stopped.some((run) => !run.stopped && run.ended_as === null);
    parts.push(open ? `Stopping the run${what}…` : `Cancelled the run${what}; the text so far is kept.`);
  }
  if (killed.length) parts.push(`${killed.length} ${killed.length === 1 ? "process" : "processes"} stopped.`);
  if (dropped.length) parts.push(`${dropped.length} queued ${dropped.length === 1 ? "prompt" : "prompts"} dropped.`);
  if (left.length) parts.push(`Still running: ${visible(left.join(", "))}.`);
  if (receipt.durable === false) parts.push("The server could not store it yet and keeps trying.");
  return parts.join(" ");
}

/** How this browser calls itself when it is paired. */
export function deviceName(): string {
  const agent = navigator.userAgent;
  const system = /iPhone|iPad|Android|Windows|Mac OS|Linux/.exec(agent)?.[0] ?? "browser";
  const browser = /Firefox|Edg|Chrome|Safari/.exec(agent)?.[0]?.replace("Edg", "Edge") ?? "";
  return `${browser} on ${system.replace("Mac OS", "Mac")}`.trim();
}
