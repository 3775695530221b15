"""`python -m holdfast` is the `holdfast` command."""

import sys

if __name__ == "__main__":
    from holdfast.cli import main

    sys.exit(main())
