/** Where prompts are written: queue or steer, attachments, `@` files and `/` commands. Drafts survive everything. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api } from "./api";
import { app, useApp } from "./app_state";
import { acceptFiles, readAttachment } from "./attachments";
import { confirmDialog } from "./dialogs";
import { receiptWords, visible } from "./words";
import type { FilePart, Mode } from "./wire_types";

const MODES: [Mode, string][] = [
  ["ask", "Ask"],
  ["accept_edits", "Accept edits"],
  ["plan", "Plan"],
  ["auto", "Auto"],
];

interface Choice {
  value: string;
  note: string;
}

/** Commands that the page itself carries out. */
const OWN_COMMANDS: Record<string, { note: string; run: (sessionId: string, rest: string) => Promise<unknown> }> = {
  accept: { note: "Carry out the plan; a note may follow", run: (id, rest) => api.acceptPlan(id, rest) },
  compact: { note: "Replace the past messages by a summary", run: (id, rest) => api.compact(id, rest) },
  pause: { note: "Hold the queue; the active run continues", run: (id) => api.pause(id) },
  resume: { note: "Resume the queue", run: (id) => api.resume(id) },
  redo: { note: "Redo what was undone", run: (id) => api.redo(id) },
  rename: { note: "Rename this session: /rename NAME", run: (id, rest) => api.changeSession(id, { title: rest }) },
  cancel: {
    note: "Cancel the active run and every queued prompt",
    run: async (id) => app.tell(receiptWords(await api.cancel(id, "session"))),
  },
};

function draftKey(): string {
  return `holdfast.draft.${app.sessionId ?? `new.${app.workspaceId ?? ""}`}`;
}

/** The word at the cursor that is completed: `@file`, or `/command` at the start. */
function wordAt(text: string, cursor: number): { kind: "@" | "/"; start: number; word: string } | null {
  const before = text.slice(0, cursor);
  const command = /^\/([\w:.-]*)$/.exec(before);
  if (command) return { kind: "/", start: 0, word: command[1] ?? "" };
  const mention = /(?:^|\s)@([^\s@]*)$/.exec(before);
  return mention ? { kind: "@", start: cursor - (mention[1]?.length ?? 0) - 1, word: mention[1] ?? "" } : null;
}

export function Composer({ busy }: { busy: boolean }) {
  useApp("settings", "route", "link");
  const key = draftKey();
  const [text, setText] = useState("");
  const [files, setFiles] = useState<FilePart[]>([]);
  const [sending, setSending] = useState(false);
  const [dropping, setDropping] = useState(false);
  const [choices, setChoices] = useState<Choice[]>([]);
  const [selected, setSelected] = useState(0);
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const asked = useRef(0);

  useEffect(() => {
    setText(localStorage.getItem(key) ?? "");
    setFiles([]);
    setChoices([]);
  }, [key]);

  useLayoutEffect(() => {
    const element = area.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight + 2, window.innerHeight * 0.4)}px`;
  }, [text]);

  const write = (value: string) => {
    setText(value);
    if (value) localStorage.setItem(key, value);
    else localStorage.removeItem(key);
  };

  const complete = async (value: string, cursor: number) => {
    const request = ++asked.current;
    const word = wordAt(value, cursor);
    const workspaceId = app.workspaceId;
    let found: Choice[] = [];
    if (word?.kind === "/") {
      const server = (app.commands.get(workspaceId ?? "") ?? []).map((command) => ({
        value: command.name,
        note: [command.argument_hint, command.description].filter(Boolean).join(" "),
      }));
      const own = app.sessionId ? Object.entries(OWN_COMMANDS).map(([name, { note }]) => ({ value: name, note })) : [];
      found = [...own, ...server].filter((choice) => choice.value.startsWith(word.word)).slice(0, 12);
    } else if (word?.kind === "@" && workspaceId) {
      try {
        found = (await api.files(workspaceId, word.word)).items.map((path) => ({ value: path, note: "" }));
      } catch {
        found = [];
      }
    }
    if (request !== asked.current) return;
    setChoices(found);
    setSelected(0);
  };

  const take = (choice: Choice) => {
    const element = area.current;
    if (!element) return;
    const word = wordAt(text, element.selectionStart);
    if (!word) return;
    const inserted = `${word.kind}${choice.value} `;
    const value = text.slice(0, word.start) + inserted + text.slice(element.selectionStart);
    const cursor = word.start + inserted.length;
    element.value = value; // now, not with the next drawing: the next key may come before it
    element.focus();
    element.setSelectionRange(cursor, cursor);
    write(value);
    setChoices([]);
  };

  const attach = async (found: Iterable<File>) => {
    for (const file of found) {
      await app.attempt(async () => {
        const part = await readAttachment(file);
        setFiles((known) => [...known, part]);
      });
    }
  };

  const attachRef = useRef(attach);
  attachRef.current = attach;
  const mayDrive = app.can("drive");
  useEffect(() => (mayDrive ? acceptFiles((found) => void attachRef.current(found), setDropping) : undefined), [mayDrive]);

  const send = async (delivery: "queue" | "steer") => {
    const prompt = text.trim();
    if ((!prompt && !files.length) || sending) return;
    setSending(true);
    setChoices([]);
    const sentKey = key;
    const succeeded = await app.attempt(() => carryOut(prompt, files, delivery));
    setSending(false);
    if (!succeeded) return; // the text stays
    localStorage.removeItem(sentKey);
    const typed = area.current?.value ?? "";
    if (typed.startsWith(text)) {
      const rest = typed.slice(text.length); // typed while the prompt was being sent
      setText(rest);
      if (rest) localStorage.setItem(draftKey(), rest);
    }
    setFiles((known) => known.filter((file) => !files.includes(file)));
    if (matchMedia("(pointer: fine)").matches) area.current?.focus();
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    if (choices.length) {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        const step = event.key === "ArrowDown" ? 1 : -1;
        setSelected((selected + step + choices.length) % choices.length);
        return;
      }
      if (event.key === "Enter" || event.key === "Tab") {
        event.preventDefault();
        const choice = choices[selected];
        if (choice) take(choice);
        return;
      }
      if (event.key === "Escape") {
        event.preventDefault();
        setChoices([]);
        return;
      }
    }
    if (event.key === "Escape" && busy) {
      event.preventDefault();
      void app.cancel();
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void send("steer");
    } else if (event.key === "Enter" && !event.shiftKey && matchMedia("(pointer: fine)").matches) {
      event.preventDefault();
      void send("queue");
    }
  };

  if (!mayDrive) {
    return <p class="composer-note">This device may {app.can("answer") ? "watch and answer" : "only watch"}.</p>;
  }
  const isEmpty = !text.trim() && !files.length;
  return (
    <form
      class={`composer${dropping ? " dropping" : ""}`}
      onSubmit={(event) => {
        event.preventDefault();
        void send("queue");
      }}
    >
      {choices.length > 0 && (
        <ul class="choices" id="choices" role="listbox" aria-label="Completions">
          {choices.map((choice, number) => (
            <li
              key={choice.value}
              id={`choice-${number}`}
              role="option"
              aria-selected={number === selected}
              onMouseDown={(event) => {
                event.preventDefault();
                take(choice);
              }}
            >
              <span>{visible(choice.value)}</span>
              <small>{visible(choice.note)}</small>
            </li>
          ))}
        </ul>
      )}
      {files.length > 0 && (
        <ul class="files">
          {files.map((file, number) => (
            <li key={number}>
              {file.data && file.media_type.startsWith("image/") && (
                <img src={`data:${file.media_type};base64,${file.data}`} alt="" />
              )}
              <span>{visible(file.name)}</span>
              <button
                type="button"
                class="icon"
                aria-label={`Remove ${visible(file.name)}`}
                onClick={() => setFiles(files.filter((_, index) => index !== number))}
              >
                ✕
              </button>
            </li>
          ))}
        </ul>
      )}
      <textarea
        ref={area}
        rows={1}
        value={text}
        aria-label="Prompt"
        aria-controls={choices.length ? "choices" : undefined}
        aria-activedescendant={choices.length ? `choice-${selected}` : undefined}
        placeholder={busy ? "Queue a prompt, or steer the run" : "What should the agent do?"}
        enterkeyhint="send"
        onInput={(event) => {
          write(event.currentTarget.value);
          void complete(event.currentTarget.value, event.currentTarget.selectionStart);
        }}
        onKeyDown={onKeyDown}
        onPaste={(event) => {
          const found = [...(event.clipboardData?.files ?? [])];
          if (found.length) {
            event.preventDefault();
            void attach(found);
          }
        }}
        onBlur={() => setChoices([])}
      />
      <div class="composer-bar">
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label="Files to attach"
          onChange={(event) => {
            void attach([...(event.currentTarget.files ?? [])]);
            event.currentTarget.value = "";
          }}
        />
        <button type="button" class="icon" aria-label="Attach files or photos" onClick={() => picker.current?.click()}>
          <ClipIcon />
        </button>
        <ModeSelect />
        <ModelSelect />
        <EffortSelect />
        <span class="composer-actions">
          {busy && (
            <button type="button" disabled={isEmpty || sending} onClick={() => send("steer")} title="Ctrl+Enter">
              Steer
            </button>
          )}
          <button type="submit" class="primary" disabled={isEmpty || sending}>
            {sending ? "Sending…" : busy ? "Queue" : "Send"}
          </button>
        </span>
      </div>
    </form>
  );
}

async function carryOut(prompt: string, files: FilePart[], delivery: "queue" | "steer"): Promise<void> {
  const sessionId = app.sessionId;
  const command = /^\/(\w+)(?:\s+([\s\S]*))?$/.exec(prompt);
  const own = command && !files.length ? OWN_COMMANDS[command[1] ?? ""] : undefined;
  if (own && sessionId) {
    await own.run(sessionId, command?.[2] ?? "");
  } else if (prompt.startsWith("!") && prompt.length > 1 && sessionId && !files.length) {
    await api.shell(sessionId, prompt.slice(1).trim());
  } else await app.send(prompt, files, delivery);
}

function ClipIcon() {
  return (
    <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true" focusable="false">
      <path
        d="M20 11.5l-8.2 8.2a5 5 0 0 1-7.1-7.1l8.5-8.5a3.4 3.4 0 0 1 4.8 4.8l-8.5 8.5a1.7 1.7 0 0 1-2.4-2.4l7.8-7.8"
        fill="none"
        stroke="currentColor"
        stroke-width="1.8"
        stroke-linecap="round"
        stroke-linejoin="round"
      />
    </svg>
  );
}

function ModeSelect() {
  const change = (mode: Mode) => {
    if (mode !== "auto") return app.choose({ mode });
    confirmDialog({
      title: "Run without asking?",
      text: <p>In auto mode, the next prompts of this session run commands and change files without asking you.</p>,
      action: "Use auto mode",
      danger: true,
      run: () => app.choose({ mode }),
    });
    app.changed("settings");
  };
  return (
    <label class="select">
      <span class="hidden">When to ask</span>
      <select value={app.mode} onChange={(event) => change(event.currentTarget.value as Mode)}>
        {MODES.map(([mode, name]) => (
          <option key={mode} value={mode} selected={mode === app.mode}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

function ModelSelect() {
  const models = app.models.get(app.workspaceId ?? "");
  if (!models) return null;
  const current = app.modelName;
  const isListed = models.models.some((model) => model.name === current);
  return (
    <label class="select model-select">
      <span class="hidden">Model</span>
      <select value={app.modelName} onChange={(event) => app.choose({ model: event.currentTarget.value })}>
        {!isListed && (
          <option value={current} selected>
            {visible(current.slice(current.indexOf("/") + 1)) || "No model"}
          </option>
        )}
        {models.models.map((model) => (
          <option key={model.name} value={model.name} selected={model.name === app.modelName}>
            {visible(model.title || model.name)}
          </option>
        ))}
      </select>
    </label>
  );
}

function EffortSelect() {
  const { efforts, effort } = app;
  if (!efforts.length) return null;
  return (
    <label class="select">
      <span class="hidden">How hard it thinks</span>
      <select value={effort} onChange={(event) => app.choose({ effort: event.currentTarget.value || null })}>
        <option value="" selected={!effort}>
          Effort
        </option>
        {efforts.map((name) => (
          <option key={name} value={name} selected={name === effort}>
            {visible(name)}
          </option>
        ))}
      </select>
    </label>
  );
}
