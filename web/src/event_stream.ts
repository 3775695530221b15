/**
 * One event stream across connections, read with `fetch`.
 *
 * The cursor moves only when an event was applied, and only whole events are applied. A connection may be cut at any byte,
 * by sleep, flight mode or a restart of the server: the next one continues exactly there.
 */

import { ApiError, identity, readError } from "./api";
import type { Event } from "./wire_types";

export type StreamState =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "lost"; why: string; retryAt: number }
  | { state: "unauthorized" };

const FIRST_SILENCE = 15;
const SHORTEST_FIRST_SILENCE = 4;
const PROBES = 5;
const PROBE_MILLISECONDS = 3000;
const MISSED_HEARTBEATS = 2.5;
const LONGEST_WAIT = 10;
const SLICE_MILLISECONDS = 8;

/** Splits the text of a stream into events. */
export class SseParser {
  private rest = "";

  push(chunk: string): { id: string; data: string }[] {
    const found: { id: string; data: string }[] = [];
    const text = this.rest + chunk;
    let start = 0;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n", start)) {
      let id = "";
      const data: string[] = [];
      for (const line of text.slice(start, end).split("\n")) {
        if (line.startsWith("data:")) data.push(line.slice(line.charAt(5) === " " ? 6 : 5));
        else if (line.startsWith("id:")) id = line.slice(line.charAt(3) === " " ? 4 : 3);
      }
      if (data.length) found.push({ id, data: data.join("\n") });
      start = end + 2;
    }
    this.rest = text.slice(start);
    return found;
  }
}

/** Lets the browser draw and handle input before the next slice of work. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      channel.port1.close();
      resolve();
    };
    channel.port2.postMessage(null);
  });
}

/**
 * After a sleep or a change of the network, the browser may hold connections that are dead without knowing it, and would use
 * them for the next requests. Each of these requests takes one of them and gives it up.
 */
function dropDeadConnections(): void {
  for (let number = 0; number < PROBES; number++) {
    const signal = AbortSignal.timeout(PROBE_MILLISECONDS);
    fetch("/v1/health", { cache: "no-store", credentials: "same-origin", signal })
      .then((answer) => answer.text())
      .catch(() => undefined);
  }
}

export class EventStream {
  cursor: string;
  private viewing: string | null = null;
  private abort: AbortController | null = null;
  private wake: (() => void) | null = null;
  private stopped = false;
  private failures = 0;
  /** Connections that were tried since the last one that worked. */
  private tries = 0;
  private mayHaveDeadConnections = false;
  private silence = FIRST_SILENCE;
  private heardAt = 0;
  private watchdog = 0;

  constructor(
    cursor: string,
    private readonly apply: (event: Event) => "go on" | "reconnect" | "stop",
    private readonly tell: (state: StreamState) => void,
  ) {
    this.cursor = cursor;
  }

  /** Follow the events until `stop`. Resolves when it has stopped. */
  async run(viewing: string | null): Promise<void> {
    this.viewing = viewing;
    document.addEventListener("visibilitychange", this.awake);
    addEventListener("pageshow", this.awake);
    addEventListener("online", this.reconnect);
    addEventListener("offline", this.reconnect);
    try {
      while (!this.stopped) await this.connectOnce();
    } finally {
      document.removeEventListener("visibilitychange", this.awake);
      removeEventListener("pageshow", this.awake);
      removeEventListener("online", this.reconnect);
      removeEventListener("offline", this.reconnect);
    }
  }

  stop(): void {
    this.stopped = true;
    this.abort?.abort();
    this.wake?.();
  }

  /** Drop the connection, if there is one, and connect now. */
  readonly reconnect = (): void => {
    this.failures = 0;
    this.tries = 0;
    this.mayHaveDeadConnections = true;
    this.abort?.abort(new Error(navigator.onLine ? "the network changed" : "this device is offline"));
    this.wake?.();
  };

  /** Timers do not run while a device sleeps. When it wakes, a connection without a recent heartbeat is not trusted. */
  private readonly awake = (): void => {
    if (document.visibilityState !== "visible") return;
    const silent = (performance.now() - this.heardAt) / 1000;
    if (!this.abort || silent > this.silence / MISSED_HEARTBEATS + 2) this.reconnect();
  };

  private async connectOnce(): Promise<void> {
    const abort = (this.abort = new AbortController());
    this.silence = Math.min(SHORTEST_FIRST_SILENCE * 2 ** this.tries, FIRST_SILENCE);
    this.tries++;
    this.heard();
    this.watchdog = window.setInterval(() => {
      if (performance.now() - this.heardAt <= this.silence * 1000) return;
      this.mayHaveDeadConnections = true;
      abort.abort(new Error("the connection is silent"));
    }, 1000);
    if (this.mayHaveDeadConnections && navigator.onLine) dropDeadConnections();
    this.mayHaveDeadConnections = false;
    try {
      const viewing = this.viewing === null ? "" : `?viewing=${encodeURIComponent(this.viewing)}`;
      const response = await fetch(`/v1/events${viewing}`, {
        headers: { ...identity(), Accept: "text/event-stream", "Last-Event-ID": this.cursor },
        credentials: "same-origin",
        cache: "no-store",
        signal: abort.signal,
      });
      if (!response.ok || !response.body) throw await readError(response);
      await this.read(response.body.getReader());
      throw new Error("the server ended the stream");
    } catch (error) {
      if (this.stopped) return;
      const why = abort.signal.aborted ? (abort.signal.reason as unknown) : error;
      if (why instanceof ApiError && why.status === 401) {
        this.stopped = true;
        this.tell({ state: "unauthorized" });
        return;
      }
      if (why === RECONNECT) return;
      await this.waitAfter(why instanceof Error ? why.message : String(why));
    } finally {
      window.clearInterval(this.watchdog);
      abort.abort();
      if (this.abort === abort) this.abort = null;
    }
  }

  private async read(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    const parser = new SseParser();
    let sliceStart = performance.now();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.heard();
      for (const { id, data } of parser.push(decoder.decode(value, { stream: true }))) {
        const event = JSON.parse(data) as Event;
        if (event.kind === "hello") this.connected(event.heartbeat_seconds);
        if (event.kind === "reset") this.cursor = event.cursor;
        const next = this.apply(event);
        if (id) this.cursor = id;
        if (next === "stop") this.stop();
        if (next !== "go on" || this.stopped) throw RECONNECT;
        if (performance.now() - sliceStart > SLICE_MILLISECONDS) {
          await nextTask();
          sliceStart = performance.now();
        }
      }
    }
  }

  private connected(heartbeatSeconds: number): void {
    this.silence = Math.max(heartbeatSeconds * MISSED_HEARTBEATS, 1);
    this.failures = 0;
    this.tries = 0;
    this.tell({ state: "live" });
  }

  private heard(): void {
    this.heardAt = performance.now();
  }

  private async waitAfter(why: string): Promise<void> {
    const isFirst = this.failures === 0;
    const longest = Math.min(0.25 * 2 ** this.failures, LONGEST_WAIT);
    const seconds = isFirst ? 0.05 : longest * (0.5 + Math.random() / 2);
    this.failures = Math.min(this.failures + 1, 16);
    this.tell({ state: "lost", why, retryAt: Date.now() + seconds * 1000 });
    await new Promise<void>((resolve) => {
      const timer = window.setTimeout(resolve, seconds * 1000);
      this.wake = () => {
        window.clearTimeout(timer);
        resolve();
      };
    });
    this.wake = null;
  }
}

const RECONNECT = new Error("connect again");
