/** Dialogs: one at a time, over everything. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { app, useApp } from "./app_state";

type DrawDialog = (close: () => void) => ComponentChildren;

let current: { title: string; draw: DrawDialog } | null = null;

export function openDialog(title: string, draw: DrawDialog): void {
  current = { title, draw };
  app.changed("dialog");
}

export function closeDialog(): void {
  current = null;
  app.changed("dialog");
}

export function DialogHost() {
  useApp("dialog");
  const element = useRef<HTMLDialogElement>(null);
  const shown = current;
  useEffect(() => {
    if (shown && !element.current?.open) element.current?.showModal();
  }, [shown]);
  if (!shown) return null;
  return (
    <dialog
      ref={element}
      aria-label={shown.title}
      onClose={closeDialog}
      onClick={(event) => event.target === element.current && closeDialog()}
    >
      <div class="dialog">
        <header>
          <h2>{shown.title}</h2>
          <button type="button" class="icon" aria-label="Close" onClick={closeDialog}>
            ✕
          </button>
        </header>
        {shown.draw(closeDialog)}
      </div>
    </dialog>
  );
}

export function confirmDialog(options: {
  title: string;
  text: ComponentChildren;
  action: string;
  danger?: boolean;
  run: () => void;
}): void {
  openDialog(options.title, (close) => (
    <>
      <div class="dialog-text">{options.text}</div>
      <footer>
        <button type="button" onClick={close}>
          Not now
        </button>
        <button
          type="button"
          class={options.danger ? "danger" : "primary"}
          onClick={() => {
            close();
            options.run();
          }}
        >
          {options.action}
        </button>
      </footer>
    </>
  ));
}

function TextForm(props: { value: string; label: string; action: string; close: () => void; run: (text: string) => void }) {
  const [text, setText] = useState(props.value);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        props.close();
        props.run(text);
      }}
    >
      <label class="field">
        <span>{props.label}</span>
        <textarea rows={3} value={text} autofocus onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <footer>
        <button type="button" onClick={props.close}>
          Not now
        </button>
        <button type="submit" class="primary">
          {props.action}
        </button>
      </footer>
    </form>
  );
}

export function askText(options: {
  title: string;
  label: string;
  value: string;
  action: string;
  run: (text: string) => void;
}): void {
  openDialog(options.title, (close) => <TextForm {...options} close={close} />);
}

/** A link of the model leaves the page only after the user has seen where it goes. */
export function confirmLink(address: string): void {
  let host = "";
  try {
    host = new URL(address).host;
  } catch {
    return;
  }
  confirmDialog({
    title: "Open this link?",
    text: (
      <>
        <p>
          The model wrote this link. It leads to <strong>{host || "your mail program"}</strong>.
        </p>
        <pre class="address">{address}</pre>
      </>
    ),
    action: "Open in a new tab",
    run: () => window.open(address, "_blank", "noopener,noreferrer"),
  });
}

export function showText(title: string, text: string): void {
  openDialog(title, () => (
    <pre class="whole-output" tabIndex={0}>
      {text}
    </pre>
  ));
}
