/** Work that may wait until the browser has drawn: done in slices, the newest first, which is near what is looked at. */

const SLICE_MILLISECONDS = 8;
const waiting = new Set<() => void>();
let scheduled = false;

/** Do this soon. Returns what withdraws it. */
export function soon(work: () => void): () => void {
  waiting.add(work);
  schedule();
  return () => waiting.delete(work);
}

function schedule(): void {
  if (scheduled || !waiting.size) return;
  scheduled = true;
  // After the next frame, because a task that begins with it delays it. A hidden page draws no frames.
  if (document.visibilityState === "visible") requestAnimationFrame(() => window.setTimeout(slice));
  else window.setTimeout(slice);
}

function slice(): void {
  scheduled = false;
  const until = performance.now() + SLICE_MILLISECONDS;
  for (const work of [...waiting].reverse()) {
    waiting.delete(work);
    work();
    if (performance.now() > until) break;
  }
  schedule();
}
