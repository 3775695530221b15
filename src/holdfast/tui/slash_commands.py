"""The slash commands and the command palette."""

from __future__ import annotations

from holdfast.schema.runs import Mode
from holdfast.tui.actions import ACTIONS, COMMANDS
from holdfast.tui.bindings import key_of
from holdfast.tui.picker import Picker, PickerRow
from holdfast.tui.session_controller import MODES
from holdfast.tui.tui_host import ChatHost


def run_command(chat: ChatHost, name: str, arguments: str) -> bool:
    """Run a command; returns False if there is none of this name, so that the text is a prompt."""
    runner = _COMMANDS.get(name)
    if runner is None:
        return False
    runner(chat, arguments)
    return True


def _commands(chat: ChatHost, _: str) -> None:
    rows = [
        PickerRow(action.command or action.name, action.does, notes=(key_of(chat.tui, action.name),))
        for action in ACTIONS
        if action.scope == "everywhere" and action.name not in ("commands", "cancel", "interrupt")
    ]
    rows += [PickerRow(name, does, notes=(f"/{name}",), searched=name) for name, does in COMMANDS]
    extra = [a for a in ACTIONS if a.command and a.scope != "everywhere"]
    rows += [PickerRow(a.command, a.does, notes=(f"/{a.command}",)) for a in extra]
    custom = chat.tui.link.custom_commands
    rows += [PickerRow(f"/{name} ", does or name, notes=(f"/{name}",), searched=name) for name, does in custom]

    def chosen(name: str | None) -> None:
        if name is not None and name.startswith("/"):  # of the server: arguments may follow
            chat.composer.set_draft(name)
            return
        if name is None or run_command(chat, name, ""):
            return
        action = getattr(chat, f"action_{name}", None)
        if action is not None:
            action()

    chat.tui.push_screen(Picker(rows, heading="commands", hint="enter runs it · esc closes"), chosen)


def _help(chat: ChatHost, _: str) -> None:
    chat.action_help()


def _sessions(chat: ChatHost, _: str) -> None:
    from holdfast.tui.session_picker import SessionPicker

    chat.tui.push_screen(SessionPicker(chat.tui.link), lambda chosen: chat.tui.show_session(chosen) if chosen else None)


def _new(chat: ChatHost, _: str) -> None:
    chat.tui.show_session(None)


def _model(chat: ChatHost, arguments: str) -> None:
    from holdfast.tui.model_picker import ModelPicker

    if arguments:
        chat.tui.use_model(arguments)
    else:
        chat.tui.push_screen(ModelPicker(chat.tui))


def _changes(chat: ChatHost, _: str) -> None:
    from holdfast.tui.changes_screen import ChangesScreen

    if chat.tui.link.session_id is None:
        chat.tell("this session has changed no files yet")
        return
    chat.tui.push_screen(ChangesScreen(chat.tui.controller))


def _queue(chat: ChatHost, _: str) -> None:
    chat.action_focus_queue()


def _editor(chat: ChatHost, _: str) -> None:
    chat.post_message(type(chat.composer).WantsEditor())


def _undo(chat: ChatHost, _: str) -> None:
    from holdfast.tui.undo_confirmation import undo_after_question

    chat.do(undo_after_question(chat.tui, chat.tui.controller))


def _redo(chat: ChatHost, _: str) -> None:
    chat.do(chat.tui.controller.redo())


def _compact(chat: ChatHost, arguments: str) -> None:
    chat.do(chat.tui.controller.compact(arguments))


def _accept(chat: ChatHost, arguments: str) -> None:
    async def accept() -> None:
        await chat.tui.controller.accept_plan(arguments)
        chat.draw_status()

    chat.do(accept())


def _review(chat: ChatHost, arguments: str) -> None:
    async def review() -> None:
        if not await chat.tui.controller.review(arguments):
            chat.tell("there are no changes to review")

    chat.do(review())


def _init(chat: ChatHost, arguments: str) -> None:
    chat.do(chat.tui.controller.init(arguments))


def _continue(chat: ChatHost, _: str) -> None:
    if chat.tui.controller.cut_off is None:
        chat.tell("the last run was not cut off; write what should be done next")
    else:
        chat.do(chat.tui.controller.continue_run())


def _retry(chat: ChatHost, _: str) -> None:
    if (run := chat.tui.controller.cut_off) is None:
        chat.tell("the last run was not cut off; up takes its prompt again")
    else:
        chat.do(chat.tui.controller.send_again(run))


def _undo_and_retry(chat: ChatHost, _: str) -> None:
    from holdfast.tui.undo_confirmation import undo_after_question

    controller = chat.tui.controller
    if (run := controller.cut_off) is None:
        chat.tell("the last run was not cut off; /undo undoes its changes")
        return

    async def undo_and_retry() -> None:
        accepted = await undo_after_question(chat.tui, controller, to_message_id=run.message_id)
        client = await controller.link.ready()
        done = await client.wait_run(accepted.run.id, seconds=60)
        if done.state == "completed":
            await controller.send_again(run)
        else:
            chat.tell(done.text or f"undo: {done.state}", warning=True)

    chat.do(undo_and_retry())


def _extensions(chat: ChatHost, _: str) -> None:
    from holdfast.tui.extension_picker import ExtensionPicker

    chat.tui.push_screen(ExtensionPicker(chat.tui.link))


def _remember(chat: ChatHost, arguments: str) -> None:
    async def remember() -> None:
        await chat.tui.controller.remember(arguments)
        chat.tell("remembered for this project; 'holdfast memory' lists it")

    if arguments:
        chat.do(remember())
    else:
        chat.tell("write it behind the command: /remember the tests need a database", warning=True)


def _rewind(chat: ChatHost, _: str) -> None:
    from holdfast.tui.rewind import pick_rewind

    pick_rewind(chat)


def _fork(chat: ChatHost, _: str) -> None:
    async def fork() -> None:
        chat.tui.show_session(await chat.tui.controller.fork())
        chat.tell("this is the copy now; the original is in the list of sessions")

    chat.do(fork())


def _rename(chat: ChatHost, arguments: str) -> None:
    if arguments:
        chat.do(chat.tui.controller.rename(arguments))
    else:
        chat.tell("write the name behind it: /rename NAME", warning=True)


def _mode(chat: ChatHost, arguments: str) -> None:
    wanted = arguments.replace(" ", "_").replace("-", "_")
    found: list[Mode] = [mode for mode in MODES if mode == wanted]
    if found:
        chat.tui.controller.mode = found[0]
        chat.draw_status()
    elif arguments:
        chat.tell(f"there is no mode {arguments!r}; use one of {', '.join(MODES)}", warning=True)
    else:
        chat.action_cycle_mode()


def _agent(chat: ChatHost, arguments: str) -> None:
    from holdfast.tui.agent_picker import AgentPicker

    def use(name: str | None) -> None:
        async def choose(agent: str) -> None:
            await chat.tui.controller.use_agent(agent)
            chat.draw_all()

        if name:
            chat.do(choose(name))

    if arguments:
        use(arguments)
    else:
        chat.tui.push_screen(AgentPicker(chat.tui), use)


def _effort(chat: ChatHost, arguments: str) -> None:
    from holdfast.tui.model_picker import EffortPicker, efforts_of

    known, model = efforts_of(chat.tui), chat.tui.controller.model_name
    if not known:
        chat.tell(f"{model or 'this model'} has no levels of effort", warning=True)
    elif not arguments:
        chat.tui.push_screen(EffortPicker(chat.tui, known), chat.tui.use_effort)
    elif arguments in known:
        chat.tui.use_effort(arguments)
    else:
        chat.tell(f"{model} has no effort {arguments!r}; use one of {', '.join(known)}", warning=True)


def _theme(chat: ChatHost, arguments: str) -> None:
    from holdfast.tui.theme_picker import pick_theme

    if arguments:
        chat.tui.use_theme(arguments, save=True)
    else:
        pick_theme(chat.tui)


def _key(chat: ChatHost, _: str) -> None:
    from holdfast.tui.setup import start_setup

    start_setup(chat.tui)


def _trust(chat: ChatHost, _: str) -> None:
    chat.do(chat.tui.trust_directory())


def _pause(chat: ChatHost, _: str) -> None:
    chat.do(chat.tui.controller.pause())


def _resume(chat: ChatHost, _: str) -> None:
    chat.do(chat.tui.controller.resume())


def _jobs(chat: ChatHost, _: str) -> None:
    from holdfast.tui.jobs_screen import JobsScreen

    chat.tui.push_screen(JobsScreen(chat.tui.link))


def _export(chat: ChatHost, arguments: str) -> None:
    chat.do(chat.tui.export_session(arguments))


def _quit(chat: ChatHost, _: str) -> None:
    chat.tui.leave()


def _details(chat: ChatHost, _: str) -> None:
    chat.action_details()


_COMMANDS = {
    "commands": _commands,
    "help": _help,
    "sessions": _sessions,
    "new": _new,
    "clear": _new,
    "model": _model,
    "changes": _changes,
    "details": _details,
    "queue": _queue,
    "editor": _editor,
    "undo": _undo,
    "redo": _redo,
    "compact": _compact,
    "accept": _accept,
    "review": _review,
    "remember": _remember,
    "rewind": _rewind,
    "fork": _fork,
    "rename": _rename,
    "agent": _agent,
    "mode": _mode,
    "effort": _effort,
    "theme": _theme,
    "key": _key,
    "trust": _trust,
    "pause": _pause,
    "resume": _resume,
    "jobs": _jobs,
    "export": _export,
    "init": _init,
    "continue": _continue,
    "retry": _retry,
    "undo-and-retry": _undo_and_retry,
    "extensions": _extensions,
    "quit": _quit,
}
