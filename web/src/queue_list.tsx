/** The prompts that wait behind the active run, with buttons to edit, move and remove them. */

import { api } from "./api";
import { app } from "./app_state";
import { askText } from "./dialogs";
import type { QueueState } from "./view";
import { clientKind, receiptWords, visible } from "./words";

const PAUSES: Record<string, string> = {
  user: "The queue is held.",
  server_stop: "The queue is held: the server was stopped.",
  predecessor: "The queue is held: the prompt before did not complete.",
};

export function QueueList({ queue, sessionId }: { queue: QueueState; sessionId: string }) {
  if (!queue.queued.length && !queue.waiting.length) return null;
  const canDrive = app.can("drive");
  return (
    <section class="queue" aria-label="Queued prompts">
      {queue.paused !== null && queue.queued.length > 0 && (
        <div class="queue-held">
          <span>{PAUSES[queue.paused] ?? "The queue is held."}</span>
          {canDrive && (
            <>
              <button type="button" class="primary" onClick={() => app.attempt(() => api.resume(sessionId))}>
                Resume
              </button>
              <button type="button" onClick={() => dropAll(sessionId)}>
                Drop all
              </button>
            </>
          )}
        </div>
      )}
      <ol>
        {queue.waiting.map((item) => (
          <li key={item.run_id}>
            <span class="queue-kind">joins</span>
            <span class="queue-text">{visible(item.prompt)}</span>
            {canDrive && <RemoveButton runId={item.run_id} />}
          </li>
        ))}
        {queue.queued.map((item, number) => (
          <li key={item.run_id}>
            <span class="queue-kind">{item.kind === "prompt" ? number + 1 : item.kind}</span>
            <span class="queue-text">
              {visible(item.prompt || item.attachments.map((file) => file.name).join(", ") || item.kind)}
              {item.client && !["web", "phone"].includes(clientKind(item.client)) && (
                <small> from {visible(clientKind(item.client))}</small>
              )}
            </span>
            {canDrive && (
              <span class="queue-buttons">
                {number > 0 && (
                  <button
                    type="button"
                    class="icon"
                    aria-label="Move up"
                    onClick={() => app.attempt(() => api.changeRun(item.run_id, { position: number }))}
                  >
                    ↑
                  </button>
                )}
                {item.kind === "prompt" && (
                  <button type="button" class="icon" aria-label="Edit" onClick={() => edit(item.run_id, item.prompt)}>
                    ✎
                  </button>
                )}
                <RemoveButton runId={item.run_id} />
              </span>
            )}
          </li>
        ))}
      </ol>
      {canDrive && queue.paused === null && queue.queued.length > 0 && (
        <button type="button" class="quiet" onClick={() => app.attempt(() => api.pause(sessionId))}>
          Hold the queue
        </button>
      )}
    </section>
  );
}

function RemoveButton({ runId }: { runId: string }) {
  return (
    <button type="button" class="icon" aria-label="Remove" onClick={() => app.attempt(() => api.cancelRun(runId))}>
      ✕
    </button>
  );
}

function edit(runId: string, prompt: string): void {
  askText({
    title: "Edit the queued prompt",
    label: "Prompt",
    value: prompt,
    action: "Save",
    run: (text) => void app.attempt(() => api.changeRun(runId, { prompt: text })),
  });
}

function dropAll(sessionId: string): void {
  void app.attempt(async () => app.tell(receiptWords(await api.cancel(sessionId, "session"))));
}
