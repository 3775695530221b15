/** Approvals and questions, above the composer. They can be answered half a second after they appear. */

import { useEffect, useState } from "preact/hooks";
import { api, ApiError } from "./api";
import { app } from "./app_state";
import { Diff } from "./diff";
import type { OpenAsk } from "./view";
import { clientKind, decisionWords, span, visible } from "./words";
import type { Approval, Decision, Question, QuestionItem } from "./wire_types";

const GRACE_MILLISECONDS = 500;

const ASKS_FOR: Record<string, string> = {
  bash: "Run this command?",
  fetch: "Fetch this address?",
  download: "Download this?",
  edit: "Change this file?",
  multiedit: "Change this file?",
  write: "Write this file?",
  apply_patch: "Change these files?",
};

/** False for half a second after `id` changed, so that a tap meant for something else does not answer. */
function useArmed(id: string): boolean {
  const [armed, setArmed] = useState("");
  useEffect(() => {
    const timer = window.setTimeout(() => setArmed(id), GRACE_MILLISECONDS);
    return () => window.clearTimeout(timer);
  }, [id]);
  return armed === id;
}

export function AskPanel({ asks }: { asks: OpenAsk[] }) {
  const ask = asks[0]!;
  return (
    <section class="ask" role="region" aria-label="Needs your answer" aria-live="polite">
      {asks.length > 1 && <p class="ask-count">1 of {asks.length} waiting</p>}
      {ask.approval ? (
        <ApprovalPanel key={ask.id} approval={ask.approval} />
      ) : (
        <QuestionPanel key={ask.id} question={ask.question!} />
      )}
    </section>
  );
}

async function answer(call: () => Promise<unknown>): Promise<void> {
  try {
    await call();
  } catch (error) {
    if (error instanceof ApiError && error.status === 409) {
      const winner = (error.detail["approval"] ?? error.detail["question"]) as Partial<Approval> | undefined;
      const by = winner?.answered_by ? `, by ${visible(clientKind(winner.answered_by))}` : "";
      app.tell(`Already ${winner?.decision ? decisionWords(winner.decision) : "answered"}${by}.`);
    } else app.tellError(error);
  }
}

function Deadline({ at, words }: { at: string; words: string }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), 1000);
    return () => window.clearInterval(timer);
  }, []);
  return (
    <p class="ask-note">
      {words} in {span((Date.parse(at) - now) / 1000)}
    </p>
  );
}

function ApprovalPanel({ approval }: { approval: Approval }) {
  const armed = useArmed(approval.id) && app.can("answer");
  const [rules, setRules] = useState(approval.patterns.join("\n"));
  const [editing, setEditing] = useState(false);
  const [denying, setDenying] = useState(false);
  const [feedback, setFeedback] = useState("");
  const [sending, setSending] = useState(false);
  const pattern = rules.split("\n").map((rule) => rule.trim()).filter(Boolean);
  const decide = async (decision: Decision, scope: "project" | "all" = "project") => {
    setSending(true);
    const body: Parameters<typeof api.decide>[1] = { decision };
    if (decision === "always" || decision === "session") body.pattern = pattern;
    if (decision === "always") body.scope = scope;
    if (decision === "deny" && feedback.trim()) body.feedback = feedback.trim();
    await answer(() => api.decide(approval.id, body));
    setSending(false);
  };
  const isOff = !armed || sending;
  const diff = approval.display["diff"];
  const callArguments = approval.display["arguments"];
  return (
    <>
      <h2>{ASKS_FOR[approval.tool] ?? `Allow ${visible(approval.tool)}?`}</h2>
      <div class="ask-body">
        <pre class="command" tabIndex={0}>
          {visible(approval.title)}
        </pre>
        {typeof diff === "string" && diff && <Diff diff={diff} withFile={diff.split("\n+++ ").length > 2} />}
        {callArguments && typeof callArguments === "object" && !Array.isArray(callArguments) && (
          <dl class="arguments">
            {Object.entries(callArguments).map(([name, value]) => (
              <div key={name}>
                <dt>{visible(name)}</dt>
                <dd>{visible(typeof value === "string" ? value : JSON.stringify(value))}</dd>
              </div>
            ))}
          </dl>
        )}
      </div>
      {approval.why && approval.why !== approval.title && <p class="ask-note">Asked because: {visible(approval.why)}</p>}
      {approval.deadline_at && <Deadline at={approval.deadline_at} words="Counts as denied" />}
      {!app.can("answer") && <p class="ask-note">This device may only watch.</p>}
      {pattern.length > 0 || editing ? (
        <div class="rules">
          <span class="rules-label">“Always” saves</span>
          {editing ? (
            <textarea
              aria-label="Rules that “always” and “this session” save, one per line"
              rows={Math.max(2, approval.patterns.length)}
              value={rules}
              onInput={(event) => setRules(event.currentTarget.value)}
            />
          ) : (
            <code>{visible(pattern.join(", "))}</code>
          )}
          <button type="button" class="quiet" aria-expanded={editing} onClick={() => setEditing(!editing)}>
            {editing ? "Done" : "Edit"}
          </button>
        </div>
      ) : null}
      {denying && (
        <label class="field">
          <span>Why not? The agent reads it; it may be empty.</span>
          <input type="text" value={feedback} autofocus onInput={(event) => setFeedback(event.currentTarget.value)} />
        </label>
      )}
      <div class="ask-buttons">
        {denying ? (
          <>
            <button type="button" class="danger" disabled={isOff} onClick={() => decide("deny")}>
              Deny
            </button>
            <button type="button" onClick={() => setDenying(false)}>
              Back
            </button>
          </>
        ) : (
          <>
            <button type="button" class="primary" disabled={isOff} onClick={() => decide("once")}>
              Allow once
            </button>
            {pattern.length > 0 && (
              <>
                <button type="button" disabled={isOff} onClick={() => decide("session")}>
                  This session
                </button>
                <button type="button" disabled={isOff} onClick={() => decide("always")}>
                  Always here
                </button>
                {app.can("admin") && (
                  <button type="button" disabled={isOff} onClick={() => decide("always", "all")}>
                    Always, in all projects
                  </button>
                )}
              </>
            )}
            <button type="button" class="danger" disabled={isOff} onClick={() => setDenying(true)}>
              Deny…
            </button>
          </>
        )}
      </div>
    </>
  );
}

function optionsOf(item: QuestionItem): string[] {
  return item.kind === "yes_no" && !item.options.length ? ["yes", "no"] : item.options;
}

function QuestionPanel({ question }: { question: Question }) {
  const armed = useArmed(question.id) && app.can("answer");
  const [chosen, setChosen] = useState<string[][]>(question.items.map(() => []));
  const [other, setOther] = useState<string[]>(question.items.map(() => ""));
  const [sending, setSending] = useState(false);
  const choose = (number: number, option: string, many: boolean) => {
    setChosen(
      chosen.map((answers, index) => {
        if (index !== number) return answers;
        if (!many) return [option];
        return answers.includes(option) ? answers.filter((one) => one !== option) : [...answers, option];
      }),
    );
  };
  const answers = question.items.map((item, number) => {
    const text = (other[number] ?? "").trim();
    const options = optionsOf(item).filter((option) => chosen[number]?.includes(option));
    return text ? (item.kind === "multiple" ? [...options, text] : [text]) : options;
  });
  const complete = answers.every((answers, number) => answers.length > 0 || question.items[number]?.kind === "multiple");
  const send = async (body: Parameters<typeof api.answer>[1]) => {
    setSending(true);
    await answer(() => api.answer(question.id, body));
    setSending(false);
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void send({ answers });
      }}
    >
      <h2>{question.items.length > 1 ? "The agent has questions" : "The agent has a question"}</h2>
      <div class="ask-body">
        {question.items.map((item, number) => (
          <fieldset key={number}>
            <legend>{visible(item.text)}</legend>
            {optionsOf(item).map((option) => (
              <label class="option" key={option}>
                <input
                  type={item.kind === "multiple" ? "checkbox" : "radio"}
                  name={`${question.id}-${number}`}
                  checked={chosen[number]?.includes(option) ?? false}
                  onChange={() => choose(number, option, item.kind === "multiple")}
                />
                <span>{visible(option)}</span>
              </label>
            ))}
            {item.kind !== "yes_no" && (
              <input
                type="text"
                aria-label={optionsOf(item).length ? "Another answer" : "Your answer"}
                placeholder={optionsOf(item).length ? "Another answer" : "Your answer"}
                value={other[number]}
                onInput={(event) => {
                  const value = event.currentTarget.value;
                  setOther(other.map((text, index) => (index === number ? value : text)));
                }}
              />
            )}
          </fieldset>
        ))}
      </div>
      {question.deadline_at && <Deadline at={question.deadline_at} words="Is dismissed" />}
      <div class="ask-buttons">
        <button type="submit" class="primary" disabled={!armed || sending || !complete}>
          Answer
        </button>
        <button type="button" disabled={!armed || sending} onClick={() => send({ dismiss: true })}>
          Dismiss
        </button>
      </div>
    </form>
  );
}
