"""Stream to a terminal: print the text as it is written, and cancel with Ctrl-C."""

import sys

from holdfast.sync import Client

with Client() as client:
    run = client.start("Explain how this project is tested.")
    try:
        for text in run.stream_text():
            print(text, end="", flush=True)
        print()
    except KeyboardInterrupt:
        receipt = run.cancel()
        print("\ncancelled:", ", ".join(f"{one.run_id} {one.ended_as}" for one in receipt.runs), file=sys.stderr)
    sys.exit(0 if run.wait().ok else 1)
