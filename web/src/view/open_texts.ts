/** The text of message parts that are still being streamed. Offsets count code points, as in the protocol. */

import type { Delta, DeltaKind, Message, Snapshot } from "./wire";

export function codePoints(text: string): number {
  let count = text.length;
  for (let index = 0; index < text.length - 1; index++) {
    const unit = text.charCodeAt(index);
    if (unit >= 0xd800 && unit < 0xdc00) {
      const next = text.charCodeAt(index + 1);
      if (next >= 0xdc00 && next < 0xe000) {
        count--;
        index++;
      }
    }
  }
  return count;
}

export class OpenText {
  readonly attempt: number;
  readonly of: DeltaKind;
  readonly callId: string | null;
  readonly name: string | null;
  private pieces: string[];
  private length: number;

  constructor(part: {
    attempt: number;
    of: DeltaKind;
    text: string;
    call_id?: string | null;
    name?: string | null;
  }) {
    this.attempt = part.attempt;
    this.of = part.of;
    this.callId = part.call_id ?? null;
    this.name = part.name ?? null;
    this.pieces = [part.text];
    this.length = codePoints(part.text);
  }

  get text(): string {
    if (this.pieces.length > 1) this.pieces = [this.pieces.join("")];
    return this.pieces[0] ?? "";
  }

  /** Add text at its offset. Returns false if text before it is missing. */
  continueAt(offset: number, text: string): boolean {
    if (offset > this.length) return false;
    if (offset < this.length) this.pieces = [Array.from(this.text).slice(0, offset).join("")];
    this.pieces.push(text);
    this.length = offset + codePoints(text);
    return true;
  }
}

const NONE: ReadonlyMap<number, OpenText> = new Map();

export class OpenTexts {
  private readonly messages = new Map<string, Map<number, OpenText>>();
  /** Where the live output of a call is. */
  private readonly calls = new Map<string, [string, number]>();

  parts(messageId: string): ReadonlyMap<number, OpenText> {
    return this.messages.get(messageId) ?? NONE;
  }

  /** The output of a running call so far; null once its result is stored. */
  output(callId: string): string | null {
    const place = this.calls.get(callId);
    return place ? (this.messages.get(place[0])?.get(place[1])?.text ?? null) : null;
  }

  /** Add a delta. Returns false if it continues text that is missing here. */
  append(delta: Delta): boolean {
    const part = this.messages.get(delta.message_id)?.get(delta.part);
    if (part && delta.attempt < part.attempt) return true;
    if (part && delta.attempt === part.attempt) return part.continueAt(delta.offset, delta.text);
    if (delta.offset > 0) return false;
    this.dropPart(delta.message_id, delta.part);
    this.partsToChange(delta.message_id).set(delta.part, new OpenText(delta));
    return true;
  }

  /** Replace all open parts of a message. */
  replace(snapshot: Snapshot): void {
    this.drop(snapshot.message_id);
    for (const part of snapshot.parts) {
      this.partsToChange(snapshot.message_id).set(part.part, new OpenText(part));
      if (part.of === "output" && part.call_id) this.calls.set(part.call_id, [snapshot.message_id, part.part]);
    }
  }

  /** Close the parts that a stored message contains, and the output of the calls that it answers. */
  closeStored(message: Message): void {
    const stored = message.parts ?? [];
    for (const [number, part] of [...this.parts(message.id)]) {
      if (number < stored.length && part.of !== "output") this.dropPart(message.id, number);
    }
    for (const part of stored) {
      const place = part.type === "tool_result" ? this.calls.get(part.call_id) : undefined;
      if (place) this.dropPart(...place);
    }
  }

  drop(messageId: string): void {
    for (const number of [...this.parts(messageId).keys()]) this.dropPart(messageId, number);
  }

  clear(): void {
    this.messages.clear();
    this.calls.clear();
  }

  private partsToChange(messageId: string): Map<number, OpenText> {
    let parts = this.messages.get(messageId);
    if (!parts) this.messages.set(messageId, (parts = new Map()));
    return parts;
  }

  private dropPart(messageId: string, number: number): void {
    const parts = this.messages.get(messageId);
    const part = parts?.get(number);
    parts?.delete(number);
    if (part?.callId) this.calls.delete(part.callId);
    if (parts?.size === 0) this.messages.delete(messageId);
  }
}
