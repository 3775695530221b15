/** The blocks of a transcript. */

import { memo } from "preact/compat";
import { useState } from "preact/hooks";
import { api, CLIENT_HEADER } from "./api";
import { app } from "./app_state";
import { Diff } from "./diff";
import { showText } from "./dialogs";
import { Lines, Markdown } from "./markdown";
import type { Block, CallBlock, PromptBlock, ShellBlock, SummaryBlock, ThinkingBlock, TurnEndBlock } from "./view";
import {
  answeredBy,
  callOutcome,
  callTitle,
  clientKind,
  duration,
  endFacts,
  endWords,
  plainOutput,
  visible,
} from "./words";
import type { FilePart, Message } from "./wire_types";

const PREVIEW_LINES = 6;
const LONGEST_SHOWN = 60_000;
const IMAGE = /^image\/(png|jpeg|gif|webp)$/;

/** The blocks that the user opened or folded, by id. */
const folds = new Map<string, boolean>();

function useFold(id: string, initial: boolean): [boolean, () => void] {
  const [, draw] = useState(0);
  const isOpen = folds.get(id) ?? initial;
  const toggle = () => {
    folds.set(id, !isOpen);
    draw((count) => count + 1);
  };
  return [isOpen, toggle];
}

export const BlockView = memo(
  ({ block, message }: { block: Block; message: Message | null }) => {
    switch (block.type) {
      case "prompt":
        return <Prompt block={block} message={message} />;
      case "text":
        return (
          <div class="answer">
            <Markdown text={block.text} open={block.open} />
          </div>
        );
      case "thinking":
        return <Thinking block={block} />;
      case "call":
        return <Call block={block} depth={0} />;
      case "shell":
        return <Shell block={block} />;
      case "summary":
        return <Summary block={block} />;
      case "notice":
        return (
          <p class={`notice notice-${/^[a-z_]+$/.test(block.code) ? block.code : "other"}`}>{visible(block.text)}</p>
        );
      case "turn_end":
        return <TurnEnd block={block} />;
    }
  },
  // A call of a sub-agent shows the blocks of another session, so it is always drawn again.
  (before, after) =>
    before.block === after.block && !(after.block.type === "call" && after.block.child_session_id !== null),
);

function Prompt({ block, message }: { block: PromptBlock; message: Message | null }) {
  const [isOpen, toggle] = useFold(block.id, false);
  const isLong = block.text.length > 1500 || block.text.split("\n").length > 20;
  const files = (message?.parts ?? []).filter((part): part is FilePart => part.type === "file");
  const text = visible(block.text);
  return (
    <article class={`prompt${block.unsent ? " unsent" : ""}`} aria-label="Your prompt">
      <div class={isLong && !isOpen ? "prompt-text clipped" : "prompt-text"}>{text}</div>
      {isLong && (
        <button type="button" class="quiet" aria-expanded={isOpen} onClick={toggle}>
          {isOpen ? "Show less" : "Show all"}
        </button>
      )}
      {files.length > 0 && (
        <ul class="files">
          {files.map((file, number) => (
            <li key={number}>
              {IMAGE.test(file.media_type) && file.data && (
                <img src={`data:${file.media_type};base64,${file.data}`} alt={visible(file.name)} loading="lazy" />
              )}
              <span>{visible(file.name)}</span>
            </li>
          ))}
        </ul>
      )}
      {(block.steered || block.unsent || (block.client && !isOwnKind(block.client))) && (
        <footer>
          {block.unsent && <span>not sent to the model</span>}
          {block.steered && <span>steered</span>}
          {block.client && !isOwnKind(block.client) && <span>from {visible(clientKind(block.client))}</span>}
        </footer>
      )}
    </article>
  );
}

function isOwnKind(client: string): boolean {
  return ["web", "phone"].includes(clientKind(client));
}

function Thinking({ block }: { block: ThinkingBlock }) {
  const [isOpen, toggle] = useFold(block.id, false);
  const took = block.duration_ms === null ? "" : ` for ${duration(block.duration_ms)}`;
  return (
    <section class="thinking">
      <button type="button" class="fold" aria-expanded={isOpen} onClick={toggle}>
        <span class="chevron" aria-hidden="true" />
        {block.open ? "Thinking…" : `Thought${took}`}
      </button>
      {block.open && !isOpen && <p class="thinking-tail">{visible(block.text.slice(-240))}</p>}
      {isOpen && <Markdown text={block.text} open={block.open} />}
    </section>
  );
}

const MARKS: Record<string, string> = {
  ok: "✓",
  error: "✗",
  denied: "⊘",
  cancelled: "■",
  unknown: "?",
  waiting: "?",
  running: "●",
  writing: "…",
};

const STATE_LABELS: Record<string, string> = {
  ok: "done",
  error: "failed",
  denied: "denied",
  cancelled: "stopped",
  unknown: "may have run",
  waiting: "waiting for you",
  running: "running",
  writing: "being written",
};

export function Call({ block, depth }: { block: CallBlock; depth: number }) {
  const [isOpen, toggle] = useFold(block.id, false);
  const title = visible(callTitle(block)).replace(/\s+/g, " ").slice(0, 400);
  const took = block.duration_ms !== null && block.duration_ms >= 100 ? duration(block.duration_ms) : "";
  const by = answeredBy(block, clientKind(CLIENT_HEADER));
  return (
    <section class={`call call-${block.state}`}>
      <button type="button" class="call-head" aria-expanded={isOpen} onClick={toggle}>
        <span class="mark" role="img" aria-label={STATE_LABELS[block.state] ?? block.state}>
          {MARKS[block.state]}
        </span>
        <span class="call-name">{visible(block.name)}</span>
        <span class="call-title">{title}</span>
        <span class="call-outcome">
          {by && <span class="by">{by}</span>}
          {callOutcome(block) && <span>{callOutcome(block)}</span>}
          {took && <span class="took">{took}</span>}
        </span>
      </button>
      {isOpen ? <CallBody block={block} depth={depth} /> : <CallPreview block={block} depth={depth} />}
    </section>
  );
}

function diffOf(block: CallBlock): string {
  const diff = block.display["diff"];
  return typeof diff === "string" ? diff : "";
}

function CallPreview({ block, depth }: { block: CallBlock; depth: number }) {
  if (block.child_session_id !== null) return <Subagent block={block} depth={depth} whole={false} />;
  const diff = diffOf(block);
  if (diff && block.state === "ok" && diff.split("\n").length <= 34) return <Diff diff={diff} withFile={false} />;
  if (!["running", "error", "denied"].includes(block.state) || !block.output) return null;
  const lines = plainOutput(block.output.slice(-8000)).trimEnd().split("\n");
  const hidden = block.output.trimEnd().split("\n").length - PREVIEW_LINES;
  return (
    <div class="output preview">
      {hidden > 0 && <p class="more">{hidden} lines above</p>}
      <pre>{lines.slice(-PREVIEW_LINES).join("\n")}</pre>
    </div>
  );
}

function CallBody({ block, depth }: { block: CallBlock; depth: number }) {
  if (block.child_session_id !== null) return <Subagent block={block} depth={depth} whole />;
  const diff = diffOf(block);
  const title = callTitle(block);
  const rest = Object.entries(block.arguments).filter(([, value]) => value !== block.title);
  const output = plainOutput(block.output.slice(-LONGEST_SHOWN)).replace(/\n+$/, "");
  const isStored = !["running", "waiting", "writing"].includes(block.state);
  return (
    <div class="call-body">
      {title && <pre class="command">{visible(title)}</pre>}
      {block.written && <pre class="command">{visible(block.written)}</pre>}
      {diff ? (
        <Diff diff={diff} />
      ) : (
        rest.length > 0 && (
          <dl class="arguments">
            {rest.map(([name, value]) => (
              <div key={name}>
                <dt>{visible(name)}</dt>
                <dd>{visible(typeof value === "string" ? value : JSON.stringify(value)).slice(0, 4000)}</dd>
              </div>
            ))}
          </dl>
        )
      )}
      {block.images.map((image, number) => (
        <p class="notice" key={number}>
          {visible(image.name)} ({visible(image.media_type)})
        </p>
      ))}
      {output && !diff && (
        <div class="output">
          <pre tabIndex={0}>
            <Lines text={output} />
          </pre>
        </div>
      )}
      {!output && !diff && isStored && <p class="more">no output</p>}
      {isStored && block.output.length > 0 && (
        <button type="button" class="quiet" onClick={() => showWholeOutput(block)}>
          Whole output
        </button>
      )}
    </div>
  );
}

function showWholeOutput(block: CallBlock): void {
  void app.attempt(async () => {
    let text = block.output;
    try {
      text = await api.callOutput(block.call_id);
    } catch {
      // the whole output is not kept for ever; its beginning and end are in the session
    }
    showText(`${visible(block.name)} ${visible(callTitle(block)).slice(0, 80)}`, plainOutput(text.slice(0, 1_000_000)));
  });
}

/** The calls and answers of a sub-agent, below the call that started it. */
function Subagent({ block, depth, whole }: { block: CallBlock; depth: number; whole: boolean }) {
  const [loading, setLoading] = useState(false);
  const childId = block.child_session_id!;
  const fold = app.fold.transcript(childId);
  if (!fold) {
    if (!whole) return null;
    const load = () => {
      setLoading(true);
      void app.attempt(() => app.showSubagent(childId)).then(() => setLoading(false));
    };
    return (
      <button type="button" class="quiet" disabled={loading} onClick={load}>
        {loading ? "Loading…" : "Show what the sub-agent did"}
      </button>
    );
  }
  const blocks = fold.entries.flatMap((entry) => entry.blocks);
  const calls = blocks.filter((found) => found.type === "call");
  if (!whole && block.state !== "running") {
    return calls.length ? <p class="more">{`${calls.length} ${calls.length === 1 ? "call" : "calls"}`}</p> : null;
  }
  const shown = whole ? blocks.filter((found) => found.type !== "turn_end") : calls.slice(-4);
  return (
    <div class="subagent">
      {shown.map((found) =>
        found.type === "call" ? (
          depth < 4 && <Call key={found.id} block={found} depth={depth + 1} />
        ) : (
          <BlockView key={found.id} block={found} message={null} />
        ),
      )}
    </div>
  );
}

function Shell({ block }: { block: ShellBlock }) {
  const [isOpen, toggle] = useFold(block.id, false);
  const output = plainOutput(block.output.slice(-LONGEST_SHOWN)).trimEnd();
  const lines = output ? output.split("\n") : [];
  const shown = isOpen ? lines : lines.slice(-12);
  return (
    <section class="shell">
      <pre class="command">$ {visible(block.command)}</pre>
      {lines.length > shown.length && (
        <button type="button" class="quiet" aria-expanded={isOpen} onClick={toggle}>
          {lines.length - shown.length} lines above
        </button>
      )}
      {shown.length > 0 && (
        <div class="output">
          <pre tabIndex={0}>{shown.join("\n")}</pre>
        </div>
      )}
      {block.open && <p class="more">running…</p>}
      {block.exit_code ? <p class="more bad">exit {block.exit_code}</p> : null}
    </section>
  );
}

function Summary({ block }: { block: SummaryBlock }) {
  const [isOpen, toggle] = useFold(block.id, false);
  return (
    <section class="summary">
      <button type="button" class="fold" aria-expanded={isOpen} onClick={toggle}>
        <span class="chevron" aria-hidden="true" />
        The conversation was compacted; the model sees a summary
      </button>
      {isOpen && <Markdown text={block.text} open={false} />}
    </section>
  );
}

function TurnEnd({ block }: { block: TurnEndBlock }) {
  const facts = endFacts(block);
  if (block.state === "completed") {
    return block.kind === "prompt" && facts ? <p class="turn-end">{facts}</p> : null;
  }
  return (
    <p class={`turn-end ended end-${block.state}`}>
      <strong>{endWords(block)}</strong>
      {block.error && <span>{visible(block.error)}</span>}
      {block.left_running.length > 0 && <span>still running: {visible(block.left_running.join(", "))}</span>}
      {facts && <span class="facts">{facts}</span>}
    </p>
  );
}

/** A guess of the height in pixels, for blocks that were not drawn yet. */
export function estimatedHeight(block: Block): number {
  switch (block.type) {
    case "prompt":
      return 60 + 22 * Math.min(20, block.text.split("\n").length + block.text.length / 80);
    case "text":
      return 20 + 24 * (block.text.split("\n").length + block.text.length / 100);
    case "call":
      return 34 + (diffOf(block) && block.state === "ok" ? 20 * Math.min(34, diffOf(block).split("\n").length) : 0);
    case "shell":
      return 60 + 18 * Math.min(12, block.output.split("\n").length);
    default:
      return 34;
  }
}
