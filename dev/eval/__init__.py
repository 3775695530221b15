"""How well a model works with this version of Holdfast: twenty small repositories, each with a task and a hidden check.

``make eval MODEL=provider/model`` runs every task headless in a copy of its repository, then the check, and prints
which were solved, and the steps, tokens, cost and time of each. The results are also written as JSON, which
``--compare`` reads, so that versions and models can be compared. See CONTRIBUTING.md.
"""
