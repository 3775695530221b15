"""The vendors' SDKs as oracles for our own wires. Needs lock/oracles.txt; nothing of Holdfast imports this."""
