"""The real client of Crush as an oracle for `crush/`. `HOLDFAST_CRUSH_BIN` names the program."""
