/** A unified diff with line numbers. */

import { memo } from "preact/compat";
import { useMemo, useState } from "preact/hooks";
import { visible } from "./words";

interface DiffLine {
  kind: "add" | "remove" | "same" | "hunk" | "file";
  old: number | null;
  new: number | null;
  text: string;
}

const SHOWN_LINES = 300;

export function parseDiff(diff: string): DiffLine[] {
  const lines: DiffLine[] = [];
  let before = 0;
  let after = 0;
  let inHunk = false;
  for (const line of diff.replace(/\n$/, "").split("\n")) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
    if (hunk) {
      inHunk = true;
      before = Number(hunk[1]);
      after = Number(hunk[2]);
      lines.push({ kind: "hunk", old: null, new: null, text: line });
    } else if (!inHunk || /^(diff --git |index [0-9a-f]+\.\.)/.test(line)) {
      inHunk = false;
      if (!/^(--- |\+\+\+ |index |diff --git )/.test(line) || line.startsWith("+++ ")) {
        lines.push({ kind: "file", old: null, new: null, text: line.replace(/^\+\+\+ (b\/)?/, "") });
      }
    } else if (/^--- /.test(line) && lines.at(-1)?.kind !== "hunk") inHunk = false;
    else if (line.startsWith("+")) lines.push({ kind: "add", old: null, new: after++, text: line.slice(1) });
    else if (line.startsWith("-")) lines.push({ kind: "remove", old: before++, new: null, text: line.slice(1) });
    else if (!line.startsWith("\\")) lines.push({ kind: "same", old: before++, new: after++, text: line.slice(1) });
  }
  return lines;
}

const SIGNS = { add: "+", remove: "−", same: " ", hunk: "", file: "" };

export const Diff = memo(({ diff, withFile = true }: { diff: string; withFile?: boolean }) => {
  const [whole, setWhole] = useState(false);
  const lines = useMemo(() => {
    const found = parseDiff(diff).filter((line) => withFile || line.kind !== "file");
    // The place of a hunk is needed only between two hunks: lines have numbers.
    return found.filter((line, number) => line.kind !== "hunk" || (number > 0 && found[number - 1]?.kind !== "file"));
  }, [diff, withFile]);
  const shown = whole ? lines : lines.slice(0, SHOWN_LINES);
  return (
    <div class="diff" role="group" aria-label="Changes" tabIndex={0}>
      <table>
        <tbody>
          {shown.map((line, number) => (
            <tr class={`diff-${line.kind}`} key={number}>
              <td class="line-number">{line.new ?? line.old ?? ""}</td>
              <td class="sign">{SIGNS[line.kind]}</td>
              <td class="line">{line.kind === "hunk" ? "⋯" : visible(line.text)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {lines.length > shown.length && (
        <button type="button" class="quiet" onClick={() => setWhole(true)}>
          Show {lines.length - shown.length} more lines
        </button>
      )}
    </div>
  );
});

export function countLines(diff: string): { added: number; removed: number } {
  const lines = parseDiff(diff);
  return {
    added: lines.filter((line) => line.kind === "add").length,
    removed: lines.filter((line) => line.kind === "remove").length,
  };
}
