/** State that components draw. They are drawn again once a frame if something that they show has changed. */

import { useEffect, useReducer } from "preact/hooks";
import type { Aspect } from "./view";

export type Topic = Aspect | "route" | "link" | "toasts" | "settings" | "changes" | "workspaces" | "dialog";

export class Drawn {
  private readonly listeners = new Set<{ topics: ReadonlySet<Topic>; draw: () => void }>();
  private readonly dirty = new Set<Topic>();
  private frame = 0;

  subscribe(topics: ReadonlySet<Topic>, draw: () => void): () => void {
    const listener = { topics, draw };
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  changed(...topics: readonly Topic[]): void {
    for (const topic of topics) this.dirty.add(topic);
    if (this.frame || !this.dirty.size) return;
    // A hidden page draws no frames; it is kept up to date a few times a second.
    this.frame =
      document.visibilityState === "visible"
        ? requestAnimationFrame(() => this.flush())
        : window.setTimeout(() => this.flush(), 250);
  }

  private flush(): void {
    this.frame = 0;
    const dirty = new Set(this.dirty);
    this.dirty.clear();
    for (const { topics, draw } of [...this.listeners]) {
      for (const topic of topics) {
        if (!dirty.has(topic)) continue;
        draw();
        break;
      }
    }
  }
}

/** Draw the component again when one of the topics changes. */
export function useDrawn(state: Drawn, topics: readonly Topic[]): void {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => state.subscribe(new Set(topics), () => draw(undefined)), []);
}
