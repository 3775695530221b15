/**
 * A long list of items of different heights, of which only those near the screen exist.
 *
 * Heights are measured when items are drawn and estimated before. What the reader looks at stays in place when items above
 * it change. At the end of the list, the list follows what is added.
 */

import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useReducer, useRef } from "preact/hooks";

export interface ListItem {
  key: string;
  /** A guess of the height in pixels, until the item was drawn. */
  estimate: () => number;
}

/** What is drawn above and below the screen, in pixels. A new list begins without, so that it is shown at once. */
const OVERSCAN = 900;
const OVERSCAN_STEP = 300;
const AT_END = 48;

export interface VirtualListProps<T extends ListItem> {
  /** Another list begins at its end. */
  name: string;
  items: readonly T[];
  draw: (item: T, number: number) => ComponentChildren;
  nearStart?: () => void;
  onFollow?: (follows: boolean) => void;
  /** Grows when the list is to go to its end. */
  toEnd: number;
  label: string;
}

export function VirtualList<T extends ListItem>(props: VirtualListProps<T>) {
  const { items, draw, nearStart, onFollow, toEnd, label, name } = props;
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const box = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const heights = useRef(new Map<string, number>());
  const follows = useRef(true);
  const anchor = useRef<{ key: string; offset: number } | null>(null);
  const observer = useRef<ResizeObserver | null>(null);
  const observed = useRef(new Map<string, Element>());
  const place = useRef({ top: 0, height: 800 });
  const scrollTimer = useRef(0);
  const overscan = useRef(0);

  const tops = useMemo(() => new Float64Array(items.length + 1), [items.length]);
  for (let index = 0; index < items.length; index++) {
    const item = items[index]!;
    tops[index + 1] = tops[index]! + (heights.current.get(item.key) ?? item.estimate());
  }
  const total = tops[items.length]!;

  const indexAt = (offset: number): number => {
    let low = 0;
    let high = items.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (tops[middle]! <= offset) low = middle;
      else high = middle - 1;
    }
    return Math.max(low, 0);
  };

  /** Where the item that the reader looks at is now: items above it may have been added. */
  const anchoredTop = (): number | null => {
    if (!anchor.current) return null;
    const { key, offset } = anchor.current;
    const index = items.findIndex((item) => item.key === key);
    return index < 0 ? null : tops[index]! + offset;
  };

  const top = follows.current ? Math.max(0, total - place.current.height) : (anchoredTop() ?? place.current.top);
  const first = indexAt(top - overscan.current);
  const last = Math.min(items.length, indexAt(top + place.current.height + overscan.current) + 1);

  const setFollows = useCallback(
    (value: boolean) => {
      if (follows.current === value) return;
      follows.current = value;
      onFollow?.(value);
    },
    [onFollow],
  );

  const state = useRef({ items, tops, first, last });
  state.current = { items, tops, first, last };

  const onScroll = (): void => {
    const element = box.current;
    if (!element) return;
    place.current = { top: element.scrollTop, height: element.clientHeight };
    setFollows(element.scrollHeight - element.scrollTop - element.clientHeight < AT_END);
    const index = indexAt(element.scrollTop);
    const item = items[index];
    anchor.current = item ? { key: item.key, offset: element.scrollTop - tops[index]! } : null;
    if (element.scrollTop < 1500) nearStart?.();
    const isOutside =
      (first > 0 && tops[first]! > element.scrollTop - OVERSCAN / 3) ||
      (last < items.length && tops[last]! < element.scrollTop + element.clientHeight + OVERSCAN / 3);
    if (isOutside) {
      cancelAnimationFrame(scrollTimer.current);
      scrollTimer.current = requestAnimationFrame(() => redraw(undefined));
    }
  };

  useLayoutEffect(() => {
    heights.current.clear();
    overscan.current = 0;
    follows.current = true;
    anchor.current = null;
    onFollow?.(true);
    redraw(undefined);
  }, [name]);

  useLayoutEffect(() => {
    if (!toEnd) return;
    setFollows(true);
    redraw(undefined);
  }, [toEnd]);

  useEffect(() => {
    const element = box.current!;
    const resized = new ResizeObserver((entries) => {
      let changed = false;
      for (const entry of entries) {
        if (entry.target === element) {
          changed ||= place.current.height !== element.clientHeight;
          place.current.height = element.clientHeight;
          continue;
        }
        const key = (entry.target as HTMLElement).dataset["key"]!;
        const height = entry.borderBoxSize[0]?.blockSize ?? entry.contentRect.height;
        if (Math.abs((heights.current.get(key) ?? -1) - height) > 0.5) {
          heights.current.set(key, height);
          changed = true;
        }
      }
      if (changed) redraw(undefined);
    });
    observer.current = resized;
    resized.observe(element);
    for (const item of observed.current.values()) resized.observe(item);
    return () => resized.disconnect();
  }, []);

  // After each drawing: measure the new items, then keep the reader's place.
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || !inner.current) return;
    let changed = false;
    const present = new Map<string, Element>();
    for (const child of inner.current.children) {
      const key = (child as HTMLElement).dataset["key"];
      if (key === undefined) continue;
      present.set(key, child);
      if (observed.current.get(key) === child) continue;
      observer.current?.observe(child);
      const height = (child as HTMLElement).offsetHeight;
      if (Math.abs((heights.current.get(key) ?? -1) - height) > 0.5) {
        heights.current.set(key, height);
        changed = true;
      }
    }
    for (const [key, old] of observed.current) if (present.get(key) !== old) observer.current?.unobserve(old);
    observed.current = present;
    if (follows.current) {
      if (element.scrollHeight - element.scrollTop - element.clientHeight > 1) element.scrollTop = element.scrollHeight;
    } else {
      const wanted = anchoredTop();
      if (wanted !== null && Math.abs(element.scrollTop - wanted) > 1) element.scrollTop = wanted;
    }
    place.current = { top: element.scrollTop, height: element.clientHeight };
    if (changed) redraw(undefined);
    else if (items.length && overscan.current < OVERSCAN) {
      overscan.current += OVERSCAN_STEP;
      cancelAnimationFrame(scrollTimer.current);
      scrollTimer.current = requestAnimationFrame(() => redraw(undefined));
    }
  });

  return (
    <div class="scroll" ref={box} onScroll={onScroll} role="log" aria-label={label} aria-live="off" tabIndex={0}>
      <div class="scroll-inner" ref={inner}>
        <div style={{ height: `${tops[first] ?? 0}px` }} />
        {items.slice(first, last).map((item, number) => (
          <div class="item" key={item.key} data-key={item.key}>
            {draw(item, first + number)}
          </div>
        ))}
        <div style={{ height: `${Math.max(0, total - (tops[last] ?? 0))}px` }} />
      </div>
    </div>
  );
}
