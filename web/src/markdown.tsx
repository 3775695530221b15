/** Draws Markdown. What is drawn here was made safe in `markdown_parts.ts`. */

import { memo } from "preact/compat";
import { useEffect, useMemo, useReducer, useState } from "preact/hooks";
import { soon } from "./idle_work";
import { completeChunks, MarkdownText, type MarkdownChunk, type MarkdownPart } from "./markdown_parts";
import { visible } from "./words";

const LINES_PER_CHUNK = 120;
/** Chunks at the end of a text are always laid out; those before them only near the screen. */
const LAST_CHUNKS = 2;

export const Markdown = memo(({ text, open }: { text: string; open: boolean }) => {
  const parts = useMemo(() => new MarkdownText(), []);
  const chunks = useMemo(() => (open ? parts.update(text, true) : completeChunks(text, parts)), [text, open]);
  return (
    <div class="markdown" onClick={confirmLeaving} onAuxClick={confirmLeaving}>
      {chunks.map((chunk, number) => (
        <Chunk key={number} chunk={chunk} far={number < chunks.length - LAST_CHUNKS} />
      ))}
    </div>
  );
});

const Chunk = memo(({ chunk, far }: { chunk: MarkdownChunk; far: boolean }) => (
  <div class={far ? "far" : undefined}>
    {chunk.map((part, number) => (
      <Part key={number} part={part} />
    ))}
  </div>
));

const Part = memo(({ part }: { part: MarkdownPart }) => {
  const { code } = part;
  if (code) return <CodeBlock part={part} text={code.text} language={code.language} />;
  if (part.html === null) return <pre class="raw">{visible(part.tokens[0]?.raw ?? "")}</pre>;
  return <div dangerouslySetInnerHTML={{ __html: part.html }} />;
});

let openLink: (address: string) => void = () => undefined;

/** What is called with the address of a link that was clicked. */
export function onLink(listener: (address: string) => void): void {
  openLink = listener;
}

function confirmLeaving(event: MouseEvent): void {
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (!link) return;
  event.preventDefault();
  openLink(link.getAttribute("href") ?? "");
}

/** Code with its language and a button to copy it. It is highlighted soon after it is complete and drawn. */
function CodeBlock({ part, text, language }: { part: MarkdownPart; text: string; language: string }) {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  const html = part.isMade ? part.html : null;
  useEffect(() => {
    if (part.isMade || part.open) return;
    return soon(() => {
      if (part.html !== null) draw(undefined);
    });
  }, [part]);
  return (
    <figure class="code">
      <figcaption>
        <span>{language || "text"}</span>
        <CopyButton text={text} />
      </figcaption>
      {html === null ? (
        <pre tabIndex={0}>
          <Lines text={visible(text)} />
        </pre>
      ) : (
        <pre tabIndex={0}>
          <code dangerouslySetInnerHTML={{ __html: html }} />
        </pre>
      )}
    </figure>
  );
}

const LineChunk = memo(({ text }: { text: string }) => <code class="chunk">{text}</code>);

/** Plain lines in chunks, so that only the last one is drawn again when lines are added. */
export function Lines({ text }: { text: string }) {
  const lines = text.split("\n");
  const chunks = [];
  for (let at = 0; at < lines.length; at += LINES_PER_CHUNK) chunks.push(lines.slice(at, at + LINES_PER_CHUNK).join("\n"));
  return (
    <>
      {chunks.map((chunk, number) => (
        <LineChunk key={number} text={chunk} />
      ))}
    </>
  );
}

export function CopyButton({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      window.setTimeout(() => setCopied(false), 1500);
    } catch {
      // the browser allows it only on secure pages
    }
  };
  return (
    <button type="button" class="quiet" onClick={copy}>
      {copied ? "Copied" : "Copy"}
    </button>
  );
}
