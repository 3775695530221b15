"""Running commands: supervised process trees, captured output, the command's environment, the sandbox.

When a kill returns, the whole process tree is dead, or the processes that survived are named. If the server dies, its
commands die with it. The supervisor and Landlock are programs of their own, so their modules import only the standard
library. The package knows neither tools nor sessions.
"""
