/**
 * Markdown of the model, which is hostile: HTML in it is shown as text, images are not loaded, links are confirmed before
 * they leave, and everything passes the sanitiser.
 *
 * Text that is still being written is drawn in segments. Only the last one is parsed again when more text arrives.
 */

import DOMPurify from "dompurify";
import { Marked, type Token, type Tokens } from "marked";
import { memo } from "preact/compat";
import { useMemo, useRef, useState } from "preact/hooks";
import { highlight } from "./highlight";
import { visible } from "./words";

const LONGEST_OPEN_SEGMENT = 12_000;
const LINES_PER_CHUNK = 120;

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

const SAFE_ADDRESS = /^(?:https?:\/\/|mailto:)[^\s]/i;

function safeLink(address: string, inner: string, title: string): string {
  if (!SAFE_ADDRESS.test(address)) return `<span class="no-link">${inner}</span>`;
  return `<a href="${escapeHtml(address)}" title="${escapeHtml(title || address)}">${inner}</a>`;
}

const marked = new Marked({
  gfm: true,
  renderer: {
    html: ({ text }) => escapeHtml(text),
    image: ({ href, text }) => safeLink(href, `image: ${escapeHtml(text || href)}`, href),
    link({ href, title, tokens }) {
      return safeLink(href, this.parser.parseInline(tokens), title ?? "");
    },
    heading({ tokens, depth }) {
      const level = Math.min(depth + 2, 6);
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>\n`;
    },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    code: ({ text }) => `<pre tabindex="0"><code>${escapeHtml(text)}</code></pre>\n`,
  },
});

const CLEAN = {
  ALLOWED_TAGS: [
    ...["p", "br", "strong", "em", "del", "a", "code", "pre", "ul", "ol", "li", "blockquote", "hr", "span"],
    ...["h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"],
  ],
  ALLOWED_ATTR: ["href", "title", "class", "start", "tabindex", "target", "rel"],
  ALLOWED_URI_REGEXP: SAFE_ADDRESS,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer nofollow");
});

export function sanitize(html: string): string {
  return DOMPurify.sanitize(html, CLEAN);
}

export function lex(text: string): Token[] {
  return marked.lexer(text).filter((token) => token.type !== "space" && token.type !== "def");
}

export function tokenHtml(token: Token): string {
  return sanitize(visibleHtml(marked.parser([token])));
}

/** Characters that hide or reorder text are shown by their numbers, also in Markdown. */
function visibleHtml(html: string): string {
  return visible(html);
}

const Segment = memo(
  ({ token, open }: { token: Token; open: boolean }) => {
    if (token.type === "code") {
      const code = token as Tokens.Code;
      return <CodeBlock text={code.text} language={code.lang ?? ""} open={open} />;
    }
    if (open && token.raw.length > LONGEST_OPEN_SEGMENT) return <pre class="raw">{visible(token.raw)}</pre>;
    return <div dangerouslySetInnerHTML={{ __html: tokenHtml(token) }} />;
  },
  (before, after) => before.token.raw === after.token.raw && before.open === after.open,
);

export const Markdown = memo(({ text, open }: { text: string; open: boolean }) => {
  const state = useRef({ done: "", tokens: [] as Token[] });
  const tokens = useMemo(() => {
    const known = state.current;
    if (!text.startsWith(known.done)) {
      known.done = "";
      known.tokens = [];
    }
    if (!open) return lex(text); // with the definitions of links, wherever they are
    const all = marked.lexer(text.slice(known.done.length));
    const last = all.findLastIndex((token) => token.type !== "space");
    for (const token of all.slice(0, Math.max(last, 0))) {
      known.done += token.raw;
      if (token.type !== "space" && token.type !== "def") known.tokens.push(token);
    }
    const tail = all[last];
    return tail ? [...known.tokens, tail] : [...known.tokens];
  }, [text, open]);
  return (
    <div class="markdown" onClick={confirmLeaving} onAuxClick={confirmLeaving}>
      {tokens.map((token, number) => (
        <Segment key={number} token={token} open={open && number === tokens.length - 1} />
      ))}
    </div>
  );
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

/** Code with its language and a button to copy it. It is highlighted when it is complete. */
export function CodeBlock({ text, language, open }: { text: string; language: string; open: boolean }) {
  const name = /^[\w+#.-]{1,20}/.exec(language)?.[0] ?? "";
  const shown = useMemo(() => visible(text), [text]);
  const html = useMemo(() => (open ? null : highlight(shown, name)), [shown, name, open]);
  return (
    <figure class="code">
      <figcaption>
        <span>{name || "text"}</span>
        <CopyButton text={text} />
      </figcaption>
      {html === null ? (
        <pre tabIndex={0}>
          <Lines text={shown} />
        </pre>
      ) : (
        <pre tabIndex={0}>
          <code dangerouslySetInnerHTML={{ __html: sanitize(html) }} />
        </pre>
      )}
    </figure>
  );
}

const Chunk = memo(({ text }: { text: string }) => <code class="chunk">{text}</code>);

/** Plain lines in chunks, so that only the last one is drawn again when lines are added. */
export function Lines({ text }: { text: string }) {
  const lines = text.split("\n");
  const chunks = [];
  for (let at = 0; at < lines.length; at += LINES_PER_CHUNK) chunks.push(lines.slice(at, at + LINES_PER_CHUNK).join("\n"));
  return (
    <>
      {chunks.map((chunk, number) => (
        <Chunk key={number} text={chunk} />
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
