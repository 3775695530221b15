"""Calls in the dialects of other agents: foreign tool names, foreign arguments, and JSON that is nearly right.

Models are trained with the tools of many agents and mix them up. `call_translation` turns such a call into one of our
tools; `argument_decoding` fits arguments to a tool's struct; `argument_repair` reads broken JSON. All of it is pure and
knows no tool's code. What changes the meaning of a call, or is ignored, becomes a note that the model reads with the
result. What could be understood in two ways is refused.
"""
