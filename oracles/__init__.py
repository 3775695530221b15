"""The vendors' SDKs as oracles for our wires. Needs the packages in lock/oracles.txt; Holdfast does not import this."""
