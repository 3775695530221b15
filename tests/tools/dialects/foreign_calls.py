"""Tool calls as models of other agents make them. `foreign_calls.txt` has what becomes of each.

The calls follow the public tool definitions of the agents that are named, and the slips that models make with them.
"""

from typing import Any, NamedTuple


class ForeignCall(NamedTuple):
    agent: str
    name: str
    arguments: dict[str, Any] | str
    """A text is not valid JSON."""


FILES = {
    "src/app.py": (
        "import os\n\n\ndef main() -> int:\n    name = os.environ.get('NAME', 'world')\n    print(f'hello {name}')\n"
        "    return 0\n"
    ),
    "src/util.py": "def slug(text):\n    # TODO: unicode\n    return '-'.join(text.lower().split())\n",
    "web/index.ts": "export const title = 'Demo'; // TODO: translate\n",
    "README.md": "# Demo\n\nA small project.\n",
}

_PATCH = "*** Begin Patch\n*** Update File: README.md\n@@\n-A small project.\n+A tiny project.\n*** End Patch"
_SUB_PATCH = "*** Begin Patch\n*** Update File: util.py\n@@\n-    # TODO: unicode\n*** End Patch"
_UNIFIED = "--- a/README.md\n+++ b/README.md\n@@ -1,3 +1,3 @@\n # Demo\n \n-A small project.\n+A tiny project.\n"
_BLOCKS = "<<<<<<< SEARCH\nA small project.\n=======\nA tiny project.\n>>>>>>> REPLACE\n"
_ROO = "<<<<<<< SEARCH\n:start_line:3\n-------\nA small project.\n=======\nA tiny project.\n>>>>>>> REPLACE"
_EDIT = {"old_string": "'world'", "new_string": "'you'"}

CALLS = (
    # Claude Code
    ForeignCall("Claude Code", "Read", {"file_path": "src/app.py"}),
    ForeignCall("Claude Code", "Read", {"file_path": "src/app.py", "offset": 0, "limit": 2}),
    ForeignCall("Claude Code", "Read", {"file_path": "src/app.py", "offset": 4, "limit": 1, "pages": "1-2"}),
    ForeignCall("Claude Code", "Write", {"file_path": "new.py", "content": "x = 1\n"}),
    ForeignCall("Claude Code", "Edit", {"file_path": "src/app.py", **_EDIT, "replace_all": False}),
    ForeignCall(
        "Claude Code",
        "MultiEdit",
        {"file_path": "src/app.py", "edits": [_EDIT, {"old_string": "hello", "new_string": "hi", "replace_all": True}]},
    ),
    ForeignCall(
        "Claude Code",
        "MultiEdit",
        {"file_path": "src/app.py", "edits": '[{"old_string": "hello", "new_string": "hi"}]'},
    ),
    ForeignCall("Claude Code", "Bash", {"command": "echo hi", "description": "Say hi"}),
    ForeignCall("Claude Code", "Bash", {"command": "echo hi", "timeout": 120000, "description": "Say hi"}),
    ForeignCall("Claude Code", "Bash", {"command": "echo hi", "timeout": 90000}),
    ForeignCall("Claude Code", "Bash", {"command": "echo hi", "run_in_background": False}),
    ForeignCall("Claude Code", "Bash", {"command": "echo hi", "dangerouslyDisableSandbox": True}),
    ForeignCall("Claude Code", "Grep", {"pattern": "TODO"}),
    ForeignCall("Claude Code", "Grep", {"pattern": "todo", "-i": True, "-n": True, "output_mode": "content"}),
    ForeignCall("Claude Code", "Grep", {"pattern": "TODO", "output_mode": "files_with_matches", "head_limit": 1}),
    ForeignCall("Claude Code", "Grep", {"pattern": "o", "output_mode": "count", "glob": "*.py"}),
    ForeignCall("Claude Code", "Grep", {"pattern": "TODO", "type": "py", "-A": 1, "-B": "0", "output_mode": "content"}),
    ForeignCall("Claude Code", "Grep", {"pattern": "TODO", "path": "web", "multiline": True, "head_limit": 0}),
    ForeignCall("Claude Code", "Glob", {"pattern": "**/*.py"}),
    ForeignCall("Claude Code", "Glob", {"pattern": "*.ts", "path": "web"}),
    ForeignCall("Claude Code", "LS", {"path": "src", "ignore": ["*.pyc"]}),
    ForeignCall(
        "Claude Code",
        "TodoWrite",
        {
            "todos": [
                {"content": "Find it", "status": "completed", "activeForm": "Finding it"},
                {
                    "content": "Fix it",
                    "status": "in_progress",
                    "activeForm": "Fixing it",
                    "id": "2",
                    "priority": "high",
                },
            ]
        },
    ),
    ForeignCall("Claude Code", "TodoRead", {}),
    ForeignCall(
        "Claude Code",
        "Task",
        {"description": "Find slugs", "prompt": "Where are slugs made?", "subagent_type": "general-purpose"},
    ),
    ForeignCall("Claude Code", "Task", {"description": "Look", "prompt": "Look around", "subagent_type": "Explore"}),
    ForeignCall("Claude Code", "WebFetch", {"url": "https://example.org/a", "prompt": "What does it say?"}),
    ForeignCall("Claude Code", "WebSearch", {"query": "slugs", "allowed_domains": ["example.org"]}),
    ForeignCall("Claude Code", "BashOutput", {"bash_id": "job_9", "filter": "error"}),
    ForeignCall("Claude Code", "KillShell", {"shell_id": "job_9"}),
    ForeignCall("Claude Code", "TaskOutput", {"task_id": "job_9", "block": True, "timeout": 30000}),
    ForeignCall("Claude Code", "ExitPlanMode", {"plan": "1. Fix it"}),
    ForeignCall("Claude Code", "NotebookEdit", {"notebook_path": "a.ipynb", "new_source": "x"}),
    ForeignCall(
        "Claude Code",
        "AskUserQuestion",
        {
            "questions": [
                {
                    "question": "Which one?",
                    "header": "Choice",
                    "options": [
                        {"label": "A", "description": "the first"},
                        {"label": "B", "description": "the second"},
                    ],
                    "multiSelect": False,
                }
            ]
        },
    ),
    # Anthropic's editor tools
    ForeignCall("Anthropic editor", "str_replace_based_edit_tool", {"command": "view", "path": "README.md"}),
    ForeignCall(
        "Anthropic editor",
        "str_replace_based_edit_tool",
        {"command": "view", "path": "src/app.py", "view_range": [4, 6]},
    ),
    ForeignCall(
        "Anthropic editor", "str_replace_editor", {"command": "view", "path": "src/app.py", "view_range": [6, -1]}
    ),
    ForeignCall(
        "Anthropic editor",
        "str_replace_based_edit_tool",
        {"command": "create", "path": "new.txt", "file_text": "hello\n"},
    ),
    ForeignCall(
        "Anthropic editor",
        "str_replace_based_edit_tool",
        {"command": "str_replace", "path": "README.md", "old_str": "small", "new_str": "tiny"},
    ),
    ForeignCall(
        "Anthropic editor",
        "str_replace_editor",
        {"command": "str_replace", "path": "README.md", "old_str": "\nA small project.\n"},
    ),
    ForeignCall(
        "Anthropic editor",
        "str_replace_based_edit_tool",
        {"command": "insert", "path": "README.md", "insert_line": 1, "insert_text": "second\nthird\n"},
    ),
    ForeignCall(
        "Anthropic editor",
        "str_replace_editor",
        {"command": "insert", "path": "README.md", "insert_line": 0, "new_str": "first"},
    ),
    ForeignCall("Anthropic editor", "str_replace_editor", {"command": "undo_edit", "path": "README.md"}),
    ForeignCall("Anthropic editor", "bash", {"restart": True}),
    # Codex CLI
    ForeignCall("Codex", "shell", {"command": ["bash", "-lc", "echo hi"], "workdir": ".", "timeout_ms": 60000}),
    ForeignCall("Codex", "shell", {"command": "bash -lc 'echo hi; ls -1 src'"}),
    ForeignCall("Codex", "shell", {"command": ["ls", "-1", "src"]}),
    ForeignCall("Codex", "shell", {"command": ["apply_patch", _PATCH]}),
    ForeignCall("Codex", "shell", {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{_PATCH}\nEOF\n"]}),
    ForeignCall(
        "Codex", "shell", {"command": ["bash", "-lc", f"cd src && apply_patch <<'PATCH'\n{_SUB_PATCH}\nPATCH"]}
    ),
    ForeignCall("Codex", "shell_command", {"command": f'apply_patch <<"EOF"\n{_SUB_PATCH}\nEOF', "workdir": "src"}),
    ForeignCall("Codex", "shell_command", {"command": "ls -1", "workdir": "src"}),
    ForeignCall("Codex", "shell_command", {"command": "pwd | xargs basename; ls -1", "workdir": "web"}),
    ForeignCall("Codex", "exec_command", {"cmd": "echo hi", "yield_time_ms": 1000, "max_output_tokens": 4000}),
    ForeignCall(
        "Codex", "exec_command", {"cmd": "echo hi", "sandbox_permissions": "use_default", "justification": "greeting"}
    ),
    ForeignCall(
        "Codex",
        "exec_command",
        {"cmd": "echo hi", "sandbox_permissions": "require_escalated", "justification": "needs the network"},
    ),
    ForeignCall("Codex", "write_stdin", {"session_id": 1, "chars": "y\n"}),
    ForeignCall("Codex", "apply_patch", {"input": _PATCH}),
    ForeignCall("Codex", "apply_patch", _PATCH),
    ForeignCall(
        "Codex",
        "update_plan",
        {
            "explanation": "start",
            "plan": [{"step": "Read", "status": "completed"}, {"step": "Fix", "status": "pending"}],
        },
    ),
    ForeignCall("Codex", "view_image", {"path": "README.md"}),
    ForeignCall("Codex", "read_file", {"file_path": "src/util.py", "offset": 1, "limit": 1, "mode": "slice"}),
    ForeignCall("Codex", "grep_files", {"pattern": "TODO", "include": "*.ts", "path": ".", "limit": 10}),
    ForeignCall("Codex", "list_dir", {"dir_path": "src", "offset": 1, "limit": 25, "depth": 2}),
    ForeignCall("Codex", "container.exec", {"cmd": ["echo", "a b"]}),
    ForeignCall("GPT", "functions.bash", {"command": "echo hi"}),
    ForeignCall("gpt-oss", "bash<|channel|>commentary", {"command": "echo hi"}),
    ForeignCall("GPT", "multi_tool_use.parallel", {"tool_uses": []}),
    # opencode
    ForeignCall("opencode", "read", {"filePath": "README.md", "offset": 0, "limit": 2000}),
    ForeignCall("opencode", "edit", {"filePath": "README.md", "oldString": "small", "newString": "tiny"}),
    ForeignCall(
        "opencode", "edit", {"filePath": "src/app.py", "oldString": "name", "newString": "who", "replaceAll": True}
    ),
    ForeignCall("opencode", "write", {"filePath": "new.md", "content": "# New\n"}),
    ForeignCall("opencode", "bash", {"command": "echo hi", "timeout": 60000, "description": "Prints hi"}),
    ForeignCall("opencode", "bash", {"command": "ls -1", "workdir": "src", "description": "Lists src"}),
    ForeignCall("opencode", "list", {"path": "web"}),
    ForeignCall("opencode", "grep", {"pattern": "TODO", "include": "*.py"}),
    ForeignCall(
        "opencode", "todowrite", {"todos": [{"id": "1", "content": "Fix", "status": "cancelled", "priority": "low"}]}
    ),
    ForeignCall("opencode", "todoread", {}),
    ForeignCall("opencode", "task", {"description": "Search", "prompt": "Find it", "subagent_type": "general"}),
    ForeignCall("opencode", "webfetch", {"url": "https://example.org", "format": "markdown", "timeout": 30}),
    ForeignCall("opencode", "patch", {"patchText": _PATCH}),
    # Crush
    ForeignCall("Crush", "view", {"file_path": "README.md", "offset": 0, "limit": 0}),
    ForeignCall(
        "Crush", "bash", {"command": "ls -1", "description": "List", "working_dir": "src", "run_in_background": False}
    ),
    ForeignCall("Crush", "job_output", {"shell_id": "job_9", "wait": True}),
    ForeignCall("Crush", "job_kill", {"shell_id": "job_9"}),
    ForeignCall("Crush", "grep", {"pattern": "small (project", "literal_text": True}),
    ForeignCall("Crush", "ls", {"path": ".", "depth": 1, "ignore": []}),
    ForeignCall("Crush", "todos", {"todos": [{"content": "Fix", "status": "pending", "active_form": "Fixing"}]}),
    ForeignCall("Crush", "agent", {"prompt": "Where are slugs made?\nName the file."}),
    ForeignCall("Crush", "agentic_fetch", {"url": "https://example.org", "prompt": "Summarise"}),
    ForeignCall("Crush", "download", {"url": "https://example.org/a.zip", "file_path": "a.zip", "timeout": 60}),
    # Gemini CLI and Qwen Code
    ForeignCall("Gemini CLI", "read_file", {"absolute_path": "README.md"}),
    ForeignCall("Gemini CLI", "read_file", {"file_path": "src/app.py", "start_line": 4, "end_line": 5}),
    ForeignCall("Gemini CLI", "read_many_files", {"include": ["src/*.py"]}),
    ForeignCall("Gemini CLI", "write_file", {"file_path": "data.json", "content": {"name": "demo", "tags": ["a"]}}),
    ForeignCall(
        "Gemini CLI",
        "replace",
        {"file_path": "README.md", "instruction": "Make it tiny", "old_string": "small", "new_string": "tiny"},
    ),
    ForeignCall(
        "Gemini CLI",
        "replace",
        {"file_path": "src/app.py", "old_string": "name", "new_string": "who", "expected_replacements": 4},
    ),
    ForeignCall("Gemini CLI", "run_shell_command", {"command": "ls -1", "description": "List", "directory": "src"}),
    ForeignCall("Gemini CLI", "run_shell_command", {"command": "echo hi", "is_background": False, "dir_path": "."}),
    ForeignCall("Gemini CLI", "search_file_content", {"pattern": "TODO", "include": "**/*.ts"}),
    ForeignCall("Gemini CLI", "grep_search", {"pattern": "todo", "dir_path": "src", "case_sensitive": False}),
    ForeignCall(
        "Gemini CLI", "list_directory", {"dir_path": "src", "file_filtering_options": {"respect_git_ignore": True}}
    ),
    ForeignCall("Gemini CLI", "glob", {"pattern": "*.md", "case_sensitive": True, "respect_git_ignore": True}),
    ForeignCall("Gemini CLI", "web_fetch", {"prompt": "Summarise https://example.org/page, please."}),
    ForeignCall("Gemini CLI", "google_web_search", {"query": "slug rules"}),
    ForeignCall("Gemini CLI", "write_todos", {"todos": [{"description": "Fix", "status": "in_progress"}]}),
    ForeignCall("Gemini", "default_api.view", {"path": "README.md"}),
    ForeignCall("Gemini CLI", "ask_user", {"questions": ["Which one?"]}),
    # Cline, Roo, Cursor, Copilot
    ForeignCall("Cline", "execute_command", {"command": "echo hi", "requires_approval": False}),
    ForeignCall("Cline", "write_to_file", {"path": "new.txt", "content": "a\n", "line_count": 1}),
    ForeignCall("Cline", "replace_in_file", {"path": "README.md", "diff": _BLOCKS}),
    ForeignCall("Cline", "search_files", {"path": ".", "regex": "TODO", "file_pattern": "*.py"}),
    ForeignCall("Cline", "list_files", {"path": "src", "recursive": False}),
    ForeignCall("Cline", "ask_followup_question", {"question": "Which one?", "options": '["A", "B"]'}),
    ForeignCall("Cline", "attempt_completion", {"result": "Done."}),
    ForeignCall("Roo", "apply_diff", {"path": "README.md", "diff": _ROO}),
    ForeignCall("Roo", "new_task", {"mode": "code", "message": "Fix the slug"}),
    ForeignCall("Roo", "update_todo_list", {"todos": "[x] Read\n[ ] Fix"}),
    ForeignCall(
        "Cursor", "run_terminal_cmd", {"command": "echo hi", "is_background": False, "explanation": "greeting"}
    ),
    ForeignCall(
        "Cursor",
        "read_file",
        {
            "target_file": "src/app.py",
            "should_read_entire_file": False,
            "start_line_one_indexed": 4,
            "end_line_one_indexed_inclusive": 6,
            "explanation": "look",
        },
    ),
    ForeignCall(
        "Cursor",
        "grep_search",
        {"query": "TODO", "case_sensitive": True, "include_pattern": "*.py", "exclude_pattern": "t*"},
    ),
    ForeignCall("Cursor", "list_dir", {"relative_workspace_path": "src", "explanation": "look"}),
    ForeignCall("Cursor", "delete_file", {"target_file": "web/index.ts", "explanation": "unused"}),
    ForeignCall("Cursor", "search_replace", {"file_path": "README.md", "old_string": "small", "new_string": "tiny"}),
    ForeignCall(
        "Cursor", "edit_file", {"target_file": "README.md", "instructions": "x", "code_edit": "# ... existing ..."}
    ),
    ForeignCall("Cursor", "codebase_search", {"query": "Where are slugs made?", "target_directories": []}),
    ForeignCall(
        "Copilot",
        "replace_string_in_file",
        {"filePath": "README.md", "oldString": "small", "newString": "tiny", "explanation": "shorter"},
    ),
    ForeignCall("Copilot", "create_file", {"filePath": "new.py", "content": "y = 2\n"}),
    ForeignCall("Copilot", "run_in_terminal", {"command": "echo hi", "explanation": "greeting", "isBackground": False}),
    ForeignCall("Copilot", "file_search", {"query": "**/*.ts", "maxResults": 5}),
    ForeignCall("Copilot", "grep_search", {"query": "TODO", "isRegexp": False, "includePattern": "src/**"}),
    ForeignCall("Copilot", "manage_todo_list", {"todoList": [{"id": 1, "title": "Fix", "status": "not-started"}]}),
    # Kimi CLI, Mistral Vibe, OpenHands, Goose
    ForeignCall("Kimi CLI", "ReadFile", {"path": "src/app.py", "line_offset": 4, "n_lines": 2}),
    ForeignCall("Kimi CLI", "StrReplaceFile", {"path": "README.md", "edit": {"old": "small", "new": "tiny"}}),
    ForeignCall(
        "Kimi CLI",
        "StrReplaceFile",
        {"path": "README.md", "edit": [{"old": "small", "new": "tiny"}, {"old": "Demo", "new": "Show"}]},
    ),
    ForeignCall("Kimi CLI", "WriteFile", {"path": "log.txt", "content": "x", "mode": "append"}),
    ForeignCall("Kimi CLI", "SetTodoList", {"todos": [{"title": "Fix", "status": "Done"}]}),
    ForeignCall("Kimi CLI", "SearchWeb", {"query": "slug", "limit": 5}),
    ForeignCall("Mistral Vibe", "search_replace", {"file_path": "README.md", "diff": _BLOCKS}),
    ForeignCall("Mistral Vibe", "grep", {"pattern": "TODO", "path": ".", "max_matches": 1}),
    ForeignCall(
        "OpenHands", "execute_bash", {"command": "echo hi", "is_input": "false", "timeout": 300, "security_risk": "LOW"}
    ),
    ForeignCall("OpenHands", "think", {"thought": "hm"}),
    ForeignCall("OpenHands", "finish", {"message": "done"}),
    ForeignCall("Goose", "developer__shell", {"command": "echo hi"}),
    ForeignCall(
        "Goose",
        "developer__text_editor",
        {"command": "str_replace", "path": "README.md", "old_str": "small", "new_str": "tiny"},
    ),
    # Our own tools, with the slips that models make
    ForeignCall("slip", "view", {"arguments": {"path": "README.md"}}),
    ForeignCall("slip", "view", {"path": "README.md", "limit": 50000}),
    ForeignCall("slip", "view", {"path": "README.md", "limit": "1", "verbose": True, "colour": None}),
    ForeignCall("slip", "bash", {"command": "echo hi", "timeout": 30000}),
    ForeignCall("slip", "bash", {"command": "echo hi", "timeout": 900}),
    ForeignCall("slip", "multiedit", {"path": "README.md", "edits": {"old_text": "small", "new_text": "tiny"}}),
    ForeignCall("slip", "multiedit", {"edits": [{"path": "README.md", "old_text": "small", "new_text": "tiny"}]}),
    ForeignCall(
        "slip",
        "multiedit",
        {
            "edits": [
                {"path": "README.md", "old_text": "small", "new_text": "tiny"},
                {"path": "src/app.py", "old_text": "hello", "new_text": "hi"},
            ]
        },
    ),
    ForeignCall(
        "slip", "edit", {"path": "README.md", "edits": [{"old_text": "small", "new_text": "tiny", "why": "x"}]}
    ),
    ForeignCall("slip", "todos", {"todos": ["Read", "Fix"]}),
    ForeignCall("slip", "write", {"path": "new.txt", "content": ["one", "two"]}),
    ForeignCall("slip", "grep", {"pattern": "TODO", "context": 99}),
    ForeignCall("slip", "apply_patch", {"diff": _UNIFIED}),
    ForeignCall("slip", "Veiw", {"path": "README.md"}),
    ForeignCall("slip", "view", {}),
    ForeignCall("slip", "edit", {"path": "README.md", "old_text": "small"}),
    # JSON that is nearly right
    ForeignCall("JSON", "bash", '{"command": "printf \'a\nb\'"}'),
    ForeignCall("JSON", "grep", r'{"pattern": "slug\(text\)", "path": "src",}'),
    ForeignCall("JSON", "view", "{'path': 'README.md', 'limit': 1}"),
    ForeignCall("JSON", "view", '```json\n{"path": "README.md"}\n```'),
    ForeignCall("JSON", "view", '"{\\"path\\": \\"README.md\\"}"'),
    ForeignCall("JSON", "edit", r'{"path": "src/app.py", "old_text": "\'world\'", "new_text": "\'you\'"}'),
    ForeignCall("JSON", "bash", '{"command": "echo "hi""}'),
    ForeignCall("JSON", "write", '{"path": "new.txt", "content": "the first half of a fi'),
    ForeignCall("JSON", "write", '{"path": "new.txt", "content": "whole"'),
    ForeignCall("JSON", "todos", '[{"text": "Fix"}]'),
    ForeignCall("JSON", "bash", "ls -la"),
)
