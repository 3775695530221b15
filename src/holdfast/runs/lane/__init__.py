"""The pure state machine that decides what happens to the runs of one session, and what a decision writes."""
