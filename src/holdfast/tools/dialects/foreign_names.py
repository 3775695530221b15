"""The tables: what other agents call our tools and their arguments. Pure data.

All foreign names are written as `plain_name` makes them: lower case, without separators. So one row covers
``file_path``, ``filePath`` and ``FilePath``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec


def plain_name(name: str) -> str:
    """Return a name in lower case without separators, as the tables have it."""
    return name.replace("_", "").replace("-", "").replace(" ", "").lower()


def _by_foreign_name(rows: Mapping[str, str]) -> dict[str, str]:
    return {foreign: own for own, names in rows.items() for foreign in (plain_name(own), *names.split())}


TOOLS: Final = _by_foreign_name(
    {
        "view": "read readfile viewfile openfile cat getfile viewimage notebookread fsread",
        "edit": (
            "editfile strreplace strreplacefile replace searchreplace replaceinfile applydiff replacestringinfile"
            " editexistingfile singlefindandreplace findandreplace"
        ),
        "multiedit": "multieditfile multifindandreplace editmultiple",
        "write": "writefile writetofile createfile create savefile newfile createnewfile fswrite",
        "bash": (
            "shell sh exec execute run terminal command runcommand executecommand executebash execcommand"
            " runshellcommand runterminalcmd runterminalcommand runinterminal shellcommand localshell"
            " containerexec container.exec developershell"
        ),
        "job_output": "bashoutput taskoutput agentoutput getterminaloutput commandstatus",
        "job_kill": "killshell killbash killjob taskstop killterminal",
        "grep": "grepsearch grepfiles searchfilecontent searchfiles searchtext textsearch ripgrep rg search",
        "glob": "globsearch globfiles findfiles filesearch findbyname fileglobsearch find",
        "ls": "list listdir listdirectory listfiles",
        "fetch": "webfetch fetchurl fetchwebpage readurl openurl agenticfetch",
        "download": "downloadfile",
        "web_search": "googlewebsearch searchweb googlesearch",
        "todos": (
            "todo todowrite todoread updateplan writetodos settodolist managetodolist updatetodolist readtodos tasklist"
        ),
        "ask": "askuser askuserquestion askfollowupquestion question",
        "agent": "task subagent runsubagent dispatchagent spawnagent delegate delegatetask newtask",
        "apply_patch": "patch applypatchtool",
    }
)
"""Our tool by its foreign names."""

EDITORS: Final = frozenset({"strreplacebasededittool", "strreplaceeditor", "texteditor", "developertexteditor"})
"""Tools of other agents whose argument ``command`` chooses between viewing, creating, replacing and inserting."""

DELETERS: Final = frozenset({"deletefile", "removefile", "deletepath"})

ADVICE: Final = {
    **dict.fromkeys(("exitplanmode", "planexit", "presentplan"), "write the plan as your answer, without a tool call"),
    **dict.fromkeys(
        ("attemptcompletion", "finish", "done", "submit", "completetask"),
        "when the work is done, answer with text and without a tool call",
    ),
    **dict.fromkeys(("think", "sequentialthinking"), "think without a tool"),
    **dict.fromkeys(("notebookedit", "editnotebook"), "view the .ipynb file and change its JSON with edit"),
    **dict.fromkeys(("readmanyfiles", "readfiles"), "call view once for each file, in one step"),
    **dict.fromkeys(
        ("writestdin", "sendinput"), "commands get no input; pass it in the command, for example with a pipe"
    ),
    **dict.fromkeys(("codebasesearch", "semanticsearch", "searchcodebase"), "use grep, glob or a sub-agent (agent)"),
    **dict.fromkeys(("movefile", "renamefile"), "use apply_patch with '*** Move to:', or bash"),
    **dict.fromkeys(
        ("multitooluse.parallel", "multitooluseparallel", "batch"), "send the calls side by side in one step"
    ),
}
"""What to do instead of a foreign tool that has no counterpart."""

AGENTS: Final = {
    **dict.fromkeys(
        ("explorer", "search", "searcher", "research", "researcher", "codebaseinvestigator", "plan"), "explore"
    ),
    **dict.fromkeys(("generalpurpose", "default", "worker", "coder", "task", "build"), "general"),
}
"""Our kind of sub-agent by the foreign one."""

_PATH = "filepath absolutepath file filename targetfile notebookpath relativepath pathname"
_DIRECTORY = (
    "dirpath directory directorypath dir folder targetdirectory relativeworkspacepath searchpath searchdirectory"
)
_TALK = "description explanation instruction instructions comment thought reasoning toolcallpurpose"
_FILTERS = "respectgitignore respectgeminiignore filefilteringoptions noignore"


class ArgumentNames(msgspec.Struct, frozen=True):
    """The foreign arguments of one tool."""

    renamed: Mapping[str, str] = {}
    """Our name by the foreign one."""
    ignored: frozenset[str] = frozenset()
    """Arguments that change nothing in the result, so that the model need not be told."""


def _names(*ignored: str, **renamed: str) -> ArgumentNames:
    return ArgumentNames(
        {foreign: own for own, names in renamed.items() for foreign in names.split()},
        frozenset(" ".join(ignored).split()),
    )


_OLD = "oldstring oldstr old search find searchtext originaltext oldcode oldcontent target"
_NEW = "newstring newstr new replace replacement replacewith replacementtext newcode newcontent"
_ALL = "replaceallmatches all global allowmultiple allowmultiplereplacements"

ARGUMENTS: Final = {
    "view": _names(
        _TALK,
        "shouldreadentirefile mode encoding indentation",
        path=_PATH,
        offset="startline lineoffset startlineoneindexed start startlinenumberbaseone line from",
        limit="nlines numlines lines maxlines linelimit linecount",
        end="endline endlineoneindexedinclusive endlinenumberbaseone to",
        range="viewrange linerange",
    ),
    "edit": _names(
        _TALK,
        "startline",
        path=_PATH,
        old_text=_OLD,
        new_text=_NEW,
        replace_all=_ALL,
        count="expectedreplacements expectedoccurrences",
        edits="changes replacements edit",
        blocks="diff codeedit searchreplaceblocks",
    ),
    "multiedit": _names(_TALK, path=_PATH, edits="changes replacements edit operations"),
    "write": _names(
        _TALK,
        "linecount overwrite encoding createdirs",
        path=_PATH,
        content="filetext text contents body filecontent code",
    ),
    "bash": _names(
        _TALK,
        "dangerouslydisablesandbox requiresapproval isinput securityrisk login tty shell maxoutputtokens yieldtimems"
        " autobackgroundafter prefixrule blocking summary goal",
        command="cmd script shellcommand commandline commands",
        background="runinbackground isbackground detach",
        timeout_ms="timeoutms timeoutmilliseconds timeoutmillis",
        timeout="timeoutseconds timeoutsecs timeoutsec",
        directory=f"workdir cwd workingdir workingdirectory {_DIRECTORY} path",
        elevate="withescalatedpermissions sandboxpermissions",
        reason="justification",
    ),
    "job_output": _names(
        _TALK,
        job="bashid shellid taskid jobid id sessionid terminalid",
        wait="timeout waitseconds timeoutseconds waitup",
        wait_ms="timeoutms waitms yieldtimems",
        block="waitforend",
    ),
    "job_kill": _names(_TALK, job="bashid shellid taskid jobid id sessionid terminalid"),
    "grep": _names(
        _TALK,
        _FILTERS,
        "n linenumbers offset",
        pattern="query regex regexp searchpattern search q searchterm",
        path=f"{_DIRECTORY} {_PATH}",
        include="glob filepattern includepattern fileglob globpattern",
        literal="literaltext fixedstrings fixed f",
        ignore_case="i caseinsensitive",
        case_sensitive="matchcase",
        is_regex="isregexp useregex",
        context="c a b contextlines linesbefore linesafter before after beforecontext aftercontext",
        limit="headlimit maxresults maxmatches maxcount totalmaxmatches maxmatchesperfile",
        output="outputmode mode",
        type="filetype",
    ),
    "glob": _names(
        _TALK,
        _FILTERS,
        "casesensitive type",
        pattern="globpattern query filepattern glob filename name",
        path=f"{_DIRECTORY} cwd",
        limit="maxresults headlimit maxfiles",
    ),
    "ls": _names(
        _TALK, _FILTERS, "offset limit showhidden all", path=f"{_DIRECTORY} {_PATH}", depth="maxdepth level levels"
    ),
    "fetch": _names(_TALK, "timeout", url="uri link address urls", format="outputformat"),
    "download": _names(_TALK, "timeout", url="uri link", path=f"{_PATH} destination dest outputpath output saveas"),
    "web_search": _names(_TALK, query="q searchquery searchterm objective", count="numresults maxresults limit"),
    "todos": _names(_TALK, "merge action", todos="items plan tasks list todolist"),
    "ask": _names(
        _TALK, "title metadata", questions="items", question="text prompt", options="choices followup suggestions"
    ),
    "agent": _names(
        "timeout maxturns",
        prompt="task instruction instructions query objective message",
        title="description name summary",
        agent="subagenttype subagentname agenttype agentname type subagent",
    ),
    "apply_patch": _names(_TALK, patch="input patchtext diff content patchcontent text"),
}
"""Foreign arguments by tool. Some of our names here (``end``, ``directory``) are only steps of `call_translation`."""

EDIT_ITEM: Final = _names(_TALK, "id", old_text=_OLD, new_text=_NEW, replace_all=_ALL)
TODO_ITEM: Final = _names(
    "activeform id priority createdat updatedat notes",
    text="content step title description task name subject",
    status="state",
)
QUESTION_ITEM: Final = _names(
    "header id", text="question prompt", options="choices", multiple="multiselect allowmultiple"
)

TODO_STATES: Final = {
    **dict.fromkeys(("pending", "todo", "open", "notstarted", "new", "blocked"), "pending"),
    **dict.fromkeys(("inprogress", "active", "doing", "started", "current", "wip"), "in_progress"),
    **dict.fromkeys(("completed", "complete", "done", "finished", "closed"), "completed"),
}
"""Our status of a task by the foreign one."""
DROPPED_STATES: Final = frozenset({"cancelled", "canceled", "deleted", "skipped", "removed"})

OUTPUTS: Final = {
    **dict.fromkeys(("content", "lines", "line", "matches"), "lines"),
    **dict.fromkeys(("fileswithmatches", "files", "filenames", "paths", "file"), "files"),
    **dict.fromkeys(("count", "counts", "countmatches"), "counts"),
}
"""Our ``output`` of grep by the foreign one."""

FILE_TYPES: Final = {
    "c": "*.{c,h}",
    "cpp": "*.{cc,cpp,cxx,h,hh,hpp,hxx}",
    "cs": "*.cs",
    "css": "*.{css,scss}",
    "go": "*.go",
    "html": "*.{html,htm}",
    "java": "*.java",
    "js": "*.{js,jsx,cjs,mjs}",
    "javascript": "*.{js,jsx,cjs,mjs}",
    "json": "*.json",
    "kotlin": "*.{kt,kts}",
    "lua": "*.lua",
    "markdown": "*.{md,markdown}",
    "md": "*.{md,markdown}",
    "php": "*.php",
    "py": "*.{py,pyi}",
    "python": "*.{py,pyi}",
    "ruby": "*.rb",
    "rb": "*.rb",
    "rust": "*.rs",
    "rs": "*.rs",
    "sh": "*.{sh,bash}",
    "sql": "*.sql",
    "swift": "*.swift",
    "toml": "*.toml",
    "ts": "*.{ts,tsx,cts,mts}",
    "tsx": "*.tsx",
    "typescript": "*.{ts,tsx,cts,mts}",
    "xml": "*.xml",
    "yaml": "*.{yaml,yml}",
    "yml": "*.{yaml,yml}",
}
"""Globs by ripgrep's names of file types."""
