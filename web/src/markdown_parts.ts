/**
 * Markdown of the model, which is hostile: HTML in it is shown as text, images are not loaded, links are confirmed before
 * they leave, and everything passes the sanitiser.
 *
 * A text is cut into parts that are parsed, sanitised and drawn once. While it is being written, only its last part changes.
 */

import DOMPurify from "dompurify";
import { Marked, type Token, type Tokens } from "marked";
import { highlight } from "./highlight";
import { visible } from "./words";

const LONGEST_OPEN_PART = 12_000;
const LONGEST_PROSE = 2_000;
const PARTS_PER_CHUNK = 12;
const KEPT_CHARACTERS = 3_000_000;

function escapeHtml(text: string): string {
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

DOMPurify.setConfig({
  ALLOWED_TAGS: [
    ...["p", "br", "strong", "em", "del", "a", "code", "pre", "ul", "ol", "li", "blockquote", "hr", "span"],
    ...["h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"],
  ],
  ALLOWED_ATTR: ["href", "title", "class", "start", "tabindex", "target", "rel"],
  ALLOWED_URI_REGEXP: SAFE_ADDRESS,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
});

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer nofollow");
});

/** A block of code, or some paragraphs. The HTML is made when the part is drawn first. */
export class MarkdownPart {
  private made: string | null | undefined;

  constructor(
    readonly tokens: Token[],
    readonly length: number,
    /** The last part of a text that is still being written. */
    readonly open: boolean,
  ) {}

  get code(): { text: string; language: string } | null {
    const [token] = this.tokens;
    if (token?.type !== "code") return null;
    const { text, lang } = token as Tokens.Code;
    return { text, language: /^[\w+#.-]{1,20}/.exec(lang ?? "")?.[0] ?? "" };
  }

  get isMade(): boolean {
    return this.made !== undefined;
  }

  /** Safe HTML; null if the part is shown as plain text. */
  get html(): string | null {
    if (this.made === undefined) this.made = this.make();
    return this.made;
  }

  private make(): string | null {
    const { code } = this;
    if (!code) {
      if (this.open && this.length > LONGEST_OPEN_PART) return null;
      return DOMPurify.sanitize(visible(marked.parser(this.tokens)));
    }
    const html = this.open ? null : highlight(visible(code.text), code.language);
    return html === null ? null : DOMPurify.sanitize(html);
  }
}

export type MarkdownChunk = readonly MarkdownPart[];

/** Links may be defined anywhere in a text, so their texts are parsed whole. */
const DEFINITION = /^ {0,3}\[[^\]\n]+\]:/m;

/** The parts of a text, in chunks. A chunk that did not change is the same object as before. */
export class MarkdownText {
  private done = "";
  private chunks: MarkdownChunk[] = [];

  update(text: string, open: boolean): readonly MarkdownChunk[] {
    if (!text.startsWith(this.done) || (!open && DEFINITION.test(text))) {
      this.done = "";
      this.chunks = [];
    }
    const tokens = marked.lexer(text.slice(this.done.length));
    const complete = open ? Math.max(tokens.findLastIndex(isShown), 0) : tokens.length;
    for (const token of tokens.slice(0, complete)) {
      this.done += token.raw;
      if (isShown(token)) this.add(token);
    }
    const last = tokens[complete];
    if (!last || !isShown(last)) return [...this.chunks];
    return [...this.chunks, [new MarkdownPart([last], last.raw.length, true)]];
  }

  private add(token: Token): void {
    const length = token.raw.length;
    const chunk = this.chunks.at(-1);
    const last = chunk?.at(-1);
    if (!chunk || !last) this.chunks.push([new MarkdownPart([token], length, false)]);
    else if (token.type !== "code" && !last.code && last.length + length <= LONGEST_PROSE) {
      const longer = new MarkdownPart([...last.tokens, token], last.length + length, false);
      this.chunks[this.chunks.length - 1] = [...chunk.slice(0, -1), longer];
    } else if (chunk.length < PARTS_PER_CHUNK) {
      this.chunks[this.chunks.length - 1] = [...chunk, new MarkdownPart([token], length, false)];
    } else this.chunks.push([new MarkdownPart([token], length, false)]);
  }
}

function isShown(token: Token): boolean {
  return token.type !== "space" && token.type !== "def";
}

/** The chunks of complete texts that were drawn last: scrolling back does not parse them again. */
const kept = new Map<string, readonly MarkdownChunk[]>();
let keptCharacters = 0;

export function completeChunks(text: string, parts: MarkdownText): readonly MarkdownChunk[] {
  const known = kept.get(text);
  if (known) {
    kept.delete(text);
    kept.set(text, known);
    return known;
  }
  const chunks = parts.update(text, false);
  kept.set(text, chunks);
  keptCharacters += text.length;
  for (const old of kept.keys()) {
    if (keptCharacters <= KEPT_CHARACTERS || old === text) break;
    kept.delete(old);
    keptCharacters -= old.length;
  }
  return chunks;
}
