"""Resume after a crash: the same ``run_id`` is the same run, however often this program is started."""

import sys
import time

from holdfast.sync import Client

NIGHTLY = time.strftime("nightly-%Y-%m-%d")

with Client() as client:
    # The first start sends the prompt. If this program dies, the run goes on in the server; the next start
    # gets the same run, whether it is still active or has ended. It is never done twice.
    run = client.start("Summarize what changed today.", run_id=sys.argv[1] if len(sys.argv) > 1 else NIGHTLY)
    print(f"following {run.id}", flush=True)
    print(run.wait().check().text)
