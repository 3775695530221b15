/** The page: list, session and details beside each other, or one at a time on a phone. */

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { app, useApp } from "./app_state";
import { Details } from "./details";
import { confirmLink, DialogHost } from "./dialogs";
import { onLink } from "./markdown";
import { SessionList } from "./session_list";
import { SessionPane } from "./session_pane";
import { deviceName, span } from "./words";

function Page() {
  useApp("route", "link");
  if (app.link === "pairing") return <Pairing />;
  const { route } = app;
  const pane = route.page === "list" ? "list" : route.page === "session" && route.details ? "details" : "chat";
  return (
    <>
      <Banner />
      <div class={`panes show-${pane}${route.page === "session" ? "" : " without-details"}`}>
        <SessionList />
        <SessionPane />
        <Details />
      </div>
      <Toasts />
      <DialogHost />
    </>
  );
}

function Banner() {
  useApp("link");
  const [, tick] = useState(0);
  const isLost = app.link === "lost";
  useEffect(() => {
    if (!isLost) return;
    const timer = window.setInterval(() => tick((count) => count + 1), 1000);
    return () => window.clearInterval(timer);
  }, [isLost]);
  const seconds = (Date.now() - app.lostSince) / 1000;
  if (!isLost || seconds < 1) return <div class="banner-place" role="status" />;
  return (
    <div class="banner-place" role="status">
      <p class="banner">
        {navigator.onLine
          ? `No connection to the server for ${span(seconds)}. Trying again; the work goes on without this page.`
          : `This device is offline. The work goes on; the page catches up when it is back.`}
      </p>
    </div>
  );
}

function Toasts() {
  useApp("toasts");
  return (
    <div class="toasts" role="status" aria-live="polite">
      {app.toasts.map((toast) => (
        <div class={`toast toast-${toast.kind}`} key={toast.id}>
          <span>{toast.text}</span>
          <button type="button" class="icon" aria-label="Dismiss" onClick={() => app.dismiss(toast.id)}>
            ✕
          </button>
        </div>
      ))}
    </div>
  );
}

function Pairing() {
  const [code, setCode] = useState("");
  const [name, setName] = useState(deviceName());
  const [busy, setBusy] = useState(false);
  return (
    <main class="pairing">
      <form
        onSubmit={async (event) => {
          event.preventDefault();
          setBusy(true);
          await app.pair(code, name);
          setBusy(false);
        }}
      >
        <h1>Holdfast</h1>
        <p>
          This browser is not paired yet. Run <code>holdfast web</code> on your machine and open the address that it
          prints, or type its code here.
        </p>
        {app.pairingError && (
          <p class="problem" role="alert">
            {app.pairingError}
          </p>
        )}
        <label class="field">
          <span>Code</span>
          <input
            type="text"
            value={code}
            autocomplete="one-time-code"
            autocapitalize="characters"
            spellcheck={false}
            onInput={(event) => setCode(event.currentTarget.value)}
          />
        </label>
        <label class="field">
          <span>Name of this device</span>
          <input type="text" value={name} maxLength={100} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <button type="submit" class="primary" disabled={!code.trim() || busy}>
          Pair
        </button>
      </form>
    </main>
  );
}

onLink(confirmLink);
const place = document.getElementById("app");
if (place) {
  place.replaceChildren();
  render(<Page />, place);
  void app.start();
}
